use std::fmt;
use std::sync::Arc;

use crate::{Partition, Position, RecordBatch, Timestamp};

/// A header as a connector gives it: names may repeat.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    /// The header's name.
    pub name: Box<str>,
    /// The header's value, any bytes.
    pub value: Box<[u8]>,
}

impl Header {
    /// A header from its name and value.
    pub fn new(name: impl Into<Box<str>>, value: impl Into<Box<[u8]>>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, String::from_utf8_lossy(&self.value))
    }
}

/// What the source delivered, borrowed from the batch that the ledger keeps.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    pub(crate) batch: &'a RecordBatch,
    pub(crate) row: usize,
}

impl<'a> Record<'a> {
    /// The partition it came from.
    pub fn partition(&self) -> &'a Partition {
        self.batch.partition()
    }

    /// Its place in the partition.
    pub fn position(&self) -> Position {
        self.batch.row(self.row).position
    }

    /// When the source says it was written; `None` if the source has no timestamps.
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.batch.row(self.row).timestamp
    }

    /// The key; `None` if it has none, which is not the same as an empty key.
    pub fn key(&self) -> Option<&'a [u8]> {
        self.batch.key(self.row)
    }

    /// The payload; empty for a tombstone too, see [`Record::is_tombstone`].
    pub fn payload(&self) -> &'a [u8] {
        self.batch.payload(self.row).unwrap_or_default()
    }

    /// Whether the record has no payload at all: in a compacted topic, the key was deleted.
    pub fn is_tombstone(&self) -> bool {
        self.batch.payload(self.row).is_none()
    }

    /// The headers that all records of the batch share, then its own, in order.
    pub fn headers(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        self.batch.headers(self.row)
    }

    /// The value of the last header with this name.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.headers().filter(|(n, _)| *n == name).map(|(_, value)| value).last()
    }
}

impl fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.partition(), self.position())
    }
}

/// A record that keeps its whole batch alive, for steps that hold on to records themselves.
#[derive(Clone)]
pub struct OwnedRecord {
    batch: Arc<RecordBatch>,
    row: usize,
}

impl OwnedRecord {
    pub(crate) fn new(batch: Arc<RecordBatch>, row: usize) -> Self {
        Self { batch, row }
    }

    /// The record itself.
    pub fn get(&self) -> Record<'_> {
        Record { batch: &self.batch, row: self.row }
    }
}

impl fmt::Debug for OwnedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
