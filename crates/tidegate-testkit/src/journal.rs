//! What happened outside of a pipeline, in the order in which it did.
//!
//! Sources and sinks write to it when something has become durable, before they answer; so the
//! journal's order is the order that counts, whoever hears of it later.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::{DeadLetter, Generation, Partition, Position, Record};
use tokio::time::Instant;

/// Names one record for good.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId {
    /// Its partition.
    pub partition: Partition,
    /// Its position there.
    pub position: Position,
}

impl RecordId {
    /// The id of the record that a first step sees.
    pub fn of(record: Record<'_>) -> Self {
        Self { partition: record.partition().clone(), position: record.position() }
    }

    /// The id of the record that a dead letter holds.
    pub fn of_dead_letter(letter: &DeadLetter) -> Self {
        let partition = match letter.partition {
            Some(index) => Partition::new(letter.stream.as_str(), index),
            None => Partition::whole(letter.stream.as_str()),
        };
        Self { partition, position: letter.position }
    }
}

impl fmt::Debug for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.partition, self.position)
    }
}

/// One thing that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A record can be read.
    Produced {
        /// The record.
        id: RecordId,
        /// Its key.
        key: Option<Vec<u8>>,
    },
    /// A source was made; what an earlier one of the same control does counts for nothing now.
    Started,
    /// A partition was assigned.
    Assigned(Partition, Generation),
    /// Records were handed over.
    Fetched {
        /// Their partition.
        partition: Partition,
        /// The first one's position.
        first: Position,
        /// How many.
        records: usize,
    },
    /// The source asked for a partition back.
    Revoking(Partition),
    /// A partition was lost.
    Lost(Partition),
    /// A partition will have no more records.
    Finished(Partition),
    /// No partition will.
    Ended,
    /// A commit became durable.
    Committed {
        /// Its partition.
        partition: Partition,
        /// The generation it was made in.
        generation: Generation,
        /// The committed frontier.
        position: Position,
    },
    /// A commit was refused.
    Refused {
        /// Its partition.
        partition: Partition,
        /// The generation it was made in.
        generation: Generation,
        /// The frontier that was not committed.
        position: Position,
    },
    /// A partition was let go.
    Released(Partition),
    /// The source was closed.
    Closed,
    /// A sink wrote items made of these records; the name is the sink control's.
    Written {
        /// Which sink.
        sink: String,
        /// For each item in order the records it was made of.
        items: Vec<Vec<RecordId>>,
    },
    /// A dead letter was written.
    Diverted(RecordId),
}

/// An event, and when it happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Since the journal was made; on virtual time, virtual.
    pub at: Duration,
    /// What happened.
    pub event: Event,
}

/// What happened outside of a pipeline. Cheap to clone; all clones are the same journal.
#[derive(Clone, Debug)]
pub struct Journal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    begin: Instant,
    entries: Mutex<Vec<Entry>>,
}

impl Journal {
    /// An empty one.
    pub fn new() -> Self {
        Self(Arc::new(Inner { begin: Instant::now(), entries: Mutex::default() }))
    }

    /// Notes an event, for parts that are not of this kit.
    pub fn note(&self, event: Event) {
        let at = self.0.begin.elapsed();
        self.lock().push(Entry { at, event });
    }

    /// Everything so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().clone()
    }

    /// What `pick` chooses, in order.
    pub fn collect<R>(&self, pick: impl FnMut(&Entry) -> Option<R>) -> Vec<R> {
        self.lock().iter().filter_map(pick).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Journal {
    fn default() -> Self {
        Self::new()
    }
}
