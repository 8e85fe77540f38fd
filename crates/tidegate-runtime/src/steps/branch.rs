use std::sync::Arc;

use tidegate_core::{BoxFuture, Chunk, FailureHandler, Moment, Push, StepId, Stopped};

use super::Fork;

/// Says whether a way wants a message.
pub(crate) type Predicate<T> = Arc<dyn Fn(&T) -> bool + Send + Sync>;

/// Gives each message to the first way that wants it, of which there is one predicate each. What
/// none wants is filtered.
pub(crate) struct Branch<T> {
    pub(crate) step: StepId,
    pub(crate) wants: Vec<Predicate<T>>,
    pub(crate) ways: Fork<T>,
    pub(crate) failures: Arc<dyn FailureHandler>,
}

impl<T: Send + 'static> Push<T> for Branch<T> {
    fn push(&mut self, mut chunk: Chunk<T>, now: Moment) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async move {
            chunk.enter(self.step);
            let wants = &self.wants;
            let (parts, rejected) = chunk
                .partition_by(wants.len(), |value| wants.iter().position(|wants| wants(value)));
            self.ways.push(parts, now).await?;
            if rejected.is_empty() { Ok(()) } else { self.failures.fail(self.step, rejected).await }
        })
    }

    fn wake_at(&self) -> Option<Moment> {
        self.ways.wake_at()
    }

    fn wake(&mut self, now: Moment) -> BoxFuture<'_, Result<(), Stopped>> {
        self.ways.wake(now)
    }

    fn finish(&mut self, now: Moment) -> BoxFuture<'_, Result<(), Stopped>> {
        self.ways.finish(now)
    }
}
