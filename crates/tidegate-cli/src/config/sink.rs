use std::sync::Arc;

use tidegate_file::FileSinkConfig;
use tidegate_local::LocalSinkConfig;
use tidegate_sqlite::SqliteSinkConfig;

use super::field::{Field, Table};
use super::name::Name;
use super::programs::Programs;
use super::steps::{Steps, nothing_gets_here};
use crate::jq::Program;

/// Where messages go, and where that stands in the file.
pub(crate) struct SinkConfig {
    /// Its name in errors and in the guarantee: the path of the setting.
    pub(crate) name: Name,
    /// What it is.
    pub(crate) kind: SinkKind,
}

/// The sinks there are.
pub(crate) enum SinkKind {
    /// Rows of a table.
    Sqlite(SqliteSinkConfig),
    /// Lines of a file, or of standard output.
    File(FileSinkConfig),
    /// Records of a topic.
    Local(LocalTarget),
    /// Nowhere: messages are done at once.
    Null,
}

/// A topic and what a message's key is.
pub(crate) struct LocalTarget {
    /// The topic.
    pub(crate) config: LocalSinkConfig,
    /// Makes the key from the message; without it records have none.
    pub(crate) key: Option<Arc<Program>>,
}

impl SinkConfig {
    /// Whether it writes to standard output.
    pub(crate) fn is_stdout(&self) -> bool {
        matches!(&self.kind, SinkKind::File(config) if config.path == "-")
    }
}

const KINDS: &[&str] = &["sqlite", "local", "file", "stdout", "null"];

/// Reads `sink` or `sinks`. They have to be there, unless the steps have sinks of their own.
pub(super) fn read(
    table: &Table<'_>,
    steps: Option<&Steps>,
    programs: &Programs,
) -> Option<Vec<SinkConfig>> {
    let fields = match (table.get("sink"), table.get("sinks")) {
        (Some(_), Some(sinks)) => {
            sinks.problem("there is `sink` already: put that into the list, or leave one out");
            return None;
        }
        (Some(sink), None) => vec![sink],
        (None, Some(sinks)) => {
            let fields = sinks.list()?;
            if fields.is_empty() {
                sinks.problem("is empty: name at least one sink");
                return None;
            }
            fields
        }
        (None, None) => Vec::new(),
    };
    let end = steps.filter(|steps| steps.end.is_some());
    match (end, fields.first()) {
        (Some(end), Some(sink)) => {
            sink.problem(&nothing_gets_here(&end.end_name));
            return None;
        }
        // Whether a sink is missing can't be known while the steps have problems.
        (None, None) if steps.is_some() => {
            table.problem("`sink` is missing");
            return None;
        }
        _ => {}
    }
    let sinks: Vec<_> = fields.iter().map(|field| sink(field, steps, programs)).collect();
    sinks.into_iter().collect()
}

fn sink(field: &Field<'_>, steps: Option<&Steps>, programs: &Programs) -> Option<SinkConfig> {
    let chosen = field.one_of(KINDS, &[])?;
    let field = &chosen.field;
    let kind = match chosen.kind {
        "sqlite" => {
            if steps.is_some_and(Steps::end_in_batch) {
                field.problem(
                    "a row is made of an object, and a batch is a list: put `unbatch` or a `jq` \
                     step behind the batch",
                );
                return None;
            }
            SinkKind::Sqlite(field.settings(&[], |config: &SqliteSinkConfig| {
                config.problems().into_iter().map(|problem| (problem.key, problem.problem))
            })?)
        }
        "local" => SinkKind::Local(local(field, programs)?),
        "file" => SinkKind::File(file(field)?),
        "stdout" => {
            field.table(&[])?;
            SinkKind::File(FileSinkConfig::stdout())
        }
        _ => {
            field.table(&[])?;
            SinkKind::Null
        }
    };
    Some(SinkConfig { name: Name::new(field.path.clone(), field.line), kind })
}

fn file(field: &Field<'_>) -> Option<FileSinkConfig> {
    field.settings(&[], |config: &FileSinkConfig| {
        let problems = config.validate().err().map(|error| error.problems().to_vec());
        let problems = problems.unwrap_or_default().into_iter();
        problems.map(|problem| (problem.key, problem.message))
    })
}

fn local(field: &Field<'_>, programs: &Programs) -> Option<LocalTarget> {
    let key = match field.get("key") {
        None => Some(None),
        Some(field) => programs.compile_key(&field).map(|program| Some(Arc::new(program))),
    };
    let config = local_settings(field, &["key"]);
    Some(LocalTarget { config: config?, key: key? })
}

fn local_settings(field: &Field<'_>, beside: &[&str]) -> Option<LocalSinkConfig> {
    field.settings(beside, |config: &LocalSinkConfig| {
        let problems = config.problems().into_iter();
        problems.map(|problem| (problem.key.to_owned(), problem.message))
    })
}

/// Where records go that failed, and where that stands in the file.
pub(crate) struct DeadLettersConfig {
    /// The name in errors.
    pub(crate) name: Name,
    /// What it is.
    pub(crate) kind: DeadLettersKind,
}

/// The places for dead letters there are.
pub(crate) enum DeadLettersKind {
    /// Lines of a file.
    File(FileSinkConfig),
    /// Records of a topic, with the originals' keys.
    Local(LocalSinkConfig),
}

pub(super) fn dead_letters(field: &Field<'_>) -> Option<DeadLettersConfig> {
    let chosen = field.one_of(&["file", "local"], &[])?;
    let kind = match chosen.kind {
        "file" => {
            let config = file(&chosen.field)?;
            if config.path == "-" {
                chosen.field.problem("dead letters have to be kept: name a file");
                return None;
            }
            DeadLettersKind::File(config)
        }
        _ => DeadLettersKind::Local(local_settings(&chosen.field, &[])?),
    };
    let name = Name::new(chosen.field.path.clone(), chosen.field.line);
    Some(DeadLettersConfig { name, kind })
}
