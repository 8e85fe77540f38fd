//! Starts a pipeline, and what is left in the caller's hands: a handle, and the outcome.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tidegate_core::{BoxSource, FailureHandler, Moment, Panicked, Source, Stopped};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::board::{Board, DRAIN_AFTER_FAILURE};
use crate::coordinator::Coordinator;
use crate::dead_letters::Failures;
use crate::ending::{Ending, SHUTDOWN};
use crate::error::{PipelineError, PipelineErrorKind};
use crate::plan::Plan;
use crate::settings::{Settings, Threads};
use crate::sink_task::SinkContext;
use crate::sink_writer::WriterContext;
use crate::status::{Status, Summary};
use crate::task::{CurrentStep, Head, Make, TaskContext};
use crate::timer::Timer;

/// The stack of a worker thread. Steps may recurse deeply (an expression language does), and only
/// what is used of it takes memory.
const WORKER_STACK: usize = 16 << 20;

/// Stops a running pipeline and tells how it stands. Cheap to clone.
#[derive(Clone)]
pub struct Handle(Arc<Board>);

impl Handle {
    /// Asks the pipeline to stop: it reads no more, drains what is in flight within the drain
    /// time, commits and ends. More than one call changes nothing.
    pub fn stop(&self) {
        self.0.request_stop();
    }

    /// How the pipeline stands now.
    pub fn status(&self) -> Status {
        self.0.status()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({})", self.0.names.pipeline)
    }
}

/// A pipeline that runs. If this is dropped, the pipeline is asked to stop.
#[must_use = "dropping it stops the pipeline"]
pub struct Running {
    handle: Handle,
    outcome: oneshot::Receiver<Result<Summary, PipelineError>>,
}

impl Running {
    pub(crate) fn start(plan: Plan, make: Make<dyn Head>) -> Result<Self, PipelineError> {
        let (sender, outcome) = oneshot::channel();
        let names = Arc::new(plan.names());
        let settings_error =
            |problems| PipelineError::new(&names.pipeline, PipelineErrorKind::Settings(problems));
        let mut problems = plan.settings.problems();
        problems.extend(plan.problems.iter().cloned());
        if plan.pipeline.is_empty() {
            problems.push("the pipeline has no name".to_owned());
        }
        if !problems.is_empty() {
            return Err(settings_error(problems));
        }
        let (budget, count) = (plan.settings.limits.bytes, plan.settings.commit.count);
        let board = Arc::new(Board::new(Arc::clone(&names), budget, count));
        let handle = Handle(Arc::clone(&board));
        match plan.settings.threads {
            Threads::Current => {
                let workers = tokio::runtime::Handle::try_current().map_err(|_| {
                    settings_error(vec![
                        "threads: it is to run on the caller's tokio runtime, and there is none"
                            .to_owned(),
                    ])
                })?;
                let work = supervise(plan, make, board, workers.clone());
                workers.spawn(async move {
                    // Whoever waited for the outcome may be gone.
                    let _ = sender.send(work.await);
                });
            }
            Threads::Own { workers } => {
                let failed = |error: std::io::Error| {
                    settings_error(vec![format!("its threads can't be started: {error}")])
                };
                let pipeline = names.pipeline.clone();
                // Runtimes are made and dropped on the thread: in async code neither is allowed.
                let work = move || {
                    let result = match runtimes(workers) {
                        Ok((own, pool)) => {
                            let workers = pool.handle().clone();
                            let result = own.block_on(supervise(plan, make, board, workers));
                            pool.shutdown_timeout(SHUTDOWN);
                            result
                        }
                        Err(error) => {
                            let problem = format!("its threads can't be started: {error}");
                            let kind = PipelineErrorKind::Settings(vec![problem]);
                            Err(PipelineError::new(&pipeline, kind))
                        }
                    };
                    // Whoever waited for the outcome may be gone.
                    let _ = sender.send(result);
                };
                std::thread::Builder::new()
                    .name("tidegate-source".to_owned())
                    .spawn(work)
                    .map_err(failed)?;
            }
        }
        Ok(Self { handle, outcome })
    }

    /// To stop the pipeline or look at it while somebody else waits for it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Waits for the end. If the pipeline failed, everything that was settled before is committed.
    pub async fn wait(mut self) -> Result<Summary, PipelineError> {
        match (&mut self.outcome).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let kind = PipelineErrorKind::Panicked {
                    part: "the coordinator".to_owned(),
                    message: "its thread has ended without a result".to_owned(),
                };
                Err(PipelineError::new(&self.handle.0.names.pipeline, kind))
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Running({})", self.handle.0.names.pipeline)
    }
}

/// The source's runtime, and that of steps and sinks.
fn runtimes(workers: usize) -> std::io::Result<(Runtime, Runtime)> {
    let own = Builder::new_current_thread().enable_all().build()?;
    let pool = Builder::new_multi_thread()
        .worker_threads(workers)
        .thread_name("tidegate-worker")
        .thread_stack_size(WORKER_STACK)
        .enable_all()
        .build()?;
    Ok((own, pool))
}

