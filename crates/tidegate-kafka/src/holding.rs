//! One partition that this member owns, as the reader sees it.

use tidegate_core::Generation;

/// Where a partition is on its way out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// It is read.
    Active,
    /// It has been read to where the run ends.
    Finished,
    /// The group wants it back, and it is being drained.
    Revoking,
}

/// A partition that the source has been told of and has not let go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Holding {
    pub(crate) generation: Generation,
    pub(crate) phase: Phase,
    /// The position behind the last record that was handed over; at first where it begins.
    pub(crate) next: u64,
    /// Where the run ends, if it does.
    pub(crate) until: Option<u64>,
    /// Whether anything was handed over.
    pub(crate) has_delivered: bool,
    /// The highest position that was committed in this ownership.
    pub(crate) committed: Option<u64>,
}

impl Holding {
    pub(crate) fn new(generation: Generation, start: u64, until: Option<u64>) -> Self {
        Self {
            generation,
            phase: Phase::Active,
            next: start,
            until,
            has_delivered: false,
            committed: None,
        }
    }

    /// Whether everything up to where the run ends has been handed over.
    pub(crate) fn is_through(&self) -> bool {
        self.until.is_some_and(|until| self.next >= until)
    }

    /// Whether nothing that was handed over is open: all of it is committed, or there was none.
    pub(crate) fn is_settled(&self) -> bool {
        !self.has_delivered || self.committed.is_some_and(|committed| committed >= self.next)
    }
}
