//! How often a source looks at the file: often while things happen, rarely when nothing does.
//!
//! It is asked with the time and reads no clock.

use std::time::Duration;

use tokio::time::Instant;

/// When to look next, and how long to pause until then.
#[derive(Debug)]
pub(crate) struct Pace {
    shortest: Duration,
    longest: Duration,
    pause: Duration,
    looked_at: Option<Instant>,
}

impl Pace {
    /// Pauses of at most `longest`, at least a fifth of it.
    pub(crate) fn new(longest: Duration) -> Self {
        let shortest = longest / 5;
        Self { shortest, longest, pause: shortest, looked_at: None }
    }

    /// Whether it is time for a look; never more often than the shortest pause, however often it
    /// is asked.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.looked_at.is_none_or(|at| now.duration_since(at) >= self.shortest)
    }

    /// A look was taken.
    pub(crate) fn looked(&mut self, now: Instant) {
        self.looked_at = Some(now);
    }

    /// Something happened: pauses are short again.
    pub(crate) fn quicken(&mut self) {
        self.pause = self.shortest;
    }

    /// How long to pause now, when there is nothing to do.
    pub(crate) fn pause(&self) -> Duration {
        self.pause
    }

    /// A pause has passed and nothing happened: the next one is longer.
    pub(crate) fn slacken(&mut self) {
        self.pause = (self.pause * 2).min(self.longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P38
    #[test]
    fn pauses_grow_while_nothing_happens_and_are_short_again_afterwards() {
        let mut pace = Pace::new(Duration::from_millis(50));
        let mut pauses = Vec::new();
        for _ in 0..5 {
            pauses.push(pace.pause().as_millis());
            pace.slacken();
        }
        assert_eq!(pauses, [10, 20, 40, 50, 50]);
        pace.quicken();
        assert_eq!(pace.pause().as_millis(), 10);
    }

    /// P38
    #[test]
    fn however_often_it_is_asked_looks_are_apart() {
        let mut pace = Pace::new(Duration::from_millis(50));
        let start = Instant::now();
        let mut looks = 0;
        for micros in 0..100_000_u64 {
            let now = start + Duration::from_micros(micros);
            if pace.is_due(now) {
                pace.looked(now);
                looks += 1;
            }
        }
        assert_eq!(looks, 10, "in 100 ms");
    }
}
