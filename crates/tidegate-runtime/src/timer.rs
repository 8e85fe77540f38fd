use tidegate_core::Moment;
use tokio::time::Instant;

/// The pipeline's clock: time since its start, real or virtual as the tokio runtime says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    start: Instant,
}

impl Timer {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }

    pub(crate) fn now(self) -> Moment {
        Moment::after_start(self.start.elapsed())
    }

    /// Waits for the moment; forever if it lies beyond what the clock can count to.
    pub(crate) async fn sleep_until(self, moment: Moment) {
        match self.start.checked_add(moment.elapsed()) {
            Some(instant) => tokio::time::sleep_until(instant).await,
            None => std::future::pending().await,
        }
    }

    /// Waits for the moment, or forever if there is none.
    pub(crate) async fn sleep_until_some(self, moment: Option<Moment>) {
        match moment {
            Some(moment) => self.sleep_until(moment).await,
            None => std::future::pending().await,
        }
    }
}
