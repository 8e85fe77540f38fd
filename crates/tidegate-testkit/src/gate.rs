use std::sync::Arc;

use tokio::sync::watch;

/// Holds calls back until the test lets them through.
#[derive(Clone, Debug)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    /// A gate that lets through.
    pub fn open() -> Self {
        Self(Arc::new(watch::Sender::new(true)))
    }

    /// A gate that holds.
    pub fn closed() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Opens or closes it. Opening lets through whatever waits.
    pub fn set_open(&self, open: bool) {
        self.0.send_replace(open);
    }

    /// Waits until it is open.
    pub async fn pass(&self) {
        let mut open = self.0.subscribe();
        // The sender is `self`, so it is there.
        let _ = open.wait_for(|open| *open).await;
    }
}
