use std::time::Duration;

use indicatif::MultiProgress;
use serde_json::json;
use tidegate_core::{BoxError, Record};
use tidegate_file::{FileFormat, FileSource, FileSourceConfig};
use tidegate_local::{LocalRecord, LocalSink, LocalSinkConfig};
use tidegate_runtime::{Label, Pipeline, Settings};

use super::Failure;
use super::execute::{Execution, Surroundings, execute};
use crate::build::decode;
use crate::cli::ProduceArgs;
use crate::config::{PayloadFormat, key_program};
use crate::jq::Program;
use crate::progress::grouped;
use crate::{console, logging};

/// How long a stop waits for the records that were read.
const DRAIN: Duration = Duration::from_secs(10);

/// Writes lines into a topic: a pipeline from a file to a topic.
pub(super) fn produce(args: ProduceArgs) -> Result<(), Failure> {
    let key = args.key.as_deref().map(compile).transpose()?;
    let mut sink = LocalSinkConfig::new(&args.db, &args.topic);
    sink.partitions = args.partitions;
    let sink = LocalSink::new(sink).map_err(usage)?;
    let mut file = FileSourceConfig::new(&args.file);
    file.format = FileFormat::Lines;
    let file = FileSource::new(file, None).map_err(usage)?;

    let lines = MultiProgress::new();
    logging::start(&lines);
    let flow = Pipeline::new("produce")
        .settings(Settings { drain: DRAIN, ..Settings::default() })
        .source(file)
        .try_map(move |line| record(line, key.as_ref()))
        .named(Label::new("key").at("--key"))
        .filter_map(|record| record)
        .named("empty lines")
        .sink(sink)
        .named(Label::new("topic").at("--topic"));
    let surroundings = Surroundings { drain: DRAIN, is_stdout_taken: false, lines: &lines };
    let Execution { summary, failure } = execute(flow, &surroundings)
        .map_err(|error| Failure::Failed(format!("cannot start: {error}")))?;

    let (written, topic, db) = (summary.status.written, &args.topic, args.db.display());
    console::result(if args.json {
        json!({"topic": topic, "written": written, "complete": summary.ended}).to_string()
    } else {
        format!("wrote {} records to topic {topic} of {db}", grouped(written))
    });
    match failure {
        Some(failure) => Err(Failure::Failed(failure)),
        None => Ok(()),
    }
}

fn usage(error: impl std::fmt::Display) -> Failure {
    Failure::Usage(error.to_string())
}

fn compile(key: &str) -> Result<Program, Failure> {
    Program::compile(&key_program(key), &[]).map_err(|problems| {
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        Failure::Usage(format!("--key: {}", problems.join("\n")))
    })
}

/// The line as a record; `None` for an empty one.
fn record(line: Record<'_>, key: Option<&Program>) -> Result<Option<LocalRecord>, BoxError> {
    if line.payload().is_empty() {
        return Ok(None);
    }
    let key = match key {
        Some(program) => program.key(decode(line, PayloadFormat::Json)?)?,
        None => None,
    };
    let record = LocalRecord::new(line.payload());
    Ok(Some(match key {
        Some(key) => record.with_key(key),
        None => record,
    }))
}
