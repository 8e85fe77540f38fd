//! Numbers that must not be confused with one another.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A place in a partition. Strictly rising from record to record, gaps allowed.
///
/// Connectors map their own notion to it: offset, log sequence number, line number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position(u64);

impl Position {
    /// A position from the connector's number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The connector's number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The first position behind this one: the exclusive end of a range that ends here.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

/// A period of ownership of a partition. What was begun in one generation counts for nothing in
/// a later one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Generation(u64);

impl Generation {
    /// A generation from the source's number, for example a group's epoch.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The source's number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// What the ledger calls one message, or one batch of messages, that is in flight.
///
/// A slot means nothing outside the ledger that gave it out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot(u64);

/// The top bit tells a bundle (several messages that travel as one) from a single message.
const BUNDLE: u64 = 1 << 63;

impl Slot {
    pub(crate) const fn single(sequence: u64) -> Self {
        Self(sequence)
    }

    pub(crate) const fn bundle(index: usize) -> Self {
        Self(index as u64 | BUNDLE)
    }

    pub(crate) const fn as_bundle(self) -> Option<usize> {
        if self.0 & BUNDLE != 0 { Some((self.0 & !BUNDLE) as usize) } else { None }
    }

    pub(crate) const fn sequence(self) -> u64 {
        self.0
    }
}

/// The number of a step or sink within its pipeline, in the order in which they were built.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct StepId(u16);

impl StepId {
    /// The source: what holds a message before the first step does.
    pub const SOURCE: Self = Self(0);

    /// A step from its number; 0 is the source.
    pub const fn new(number: u16) -> Self {
        Self(number)
    }

    /// The number; 0 is the source.
    pub const fn get(self) -> u16 {
        self.0
    }
}
