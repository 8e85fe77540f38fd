//! A run of records from one partition, their bytes in one arena.
//!
//! A record costs one copy and no allocation; the whole batch is freed at once, when the ledger
//! has settled the last of its messages.

use std::fmt;
use std::sync::Arc;

use crate::{Header, OwnedRecord, Partition, Position, Record, Timestamp};

/// What a connector says of one record; all of it is copied into the batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewRecord<'a> {
    /// The key, if it has one.
    pub key: Option<&'a [u8]>,
    /// The payload; `None` is a tombstone.
    pub payload: Option<&'a [u8]>,
    /// When it was written, if the source knows.
    pub timestamp: Option<Timestamp>,
    /// Its own headers, beside those that the whole batch shares.
    pub headers: &'a [(&'a str, &'a [u8])],
}

/// The batch can't take this record: too many bytes, or a position that doesn't rise.
#[derive(Debug, thiserror::Error)]
pub enum BatchFull {
    /// A batch addresses its bytes with 32 bits.
    #[error("a batch holds at most 4 GiB")]
    TooLarge,
    /// Positions in a partition rise strictly.
    #[error("position {next} after {last}: positions must rise")]
    NotRising {
        /// The batch's last position.
        last: Position,
        /// The position that was offered.
        next: Position,
    },
}

#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) position: Position,
    pub(crate) timestamp: Option<Timestamp>,
    start: u32,
    key_end: u32,
    end: u32,
    headers_end: u32,
    has_key: bool,
    has_payload: bool,
}

struct HeaderSpan {
    start: u32,
    name_end: u32,
    end: u32,
}

/// A run of records from one partition. Made by [`RecordBatch::builder`], then unchanging.
pub struct RecordBatch {
    partition: Partition,
    shared_headers: Arc<[Header]>,
    arena: Vec<u8>,
    rows: Vec<Row>,
    header_spans: Vec<HeaderSpan>,
}

impl RecordBatch {
    /// An empty batch to add to.
    pub fn builder(partition: Partition) -> RecordBatchBuilder {
        RecordBatchBuilder {
            batch: Self {
                partition,
                shared_headers: Arc::from([]),
                arena: Vec::new(),
                rows: Vec::new(),
                header_spans: Vec::new(),
            },
        }
    }

    /// The partition that all its records come from.
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    /// How many records.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it has no record.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What it occupies in memory, in bytes: this is what the budget counts.
    pub fn bytes(&self) -> usize {
        self.arena.capacity()
            + self.rows.capacity() * size_of::<Row>()
            + self.header_spans.capacity() * size_of::<HeaderSpan>()
    }

    /// The record in this row, from 0. Panics past the end, as indexing does.
    pub fn get(&self, row: usize) -> Record<'_> {
        assert!(row < self.rows.len(), "row {row} of {}", self.rows.len());
        Record { batch: self, row }
    }

    /// The record in this row, with a hold on the batch. Panics past the end.
    pub fn get_owned(self: &Arc<Self>, row: usize) -> OwnedRecord {
        assert!(row < self.rows.len(), "row {row} of {}", self.rows.len());
        OwnedRecord::new(Arc::clone(self), row)
    }

    /// All records in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Record<'_>> + DoubleEndedIterator {
        (0..self.rows.len()).map(|row| Record { batch: self, row })
    }

    #[inline]
    pub(crate) fn row(&self, row: usize) -> &Row {
        &self.rows[row]
    }

    pub(crate) fn key(&self, row: usize) -> Option<&[u8]> {
        let row = &self.rows[row];
        row.has_key.then(|| &self.arena[row.start as usize..row.key_end as usize])
    }

    pub(crate) fn payload(&self, row: usize) -> Option<&[u8]> {
        let row = &self.rows[row];
        row.has_payload.then(|| &self.arena[row.key_end as usize..row.end as usize])
    }

    pub(crate) fn headers(&self, row: usize) -> impl Iterator<Item = (&str, &[u8])> {
        let first = if row == 0 { 0 } else { self.rows[row - 1].headers_end as usize };
        let own = &self.header_spans[first..self.rows[row].headers_end as usize];
        self.shared_headers.iter().map(|h| (&*h.name, &*h.value)).chain(own.iter().map(|span| {
            let name = &self.arena[span.start as usize..span.name_end as usize];
            let name = std::str::from_utf8(name).expect("a header's name is copied from a str");
            (name, &self.arena[span.name_end as usize..span.end as usize])
        }))
    }
}

