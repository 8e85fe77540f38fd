//! Where messages go that failed: to the dead letters, or into an error that stops the pipeline.

use std::sync::Arc;

use tidegate_core::{
    BoxFuture, Clock, DeadLetter, FailureHandler, ItemError, Outcome, Rejected, Sink, SinkError,
    StepId, Stopped, Timestamp, error_chain,
};
use tokio::sync::{mpsc, oneshot};

use crate::board::Board;
use crate::error::PipelineErrorKind;
use crate::sink_writer::{SinkWriter, WriterContext};
use crate::task::give_way;

/// Groups of failed messages that wait for the dead-letter sink. Their records stay in the ledger
/// and are copied out one write at a time.
const QUEUE: usize = 32;

/// How many bytes of records one write copies, at most one record more.
const WRITE_BYTES: usize = 1 << 20;

type Queue = mpsc::Sender<(StepId, Rejected)>;

/// Starts the dead-letter task.
type Runner = Box<
    dyn FnOnce(WriterContext, Clock, oneshot::Sender<()>) -> BoxFuture<'static, Result<(), Stopped>>
        + Send,
>;

/// Both sides of the dead letters, made when the pipeline is built.
pub(crate) struct DeadLetters {
    pub(crate) step: StepId,
    pub(crate) queue: Queue,
    pub(crate) runner: Runner,
}

impl DeadLetters {
    pub(crate) fn new<S: Sink<Item = DeadLetter>>(sink: S, step: StepId) -> Self {
        let (queue, failed) = mpsc::channel(QUEUE);
        let runner: Runner = Box::new(move |context, clock, opened| {
            Box::pin(run(sink, step, failed, context, clock, opened))
        });
        Self { step, queue, runner }
    }
}

/// The failure policy: divert if there are dead letters, stop otherwise.
pub(crate) struct Failures {
    pub(crate) board: Arc<Board>,
    pub(crate) queue: Option<Queue>,
}

impl FailureHandler for Failures {
    fn fail(&self, step: StepId, rejected: Rejected) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async move {
            match &self.queue {
                Some(queue) => {
                    queue.send((step, rejected)).await.map_err(|_| Stopped)?;
                    give_way().await;
                    Ok(())
                }
                // It has another owner by now, who will meet the same message.
                None if rejected.is_fenced() => Ok(()),
                None => {
                    stop_for(&self.board, step, rejected);
                    Err(Stopped)
                }
            }
        })
    }
}

fn stop_for(board: &Board, step: StepId, rejected: Rejected) {
    if let Some((position, error)) = rejected.first() {
        board.fail(PipelineErrorKind::Message {
            step: board.names.describe(step),
            partition: rejected.partition().clone(),
            position,
            attempt: 1,
            error: error_chain(error).into(),
        });
    }
    rejected.settle(Outcome::Failed);
}

async fn run<S: Sink<Item = DeadLetter>>(
    sink: S,
    step: StepId,
    mut failed: mpsc::Receiver<(StepId, Rejected)>,
    context: WriterContext,
    clock: Clock,
    opened: oneshot::Sender<()>,
) -> Result<(), Stopped> {
    let board = Arc::clone(&context.board);
    let mut writer = SinkWriter::new(sink, step, context);
    writer.open().await?;
    // Nobody listens any more if another sink could not be opened.
    let _ = opened.send(());
    while let Some((failed_step, rejected)) = failed.recv().await {
        let letters = letters_of(&rejected, failed_step, &board, clock.now());
        if let Some(error) = write(&mut writer, letters).await? {
            let sink = board.names.describe(step);
            let error = SinkError::stop("a dead letter was refused").with_source(error);
            board.fail(PipelineErrorKind::Sink { sink, error });
            rejected.settle(Outcome::Failed);
            return Err(Stopped);
        }
        // Durable: only now may the source forget the originals.
        rejected.settle(Outcome::Diverted);
    }
    writer.close().await;
    Ok(())
}

/// Writes all of the letters, or up to one that is refused.
async fn write<S: Sink<Item = DeadLetter>>(
    writer: &mut SinkWriter<S>,
    letters: impl Iterator<Item = DeadLetter> + Send,
) -> Result<Option<ItemError>, Stopped> {
    let mut letters = letters.peekable();
    while letters.peek().is_some() {
        let part = next_write(&mut letters, writer.max_items());
        let refused = writer.write(&part).await?.into_rejections();
        if let Some((_, error)) = refused.into_iter().next() {
            return Ok(Some(error));
        }
    }
    Ok(None)
}

/// The dead letters of these messages, each made when it is asked for.
fn letters_of<'a>(
    rejected: &'a Rejected,
    step: StepId,
    board: &'a Board,
    failed_at: Timestamp,
) -> impl Iterator<Item = DeadLetter> + use<'a> {
    let step = board.names.name(step);
    rejected.begin_diversion().into_iter().flat_map(move |(error, originals)| {
        let error = error_chain(error);
        originals.into_iter().map(move |original| {
            let record = original.batch.get(original.row);
            DeadLetter::new(record, &board.names.pipeline, step, error.clone(), failed_at)
        })
    })
}

/// As many of the letters as go into one write, at least one.
fn next_write(letters: &mut impl Iterator<Item = DeadLetter>, max_items: usize) -> Vec<DeadLetter> {
    let (mut part, mut bytes) = (Vec::new(), 0);
    while part.len() < max_items
        && bytes < WRITE_BYTES
        && let Some(letter) = letters.next()
    {
        bytes += [&letter.key, &letter.payload].into_iter().flatten().map(Vec::len).sum::<usize>();
        part.push(letter);
    }
    part
}
