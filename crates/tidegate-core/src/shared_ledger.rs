use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::chunk::Transformed;
use crate::{
    BoxError, Completed, Diversion, Generation, Ledger, LedgerFull, OldestOpen, Outcome, Panicked,
    Partition, Position, Record, RecordBatch, Slot, StepId,
};

/// Hears of every settlement of one ledger. Called outside the ledger's lock, once a chunk.
pub trait LedgerObserver: Send + Sync {
    /// Shares were answered.
    fn settled(&self, completed: &Completed);

    /// Somebody dropped messages without an answer while `step` had them.
    fn abandoned(&self, step: StepId, position: Option<Position>);
}

/// One partition's ledger for one generation, shared by everything that has to answer for its
/// messages. It is locked once a chunk, never over a callback or an await.
#[derive(Clone)]
pub struct SharedLedger(Arc<Inner>);

struct Inner {
    partition: Partition,
    generation: Generation,
    ledger: Mutex<Ledger>,
    observer: Arc<dyn LedgerObserver>,
}

impl SharedLedger {
    /// An empty ledger for a partition that was just assigned.
    pub fn new(
        partition: Partition,
        generation: Generation,
        capacity: usize,
        observer: Arc<dyn LedgerObserver>,
    ) -> Self {
        let ledger = Mutex::new(Ledger::new(capacity));
        Self(Arc::new(Inner { partition, generation, ledger, observer }))
    }

    /// The partition.
    pub fn partition(&self) -> &Partition {
        &self.0.partition
    }

    /// The period of ownership.
    pub fn generation(&self) -> Generation {
        self.0.generation
    }

    /// Takes a batch in. The delivery has to answer for every record of it.
    pub fn admit(&self, batch: RecordBatch) -> Result<Delivery, LedgerFull> {
        let batch = Arc::new(batch);
        let slots = self.lock().admit(&batch)?;
        Ok(Delivery { ledger: self.clone(), slots, batch })
    }

    /// See [`Ledger::room`].
    pub fn room(&self) -> usize {
        self.lock().room()
    }

    /// See [`Ledger::frontier`].
    pub fn frontier(&self) -> Option<Position> {
        self.lock().frontier()
    }

    /// See [`Ledger::oldest`].
    pub fn oldest(&self) -> Option<OldestOpen> {
        self.lock().oldest()
    }

    /// See [`Ledger::open`].
    pub fn open(&self) -> usize {
        self.lock().open()
    }

    /// See [`Ledger::pending`].
    pub fn pending(&self) -> usize {
        self.lock().pending()
    }

    /// The frontier, and how many messages it has passed; `None` before the first.
    pub fn progress(&self) -> Option<(Position, u64)> {
        let ledger = self.lock();
        Some((ledger.frontier()?, ledger.passed()))
    }

    /// See [`Ledger::fence`].
    pub fn fence(&self) -> usize {
        self.lock().fence()
    }

    /// See [`Ledger::is_fenced`].
    pub fn is_fenced(&self) -> bool {
        self.lock().is_fenced()
    }

    pub(crate) fn settle(&self, slots: &[Slot], outcome: Outcome) {
        if !slots.is_empty() {
            let completed = self.lock().settle(slots, outcome);
            self.0.observer.settled(&completed);
        }
    }

    pub(crate) fn share(&self, slots: impl IntoIterator<Item = (Slot, u32)>) {
        self.lock().share(slots);
    }

    pub(crate) fn bundle(&self, members: Vec<Slot>) -> Slot {
        self.lock().bundle(members)
    }

    pub(crate) fn hold(&self, slots: &[Slot], step: StepId) {
        self.lock().hold(slots, step);
    }

    pub(crate) fn begin_diversion(&self, slot: Slot) -> Vec<Diversion> {
        self.lock().begin_diversion(slot)
    }

    pub(crate) fn positions(&self, slot: Slot) -> Vec<Position> {
        self.lock().positions(slot)
    }

    /// The answer for messages that were dropped. Nothing if the generation has ended: then they
    /// were released.
    pub(crate) fn abandon(&self, slots: &[Slot], step: StepId) {
        let Some(&first) = slots.first() else { return };
        let (completed, position) = {
            let mut ledger = self.lock();
            if ledger.is_fenced() {
                return;
            }
            let position = ledger.positions(first).first().copied();
            (ledger.settle(slots, Outcome::Abandoned), position)
        };
        // The reason first: the settlement may be the last one, and end a drain.
        self.0.observer.abandoned(step, position);
        self.0.observer.settled(&completed);
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        // No code of others runs under the lock; after a panic in the ledger itself (our bug) the
        // pipeline is failing already, and the frontier can at worst stay.
        self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SharedLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} generation {}", self.0.partition, self.0.generation.get())
    }
}

/// A batch that was admitted and has not met the first step yet. Dropping it abandons it.
pub struct Delivery {
    ledger: SharedLedger,
    slots: Range<u64>,
    batch: Arc<RecordBatch>,
}

impl Delivery {
    /// How many records.
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// Whether it has no record.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// The batch, borrowed from the ledger.
    pub fn batch(&self) -> &Arc<RecordBatch> {
        &self.batch
    }

    /// Makes values of the records: `Some` goes on, `None` is filtered, an error or a panic is a
    /// rejection of that one record.
    pub fn transform<U>(
        mut self,
        step: StepId,
        mut f: impl FnMut(Record<'_>) -> Result<Option<U>, BoxError>,
    ) -> Transformed<U> {
        let slots = std::mem::replace(&mut self.slots, 0..0);
        let batch = &*self.batch;
        let mut out = crate::chunk::Sorter::with_capacity(batch.len());
        let mut rows = slots.clone().zip(batch.iter());
        let mut current = Slot::single(slots.start);
        loop {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                for (sequence, record) in rows.by_ref() {
                    current = Slot::single(sequence);
                    out.sort(current, f(record));
                }
            }));
            match outcome {
                Ok(()) => break out.finish(&self.ledger, step),
                Err(payload) => out.sort(current, Err(Panicked::from_payload(payload).into())),
            }
        }
    }

    /// The records themselves as values, each with a hold on the batch.
    pub fn into_records(mut self, step: StepId) -> Transformed<crate::OwnedRecord> {
        let slots = std::mem::replace(&mut self.slots, 0..0);
        let mut out = crate::chunk::Sorter::with_capacity(self.batch.len());
        for (row, sequence) in slots.enumerate() {
            out.sort(Slot::single(sequence), Ok(Some(self.batch.get_owned(row))));
        }
        out.finish(&self.ledger, step)
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if !self.slots.is_empty() {
            let slots: Vec<_> = self.slots.clone().map(Slot::single).collect();
            self.ledger.abandon(&slots, StepId::SOURCE);
        }
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Delivery({:?})", self.batch)
    }
}
