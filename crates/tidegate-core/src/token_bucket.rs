use std::time::Duration;

use crate::Moment;

/// Lets messages through at a steady rate, with a burst of at most one `per` interval's worth.
///
/// The generic cell rate algorithm in its virtual-scheduling form (ITU-T I.371, annex A): instead
/// of tokens it keeps the time at which the next message would be due at the steady rate.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    interval: Duration,
    burst: Duration,
    next_due: Moment,
}

impl TokenBucket {
    /// `messages` in every `per`, both more than zero.
    pub fn new(messages: u32, per: Duration) -> Self {
        let interval = per / messages.max(1);
        Self { interval, burst: per.saturating_sub(interval), next_due: Moment::default() }
    }

    /// Takes the right to send `messages`, and says at which moment they may go.
    pub fn take(&mut self, messages: u32, now: Moment) -> Moment {
        let due = self.next_due.max(now);
        self.next_due = due + self.interval * messages;
        let last_due = due.elapsed() + self.interval * messages.saturating_sub(1);
        Moment::after_start(last_due.saturating_sub(self.burst)).max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_at_once_and_the_rest_at_the_steady_rate() {
        let mut bucket = TokenBucket::new(10, Duration::from_secs(1));
        let start = Moment::after_start(Duration::from_secs(5));
        assert_eq!(bucket.take(10, start), start);
        assert_eq!(bucket.take(1, start), start + Duration::from_millis(100));
        assert_eq!(bucket.take(5, start), start + Duration::from_millis(600));
        let later = start + Duration::from_secs(60);
        assert_eq!(bucket.take(10, later), later, "an idle time earns one burst, not sixty");
        assert_eq!(bucket.take(10, later), later + Duration::from_secs(1));
    }
}
