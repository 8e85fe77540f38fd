//! A ledger whose observer writes down what it hears.

use std::sync::{Arc, Mutex};

use tidegate_core::{
    BoxError, Chunk, Completed, Delivery, Generation, LedgerObserver, NewRecord, Outcome,
    OutcomeCounts, Partition, Position, RecordBatch, Rejected, SharedLedger, StepId,
};

/// What the observer has heard so far.
#[derive(Clone, Default)]
pub(crate) struct Heard {
    pub(crate) counts: OutcomeCounts,
    pub(crate) freed_bytes: usize,
    pub(crate) drained: u32,
    pub(crate) abandoned: Vec<(StepId, Option<Position>)>,
}

#[derive(Default)]
pub(crate) struct Recorder(Mutex<Heard>);

impl Recorder {
    pub(crate) fn heard(&self) -> Heard {
        self.0.lock().unwrap().clone()
    }

    /// How many messages ended, by outcome: filtered, done, diverted, failed, abandoned.
    pub(crate) fn counts(&self) -> [u64; 5] {
        by_outcome(&self.heard().counts)
    }
}

pub(crate) fn by_outcome(counts: &OutcomeCounts) -> [u64; 5] {
    use Outcome::{Abandoned, Diverted, Done, Failed, Filtered};
    [Filtered, Done, Diverted, Failed, Abandoned].map(|outcome| counts.get(outcome))
}

impl LedgerObserver for Recorder {
    fn settled(&self, completed: &Completed) {
        let mut heard = self.0.lock().unwrap();
        heard.counts += completed.counts;
        heard.freed_bytes += completed.freed_bytes;
        heard.drained += u32::from(completed.drained);
    }

    fn abandoned(&self, step: StepId, position: Option<Position>) {
        self.0.lock().unwrap().abandoned.push((step, position));
    }
}

pub(crate) fn ledger() -> (SharedLedger, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let partition = Partition::new("t", 0);
    let ledger = SharedLedger::new(partition, Generation::new(1), 1_000_000, recorder.clone());
    (ledger, recorder)
}

pub(crate) fn batch(positions: impl IntoIterator<Item = u64>) -> RecordBatch {
    let mut builder = RecordBatch::builder(Partition::new("t", 0));
    for position in positions {
        let payload = position.to_string();
        let record = NewRecord { payload: Some(payload.as_bytes()), ..NewRecord::default() };
        builder.push(Position::new(position), record).unwrap();
    }
    builder.finish()
}

pub(crate) const STEP: StepId = StepId::new(7);

/// A chunk in [`STEP`] whose values are the positions.
pub(crate) fn chunk(delivery: Delivery) -> Chunk<u64> {
    let transformed = delivery.transform(STEP, |record| Ok(Some(record.position().get())));
    assert!(transformed.rejected.is_empty());
    transformed.chunk
}

/// A ledger with `messages` messages at the positions from 0 on, and the chunk of them.
pub(crate) fn admitted(messages: u64) -> (SharedLedger, Arc<Recorder>, Chunk<u64>) {
    let (ledger, recorder) = ledger();
    let chunk = chunk(ledger.admit(batch(0..messages)).unwrap());
    (ledger, recorder, chunk)
}

pub(crate) fn frontier(ledger: &SharedLedger) -> Option<u64> {
    ledger.frontier().map(Position::get)
}

/// A panic that says nothing on the terminal.
pub(crate) fn quiet_panic(message: &str) -> ! {
    std::panic::resume_unwind(Box::new(message.to_owned()))
}

/// The position of the first rejected message, and its error.
pub(crate) fn first(rejected: &Rejected) -> (u64, String) {
    let (position, error): (_, &BoxError) = rejected.first().unwrap();
    (position.unwrap().get(), error.to_string())
}
