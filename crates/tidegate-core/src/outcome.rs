/// How a message ended. Ordered from the mildest to the worst: a message with several shares
/// (a fan-out, several sinks) ends with the worst of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome {
    /// A step left it out on purpose, or made nothing of it.
    Filtered,
    /// Everything made from it was confirmed by its sinks.
    Done,
    /// The original record is durable among the dead letters.
    Diverted,
    /// It failed, and nothing was allowed to take it. It holds the frontier.
    Failed,
    /// Nobody answered for it: a panic, a bug, a lost reply. It holds the frontier.
    Abandoned,
}

impl Outcome {
    pub(crate) const COUNT: usize = 5;

    /// Whether the source may forget a message that ended like this.
    pub const fn is_settled(self) -> bool {
        !matches!(self, Self::Failed | Self::Abandoned)
    }
}

/// How many messages ended in which way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OutcomeCounts([u64; Outcome::COUNT]);

impl OutcomeCounts {
    /// How many ended with this outcome.
    pub const fn get(&self, outcome: Outcome) -> u64 {
        self.0[outcome as usize]
    }

    /// How many ended at all.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(crate) fn add(&mut self, outcome: Outcome, messages: u64) {
        self.0[outcome as usize] += messages;
    }
}

impl std::ops::AddAssign for OutcomeCounts {
    fn add_assign(&mut self, other: Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}
