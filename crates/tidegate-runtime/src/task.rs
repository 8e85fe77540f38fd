//! The task of one partition: its own chain of steps, fed with deliveries.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::task::Poll;

use tidegate_core::{
    BoxFuture, Chunk, Delivery, FailureHandler, Moment, Outlet, Push, Step, StepId, Stopped,
};
use tokio::sync::mpsc;

use crate::board::Watch;
use crate::timer::Timer;

/// What a partition's chain of steps is built from.
#[derive(Clone)]
pub(crate) struct TaskContext {
    pub(crate) failures: Arc<dyn FailureHandler>,
    pub(crate) workers: tokio::runtime::Handle,
    pub(crate) timer: Timer,
    pub(crate) current: CurrentStep,
}

impl TaskContext {
    /// For steps that run in a task of their own.
    pub(crate) fn for_another_task(&self) -> Self {
        Self { current: CurrentStep::default(), ..self.clone() }
    }
}

/// Which step a task is in, for whoever asks why it doesn't move. Steps that keep messages say so
/// in the ledger; this is for those that are stuck in the author's code.
#[derive(Clone, Default)]
pub(crate) struct CurrentStep(Arc<AtomicU16>);

impl CurrentStep {
    /// The step, or the source if the task is in none.
    pub(crate) fn get(&self) -> StepId {
        StepId::new(self.0.load(Relaxed))
    }

    /// The task is in this step now. Returns the one that it was in.
    pub(crate) fn set(&self, step: StepId) -> StepId {
        StepId::new(self.0.swap(step.get(), Relaxed))
    }
}

/// The head of a partition's chain: takes deliveries, otherwise like [`Push`].
#[allow(unreachable_pub)] // a public trait names it, nobody outside can
pub trait Head: Send {
    fn take(&mut self, delivery: Delivery, now: Moment) -> BoxFuture<'_, Result<(), Stopped>>;
    fn wake_at(&self) -> Option<Moment>;
    fn wake(&mut self, now: Moment) -> BoxFuture<'_, Result<(), Stopped>>;
    fn finish(&mut self, now: Moment) -> BoxFuture<'_, Result<(), Stopped>>;
}

/// Makes a part of the chain anew for each partition.
pub(crate) type Make<P> = Arc<dyn Fn(&TaskContext) -> Box<P> + Send + Sync>;

/// Handles deliveries until the queue is closed, then gives out what the steps hold.
pub(crate) async fn run_task(
    mut head: Box<dyn Head>,
    mut deliveries: mpsc::Receiver<Delivery>,
    watch: Arc<Watch>,
    timer: Timer,
) -> Result<(), Stopped> {
    loop {
        // What is due goes first: a partition that is never idle must not starve its timers.
        let wake_at = head.wake_at();
        if let Some(moment) = wake_at {
            let now = timer.now();
            if moment <= now {
                head.wake(now).await?;
                continue;
            }
        }
        let delivery = tokio::select! {
            biased;
            delivery = deliveries.recv() => delivery,
            () = timer.sleep_until_some(wake_at) => continue,
        };
        match delivery {
            Some(delivery) => {
                watch.room_was_made();
                head.take(delivery, timer.now()).await?;
            }
            None => return head.finish(timer.now()).await,
        }
    }
}

/// Lets the task run that was just given something. The worker thread that woke it keeps it for
/// itself (tokio's LIFO slot is stolen by no other), so it would wait for as long as the author's
/// code takes next, even if all other workers are idle.
pub(crate) async fn give_way() {
    let mut given = false;
    poll_fn(|cx| {
        if given {
            return Poll::Ready(());
        }
        given = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The first step: makes values of records. `F` says how.
pub(crate) struct Intake<F, T> {
    pub(crate) transform: Arc<F>,
    pub(crate) step: StepId,
    pub(crate) next: Box<dyn Push<T>>,
    pub(crate) failures: Arc<dyn FailureHandler>,
    pub(crate) current: CurrentStep,
}

impl<F, T> Head for Intake<F, T>
where
    F: Fn(Delivery, StepId) -> tidegate_core::Transformed<T> + Send + Sync,
    T: Send + 'static,
{
    fn take(&mut self, delivery: Delivery, now: Moment) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async move {
            let before = self.current.set(self.step);
            let transformed = (self.transform)(delivery, self.step);
            self.current.set(before);
            let mut out = Outlet::new(&mut *self.next, &self.failures, self.step, now);
            out.send(transformed.chunk).await?;
            out.fail(transformed.rejected).await
        })
    }

    fn wake_at(&self) -> Option<Moment> {
        self.next.wake_at()
    }

    fn wake(&mut self, now: Moment) -> BoxFuture<'_, Result<(), Stopped>> {
        self.next.wake(now)
    }

    fn finish(&mut self, now: Moment) -> BoxFuture<'_, Result<(), Stopped>> {
        self.next.finish(now)
    }
}

/// Links a [`Step`] into the chain.
pub(crate) struct Node<S: Step> {
    pub(crate) step: S,
    pub(crate) id: StepId,
    pub(crate) next: Box<dyn Push<S::Out>>,
    pub(crate) failures: Arc<dyn FailureHandler>,
    pub(crate) current: CurrentStep,
}

impl<S: Step> Push<S::In> for Node<S> {
    fn push(&mut self, mut chunk: Chunk<S::In>, now: Moment) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async move {
            chunk.enter(self.id);
            let before = self.current.set(self.id);
            let mut out = Outlet::new(&mut *self.next, &self.failures, self.id, now);
            let result = self.step.process(chunk, &mut out).await;
            self.current.set(before);
            result
        })
    }

    fn wake_at(&self) -> Option<Moment> {
        earliest(self.step.wake_at(), self.next.wake_at())
    }

    fn wake(&mut self, now: Moment) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async move {
            if self.step.wake_at().is_some_and(|moment| moment <= now) {
                let mut out = Outlet::new(&mut *self.next, &self.failures, self.id, now);
                self.step.wake(&mut out).await?;
            }
            if self.next.wake_at().is_some_and(|moment| moment <= now) {
                self.next.wake(now).await?;
            }
            Ok(())
        })
    }

    fn finish(&mut self, now: Moment) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async move {
            let mut out = Outlet::new(&mut *self.next, &self.failures, self.id, now);
            self.step.finish(&mut out).await?;
            self.next.finish(now).await
        })
    }
}

pub(crate) fn earliest(a: Option<Moment>, b: Option<Moment>) -> Option<Moment> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
