//! One task a sink, for the life of the pipeline.
//!
//! It writes what is waiting, of several partitions at once: while a write is under way the next
//! batch gathers, so that batches grow with the load and no timer holds a message back.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tidegate_core::{
    BoxError, BoxFuture, Chunk, FailureHandler, ItemError, Moment, Push, Sink, StepId, Stopped,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::sink_writer::{SinkWriter, WriterContext};
use crate::task::give_way;

/// Messages that wait for a sink; one chunk may be larger. Enough for a write that is worth its
/// sync, and few enough that what steps made of the records stays small beside the records.
const ROOM: usize = 8_192;

/// Chunks that wait for a sink: small ones of many partitions.
const QUEUE: usize = 1_024;

/// Starts a sink's task: gets the pipeline's context and says when the sink is open.
pub(crate) type SinkRunner =
    Box<dyn FnOnce(SinkContext) -> BoxFuture<'static, Result<(), Stopped>> + Send>;

pub(crate) struct SinkContext {
    pub(crate) writer: WriterContext,
    pub(crate) failures: Arc<dyn FailureHandler>,
    pub(crate) opened: oneshot::Sender<()>,
}

/// The end of a chain of steps, one for each partition; the sink's task is at the other side.
pub(crate) struct SinkPort<T> {
    step: StepId,
    queue: mpsc::Sender<Waiting<T>>,
    room: Arc<Semaphore>,
}

/// A chunk in the queue, with the room that it takes up there.
struct Waiting<T> {
    chunk: Chunk<T>,
    _room: OwnedSemaphorePermit,
}

impl<T> Clone for SinkPort<T> {
    fn clone(&self) -> Self {
        Self { step: self.step, queue: self.queue.clone(), room: Arc::clone(&self.room) }
    }
}

impl<T: Send> Push<T> for SinkPort<T> {
    fn push(&mut self, mut chunk: Chunk<T>, _now: Moment) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async move {
            chunk.enter(self.step);
            chunk.hold();
            // If the sink's task ends, what waits in its queue is dropped and makes room.
            let size = chunk.len().min(ROOM) as u32;
            let room = Arc::clone(&self.room).acquire_many_owned(size).await;
            let waiting = Waiting { chunk, _room: room.map_err(|_| Stopped)? };
            self.queue.send(waiting).await.map_err(|_| Stopped)?;
            give_way().await;
            Ok(())
        })
    }

    fn wake_at(&self) -> Option<Moment> {
        None
    }

    fn wake(&mut self, _now: Moment) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async { Ok(()) })
    }

    fn finish(&mut self, _now: Moment) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async { Ok(()) })
    }
}

/// Both sides of a sink.
pub(crate) fn sink_task<S: Sink>(sink: S, step: StepId) -> (SinkPort<S::Item>, SinkRunner) {
    let (queue, chunks) = mpsc::channel(QUEUE);
    let runner = move |context: SinkContext| -> BoxFuture<'static, Result<(), Stopped>> {
        Box::pin(run(sink, step, chunks, context))
    };
    (SinkPort { step, queue, room: Arc::new(Semaphore::new(ROOM)) }, Box::new(runner))
}

async fn run<S: Sink>(
    sink: S,
    step: StepId,
    mut chunks: mpsc::Receiver<Waiting<S::Item>>,
    context: SinkContext,
) -> Result<(), Stopped> {
    let SinkContext { writer: writer_context, failures, opened } = context;
    let board = Arc::clone(&writer_context.board);
    let mut writer = SinkWriter::new(sink, step, writer_context);
    writer.open().await?;
    // Nobody listens any more if another sink could not be opened.
    let _ = opened.send(());
    let mut gathered = Gathered::new(writer.max_items());
    while gathered.fill(&mut chunks).await {
        let report = writer.write(&gathered.items).await?;
        let rejections = report.into_rejections();
        board.counters.written.fetch_add((gathered.items.len() - rejections.len()) as u64, Relaxed);
        gathered.settle(rejections, step, &*failures).await?;
    }
    writer.close().await;
    Ok(())
}

/// The items of the next write, and the duties that belong to them.
struct Gathered<T> {
    max_items: usize,
    items: Vec<T>,
    duties: Vec<Chunk<()>>,
    rest: Option<Chunk<T>>,
}

impl<T> Gathered<T> {
    fn new(max_items: usize) -> Self {
        Self { max_items, items: Vec::new(), duties: Vec::new(), rest: None }
    }

    /// Waits for a chunk and takes what else is there. False at the end.
    async fn fill(&mut self, chunks: &mut mpsc::Receiver<Waiting<T>>) -> bool {
        self.items.clear();
        while self.items.len() < self.max_items {
            let chunk = match self.rest.take() {
                Some(chunk) => chunk,
                None if self.items.is_empty() => match chunks.recv().await {
                    Some(waiting) => waiting.chunk,
                    None => return false,
                },
                None => match chunks.try_recv() {
                    Ok(waiting) => waiting.chunk,
                    Err(_) => break,
                },
            };
            self.add(chunk);
        }
        true
    }

    fn add(&mut self, mut chunk: Chunk<T>) {
        // A partition that was given up belongs to somebody else by now: what isn't written yet
        // is theirs to write.
        if chunk.is_fenced() {
            return;
        }
        let first = chunk.split_front(self.max_items - self.items.len());
        self.duties.push(first.unload(&mut self.items));
        if !chunk.is_empty() {
            self.rest = Some(chunk);
        }
    }

    async fn settle(
        &mut self,
        rejections: Vec<(usize, ItemError)>,
        step: StepId,
        failures: &dyn FailureHandler,
    ) -> Result<(), Stopped> {
        let mut rejections = rejections.into_iter().peekable();
        let mut start = 0;
        let mut stopped = Ok(());
        for duty in self.duties.drain(..) {
            let end = start + duty.len();
            let mut own: Vec<(usize, BoxError)> = Vec::new();
            while let Some((index, error)) = rejections.next_if(|(index, _)| *index < end) {
                own.push((index - start, error.into_inner()));
            }
            start = end;
            let rejected = duty.settle_except(own);
            if !rejected.is_empty() && failures.fail(step, rejected).await.is_err() {
                // The others of the batch are written all the same, so they are answered for.
                stopped = Err(Stopped);
            }
        }
        stopped
    }
}
