//! A batch of records on its way into the file: partitions chosen, headers encoded, all bytes in
//! one arena, so that it can move to a blocking thread with two allocations instead of several
//! for each record.
//!
//! Within a partition the records stand in the order in which they were given.

use std::ops::Range;

use crate::error::RecordTooLarge;
use crate::headers;
use crate::partitioner::Partitioner;
use crate::record::LocalRecord;

/// Records that are ready to be appended, sorted by partition.
#[derive(Debug, Default)]
pub(crate) struct EncodedBatch {
    arena: Vec<u8>,
    rows: Vec<EncodedRow>,
    refused: Vec<(usize, RecordTooLarge)>,
}

#[derive(Debug)]
struct EncodedRow {
    partition: u32,
    timestamp: Option<i64>,
    key: Option<Range<usize>>,
    payload: Option<Range<usize>>,
    headers: Option<Range<usize>>,
}

/// One record, borrowed from its batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Encoded<'a> {
    pub(crate) timestamp: Option<i64>,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) payload: Option<&'a [u8]>,
    pub(crate) headers: Option<&'a [u8]>,
}

impl Encoded<'_> {
    /// What it adds to its partition's size.
    pub(crate) fn bytes(&self) -> u64 {
        let parts = [self.key, self.payload, self.headers];
        parts.iter().map(|part| part.map_or(0, <[u8]>::len) as u64).sum()
    }
}

impl EncodedBatch {
    pub(crate) fn new(
        records: &[LocalRecord],
        partitioner: &mut Partitioner,
        max_record_bytes: usize,
    ) -> Self {
        let mut batch = Self::default();
        batch.rows.reserve(records.len());
        batch.arena.reserve(records.iter().map(LocalRecord::bytes).sum());
        for (index, record) in records.iter().enumerate() {
            let bytes = record.bytes();
            if bytes > max_record_bytes {
                batch.refused.push((index, RecordTooLarge { bytes, limit: max_record_bytes }));
                continue;
            }
            let row = EncodedRow {
                partition: partitioner.choose(record.key.as_deref()),
                timestamp: record.timestamp.map(|timestamp| timestamp.as_millis()),
                key: record.key.as_deref().map(|key| batch.copy(key)),
                payload: record.payload.as_deref().map(|payload| batch.copy(payload)),
                headers: batch.copy_headers(record),
            };
            batch.rows.push(row);
        }
        batch.rows.sort_by_key(|row| row.partition); // stable: keeps the order within a partition
        batch
    }

    /// The records by partition, those without any left out.
    pub(crate) fn by_partition(
        &self,
    ) -> impl Iterator<Item = (u32, impl ExactSizeIterator<Item = Encoded<'_>>)> {
        self.rows
            .chunk_by(|a, b| a.partition == b.partition)
            .map(|rows| (rows[0].partition, rows.iter().map(|row| self.encoded(row))))
    }

    /// How many records it has; refused ones don't count.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The records that are too large, by their index in what was given.
    pub(crate) fn into_refused(self) -> Vec<(usize, RecordTooLarge)> {
        self.refused
    }

    fn encoded(&self, row: &EncodedRow) -> Encoded<'_> {
        let part = |range: &Option<Range<usize>>| range.clone().map(|range| &self.arena[range]);
        Encoded {
            timestamp: row.timestamp,
            key: part(&row.key),
            payload: part(&row.payload),
            headers: part(&row.headers),
        }
    }

    fn copy(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.arena.len();
        self.arena.extend_from_slice(bytes);
        start..self.arena.len()
    }

    fn copy_headers(&mut self, record: &LocalRecord) -> Option<Range<usize>> {
        let start = self.arena.len();
        for header in &record.headers {
            headers::encode(&header.name, &header.value, &mut self.arena);
        }
        (!record.headers.is_empty()).then_some(start..self.arena.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_a_partition_keep_their_order() {
        let records: Vec<_> = (0..100_u8)
            .map(|n| LocalRecord::new([n]).with_key([n % 7]))
            .chain((100..110).map(|n| LocalRecord::new([n])))
            .collect();
        let batch = EncodedBatch::new(&records, &mut Partitioner::new(4, 0), 1000);

        let mut seen = 0;
        let mut last_partition = None;
        for (partition, rows) in batch.by_partition() {
            assert!(last_partition < Some(partition), "each partition once");
            last_partition = Some(partition);
            let mut last = None;
            for row in rows {
                let payload = row.payload.map(|payload| payload[0]);
                assert!(last < payload, "{last:?} before {payload:?}");
                last = payload;
                seen += 1;
            }
        }
        assert_eq!(seen, 110);
    }

    #[test]
    fn absent_empty_and_full_parts_are_told_apart() {
        let records = [
            LocalRecord::default(),
            LocalRecord::new("").with_key(""),
            LocalRecord::new("p").with_key("k").with_header("h", "v"),
        ];
        let batch = EncodedBatch::new(&records, &mut Partitioner::new(1, 0), 1000);
        let rows: Vec<_> = batch.by_partition().flat_map(|(_, rows)| rows).collect();
        assert_eq!((rows[0].key, rows[0].payload, rows[0].headers), (None, None, None));
        assert_eq!((rows[1].key, rows[1].payload), (Some(&b""[..]), Some(&b""[..])));
        assert_eq!(rows[2].headers, Some(&b"\x01h\x01v"[..]));
        assert_eq!(rows[2].bytes(), 6);
    }

    /// P43
    #[test]
    fn a_record_that_is_too_large_is_refused_alone() {
        let records =
            [LocalRecord::new("ok"), LocalRecord::new("too large"), LocalRecord::new("ok")];
        let batch = EncodedBatch::new(&records, &mut Partitioner::new(1, 0), 5);
        assert_eq!(batch.len(), 2);
        assert_eq!(batch.into_refused(), [(1, RecordTooLarge { bytes: 9, limit: 5 })]);
    }
}
