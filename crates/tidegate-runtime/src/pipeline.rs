use std::panic::Location;

use tidegate_core::{BoxSource, DeadLetter, Sink, Source};

use crate::dead_letters::DeadLetters;
use crate::plan::{Label, Plan, PlanHandle};
use crate::record_stream::RecordStream;
use crate::settings::Settings;

/// The beginning of a pipeline: its name, settings, dead letters and source.
///
/// Reads from the top down: source, steps, sink.
///
/// ```no_run
/// # use tidegate_core::*;
/// # use tidegate_runtime::*;
/// # async fn run(
/// #     orders: impl Source,
/// #     table: impl Sink<Item = u64>,
/// #     rejects: impl Sink<Item = DeadLetter>,
/// # ) -> Result<(), PipelineError> {
/// let summary = Pipeline::new("orders")
///     .dead_letters(rejects)
///     .source(orders)
///     .try_map(|record| std::str::from_utf8(record.payload())?.parse::<u64>().map_err(BoxError::from))
///     .filter(|cents| *cents > 0)
///     .map(|cents| cents * 2)
///     .sink(table)
///     .run()
///     .await?;
/// println!("{summary}");
/// # Ok(())
/// # }
/// ```
pub struct Pipeline {
    plan: Plan,
    dead_letter_problem: bool,
}

impl Pipeline {
    /// A pipeline of this name; it appears in errors, logs, dead letters and stores.
    pub fn new(name: impl Into<String>) -> Self {
        Self { plan: Plan::new(name.into()), dead_letter_problem: false }
    }

    /// Replaces the default settings.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.plan.settings = settings;
        self
    }

    /// Where the originals of failed messages go. Without it a failed message stops the pipeline.
    #[must_use]
    #[track_caller]
    pub fn dead_letters<S: Sink<Item = DeadLetter>>(mut self, sink: S) -> Self {
        self.dead_letter_problem |= self.plan.dead_letters.is_some();
        let step = self.plan.add_step("dead letters", Location::caller());
        self.plan.dead_letters = Some(DeadLetters::new(sink, step));
        self
    }

    /// Like [`Pipeline::dead_letters`], under another name.
    #[must_use]
    #[track_caller]
    pub fn named_dead_letters<S: Sink<Item = DeadLetter>>(
        self,
        label: impl Into<Label>,
        sink: S,
    ) -> Self {
        let mut pipeline = self.dead_letters(sink);
        if let Some(dead_letters) = &pipeline.plan.dead_letters {
            let step = dead_letters.step;
            pipeline.plan.name_step(step, label.into());
        }
        pipeline
    }

    /// Where records come from.
    pub fn source(mut self, source: impl Source) -> RecordStream {
        self.plan.source = Some(BoxSource::new(source));
        if self.dead_letter_problem {
            self.plan.problems.push("a pipeline has one place for dead letters".to_owned());
        }
        RecordStream::new(PlanHandle::new(self.plan))
    }
}
