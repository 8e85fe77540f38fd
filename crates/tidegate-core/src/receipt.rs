//! The duty to answer, for single messages and for rejected ones.

use std::fmt;

use crate::{BoxError, Diversion, Outcome, Partition, Position, SharedLedger, Slot, StepId};

/// The duty to answer for one share of a message. Answered exactly once: by
/// [`Receipt::settle`], or by going on with the message. Dropped, it answers `Abandoned`.
pub struct Receipt {
    ledger: Option<SharedLedger>,
    slot: Slot,
    step: StepId,
}

impl Receipt {
    pub(crate) fn new(ledger: SharedLedger, slot: Slot, step: StepId) -> Self {
        Self { ledger: Some(ledger), slot, step }
    }

    /// Answers.
    pub fn settle(mut self, outcome: Outcome) {
        if let Some(ledger) = self.ledger.take() {
            ledger.settle(&[self.slot], outcome);
        }
    }

    /// Another receipt for the same message, which then needs one more answer.
    pub fn share(&self) -> Self {
        if let Some(ledger) = &self.ledger {
            ledger.share([(self.slot, 1)]);
        }
        Self { ledger: self.ledger.clone(), slot: self.slot, step: self.step }
    }

    /// Turns the duty into a rejection, for the failure policy.
    pub fn reject(mut self, reason: impl Into<BoxError>) -> Option<Rejected> {
        let ledger = self.ledger.take()?;
        Some(Rejected::new(ledger, self.step, vec![(self.slot, reason.into())]))
    }

    pub(crate) fn is_of(&self, ledger: &SharedLedger) -> bool {
        self.ledger.as_ref().is_some_and(|own| own.is_same(ledger))
    }

    pub(crate) fn into_parts(mut self) -> Option<(SharedLedger, Slot, StepId)> {
        self.ledger.take().map(|ledger| (ledger, self.slot, self.step))
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if let Some(ledger) = self.ledger.take() {
            ledger.abandon(&[self.slot], self.step);
        }
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Receipt({:?})", self.slot)
    }
}

/// A value with the duty to answer for it, for steps that hold messages one by one.
#[derive(Debug)]
pub struct Message<T> {
    /// The value.
    pub value: T,
    /// The duty.
    pub receipt: Receipt,
}

/// Messages that failed, on their way to the failure policy. Dropped, they answer `Abandoned`.
pub struct Rejected {
    ledger: SharedLedger,
    step: StepId,
    items: Vec<(Slot, BoxError)>,
}

impl Rejected {
    pub(crate) fn new(ledger: SharedLedger, step: StepId, items: Vec<(Slot, BoxError)>) -> Self {
        Self { ledger, step, items }
    }

    /// How many messages failed.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether none failed.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The partition they came from.
    pub fn partition(&self) -> &Partition {
        self.ledger.partition()
    }

    /// Whether the generation has ended: nobody waits for an answer any more.
    pub fn is_fenced(&self) -> bool {
        self.ledger.is_fenced()
    }

    /// The first failure: its position and error.
    pub fn first(&self) -> Option<(Option<Position>, &BoxError)> {
        let (slot, error) = self.items.first()?;
        Some((self.ledger.positions(*slot).first().copied(), error))
    }

    /// For each message its error, and its original records that no other share has diverted.
    pub fn begin_diversion(&self) -> Vec<(&BoxError, Vec<Diversion>)> {
        self.items.iter().map(|(slot, error)| (error, self.ledger.begin_diversion(*slot))).collect()
    }

    /// Answers for all of them.
    pub fn settle(mut self, outcome: Outcome) {
        let slots: Vec<_> = self.items.drain(..).map(|(slot, _)| slot).collect();
        self.ledger.settle(&slots, outcome);
    }
}

impl Drop for Rejected {
    fn drop(&mut self) {
        let slots: Vec<_> = self.items.drain(..).map(|(slot, _)| slot).collect();
        self.ledger.abandon(&slots, self.step);
    }
}

impl fmt::Debug for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rejected({} of {})", self.items.len(), self.partition())
    }
}
