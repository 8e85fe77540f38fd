use indicatif::MultiProgress;
use serde_json::{Value, json};
use tidegate_core::{BoxError, BoxSource};
use tidegate_runtime::Summary;
use tokio::time::Instant;

use super::Failure;
use super::check::show_problems;
use super::execute::{Execution, Surroundings, execute};
use super::file::{Unusable, load};
use crate::build::{open_source, pipeline};
use crate::cli::RunArgs;
use crate::config::{Environment, PipelineConfig};
use crate::{console, logging};

/// Runs the pipeline of a file.
pub(super) fn run(args: &RunArgs) -> Result<(), Failure> {
    let environment = Environment::of_process();
    let config = match load(&args.file, &environment) {
        Ok(config) => config,
        Err(Unusable::Unreadable(why)) => return Err(Failure::Failed(why)),
        Err(Unusable::Invalid(problems)) => {
            show_problems(&args.file, &problems);
            return Err(Failure::Invalid);
        }
    };
    let redactor = environment.redactor().secrets_only();
    let failed = |message: String| Failure::Failed(redactor.apply(&message));

    let lines = MultiProgress::new();
    logging::start(&lines);
    let name = config.name.clone();
    let surroundings = Surroundings {
        drain: config.settings.drain,
        is_stdout_taken: config.flow.writes_to_stdout(),
        lines: &lines,
    };
    let source =
        open_patiently(&config).map_err(|error| failed(format!("pipeline {name}: {error}")))?;
    let Execution { summary, failure } = execute(pipeline(config, source), &surroundings)
        .map_err(|error| failed(format!("cannot start: {error}")))?;

    let line = if args.json { to_json(&name, &summary).to_string() } else { summary.to_string() };
    if surroundings.is_stdout_taken {
        console::notice(line)
    } else {
        console::result(line)
    }
    match failure {
        Some(failure) => Err(failed(failure)),
        None => {
            warn_of_rest(&summary);
            Ok(())
        }
    }
}

/// Opens the source and the store. While another process is in the way, tries again, for as long
/// as a running pipeline would.
fn open_patiently(config: &PipelineConfig) -> Result<BoxSource, BoxError> {
    let started = Instant::now();
    let pauses = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    loop {
        match open_source(config) {
            Err(error)
                if error.is_retryable
                    && started.elapsed() < config.settings.retry.give_up_after =>
            {
                tracing::warn!("{error}; trying again");
                pauses.block_on(tokio::time::sleep(config.settings.retry.longest));
            }
            outcome => return Ok(outcome?),
        }
    }
}

/// What a stop didn't get done in time is no failure, but worth a word.
fn warn_of_rest(summary: &Summary) {
    let rest = summary.status.read.saturating_sub(summary.status.committed);
    if !summary.ended && rest > 0 {
        console::notice(format_args!(
            "{rest} messages were not finished and committed before the drain time was over; they \
             come again in the next run"
        ));
    }
}

fn to_json(name: &str, summary: &Summary) -> Value {
    let status = &summary.status;
    json!({
        "pipeline": name,
        "read": status.read,
        "written": status.written,
        "filtered": status.filtered,
        "diverted": status.diverted,
        "failed": status.failed,
        "committed": status.committed,
        "elapsed_seconds": summary.elapsed.as_secs_f64(),
        "ended": summary.ended,
    })
}
