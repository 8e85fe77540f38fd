use std::time::Duration;

use tidegate_core::Moment;

/// Lets one log line of a kind through in every interval, and counts the others (P40).
#[derive(Debug)]
pub(crate) struct LogLimit {
    every: Duration,
    last: Option<Moment>,
    suppressed: u64,
}

impl LogLimit {
    pub(crate) fn new(every: Duration) -> Self {
        Self { every, last: None, suppressed: 0 }
    }

    /// `Some` if a line may be written now, with the number of those that were left out before.
    pub(crate) fn allow(&mut self, now: Moment) -> Option<u64> {
        if self.last.is_some_and(|last| now.since(last) < self.every) {
            self.suppressed += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P40
    #[test]
    fn a_storm_of_the_same_line_is_one_line_and_a_count() {
        let mut limit = LogLimit::new(Duration::from_secs(10));
        let at = |seconds| Moment::after_start(Duration::from_secs(seconds));
        assert_eq!(limit.allow(at(0)), Some(0));
        assert!((1..10).all(|second| limit.allow(at(second)).is_none()));
        assert_eq!(limit.allow(at(10)), Some(9));
    }
}
