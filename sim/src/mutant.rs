//! Worlds that are broken on purpose: they show that the checkers can fail.
//!
//! Each is a wrong connector at the pipeline's border, or a wrong step. A test runs them and
//! expects a violation within a few hundred seeds.

/// A way in which the world is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// Commits go one position too far.
    CommitOneTooFar,
    /// Commits go one position back.
    CommitGoesBack,
    /// The sink answers for a batch and writes it with the next one.
    AnswerBeforeWrite,
    /// The sink loses an item now and then, and says that it is done.
    LoseItem,
    /// The sink writes an item twice now and then.
    WriteTwice,
    /// The sink writes a batch from its end to its beginning.
    WriteBackwards,
    /// The dead letters are confirmed and not written.
    LoseLetter,
    /// The log takes commits of who isn't the owner any more (memory log).
    AcceptZombies,
    /// The source drops a batch that it took from the log.
    SkipBatch,
    /// A step drops a message.
    DropMessage,
    /// A step works twice on a message.
    WorkTwice,
    /// A sink never answers.
    NeverAnswer,
    /// Something depends on more than the seed.
    Unseeded,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::CommitOneTooFar,
        Self::CommitGoesBack,
        Self::AnswerBeforeWrite,
        Self::LoseItem,
        Self::WriteTwice,
        Self::WriteBackwards,
        Self::LoseLetter,
        Self::AcceptZombies,
        Self::SkipBatch,
        Self::DropMessage,
        Self::WorkTwice,
        Self::NeverAnswer,
        Self::Unseeded,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::CommitOneTooFar => "commit-one-too-far",
            Self::CommitGoesBack => "commit-goes-back",
            Self::AnswerBeforeWrite => "answer-before-write",
            Self::LoseItem => "lose-item",
            Self::WriteTwice => "write-twice",
            Self::WriteBackwards => "write-backwards",
            Self::LoseLetter => "lose-letter",
            Self::AcceptZombies => "accept-zombies",
            Self::SkipBatch => "skip-batch",
            Self::DropMessage => "drop-message",
            Self::WorkTwice => "work-twice",
            Self::NeverAnswer => "never-answer",
            Self::Unseeded => "unseeded",
        }
    }

    /// The mutant of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mutant| mutant.name() == name)
    }
}
