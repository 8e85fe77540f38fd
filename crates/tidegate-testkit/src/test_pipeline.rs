use tidegate_core::{DeadLetter, Position};
use tidegate_runtime::{
    Flow, Handle, Pipeline, PipelineError, RecordStream, Settings, Summary, Top,
};
use tokio::task::JoinHandle;

use crate::{SinkControl, SourceControl, virtual_settings};

/// What became of a record.
#[derive(Debug)]
pub enum Handled {
    /// Everything made of it was written, and it is committed.
    Written,
    /// Nothing was made of it, and it is committed.
    Filtered,
    /// It is among the dead letters, and committed.
    Diverted(Box<DeadLetter>),
}

/// A pipeline on virtual time, with one partition and dead letters, into which a test puts records
/// one by one and waits for what becomes of each.
///
/// ```
/// use tidegate_testkit::{Handled, SinkControl, TestPipeline, run_virtual, text};
///
/// run_virtual(async {
///     let sink = SinkControl::new();
///     let mut pipeline = TestPipeline::start(|records| {
///         records
///             .try_map(|record| text(record).parse::<u64>())
///             .filter(|n| n % 2 == 0)
///             .sink(sink.sink())
///     });
///     assert!(matches!(pipeline.handle("4").await, Ok(Handled::Written)));
///     assert!(matches!(pipeline.handle("5").await, Ok(Handled::Filtered)));
///     let Ok(Handled::Diverted(letter)) = pipeline.handle("five").await else { panic!() };
///     assert_eq!(letter.error, "invalid digit found in string");
///     assert_eq!(sink.items(), [4]);
///     assert_eq!(pipeline.finish().await?.status.committed, 3);
///     Ok::<_, tidegate_runtime::PipelineError>(())
/// })?;
/// # Ok::<_, tidegate_runtime::PipelineError>(())
/// ```
#[derive(Debug)]
pub struct TestPipeline {
    source: SourceControl,
    dead_letters: SinkControl<DeadLetter>,
    handle: Handle,
    outcome: Option<JoinHandle<Result<Summary, PipelineError>>>,
}

impl TestPipeline {
    /// Starts a pipeline named `test` with these steps and sinks.
    ///
    /// Panics if it can't run as it is built.
    pub fn start(flow: impl FnOnce(RecordStream) -> Flow<Top>) -> Self {
        Self::start_with(virtual_settings(), flow)
    }

    /// The same with other settings.
    pub fn start_with(settings: Settings, flow: impl FnOnce(RecordStream) -> Flow<Top>) -> Self {
        let (source, dead_letters) = (SourceControl::new("test", 1), SinkControl::new());
        let pipeline = Pipeline::new("test").settings(settings).dead_letters(dead_letters.sink());
        match flow(pipeline.source(source.source())).start() {
            Ok(running) => {
                let handle = running.handle();
                let outcome = Some(tokio::spawn(running.wait()));
                Self { source, dead_letters, handle, outcome }
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Puts a record in and waits until it is committed. An error is what stopped the pipeline
    /// instead; the record is not committed then.
    ///
    /// Panics if neither has happened after two minutes, or if the pipeline has ended before.
    pub async fn handle(&mut self, payload: impl AsRef<[u8]>) -> Result<Handled, PipelineError> {
        let before = self.handle.status();
        let position = self.source.push(0, payload);
        tokio::select! {
            biased;
            () = self.source.wait_for_commit(0, position.next().get()) => {}
            outcome = end(&mut self.outcome) => match outcome {
                Ok(summary) => panic!("the pipeline has ended: {summary}"),
                Err(error) => return Err(error),
            },
        }
        let after = self.handle.status();
        if after.filtered > before.filtered {
            return Ok(Handled::Filtered);
        }
        match self.dead_letter(position) {
            Some(letter) => Ok(Handled::Diverted(Box::new(letter))),
            None => Ok(Handled::Written),
        }
    }

    /// Ends the input and waits for the end.
    ///
    /// Panics if the pipeline has failed and [`TestPipeline::handle`] has said so.
    pub async fn finish(mut self) -> Result<Summary, PipelineError> {
        self.source.end();
        end(&mut self.outcome).await
    }

    /// The source's side.
    pub fn source(&self) -> &SourceControl {
        &self.source
    }

    /// The dead letters.
    pub fn dead_letters(&self) -> &SinkControl<DeadLetter> {
        &self.dead_letters
    }

    /// The running pipeline.
    pub fn pipeline(&self) -> &Handle {
        &self.handle
    }

    fn dead_letter(&self, position: Position) -> Option<DeadLetter> {
        self.dead_letters.items().into_iter().rev().find(|letter| letter.position == position)
    }
}

/// Waits for the pipeline's end. Dropped before, it can be waited for again.
async fn end(
    outcome: &mut Option<JoinHandle<Result<Summary, PipelineError>>>,
) -> Result<Summary, PipelineError> {
    let Some(running) = outcome else { panic!("the pipeline has ended before") };
    let ended = running.await;
    *outcome = None;
    match ended {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}
