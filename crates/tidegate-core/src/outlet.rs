//! What a step gives its results to.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::{Chunk, Moment, Rejected, StepId, Stopped};

/// A future of whichever type.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The next part of the pipeline, as the runtime links it; step authors see it as an [`Outlet`].
///
/// One call a chunk. Waiting in it is back-pressure.
pub trait Push<T>: Send {
    /// Takes the chunk over.
    fn push(&mut self, chunk: Chunk<T>, now: Moment) -> BoxFuture<'_, Result<(), Stopped>>;

    /// The earliest moment at which this part or one behind it wants [`Push::wake`].
    fn wake_at(&self) -> Option<Moment>;

    /// Lets every part do what is due.
    fn wake(&mut self, now: Moment) -> BoxFuture<'_, Result<(), Stopped>>;

    /// No chunk will come any more: every part gives out what it holds.
    fn finish(&mut self, now: Moment) -> BoxFuture<'_, Result<(), Stopped>>;
}

/// Takes messages that failed in a step: diverts them or stops the pipeline, as the policy says.
pub trait FailureHandler: Send + Sync {
    /// Takes the failed messages over. `Err` means that the pipeline stops because of them.
    fn fail(&self, step: StepId, rejected: Rejected) -> BoxFuture<'_, Result<(), Stopped>>;
}

/// What a [`Step`](crate::Step) gives its results to.
pub struct Outlet<'a, T> {
    next: &'a mut dyn Push<T>,
    failures: &'a Arc<dyn FailureHandler>,
    step: StepId,
    now: Moment,
}

impl<'a, T: Send> Outlet<'a, T> {
    /// For the runtime, and for driving a step by hand in a test.
    pub fn new(
        next: &'a mut dyn Push<T>,
        failures: &'a Arc<dyn FailureHandler>,
        step: StepId,
        now: Moment,
    ) -> Self {
        Self { next, failures, step, now }
    }

    /// The time at which this call began, read once a chunk.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Gives results to the next step. Waits while that one has no room.
    pub async fn send(&mut self, chunk: Chunk<T>) -> Result<(), Stopped> {
        if chunk.is_empty() { Ok(()) } else { self.next.push(chunk, self.now).await }
    }

    /// Gives failed messages to the failure policy.
    pub async fn fail(&mut self, rejected: Rejected) -> Result<(), Stopped> {
        if rejected.is_empty() { Ok(()) } else { self.failures.fail(self.step, rejected).await }
    }
}
