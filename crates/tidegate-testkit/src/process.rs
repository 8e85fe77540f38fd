use std::future::pending;
use std::sync::Arc;

use tokio::sync::watch;

/// Stands for the process that a pipeline runs in, so that it can crash within a test.
///
/// Once crashed, no call of a source or sink that belongs to it returns any more, and none has an
/// effect: to the outside that is what a killed process looks like. The pipeline's tasks are left
/// behind, asleep. Start another pipeline on the same controls for what comes after.
#[derive(Clone, Debug)]
pub struct Process(Arc<watch::Sender<bool>>);

impl Process {
    /// A process that is alive.
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// It crashes now.
    pub fn crash(&self) {
        self.0.send_replace(true);
    }

    /// Whether it has crashed.
    pub fn is_crashed(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for the crash.
    pub async fn crashed(&self) {
        let mut crashed = self.0.subscribe();
        // The sender is `self`, so it is there.
        let _ = crashed.wait_for(|crashed| *crashed).await;
    }

    /// Returns at once while it is alive, and never afterwards.
    pub(crate) async fn must_be_alive(&self) {
        if self.is_crashed() {
            pending::<()>().await;
        }
    }
}

impl Default for Process {
    fn default() -> Self {
        Self::new()
    }
}
