//! A whole pipeline file.

use tidegate_runtime::Settings;
use tidegate_sqlite::SqliteStoreConfig;

use super::field::{Field, Table};
use super::flow::{self, FlowConfig};
use super::programs::Programs;
use super::sink::{self, DeadLettersConfig};
use super::source::{self, SourceConfig};
use super::tuning::{self, Tuning};

/// What a pipeline file says, validated.
pub(crate) struct PipelineConfig {
    /// The pipeline's name; positions are kept under it.
    pub(crate) name: String,
    /// Where records come from.
    pub(crate) source: SourceConfig,
    /// Steps and sinks, in order.
    pub(crate) flow: FlowConfig,
    /// Where records go that fail; without it a failure stops the pipeline.
    pub(crate) dead_letters: Option<DeadLettersConfig>,
    /// Where positions are kept for a source that has no place of its own.
    pub(crate) store: Option<SqliteStoreConfig>,
    /// Commit policy, limits, times.
    pub(crate) settings: Settings,
    /// The most outputs that one record may have in one jq step.
    pub(crate) jq_outputs: usize,
}

const KEYS: &[&str] = &[
    "name",
    "vars",
    "source",
    "steps",
    "sink",
    "sinks",
    "dead_letters",
    "commit",
    "limits",
    "drain",
    "retry_for",
    "stall_after",
    "store",
];

/// Reads the file's root. Every part is read, also behind one that has a problem.
pub(super) fn read(root: &Field<'_>) -> Option<PipelineConfig> {
    let table = root.table(KEYS)?;
    let name = table.require("name").and_then(|field| name(&field));
    let source = table.require("source").and_then(|field| source::read(&field));
    let programs = Programs::with_variables(table.get("vars").as_ref());
    let flow = flow::read(&table, &programs);
    let dead_letters = table.get_or("dead_letters", None, |f| sink::dead_letters(f).map(Some));
    let store = table.get_or("store", None, |field| store(field).map(Some));
    let tuning = tuning::read(&table);
    let Tuning { settings, jq_outputs } = tuning?;
    let config = PipelineConfig {
        name: name?,
        source: source?,
        flow: flow?,
        dead_letters: dead_letters?,
        store: store?,
        settings,
        jq_outputs,
    };
    check_store(&table, &config)?;
    Some(config)
}

fn name(field: &Field<'_>) -> Option<String> {
    let name = field.text()?;
    if name.len() > 100 || name.chars().any(char::is_control) {
        field.problem("must be at most 100 bytes, without control characters");
        return None;
    }
    Some(name)
}

fn store(field: &Field<'_>) -> Option<SqliteStoreConfig> {
    let chosen = field.one_of(&["sqlite"], &[])?;
    chosen.field.settings(&[], |config: &SqliteStoreConfig| {
        config.problems().into_iter().map(|problem| (problem.key, problem.problem))
    })
}

/// A store that nothing is kept in is a mistake, or will be one.
fn check_store(table: &Table<'_>, config: &PipelineConfig) -> Option<()> {
    if config.store.is_some() && !config.source.uses_store() {
        let store = table.get("store")?;
        store.problem("this source keeps its own positions: leave `store` out");
        return None;
    }
    Some(())
}
