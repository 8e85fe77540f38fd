//! Takes the records of one partition from the client and makes batches of them.
//!
//! - The library hands over records by number, not by bytes; what doesn't fit into a batch waits
//!   here. How many are taken follows from the size of those before, so that little waits.
//! - A record below the place that was asked for has been delivered before, and is dropped: after a
//!   rebalance the library may fetch some again.
//! - An error among the records ends a batch, and is returned by the next call. The library has
//!   then moved the consumer past it, so the caller has to move it back.

use std::sync::Arc;

use tidegate_core::{NewRecord, Partition, Position, RecordBatch, Timestamp};

use super::queue::{Message, Messages, Queue, SharedConsumer};
use super::trouble::Trouble;
use crate::wake::Wake;

/// What a record is thought to have before any has come.
const FIRST_GUESS: usize = 1024;
/// So many records are taken at once at least.
const FEWEST: usize = 16;

/// What one batch may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    pub(crate) records: usize,
    pub(crate) bytes: usize,
}

/// A run of records, and where it ends.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) batch: RecordBatch,
    /// Bytes of keys, payloads and headers.
    pub(crate) bytes: usize,
    /// The position behind its last record.
    pub(crate) next: u64,
}

/// What reading has found.
#[derive(Debug)]
pub(crate) enum Read {
    /// Nothing is there now.
    Nothing,
    /// Records from the place that was asked for on.
    Run(Run),
    /// The next record is at or behind the place where reading is to end.
    AtEnd,
    /// An error came in place of a record.
    Trouble(Trouble),
}

pub(crate) struct PartitionReader {
    queue: Queue,
    messages: Messages,
    /// Bytes of a record, averaged over those that came.
    average: usize,
}

impl PartitionReader {
    /// Before the partition is assigned.
    pub(super) fn new(
        consumer: &SharedConsumer,
        topic: &str,
        partition: i32,
        wake: &Arc<Wake>,
    ) -> Option<Self> {
        let queue = Queue::of_partition(consumer, topic, partition, wake)?;
        Some(Self { queue, messages: Messages::new(consumer), average: FIRST_GUESS })
    }

    /// Whether everything that was taken from the library has been returned.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.len() == 0
    }

    /// Drops what was taken and not returned: it will be fetched again.
    pub(super) fn clear(&mut self) {
        self.messages.give_back(self.messages.len());
    }

    /// The records from `from` on, up to the limits; one record may exceed the bytes.
    pub(crate) fn read(
        &mut self,
        partition: &Partition,
        from: u64,
        until: Option<u64>,
        limits: Limits,
    ) -> Read {
        self.refill(limits);
        let mut old = 0;
        let mut chosen = Chosen::default();
        for message in self.messages.iter() {
            if message.error().is_some() {
                break;
            }
            let position = u64::try_from(message.offset()).unwrap_or(0);
            if position < from {
                old += 1;
                continue;
            }
            if until.is_some_and(|until| position >= until) {
                chosen.at_end = true;
                break;
            }
            if !chosen.add(message, limits) {
                break;
            }
        }
        self.messages.give_back(old);
        if chosen.records > 0 {
            return Read::Run(self.build(partition, &chosen));
        }
        if chosen.at_end {
            return Read::AtEnd;
        }
        let trouble = self
            .messages
            .iter()
            .next()
            .and_then(|message| Some(Trouble::new(Some(message.error()?), &message.reason())));
        match trouble {
            Some(trouble) => {
                self.messages.give_back(1);
                Read::Trouble(trouble)
            }
            None => Read::Nothing,
        }
    }

    fn refill(&mut self, limits: Limits) {
        let fitting = (limits.bytes / self.average.max(1)).max(FEWEST).min(limits.records.max(1));
        let Some(most) = fitting.checked_sub(self.messages.len()).filter(|most| *most > 0) else {
            return;
        };
        if self.queue.has_rung() && self.queue.take(most, &mut self.messages) == most {
            // There may be more.
            self.queue.ring();
        }
    }

    fn build(&mut self, partition: &Partition, chosen: &Chosen) -> Run {
        let mut builder =
            RecordBatch::builder(partition.clone()).with_capacity(chosen.records, chosen.bytes);
        let mut next = 0;
        let mut done = 0;
        for message in self.messages.iter().take(chosen.records) {
            let position = u64::try_from(message.offset()).unwrap_or(0);
            if push(&mut builder, position, message).is_err() {
                // Of 4 GiB, or out of order: it is looked at again by the next call.
                break;
            }
            next = position + 1;
            done += 1;
        }
        self.messages.give_back(done);
        self.average = (self.average * 7 + chosen.bytes / chosen.records.max(1)) / 8;
        let bytes = builder.bytes();
        Run { batch: builder.finish(), bytes, next }
    }
}

fn push(
    builder: &mut tidegate_core::RecordBatchBuilder,
    position: u64,
    message: Message<'_>,
) -> Result<(), tidegate_core::BatchFull> {
    let headers = message.headers();
    let headers: Vec<(&str, &[u8])> =
        headers.iter().map(|(name, value)| (&**name, *value)).collect();
    let record = NewRecord {
        key: message.key(),
        payload: message.payload(),
        timestamp: message.timestamp().map(Timestamp::from_millis),
        headers: &headers,
    };
    builder.push(Position::new(position), record)
}

/// The records at the front that go into a batch.
#[derive(Default)]
struct Chosen {
    records: usize,
    bytes: usize,
    at_end: bool,
}

impl Chosen {
    fn add(&mut self, message: Message<'_>, limits: Limits) -> bool {
        let bytes = message.key().map_or(0, <[u8]>::len) + message.payload().map_or(0, <[u8]>::len);
        let fits = self.records < limits.records && self.bytes + bytes <= limits.bytes;
        if self.records > 0 && !fits {
            return false;
        }
        self.records += 1;
        self.bytes += bytes;
        true
    }
}
