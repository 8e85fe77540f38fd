use std::sync::OnceLock;
use std::thread::{self, Thread};
use std::time::Duration;

/// Wakes the reader's thread, from anywhere. A wake-up while it is awake is not lost: its next
/// wait returns at once.
#[derive(Debug, Default)]
pub(crate) struct Wake(OnceLock<Thread>);

impl Wake {
    /// The calling thread is the one that is woken from now on. It hasn't waited yet, so what
    /// came before isn't missed.
    pub(crate) fn attach(&self) {
        let _ = self.0.set(thread::current());
    }

    /// Wakes the thread, if there is one yet.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }

    /// Waits until somebody wakes this thread, or for so long.
    pub(crate) fn wait(&self, longest: Duration) {
        thread::park_timeout(longest);
    }
}
