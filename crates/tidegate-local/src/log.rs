//! Appending to partitions and reading from them.
//!
//! - An append is part of one write transaction: all of its records are there, or none.
//! - Positions of a partition start at 0 and have no gap; only retention takes away, from the
//!   front.

use std::ops::ControlFlow;

use tidegate_core::{NewRecord, Partition, Position, RecordBatch, Timestamp};

use crate::client::{Tx, Value};
use crate::encoded::EncodedBatch;
use crate::error::LocalError;
use crate::headers;
use crate::schema::{POSITION_BITS, POSITIONS};
use crate::topic::{self, Bounds, Topic};

/// The id of the record at a position.
pub(crate) fn record_id(partition_id: i64, position: u64) -> i64 {
    debug_assert!(position <= POSITIONS, "positions are checked before they are stored");
    (partition_id << POSITION_BITS) + position as i64
}

/// The position of a record, from its id.
pub(crate) fn position_of(record_id: i64) -> u64 {
    record_id as u64 & (POSITIONS - 1)
}

/// Appends the batch; returns the numbers of the partitions that got something.
pub(crate) fn append(
    tx: &Tx<'_>,
    topic: &Topic,
    batch: &EncodedBatch,
    now: Timestamp,
) -> Result<Vec<u32>, LocalError> {
    let mut insert = tx.prepare(
        "INSERT INTO records (id, appended_at, timestamp, key, payload, headers)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let mut touched = Vec::new();
    for (number, records) in batch.by_partition() {
        let partition_id = topic.partition_ids[number as usize];
        let Bounds { mut end, mut bytes, .. } = topic::partition_bounds(tx, partition_id)?;
        if POSITIONS - end < records.len() as u64 {
            return Err(LocalError::FileFull {
                path: tx.path().to_owned(),
                what: format!("{POSITIONS} records in {}[{number}]", topic.name),
            });
        }
        for record in records {
            insert.execute(&[
                record_id(partition_id, end).into(),
                now.as_millis().into(),
                record.timestamp.into(),
                record.key.into(),
                record.payload.into(),
                record.headers.into(),
            ])?;
            end += 1;
            bytes += record.bytes();
        }
        tx.execute(
            "UPDATE partitions SET end = ?2, bytes = ?3 WHERE id = ?1",
            &[partition_id.into(), Value::unsigned(end), Value::unsigned(bytes)],
        )?;
        touched.push(number);
    }
    Ok(touched)
}

/// What one read shall bring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetch {
    /// The first position.
    pub(crate) from: u64,
    /// The position to stop before.
    pub(crate) until: u64,
    pub(crate) max_records: usize,
    /// One record may be larger.
    pub(crate) max_bytes: usize,
    /// What the partition holds, to guess how much room the records need.
    pub(crate) bounds: Bounds,
}

/// Reads records from `from` on, without a gap. Empty if the record at `from` is not there.
pub(crate) fn read(
    tx: &Tx<'_>,
    partition_id: i64,
    partition: &Partition,
    fetch: Fetch,
) -> Result<RecordBatch, LocalError> {
    let (records, bytes) = room(&fetch);
    let mut batch = RecordBatch::builder(partition.clone()).with_capacity(records, bytes);
    let mut expected = fetch.from;
    tx.visit(
        "SELECT id, coalesce(timestamp, appended_at), key, payload, headers FROM records
         WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3",
        &[
            record_id(partition_id, fetch.from).into(),
            record_id(partition_id, fetch.until).into(),
            Value::unsigned(records as u64),
        ],
        |row| {
            let position = position_of(row.integer(0)?);
            let (key, payload) = (row.maybe_bytes(2)?, row.maybe_bytes(3)?);
            let encoded_headers = row.maybe_bytes(4)?.unwrap_or_default();
            let size =
                key.map_or(0, <[u8]>::len) + payload.map_or(0, <[u8]>::len) + encoded_headers.len();
            let too_much = !batch.is_empty() && batch.bytes() + size > fetch.max_bytes;
            if position != expected || too_much {
                return Ok(ControlFlow::Break(()));
            }
            let mut headers = Vec::new();
            headers::decode(encoded_headers, &mut headers)
                .ok_or_else(|| tx.damaged(format!("the headers of {partition}@{position}")))?;
            let timestamp = Some(Timestamp::from_millis(row.integer(1)?));
            let record = NewRecord { key, payload, timestamp, headers: &headers };
            batch
                .push(Position::new(position), record)
                .map_err(|error| tx.damaged(format!("{partition}@{position}: {error}")))?;
            expected += 1;
            Ok(ControlFlow::Continue(()))
        },
    )?;
    Ok(batch.finish())
}

/// How many records to ask for, and how many bytes they will take: a tenth more than the
/// partition's average, because a batch that has to grow occupies up to twice its content.
fn room(fetch: &Fetch) -> (usize, usize) {
    let available = usize::try_from(fetch.until.saturating_sub(fetch.from)).unwrap_or(usize::MAX);
    let records = available.min(fetch.max_records);
    let Bounds { first, end, bytes } = fetch.bounds;
    let average = usize::try_from(bytes / (end - first).max(1)).unwrap_or(usize::MAX);
    // Not more rows either than fit: `max_bytes` is all the room there is.
    let fitting = fetch.max_bytes.checked_div(average).unwrap_or(records).max(1);
    let records = records.min(fitting.saturating_mul(4));
    let expected = average.saturating_mul(records);
    (records, expected.saturating_add(expected / 10).min(fetch.max_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_keep_partitions_apart_and_positions_in_order() {
        assert_eq!(position_of(record_id(1, 0)), 0);
        assert_eq!(position_of(record_id(7, POSITIONS - 1)), POSITIONS - 1);
        assert_eq!(record_id(3, POSITIONS), record_id(4, 0), "an exclusive end");
        assert!(record_id(crate::schema::PARTITION_IDS - 1, POSITIONS - 1) > 0);
    }

    #[test]
    fn a_read_reserves_about_what_the_partition_holds() {
        let bounds = Bounds { first: 100, end: 1100, bytes: 100_000 };
        let fetch = |from, max_records, max_bytes| {
            room(&Fetch { from, until: 1100, max_records, max_bytes, bounds })
        };
        assert_eq!(fetch(100, 10, 1 << 20), (10, 1100));
        assert_eq!(fetch(1099, 10, 1 << 20), (1, 110));
        assert_eq!(fetch(100, 1000, 1000), (40, 1000), "rows for what may be smaller records");
    }
}