/// Opens the sinks, lets the coordinator work, and closes everything in reverse order.
async fn supervise(
    plan: Plan,
    make: Make<dyn Head>,
    board: Arc<Board>,
    workers: tokio::runtime::Handle,
) -> Result<Summary, PipelineError> {
    let timer = Timer::start();
    let Plan { settings, source, sinks, sink_capabilities, dead_letters, .. } = plan;
    let Some(source) = source else {
        let kind = PipelineErrorKind::Settings(vec!["the pipeline has no source".to_owned()]);
        return Err(PipelineError::new(&board.names.pipeline, kind));
    };
    let writer = WriterContext { board: Arc::clone(&board), timer, retry: settings.retry };
    let mut outputs = Outputs { tasks: JoinSet::new(), opening: Vec::new(), workers };
    let queue = dead_letters.map(|dead_letters| {
        let (runner, clock) = (dead_letters.runner, settings.clock.clone());
        let writer = writer.clone();
        let part = "the dead letters".to_owned();
        outputs.spawn(&board, part, |opened| runner(writer, clock, opened));
        dead_letters.queue
    });
    let failures: Arc<dyn FailureHandler> = Arc::new(Failures { board: Arc::clone(&board), queue });
    for (runner, (step, _)) in sinks.into_iter().zip(sink_capabilities) {
        let (writer, failures) = (writer.clone(), Arc::clone(&failures));
        let part = format!("sink {}", board.names.describe(step));
        outputs.spawn(&board, part, |opened| runner(SinkContext { writer, failures, opened }));
    }
    let drain = settings.drain;
    let coordinated = if outputs.are_open(&board).await {
        let workers = outputs.workers.clone();
        let context = TaskContext { failures, workers, timer, current: CurrentStep::default() };
        coordinate(source, make, context, settings, &board).await
    } else {
        drop((make, failures));
        let within = board.must_end_within(drain).unwrap_or(drain);
        Some((source, false, Some(timer.now() + within)))
    };
    // Without a source, what it had delivered is finished all the same, but can't be committed.
    let late = Some(timer.now() + DRAIN_AFTER_FAILURE.min(drain));
    let (source, ended, deadline) = match coordinated {
        Some((source, ended, deadline)) => (Some(source), ended, deadline),
        None => (None, false, late),
    };
    let mut ending = Ending { board: Arc::clone(&board), timer, drain, deadline };
    outputs.close(&mut ending).await;
    if let Some(source) = source {
        close_source(source, &mut ending).await;
    }
    let summary = Summary { status: board.status(), elapsed: timer.now().elapsed(), ended };
    match board.take_failure() {
        Some(failure) => Err(failure),
        None => Ok(summary),
    }
}

/// Everything that can send to the sinks is gone when this returns, or goes soon after if the
/// source has panicked: then there is no source any more.
async fn coordinate(
    source: BoxSource,
    make: Make<dyn Head>,
    context: TaskContext,
    settings: Settings,
    board: &Arc<Board>,
) -> Option<(BoxSource, bool, Option<Moment>)> {
    let coordinator = Coordinator::new(source, make, context, settings, Arc::clone(board));
    match AssertUnwindSafe(coordinator.run()).catch_unwind().await {
        Ok(done) => Some(done),
        Err(payload) => {
            let part = "the source".to_owned();
            let message = Panicked::from_payload(payload).0;
            board.fail(PipelineErrorKind::Panicked { part, message });
            None
        }
    }
}

/// The source's end, with an error if it isn't a good one.
async fn close_source(mut source: BoxSource, ending: &mut Ending) {
    let board = Arc::clone(&ending.board);
    let closing = AssertUnwindSafe(source.close()).catch_unwind();
    match ending.wait_for(closing).await {
        Some(Ok(Ok(()))) => {}
        Some(Ok(Err(error))) => {
            let during = "closing";
            board.fail(PipelineErrorKind::Source { during, error });
        }
        Some(Err(payload)) => {
            let part = "the source".to_owned();
            let message = Panicked::from_payload(payload).0;
            board.fail(PipelineErrorKind::Panicked { part, message });
        }
        None => tracing::warn!(
            pipeline = board.names.pipeline,
            "there was no time left to close the source; what it committed is safe"
        ),
    }
}

/// The tasks of sinks and dead letters.
struct Outputs {
    tasks: JoinSet<()>,
    opening: Vec<oneshot::Receiver<()>>,
    workers: tokio::runtime::Handle,
}

impl Outputs {
    fn spawn<F>(
        &mut self,
        board: &Arc<Board>,
        part: String,
        run: impl FnOnce(oneshot::Sender<()>) -> F,
    ) where
        F: Future<Output = Result<(), Stopped>> + Send + 'static,
    {
        let (opened, opening) = oneshot::channel();
        let (board, task) = (Arc::clone(board), run(opened));
        self.opening.push(opening);
        self.tasks.spawn_on(
            async move {
                // A task that stops for a failure has reported it already.
                if let Err(payload) = AssertUnwindSafe(task).catch_unwind().await {
                    let message = Panicked::from_payload(payload).0;
                    board.fail(PipelineErrorKind::Panicked { part, message });
                }
            },
            &self.workers,
        );
    }

    /// Waits until all are open. False if one can't be, or if the pipeline is to stop before.
    async fn are_open(&mut self, board: &Board) -> bool {
        for opening in std::mem::take(&mut self.opening) {
            let mut opening = opening;
            loop {
                tokio::select! {
                    biased;
                    opened = &mut opening => match opened {
                        Ok(()) => break,
                        Err(_) => return false,
                    },
                    () = board.woken() => {
                        if board.stop_requested() || board.has_failed() {
                            self.tasks.abort_all();
                            return false;
                        }
                    }
                }
            }
        }
        true
    }

    /// Waits until all have written what they have and are closed, or the time is up. One that
    /// blocks its thread even then is left behind.
    async fn close(mut self, ending: &mut Ending) {
        let closed = async { while self.tasks.join_next().await.is_some() {} };
        if ending.wait_for(closed).await.is_none() {
            self.tasks.abort_all();
            let gone = async { while self.tasks.join_next().await.is_some() {} };
            // Whether they have gone makes no difference.
            let _ = tokio::time::timeout(SHUTDOWN, gone).await;
        }
    }
}