impl fmt::Debug for RecordBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.partition)?;
        match (self.rows.first(), self.rows.last()) {
            (Some(first), Some(last)) => {
                write!(f, "@{}..={} ({})", first.position, last.position, self.rows.len())
            }
            _ => write!(f, " (empty)"),
        }
    }
}

/// Collects records into a [`RecordBatch`].
pub struct RecordBatchBuilder {
    batch: RecordBatch,
}

impl RecordBatchBuilder {
    /// Reserves room for `records` records of `bytes` bytes in all.
    pub fn with_capacity(mut self, records: usize, bytes: usize) -> Self {
        self.batch.rows.reserve(records);
        self.batch.arena.reserve(bytes);
        self
    }

    /// Headers that every record of the batch has, stored once: a file's name, a CSV's columns.
    pub fn with_shared_headers(mut self, headers: Arc<[Header]>) -> Self {
        self.batch.shared_headers = headers;
        self
    }

    /// Copies a record in. The error leaves the batch as it was.
    #[inline]
    pub fn push(&mut self, position: Position, record: NewRecord<'_>) -> Result<(), BatchFull> {
        if let Some(last) = self.batch.rows.last()
            && last.position >= position
        {
            return Err(BatchFull::NotRising { last: last.position, next: position });
        }
        let (key, payload) = (record.key.unwrap_or_default(), record.payload.unwrap_or_default());
        let headers: usize = record.headers.iter().map(|(n, v)| n.len() + v.len()).sum();
        let arena = &mut self.batch.arena;
        if arena.len() + key.len() + payload.len() + headers > u32::MAX as usize {
            return Err(BatchFull::TooLarge);
        }
        let start = arena.len() as u32;
        if !key.is_empty() {
            arena.extend_from_slice(key);
        }
        let key_end = arena.len() as u32;
        arena.extend_from_slice(payload);
        let end = arena.len() as u32;
        for (name, value) in record.headers {
            let start = arena.len() as u32;
            arena.extend_from_slice(name.as_bytes());
            let name_end = arena.len() as u32;
            arena.extend_from_slice(value);
            let end = arena.len() as u32;
            self.batch.header_spans.push(HeaderSpan { start, name_end, end });
        }
        self.batch.rows.push(Row {
            position,
            timestamp: record.timestamp,
            start,
            key_end,
            end,
            headers_end: self.batch.header_spans.len() as u32,
            has_key: record.key.is_some(),
            has_payload: record.payload.is_some(),
        });
        Ok(())
    }

    /// How many records it has so far.
    pub fn len(&self) -> usize {
        self.batch.rows.len()
    }

    /// Whether it has no record yet.
    pub fn is_empty(&self) -> bool {
        self.batch.rows.is_empty()
    }

    /// The bytes of keys, payloads and headers so far.
    pub fn bytes(&self) -> usize {
        self.batch.arena.len()
    }

