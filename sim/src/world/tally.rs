//! Counters that show what a run has tested.

/// How often what happened; shows that a run was a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Crashes.
    pub crashes: u64,
    /// Partitions that were assigned.
    pub assignments: u64,
    /// Partitions that were revoked.
    pub revocations: u64,
    /// Partitions that were lost.
    pub losses: u64,
    /// Commits that were refused to somebody who isn't the owner any more.
    pub refusals: u64,
    /// Calls that failed.
    pub failed_calls: u64,
    /// Messages that failed in the author's code or a sink.
    pub troubles: u64,
    /// Dead letters.
    pub letters: u64,
    /// Records that were delivered again.
    pub redeliveries: u64,
}

impl Tally {
    /// Adds those of another run.
    pub fn add(&mut self, other: Self) {
        self.crashes += other.crashes;
        self.assignments += other.assignments;
        self.revocations += other.revocations;
        self.losses += other.losses;
        self.refusals += other.refusals;
        self.failed_calls += other.failed_calls;
        self.troubles += other.troubles;
        self.letters += other.letters;
        self.redeliveries += other.redeliveries;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "crashes={} assignments={} revocations={} losses={} refused_commits={} \
             failed_calls={} failed_messages={} dead_letters={} redelivered={}",
            self.crashes,
            self.assignments,
            self.revocations,
            self.losses,
            self.refusals,
            self.failed_calls,
            self.troubles,
            self.letters,
            self.redeliveries
        )
    }
}
