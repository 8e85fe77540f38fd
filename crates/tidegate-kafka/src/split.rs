//! Cuts a run in two, for a demand that is smaller than the one it was made for.

use tidegate_core::{NewRecord, Record, RecordBatch, RecordBatchBuilder};

use crate::client::Run;

/// As much of the run as the limits allow, at least one record; and the rest. Copies only if there
/// is a rest.
pub(crate) fn split(run: Run, max_records: usize, max_bytes: usize) -> (Run, Option<Run>) {
    if run.batch.len() <= max_records.max(1) && (run.bytes <= max_bytes || run.batch.len() == 1) {
        return (run, None);
    }
    let (mut records, mut bytes) = (0, 0);
    for record in run.batch.iter() {
        bytes += size(record);
        if records > 0 && (records >= max_records || bytes > max_bytes) {
            break;
        }
        records += 1;
    }
    if records == run.batch.len() {
        return (run, None);
    }
    let rest = copy(run.batch.iter().skip(records), &run);
    (copy(run.batch.iter().take(records), &run), Some(rest))
}

fn size(record: Record<'_>) -> usize {
    let headers: usize = record.headers().map(|(name, value)| name.len() + value.len()).sum();
    record.key().map_or(0, <[u8]>::len) + record.payload().len() + headers
}

fn copy<'a>(records: impl Iterator<Item = Record<'a>>, run: &Run) -> Run {
    let mut builder: RecordBatchBuilder = RecordBatch::builder(run.batch.partition().clone());
    let mut next = 0;
    for record in records {
        let headers: Vec<_> = record.headers().collect();
        let copy = NewRecord {
            key: record.key(),
            payload: (!record.is_tombstone()).then(|| record.payload()),
            timestamp: record.timestamp(),
            headers: &headers,
        };
        let pushed = builder.push(record.position(), copy);
        pushed.expect("a part of a batch fits into a batch, in its order");
        next = record.position().next().get();
    }
    let bytes = builder.bytes();
    Run { batch: builder.finish(), bytes, next }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_core::{Partition, Position};

    use super::*;

    fn run(sizes: &[usize]) -> Run {
        let mut builder = RecordBatch::builder(Partition::new("t", 0));
        for (number, size) in sizes.iter().enumerate() {
            let payload = vec![b'x'; *size];
            let record = NewRecord { payload: Some(&payload), ..NewRecord::default() };
            builder.push(Position::new(number as u64 * 3), record).unwrap();
        }
        let bytes = builder.bytes();
        Run { batch: builder.finish(), bytes, next: sizes.len() as u64 * 3 }
    }

    proptest! {
        /// P4
        #[test]
        fn both_parts_together_are_the_whole(
            sizes in proptest::collection::vec(0_usize..40, 1..20),
            max_records in 1_usize..25,
            max_bytes in 0_usize..200,
        ) {
            let mut left = Some(run(&sizes));
            let mut came = Vec::new();
            while let Some(run) = left.take() {
                let (first, rest) = split(run, max_records, max_bytes);
                prop_assert!((1..=max_records).contains(&first.batch.len()));
                prop_assert!(first.bytes <= max_bytes || first.batch.len() == 1);
                came.extend(first.batch.iter().map(|r| (r.position().get(), r.payload().len())));
                left = rest;
            }
            let whole: Vec<_> = (0..).step_by(3).zip(sizes).collect();
            prop_assert_eq!(came, whole);
        }
    }
}
