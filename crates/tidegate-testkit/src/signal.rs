use std::time::Duration;

use tokio::sync::watch;

/// The longest that a wait takes before it panics. On virtual time it passes at once.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Tells waiters that something has changed. A change between two looks is never missed.
#[derive(Debug)]
pub(crate) struct Signal(watch::Sender<u64>);

impl Signal {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    pub(crate) fn changed(&self) {
        self.0.send_modify(|version| *version = version.wrapping_add(1));
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }

    /// Waits until `look` finds what it looks for.
    ///
    /// Panics after two minutes, with what `describe` says.
    pub(crate) async fn wait_for<R>(
        &self,
        mut look: impl FnMut() -> Option<R>,
        describe: impl FnOnce() -> String,
    ) -> R {
        let mut changes = self.subscribe();
        let wait = async {
            loop {
                if let Some(found) = look() {
                    return found;
                }
                // The sender is `self`, so it is there.
                let _ = changes.changed().await;
            }
        };
        match tokio::time::timeout(LIMIT, wait).await {
            Ok(found) => found,
            Err(_) => panic!("waited {} s in vain: {}", LIMIT.as_secs(), describe()),
        }
    }
}
