//! What the book-keeping costs by itself, without steps, channels and tasks.

use std::hint::black_box;
use std::sync::Arc;

use tidegate_core::{
    Completed, Generation, Ledger, LedgerObserver, NewRecord, Outcome, Partition, Position,
    RecordBatch, SharedLedger, StepId,
};

use crate::measure::{Case, take_turns};
use crate::table::{Table, figure};

const TURNS: usize = 7;
/// Messages in a chunk.
const CHUNK: u64 = 1024;
const CHUNKS: u64 = 1000;

/// Measures the ways of settling and prints the table.
pub fn run() {
    let batch = Arc::new(records(0));
    let bare = |name: &str, settle: fn(&mut Ledger, u64)| {
        let batch = Arc::clone(&batch);
        Case::new(name, CHUNK * CHUNKS, move || admit_and(&batch, settle))
    };
    let mut cases = [
        bare("admit, settle the chunk as a range", |ledger, first| {
            ledger.settle_range(first..first + CHUNK, Outcome::Done);
        }),
        bare("admit, settle in ranges of 16", |ledger, first| {
            for start in (first..first + CHUNK).step_by(16) {
                ledger.settle_range(start..start + 16, Outcome::Done);
            }
        }),
        bare("admit, settle one by one in order", |ledger, first| {
            (first..first + CHUNK).for_each(|one| settle_one(ledger, one));
        }),
        bare("admit, settle one by one, last first", |ledger, first| {
            (first..first + CHUNK).rev().for_each(|one| settle_one(ledger, one));
        }),
        bare("admit, settle one by one, shuffled", |ledger, first| {
            // An odd factor reaches each of the chunk's 1,024 places once.
            (0..CHUNK).for_each(|index| settle_one(ledger, first + index * 619 % CHUNK));
        }),
        Case::new("records made of 8 B", CHUNK * CHUNKS, || {
            (0..CHUNKS).for_each(|chunk| drop(black_box(records(chunk * CHUNK))));
        }),
        shared("the same, admitted, a chunk made, settled as slots", |ledger, chunk| {
            ledger_chunk(ledger, chunk).settle(Outcome::Done);
        }),
        shared("the same, bundled and settled as one", |ledger, chunk| {
            let bundle = ledger_chunk(ledger, chunk).bundle();
            bundle.expect("the chunk isn't empty").settle(Outcome::Done);
        }),
        shared("the same, a receipt for each message", |ledger, chunk| {
            ledger_chunk(ledger, chunk)
                .into_messages()
                .for_each(|message| message.receipt.settle(Outcome::Done));
        }),
    ];
    take_turns(TURNS, &mut cases);
    let mut table = Table::new(&["what", "ns"]);
    for case in &cases {
        table.row(&case.name, [figure(case.median().cpu)]);
    }
    table.print("Ledger", "CPU time a message, in chunks of 1,024.");
}

fn admit_and(batch: &Arc<RecordBatch>, settle: fn(&mut Ledger, u64)) {
    let mut ledger = Ledger::new(usize::MAX);
    for _ in 0..CHUNKS {
        // The same positions again and again: the frontier stays, the work is the same.
        let slots = ledger.admit(batch).expect("there is room");
        settle(&mut ledger, slots.start);
    }
    assert_eq!((ledger.open(), ledger.passed()), (0, CHUNK * CHUNKS));
}

fn settle_one(ledger: &mut Ledger, slot: u64) {
    ledger.settle_range(slot..slot + 1, Outcome::Done);
}

fn shared(name: &str, settle: fn(&SharedLedger, u64)) -> Case<'static> {
    Case::new(name, CHUNK * CHUNKS, move || {
        let (partition, generation) = (Partition::whole("ledger"), Generation::new(1));
        let ledger = SharedLedger::new(partition, generation, usize::MAX, Arc::new(Nobody));
        (0..CHUNKS).for_each(|chunk| settle(&ledger, chunk));
        assert_eq!(ledger.frontier(), Some(Position::new(CHUNK * CHUNKS)));
    })
}

fn ledger_chunk(ledger: &SharedLedger, chunk: u64) -> tidegate_core::Chunk<u64> {
    let delivery = ledger.admit(records(chunk * CHUNK)).expect("there is room");
    let step = StepId::new(1);
    let transformed = delivery.transform(step, |record| Ok(Some(record.position().get())));
    assert!(transformed.rejected.is_empty());
    transformed.chunk
}

fn records(first: u64) -> RecordBatch {
    let mut builder = RecordBatch::builder(Partition::whole("ledger"))
        .with_capacity(CHUNK as usize, CHUNK as usize * 8);
    for number in first..first + CHUNK {
        let record = NewRecord { payload: Some(b"12345678"), ..NewRecord::default() };
        builder.push(Position::new(number), record).expect("positions rise");
    }
    builder.finish()
}

struct Nobody;

impl LedgerObserver for Nobody {
    fn settled(&self, completed: &Completed) {
        black_box(completed);
    }

    fn abandoned(&self, _step: StepId, _position: Option<Position>) {}
}
