use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Moment;

use crate::board::Board;
use crate::timer::Timer;

/// What closing has at least, however late it is, and how long the worker threads may take to
/// notice that the pipeline has ended. What still computes then is left behind.
pub(crate) const SHUTDOWN: Duration = Duration::from_millis(500);

/// Bounds calls that may hang: they have all the time in the world until the pipeline has to end,
/// and then what is left of it.
pub(crate) struct Ending {
    pub(crate) board: Arc<Board>,
    pub(crate) timer: Timer,
    pub(crate) drain: Duration,
    pub(crate) deadline: Option<Moment>,
}

impl Ending {
    /// Does the work, or gives it up if the time is up: that of the drain before, or else of a stop
    /// or a failure that comes only now.
    pub(crate) async fn wait_for<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let least = self.timer.now() + SHUTDOWN;
        loop {
            if self.deadline.is_none() {
                let within = self.board.must_end_within(self.drain);
                self.deadline = within.map(|within| self.timer.now() + within);
            }
            let until = self.deadline.map(|deadline| deadline.max(least));
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                () = self.timer.sleep_until_some(until) => return None,
                () = self.board.woken() => {}
            }
        }
    }
}
