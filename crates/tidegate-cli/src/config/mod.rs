//! A pipeline file: YAML in, a validated [`PipelineConfig`] or all of its problems out.
//!
//! - Settings are validated once, here; nothing is opened, read or written by it.
//! - All problems are reported together, each with the path of the setting and its line.
//! - Unknown keys are refused. A setting's own type says which keys there are.
//! - `${NAME}` is replaced in texts, after parsing; such a value is never printed.

mod problem;
mod environment;
mod units;
mod suggest;

mod node;
mod report;
mod fault;
mod read;
mod field;
mod name;

mod source;
mod programs;
mod steps;
mod sink;
mod flow;
mod tuning;
mod pipeline;

pub(crate) use environment::Environment;
pub(crate) use flow::{ArmConfig, FlowConfig, FlowEnd};
pub(crate) use name::Name;
pub(crate) use node::MAX_BYTES;
pub(crate) use pipeline::PipelineConfig;
pub(crate) use problem::{Problem, Problems};
pub(crate) use programs::key_program;
pub(crate) use sink::{DeadLettersConfig, DeadLettersKind, LocalTarget, SinkConfig, SinkKind};
pub(crate) use source::{PayloadFormat, SourceConfig};
pub(crate) use steps::{StepConfig, StepKind};

/// Why a part can be made of its settings.
pub(crate) const VALIDATED: &str = "the settings were validated when the file was read";

#[cfg(test)]
mod tests;

use field::Field;
use report::Report;

/// Reads the text of a pipeline file.
pub(crate) fn parse(text: &str, environment: &Environment) -> Result<PipelineConfig, Problems> {
    let root = node::parse(text).map_err(|problem| Problems::new(vec![problem]))?;
    let report = Report::new(environment);
    let config = pipeline::read(&Field::root(&report, &root));
    let problems = report.into_problems();
    match config {
        Some(config) if problems.is_empty() => Ok(config),
        _ => Err(problems),
    }
}
