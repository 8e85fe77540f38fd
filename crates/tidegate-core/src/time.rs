//! Time as values. The core never asks for it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Time since the pipeline started, on a clock that never goes back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Moment(Duration);

impl Moment {
    /// The moment `elapsed` after the start.
    pub const fn after_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// How long after the start.
    pub const fn elapsed(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl std::ops::Add<Duration> for Moment {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

/// Wall-clock time in milliseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From milliseconds since 1970-01-01 UTC.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01 UTC.
    pub const fn as_millis(self) -> i64 {
        self.0
    }
}

/// Where wall-clock time comes from: the machine, or a test.
///
/// It is called once a chunk, a commit or a dead letter, never once a message.
#[derive(Clone)]
pub struct Clock(std::sync::Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        #[allow(clippy::disallowed_methods)] // the one place that asks the machine
        fn now() -> Timestamp {
            match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
                Ok(since) => Timestamp(since.as_millis() as i64),
                Err(before) => Timestamp(-(before.duration().as_millis() as i64)),
            }
        }
        Self(std::sync::Arc::new(now))
    }

    /// A clock that answers what `now` returns.
    pub fn from_fn(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(std::sync::Arc::new(now))
    }

    /// The wall-clock time now.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
