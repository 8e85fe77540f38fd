//! Runs a pipeline to its end, with signals and progress.

use std::process::exit;
use std::time::Duration;

use indicatif::MultiProgress;
use tidegate_runtime::{Flow, Status, Summary, Top};
use tokio::time::Instant;

use crate::console;
use crate::progress::Progress;
use crate::signals::Signals;

/// The exit code of a process that a second signal ended.
const STOPPED_AT_ONCE: i32 = 130;

/// How a pipeline ended.
pub(super) struct Execution {
    /// The last numbers, also of a pipeline that failed.
    pub(super) summary: Summary,
    /// Why it stopped by itself, if it did.
    pub(super) failure: Option<String>,
}

/// What a pipeline's run needs beside the pipeline.
pub(super) struct Surroundings<'a> {
    /// How long a stop may take, to say so.
    pub(super) drain: Duration,
    /// Whether a sink writes to standard output.
    pub(super) is_stdout_taken: bool,
    /// Where the progress is shown; log lines go around it.
    pub(super) lines: &'a MultiProgress,
}

/// Runs the pipeline.
pub(super) fn execute(
    flow: Flow<Top>,
    surroundings: &Surroundings<'_>,
) -> Result<Execution, std::io::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let execution = runtime.block_on(async {
        // Before the start, so that no signal ends the process half-way.
        let signals = Signals::listen()?;
        let shares_terminal = surroundings.is_stdout_taken && console::is_result_interactive();
        let progress = Progress::start(surroundings.lines, shares_terminal);
        Ok(supervise(flow, surroundings.drain, signals, progress).await)
    });
    // A thread that still waits for the disk or the terminal must not hold up the end.
    runtime.shutdown_background();
    execution
}

async fn supervise(
    flow: Flow<Top>,
    drain: Duration,
    mut signals: Signals,
    mut progress: Progress,
) -> Execution {
    let started = Instant::now();
    let running = match flow.start() {
        Ok(running) => running,
        Err(error) => {
            let summary = Summary::default();
            return Execution { summary, failure: Some(error.to_string()) };
        }
    };
    let handle = running.handle();
    let outcome = running.wait();
    tokio::pin!(outcome);
    let mut is_stopping = false;
    let outcome = loop {
        tokio::select! {
            biased;
            outcome = &mut outcome => break outcome,
            () = signals.next() => {
                if is_stopping {
                    stop_at_once(&handle.status());
                }
                is_stopping = true;
                tracing::info!(
                    "stopping: what is in flight is finished and committed, within {drain:?}; a \
                     second signal stops at once"
                );
                handle.stop();
            }
            () = progress.tick() => progress.show(&handle.status()),
        }
    };
    progress.finish();
    match outcome {
        Ok(summary) => Execution { summary, failure: None },
        Err(failure) => {
            let (status, elapsed) = (handle.status(), started.elapsed());
            let summary = Summary { status, elapsed, ended: false };
            Execution { summary, failure: Some(failure.to_string()) }
        }
    }
}

fn stop_at_once(status: &Status) -> ! {
    console::notice(format_args!(
        "stopped at once by a second signal: {} messages were read and not committed; they come \
         again in the next run",
        status.read.saturating_sub(status.committed)
    ));
    exit(STOPPED_AT_ONCE)
}
