use std::time::Duration;

use tidegate_core::Moment;

use crate::settings::RetryPolicy;

/// Counts the failures of one kind of call and says how long to pause.
#[derive(Debug)]
pub(crate) struct Backoff {
    policy: RetryPolicy,
    failing_since: Option<Moment>,
    /// When it is tried again after the last failure.
    retry_at: Moment,
    pause: Duration,
}

impl Backoff {
    pub(crate) fn new(policy: RetryPolicy) -> Self {
        Self { policy, failing_since: None, retry_at: Moment::default(), pause: policy.first }
    }

    /// The call failed: how long to pause before the next, or `None` to give up.
    ///
    /// A call that did not fail for as long as the limit, because it waited or nobody made it, has
    /// not kept failing: an idle source may fail twice a day for years.
    pub(crate) fn failed(&mut self, now: Moment) -> Option<Duration> {
        if now.since(self.retry_at) > self.policy.give_up_after {
            self.succeeded();
        }
        let since = *self.failing_since.get_or_insert(now);
        if now.since(since) >= self.policy.give_up_after {
            return None;
        }
        let pause = self.pause;
        self.pause = pause.saturating_mul(2).min(self.policy.longest);
        self.retry_at = now + pause;
        Some(pause)
    }

    /// Whether the last call failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.failing_since.is_some()
    }

    /// The call succeeded: the next failure is a first one.
    pub(crate) fn succeeded(&mut self) {
        *self = Self::new(self.policy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_end_at_the_limit() {
        let policy = RetryPolicy {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(3),
            give_up_after: Duration::from_secs(10),
        };
        let mut backoff = Backoff::new(policy);
        let at = |seconds| Moment::after_start(Duration::from_secs(seconds));
        assert_eq!(backoff.failed(at(100)), Some(Duration::from_secs(1)));
        assert_eq!(backoff.failed(at(101)), Some(Duration::from_secs(2)));
        assert_eq!(backoff.failed(at(103)), Some(Duration::from_secs(3)));
        assert_eq!(backoff.failed(at(106)), Some(Duration::from_secs(3)));
        assert_eq!(backoff.failed(at(110)), None);
        backoff.succeeded();
        assert_eq!(backoff.failed(at(111)), Some(Duration::from_secs(1)));
    }
    /// P28
    #[test]
    fn two_failures_far_apart_are_not_one_long_one() {
        let policy = RetryPolicy {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(3),
            give_up_after: Duration::from_secs(10),
        };
        let mut backoff = Backoff::new(policy);
        let at = |seconds| Moment::after_start(Duration::from_secs(seconds));
        assert_eq!(backoff.failed(at(100)), Some(Duration::from_secs(1)));
        assert_eq!(backoff.failed(at(112)), Some(Duration::from_secs(1)), "11 s after the retry");
        assert_eq!(backoff.failed(at(121)), Some(Duration::from_secs(2)), "each call takes 8 s");
        assert_eq!(backoff.failed(at(131)), None, "and that goes on");
    }
}
