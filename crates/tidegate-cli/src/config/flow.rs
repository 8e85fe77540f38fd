//! Steps and where their results go: of the pipeline, of a branch, or of a way of a tee.

use std::sync::Arc;

use super::field::{Field, Table};
use super::name::Name;
use super::node::Value;
use super::programs::Programs;
use super::sink::{self, SinkConfig};
use super::steps::{self, Steps};
use crate::jq::Program;

/// Steps and where their results go.
pub(crate) struct FlowConfig {
    /// The steps, in order.
    pub(crate) steps: Vec<steps::StepConfig>,
    /// What is behind them.
    pub(crate) end: FlowEnd,
}

/// What is behind the last step.
pub(crate) enum FlowEnd {
    /// Sinks, at least one, each of which gets every message.
    Sinks(Vec<SinkConfig>),
    /// Flows, at least one, each of which gets every message.
    Tee {
        /// The step's name.
        name: Name,
        /// The ways.
        ways: Vec<FlowConfig>,
    },
    /// Flows of which the first one that wants a message gets it.
    Branch {
        /// The step's name.
        name: Name,
        /// The branches in the order in which they are asked; at least one.
        arms: Vec<ArmConfig>,
        /// What becomes of the others; `None` filters them.
        otherwise: Option<Box<FlowConfig>>,
    },
}

/// A branch and which messages it takes.
pub(crate) struct ArmConfig {
    /// The predicate.
    pub(crate) when: Arc<Program>,
    /// What becomes of them.
    pub(crate) flow: FlowConfig,
}

impl FlowConfig {
    /// Whether anything of it writes to standard output.
    pub(crate) fn writes_to_stdout(&self) -> bool {
        match &self.end {
            FlowEnd::Sinks(sinks) => sinks.iter().any(SinkConfig::is_stdout),
            FlowEnd::Tee { ways, .. } => ways.iter().any(Self::writes_to_stdout),
            FlowEnd::Branch { arms, otherwise, .. } => {
                arms.iter().any(|arm| arm.flow.writes_to_stdout())
                    || otherwise.as_ref().is_some_and(|flow| flow.writes_to_stdout())
            }
        }
    }
}

/// The keys of a table that `read` reads.
pub(super) const KEYS: [&str; 3] = ["steps", "sink", "sinks"];

/// Reads `steps`, and `sink` or `sinks`.
pub(super) fn read(table: &Table<'_>, programs: &Programs) -> Option<FlowConfig> {
    let steps = table.get_or("steps", Steps::default(), |field| steps::read(field, programs));
    let sinks = sink::read(table, steps.as_ref(), programs);
    let (steps, sinks) = (steps?, sinks?);
    let end = steps.end.unwrap_or(FlowEnd::Sinks(sinks));
    Some(FlowConfig { steps: steps.steps, end })
}

fn read_field(field: &Field<'_>, programs: &Programs) -> Option<FlowConfig> {
    read(&field.table(&KEYS)?, programs)
}

/// Reads the settings of a `tee` step.
pub(super) fn tee(field: &Field<'_>, name: Option<Name>, programs: &Programs) -> Option<FlowEnd> {
    let fields = field.list()?;
    if fields.is_empty() {
        field.problem("is empty: name at least one way, with `steps` and a `sink`");
        return None;
    }
    let ways: Vec<_> = fields.iter().map(|field| read_field(field, programs)).collect();
    Some(FlowEnd::Tee { name: name?, ways: ways.into_iter().collect::<Option<_>>()? })
}

/// Reads the settings of a `branch` step.
pub(super) fn branch(
    field: &Field<'_>,
    name: Option<Name>,
    programs: &Programs,
) -> Option<FlowEnd> {
    let fields = field.list()?;
    let Some((last, arms)) = fields.split_last() else {
        field.problem("is empty: name at least one branch with `when`, and `otherwise`");
        return None;
    };
    if last.get("otherwise").is_none() {
        // Which messages are left out is never a default.
        field.problem(
            "the last branch must be `otherwise`: with `steps` and a `sink` for the messages that \
             no branch takes, or `otherwise: filter` to leave them out",
        );
        fields.iter().for_each(|field| drop(arm(field, programs)));
        return None;
    }
    if arms.is_empty() {
        field.problem("there is no branch with `when` before `otherwise`");
    }
    let arms: Vec<_> = arms.iter().map(|field| arm(field, programs)).collect();
    let otherwise = otherwise(last, programs);
    let arms = arms.into_iter().collect::<Option<Vec<_>>>()?;
    let (name, otherwise) = (name?, otherwise?);
    (!arms.is_empty()).then_some(FlowEnd::Branch { name, arms, otherwise })
}

fn arm(field: &Field<'_>, programs: &Programs) -> Option<ArmConfig> {
    let table = field.table(&["when", "steps", "sink", "sinks"])?;
    let when = table.require("when").and_then(|field| programs.compile(&field));
    let flow = read(&table, programs);
    Some(ArmConfig { when: Arc::new(when?), flow: flow? })
}

fn otherwise(field: &Field<'_>, programs: &Programs) -> Option<Option<Box<FlowConfig>>> {
    let field = field.table(&["otherwise"])?.require("otherwise")?;
    match &field.node.value {
        Value::Text(text) if text == "filter" => Some(None),
        Value::Text(_) => {
            field.problem("expected a map with `steps` and a `sink`, or the word `filter`");
            None
        }
        _ => Some(Some(Box::new(read_field(&field, programs)?))),
    }
}