    /// The finished batch.
    pub fn finish(self) -> RecordBatch {
        self.batch
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option::of;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_record_comes_back_as_it_went_in() {
        let mut builder = RecordBatch::builder(Partition::new("t", 1))
            .with_shared_headers(Arc::from([Header::new("file", *b"f")]));
        let headers: &[(&str, &[u8])] = &[("a", b"1"), ("a", b"2")];
        builder
            .push(
                Position::new(5),
                NewRecord { key: Some(b"k"), payload: Some(b"v"), timestamp: None, headers },
            )
            .unwrap();
        builder.push(Position::new(9), NewRecord::default()).unwrap();
        let refused = builder.push(Position::new(9), NewRecord::default());
        assert!(matches!(refused, Err(BatchFull::NotRising { .. })));

        let batch = builder.finish();
        assert_eq!(batch.len(), 2);
        let first = batch.get(0);
        assert_eq!((first.key(), first.payload()), (Some(&b"k"[..]), &b"v"[..]));
        assert_eq!(first.header("a"), Some(&b"2"[..]));
        assert_eq!(first.headers().count(), 3);
        let second = batch.get(1);
        assert!(second.is_tombstone() && second.key().is_none());
        assert_eq!(second.headers().count(), 1, "only the shared one");
    }

    #[test]
    fn a_refused_record_leaves_the_batch_as_it_was() {
        let mut builder = RecordBatch::builder(Partition::whole("t"));
        let record = NewRecord { payload: Some(b"v"), ..NewRecord::default() };
        builder.push(Position::new(5), record).unwrap();
        for position in [0, 4, 5] {
            let refused = builder.push(Position::new(position), record).unwrap_err();
            assert_eq!(
                refused.to_string(),
                format!("position {position} after 5: positions must rise")
            );
            assert_eq!((builder.len(), builder.bytes()), (1, 1));
        }
        builder.push(Position::new(6), record).unwrap();
        assert_eq!(format!("{:?}", builder.finish()), "t@5..=6 (2)");
    }

    #[test]
    fn an_empty_key_is_a_key_and_an_empty_payload_is_no_tombstone() {
        let mut builder = RecordBatch::builder(Partition::whole("t"));
        let record = NewRecord { key: Some(b""), payload: Some(b""), ..NewRecord::default() };
        builder.push(Position::new(0), record).unwrap();
        let batch = builder.finish();
        assert_eq!(batch.get(0).key(), Some(&b""[..]));
        assert!(!batch.get(0).is_tombstone() && batch.get(0).payload().is_empty());
    }

    /// P35
    #[test]
    fn the_budget_is_charged_with_what_was_reserved_too() {
        let builder = RecordBatch::builder(Partition::whole("t")).with_capacity(10, 4096);
        let batch = builder.finish();
        assert!(batch.is_empty());
        assert!(batch.bytes() >= 4096 + 10 * size_of::<Row>());
    }

    #[test]
    #[should_panic(expected = "row 1 of 1")]
    fn a_row_past_the_end_is_not_read() {
        let mut builder = RecordBatch::builder(Partition::whole("t"));
        builder.push(Position::new(0), NewRecord::default()).unwrap();
        builder.finish().get(1);
    }

    type Bytes = Vec<u8>;
    type Whole = (Option<Bytes>, Option<Bytes>, Option<i64>, Vec<(String, Bytes)>);

    fn whole() -> impl Strategy<Value = Whole> {
        let bytes = || vec(any::<u8>(), 0..12);
        let headers = vec((".{0,6}", bytes()), 0..4);
        (of(bytes()), of(bytes()), any::<Option<i64>>(), headers)
    }

    proptest! {
        /// P46
        #[test]
        fn whatever_goes_into_a_batch_comes_out_of_it(
            records in vec(whole(), 0..20),
        ) {
            let mut builder = RecordBatch::builder(Partition::new("t", 3));
            for (number, (key, payload, timestamp, headers)) in records.iter().enumerate() {
                let headers: Vec<_> =
                    headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
                let record = NewRecord {
                    key: key.as_deref(),
                    payload: payload.as_deref(),
                    timestamp: timestamp.map(Timestamp::from_millis),
                    headers: &headers,
                };
                builder.push(Position::new(number as u64 * 3), record).unwrap();
            }
            let batch = Arc::new(builder.finish());
            assert_eq!(batch.iter().len(), records.len());
            for (number, (key, payload, timestamp, headers)) in records.iter().enumerate() {
                let owned = batch.get_owned(number);
                let record = owned.get();
                assert_eq!(record.position(), Position::new(number as u64 * 3));
                assert_eq!(record.key(), key.as_deref());
                assert_eq!((!record.is_tombstone()).then(|| record.payload()), payload.as_deref());
                assert_eq!(record.timestamp().map(Timestamp::as_millis), *timestamp);
                let found: Vec<_> =
                    record.headers().map(|(name, value)| (name.to_owned(), value.to_vec())).collect();
                assert_eq!(&found, headers);
            }
        }
    }
}
