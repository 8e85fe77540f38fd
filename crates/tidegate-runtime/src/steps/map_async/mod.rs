//! Slow calls, several at a time: a step with a task of its own for each partition.
//!
//! The calls must go on while the next step has no room, or else a request that has been sent
//! would not be read in time. So the task polls them beside everything else it waits for, and its
//! queue is the border: what lies before it is handled in the partition's task, what lies behind
//! it here.

mod concurrency;
mod order;
mod stage;

pub use concurrency::Concurrency;
pub(crate) use concurrency::{Key, Mode};

use std::sync::Arc;

use tidegate_core::{BoxError, BoxFuture, Chunk, Moment, Push, StepId, Stopped};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::task::{TaskContext, give_way};
use stage::{Stage, run};

/// Chunks that wait for the stage.
const QUEUE: usize = 2;

/// The partition's side of the stage.
pub(crate) struct MapAsync<T> {
    step: StepId,
    queue: Option<mpsc::Sender<Chunk<T>>>,
    stage: JoinHandle<Result<(), Stopped>>,
}

impl<T: Send + 'static> MapAsync<T> {
    pub(crate) fn start<U, E, F, Fut>(
        step: StepId,
        f: Arc<F>,
        mode: Mode<T>,
        next: Box<dyn Push<U>>,
        context: &TaskContext,
    ) -> Self
    where
        F: Fn(T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<U, E>> + Send + 'static,
        U: Send + 'static,
        E: Into<BoxError> + Send + 'static,
    {
        let (queue, chunks) = mpsc::channel(QUEUE);
        let stage = Stage {
            f,
            mode,
            next,
            step,
            failures: Arc::clone(&context.failures),
            timer: context.timer,
        };
        Self { step, queue: Some(queue), stage: context.workers.spawn(run(stage, chunks)) }
    }
}

impl<T> MapAsync<T> {
    /// Waits for the stage's end. A panic in it goes on here, where it is reported.
    async fn ended(&mut self) -> Result<(), Stopped> {
        match (&mut self.stage).await {
            Ok(result) => result,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(Stopped),
            },
        }
    }
}

impl<T> Drop for MapAsync<T> {
    fn drop(&mut self) {
        // Only when the partition's task was cancelled; after `finish` the stage has ended.
        self.stage.abort();
    }
}

impl<T: Send + 'static> Push<T> for MapAsync<T> {
    fn push(&mut self, mut chunk: Chunk<T>, _now: Moment) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async move {
            chunk.enter(self.step);
            chunk.hold();
            match &self.queue {
                Some(queue) if queue.send(chunk).await.is_ok() => {
                    give_way().await;
                    Ok(())
                }
                _ => self.ended().await.and(Err(Stopped)),
            }
        })
    }

    fn wake_at(&self) -> Option<Moment> {
        None
    }

    fn wake(&mut self, _now: Moment) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async { Ok(()) })
    }

    fn finish(&mut self, _now: Moment) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async move {
            self.queue = None;
            self.ended().await
        })
    }
}
