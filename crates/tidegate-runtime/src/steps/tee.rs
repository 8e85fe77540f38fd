use tidegate_core::{BoxFuture, Chunk, Moment, Push, StepId, Stopped};

use super::Fork;

/// Gives each message to all ways; it settles when all of them have answered.
pub(crate) struct Tee<T> {
    pub(crate) step: StepId,
    pub(crate) ways: Fork<T>,
}

impl<T: Clone + Send + 'static> Push<T> for Tee<T> {
    fn push(&mut self, mut chunk: Chunk<T>, now: Moment) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async move {
            chunk.enter(self.step);
            let copies = chunk.duplicate(self.ways.len());
            self.ways.push(copies, now).await
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
