//! What the builder notes while a pipeline is written down.

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::{BoxSource, SinkCapabilities, StepId};

use crate::settings::Settings;
use crate::sink_task::SinkRunner;

/// How errors, logs, statistics and dead letters name a step or a sink.
///
/// ```
/// use tidegate_runtime::Label;
/// let label = Label::new("parse").at("flights.yaml:6");
/// assert_eq!(label.to_string(), "parse (flights.yaml:6)");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    name: String,
    place: Option<String>,
}

impl Label {
    /// A name; the place is where the builder was called.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), place: None }
    }

    /// Says where the step was written down, if that isn't the builder's call.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }
}

impl From<&str> for Label {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for Label {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{} ({place})", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// The names of all steps and sinks, by their number.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) pipeline: String,
    steps: Vec<Label>,
}

impl Names {
    /// The bare name.
    pub(crate) fn name(&self, step: StepId) -> &str {
        self.steps.get(usize::from(step.get())).map_or("?", |step| &step.name)
    }

    /// The name and where it was built: `parse (src/main.rs:41)`.
    pub(crate) fn describe(&self, step: StepId) -> String {
        self.steps.get(usize::from(step.get())).map_or_else(|| "?".to_owned(), Label::to_string)
    }
}

/// Everything but the chain of steps itself.
pub(crate) struct Plan {
    pub(crate) pipeline: String,
    pub(crate) settings: Settings,
    pub(crate) source: Option<BoxSource>,
    pub(crate) sinks: Vec<SinkRunner>,
    pub(crate) sink_capabilities: Vec<(StepId, SinkCapabilities)>,
    pub(crate) dead_letters: Option<crate::dead_letters::DeadLetters>,
    pub(crate) problems: Vec<String>,
    steps: Vec<Label>,
}

impl Plan {
    pub(crate) fn new(pipeline: String) -> Self {
        Self {
            pipeline,
            settings: Settings::default(),
            source: None,
            sinks: Vec::new(),
            sink_capabilities: Vec::new(),
            dead_letters: None,
            problems: Vec::new(),
            steps: vec![Label::new("source")],
        }
    }

    /// Numbers a step, and names it after its kind until somebody names it better.
    pub(crate) fn add_step(&mut self, kind: &str, location: &'static Location<'static>) -> StepId {
        let number = u16::try_from(self.steps.len()).unwrap_or(u16::MAX);
        if number == u16::MAX {
            self.problems.push("a pipeline has at most 65,534 steps".to_owned());
        }
        let place = format!("{}:{}", location.file(), location.line());
        self.steps.push(Label::new(kind).at(place));
        StepId::new(number)
    }

    /// Gives a step its name, and its place if that is another than the builder's call.
    pub(crate) fn name_step(&mut self, step: StepId, label: Label) {
        if label.name.is_empty() {
            self.problems.push("a step's name is empty".to_owned());
        }
        if let Some(known) = self.steps.get_mut(usize::from(step.get())) {
            known.name = label.name;
            known.place = label.place.or(known.place.take());
        }
    }

    pub(crate) fn names(&self) -> Names {
        Names { pipeline: self.pipeline.clone(), steps: self.steps.clone() }
    }
}

/// The plan, shared by all streams of one pipeline while it is built.
#[derive(Clone)]
pub(crate) struct PlanHandle(Arc<Mutex<Plan>>);

impl PlanHandle {
    pub(crate) fn new(plan: Plan) -> Self {
        Self(Arc::new(Mutex::new(plan)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`Plan::add_step`].
    pub(crate) fn add_step(&self, kind: &str, location: &'static Location<'static>) -> StepId {
        self.lock().add_step(kind, location)
    }

    /// See [`Plan::name_step`].
    pub(crate) fn name_step(&self, step: StepId, label: Label) {
        self.lock().name_step(step, label);
    }

    /// Takes the plan out; the handles that are left see an empty one.
    pub(crate) fn take(&self) -> Plan {
        std::mem::replace(&mut *self.lock(), Plan::new(String::new()))
    }
}
