//! How branches and ways are written down.

use std::sync::Arc;

use tidegate_core::{Push, StepId};

use crate::plan::PlanHandle;
use crate::steps::{Branch, Fork, Predicate, Tee};
use crate::stream::{Flow, Stream, Sub};
use crate::task::Make;

/// The branches of a [`Stream::branch`], in the order in which they are asked.
#[must_use]
pub struct Branches<T: 'static> {
    plan: PlanHandle,
    step: StepId,
    arms: Vec<(Predicate<T>, Make<dyn Push<T>>)>,
}

impl<T: Send + 'static> Branches<T> {
    pub(crate) fn new(plan: PlanHandle, step: StepId) -> Self {
        Self { plan, step, arms: Vec::new() }
    }

    /// Messages that match, if no earlier branch took them.
    pub fn when(
        mut self,
        matches: impl Fn(&T) -> bool + Send + Sync + 'static,
        steps: impl FnOnce(Stream<Sub<T>, T>) -> Flow<Sub<T>>,
    ) -> Self {
        let flow = steps(sub_stream(&self.plan, self.step));
        self.arms.push((Arc::new(matches), flow.make));
        self
    }

    /// All that are left. Without it, messages that match no branch are filtered.
    pub fn otherwise(self, steps: impl FnOnce(Stream<Sub<T>, T>) -> Flow<Sub<T>>) -> Self {
        self.when(|_| true, steps)
    }

    pub(crate) fn into_make(self) -> Make<dyn Push<T>> {
        let step = self.step;
        if self.arms.is_empty() {
            self.plan.lock().problems.push("branch: there is no branch".to_owned());
        }
        let arms = self.arms;
        Arc::new(move |context| {
            let wants = arms.iter().map(|(matches, _)| Arc::clone(matches)).collect();
            let ways =
                Fork::new(arms.iter().map(|(_, make)| make(context)).collect(), context.timer);
            Box::new(Branch { step, wants, ways, failures: Arc::clone(&context.failures) })
        })
    }
}

/// The ways of a [`Stream::tee`].
#[must_use]
pub struct Ways<T: 'static> {
    plan: PlanHandle,
    step: StepId,
    ways: Vec<Make<dyn Push<T>>>,
}

impl<T: Clone + Send + 'static> Ways<T> {
    pub(crate) fn new(plan: PlanHandle, step: StepId) -> Self {
        Self { plan, step, ways: Vec::new() }
    }

    /// One more way.
    pub fn to(mut self, steps: impl FnOnce(Stream<Sub<T>, T>) -> Flow<Sub<T>>) -> Self {
        let flow = steps(sub_stream(&self.plan, self.step));
        self.ways.push(flow.make);
        self
    }

    pub(crate) fn into_make(self) -> Make<dyn Push<T>> {
        let step = self.step;
        if self.ways.is_empty() {
            self.plan.lock().problems.push("tee: there is no way".to_owned());
        }
        let ways = self.ways;
        Arc::new(move |context| {
            let ways = ways.iter().map(|make| make(context)).collect();
            Box::new(Tee { step, ways: Fork::new(ways, context.timer) })
        })
    }
}

fn sub_stream<T: Send + 'static>(plan: &PlanHandle, step: StepId) -> Stream<Sub<T>, T> {
    Stream::new(plan.clone(), step, |next| next)
}
