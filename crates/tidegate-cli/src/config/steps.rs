use std::sync::Arc;
use std::time::Duration;

use tidegate_runtime::BatchLimits;

use super::field::Field;
use super::flow::{self, FlowEnd};
use super::name::Name;
use super::node::Value;
use super::programs::Programs;
use crate::jq::Program;

/// A step and where it stands in the file.
pub(crate) struct StepConfig {
    /// Its name in errors: the one it was given, or the path of the setting.
    pub(crate) name: Name,
    /// What it does.
    pub(crate) kind: StepKind,
}

/// The steps that messages leave again.
pub(crate) enum StepKind {
    /// No, one or several messages of each.
    Jq(Arc<Program>),
    /// One list of several messages.
    Batch(BatchLimits),
    /// The items of a list, each as a message.
    Unbatch,
    /// At most `rate` messages in every `per`.
    Throttle {
        /// How many.
        rate: u32,
        /// In which time.
        per: Duration,
    },
}

/// A list of steps; the last one may have sinks of its own.
#[derive(Default)]
pub(super) struct Steps {
    pub(super) steps: Vec<StepConfig>,
    pub(super) end: Option<FlowEnd>,
    /// The name of the step that is the end.
    pub(super) end_name: String,
}

impl Steps {
    /// Whether what leaves the last step is a batch.
    pub(super) fn end_in_batch(&self) -> bool {
        let last = self.steps.iter().rfind(|step| !matches!(step.kind, StepKind::Throttle { .. }));
        last.is_some_and(|step| matches!(step.kind, StepKind::Batch(_)))
    }

    fn add(&mut self, step: Read) {
        match step {
            Read::Step(step) => self.steps.push(step),
            Read::End { name, end } => (self.end, self.end_name) = (Some(end), name.to_string()),
        }
    }
}

enum Read {
    Step(StepConfig),
    End { name: Name, end: FlowEnd },
}

const KINDS: &[&str] = &["jq", "batch", "unbatch", "throttle", "branch", "tee"];

/// Reads a list of steps. All of them are read, also behind one that has a problem.
pub(super) fn read(field: &Field<'_>, programs: &Programs) -> Option<Steps> {
    let mut steps = Some(Steps::default());
    for field in field.list()? {
        if let Some(steps) = steps.as_ref().filter(|steps| steps.end.is_some()) {
            field.problem(&nothing_gets_here(&steps.end_name));
        }
        let step = step(&field, programs);
        steps = steps.zip(step).map(|(mut steps, step)| {
            steps.add(step);
            steps
        });
    }
    steps
}

/// What is wrong behind a step that has sinks of its own.
pub(super) fn nothing_gets_here(step: &str) -> String {
    format!("nothing gets here: every message goes into {step}, which has sinks of its own")
}

fn step(field: &Field<'_>, programs: &Programs) -> Option<Read> {
    // Short for `- unbatch: {}`, which is the only step without settings.
    if matches!(&field.node.value, Value::Text(text) if text == "unbatch") {
        let name = Name::new(format!("{}.unbatch", field.path), field.line);
        return Some(Read::Step(StepConfig { name, kind: StepKind::Unbatch }));
    }
    let chosen = field.one_of(KINDS, &["name"])?;
    let name = chosen.table.get_or("name", chosen.field.path.clone(), Field::text);
    let name = name.map(|name| Name::new(name, chosen.field.line));
    let field = &chosen.field;
    let kind = match chosen.kind {
        "jq" => programs.compile(field).map(|program| StepKind::Jq(Arc::new(program))),
        "batch" => batch(field),
        "unbatch" => field.table(&[]).map(|_| StepKind::Unbatch),
        "throttle" => throttle(field),
        kind => {
            let end = match kind {
                "branch" => flow::branch(field, name.clone(), programs),
                _ => flow::tee(field, name.clone(), programs),
            };
            return Some(Read::End { name: name?, end: end? });
        }
    };
    Some(Read::Step(StepConfig { name: name?, kind: kind? }))
}

fn batch(field: &Field<'_>) -> Option<StepKind> {
    let table = field.table(&["count", "bytes", "every"])?;
    let defaults = BatchLimits::count(1_000);
    let count = table.get_or("count", defaults.count, Field::count_in_memory);
    let bytes = table.get_or("bytes", defaults.bytes, |field| field.bytes().map(Some));
    let every = table.get_or("every", defaults.every, Field::duration);
    Some(StepKind::Batch(BatchLimits { count: count?, bytes: bytes?, every: every? }))
}

fn throttle(field: &Field<'_>) -> Option<StepKind> {
    let table = field.table(&["rate", "per"])?;
    let rate = table.require("rate").and_then(|field| {
        let rate = u32::try_from(field.count()?);
        rate.map_err(|_| field.problem("is too large")).ok()
    });
    let per = table.get_or("per", Duration::from_secs(1), Field::duration);
    Some(StepKind::Throttle { rate: rate?, per: per? })
}
