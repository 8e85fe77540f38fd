//! Holds messages back to a rate. What comes behind it keeps its timers meanwhile: it waits within
//! a push, where nobody else could wake the next steps.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_core::{BoxFuture, Chunk, Moment, Push, StepId, Stopped, TokenBucket};

use crate::task::earliest;
use crate::timer::Timer;

/// Lets messages of all partitions through at one rate. While it waits, back-pressure does.
pub(crate) struct Throttle<T> {
    step: StepId,
    bucket: Arc<Mutex<TokenBucket>>,
    piece: usize,
    timer: Timer,
    next: Box<dyn Push<T>>,
}

impl<T: Send + 'static> Throttle<T> {
    /// `bucket` is the one of the whole pipeline.
    pub(crate) fn new(
        step: StepId,
        bucket: Arc<Mutex<TokenBucket>>,
        (messages, per): (u32, Duration),
        timer: Timer,
        next: Box<dyn Push<T>>,
    ) -> Self {
        // Pieces of a twentieth of a second pass smoothly at any rate.
        let per_second = f64::from(messages) / per.as_secs_f64();
        let piece = (per_second / 20.0).clamp(1.0, f64::from(messages)) as usize;
        Self { step, bucket, piece, timer, next }
    }

    fn take(&self, messages: usize) -> Moment {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.take(messages as u32, self.timer.now())
    }

    async fn wait_until(&mut self, due: Moment) -> Result<(), Stopped> {
        loop {
            let (now, wake_at) = (self.timer.now(), self.next.wake_at());
            if wake_at.is_some_and(|moment| moment <= now) {
                self.next.wake(now).await?;
            } else if due <= now {
                return Ok(());
            } else {
                self.timer.sleep_until_some(earliest(Some(due), wake_at)).await;
            }
        }
    }
}

impl<T: Send + 'static> Push<T> for Throttle<T> {
    fn push(&mut self, mut chunk: Chunk<T>, _now: Moment) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async move {
            chunk.enter(self.step);
            chunk.hold();
            while !chunk.is_empty() {
                let piece = chunk.split_front(self.piece);
                let due = self.take(piece.len());
                self.wait_until(due).await?;
                self.next.push(piece, self.timer.now()).await?;
            }
            Ok(())
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
