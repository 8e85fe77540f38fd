//! Deleting what a topic doesn't keep.
//!
//! - Only a prefix of a partition goes; `first` rises, `end` never changes.
//! - A step looks at a bounded number of records, so it can ride along with any write.
//! - The newest record stays, whatever the limits say: a record larger than `max_bytes` would
//!   otherwise be gone before anyone could read it.
//! - Consumers are asked only if the topic says so (`keep_uncommitted`).

use std::ops::ControlFlow;

use tidegate_core::Timestamp;

use crate::client::{Tx, Value};
use crate::config::Retention;
use crate::error::LocalError;
use crate::log::{position_of, record_id};
use crate::topic::{self, Bounds, Topic};

/// Deletes at most `budget` records from each of these partitions; returns how many it deleted.
pub(crate) fn step(
    tx: &Tx<'_>,
    topic: &Topic,
    numbers: impl IntoIterator<Item = u32>,
    now: Timestamp,
    budget: usize,
) -> Result<u64, LocalError> {
    let retention = topic::retention(tx, topic)?;
    if retention.keeps_everything() {
        return Ok(0);
    }
    let mut deleted = 0;
    for number in numbers {
        let partition_id = topic.partition_ids[number as usize];
        let bounds = topic::partition_bounds(tx, partition_id)?;
        let floor = if retention.keep_uncommitted {
            lowest_committed(tx, topic, number, bounds)?
        } else {
            bounds.end
        };
        let rule = Rule { retention: &retention, end: bounds.end, floor, now };
        deleted += trim(tx, partition_id, bounds, &rule, budget)?;
    }
    Ok(deleted)
}

fn trim(
    tx: &Tx<'_>,
    partition_id: i64,
    bounds: Bounds,
    rule: &Rule<'_>,
    budget: usize,
) -> Result<u64, LocalError> {
    let Bounds { mut first, end, mut bytes } = bounds;
    tx.visit(
        "SELECT id, appended_at,
             coalesce(length(key), 0) + coalesce(length(payload), 0) + coalesce(length(headers), 0)
         FROM records WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3",
        &[
            record_id(partition_id, first).into(),
            record_id(partition_id, end).into(),
            Value::unsigned(budget as u64),
        ],
        |row| {
            let position = position_of(row.integer(0)?);
            let appended_at = Timestamp::from_millis(row.integer(1)?);
            if !rule.lets_go(position, appended_at, bytes) {
                return Ok(ControlFlow::Break(()));
            }
            first = position + 1;
            bytes = bytes.saturating_sub(row.unsigned(2)?);
            Ok(ControlFlow::Continue(()))
        },
    )?;
    if first == bounds.first {
        return Ok(0);
    }
    tx.execute(
        "DELETE FROM records WHERE id >= ?1 AND id < ?2",
        &[record_id(partition_id, bounds.first).into(), record_id(partition_id, first).into()],
    )?;
    tx.execute(
        "UPDATE partitions SET first = ?2, bytes = ?3 WHERE id = ?1",
        &[partition_id.into(), Value::unsigned(first), Value::unsigned(bytes)],
    )?;
    Ok(first - bounds.first)
}

/// Where the slowest group stands that ever joined; a group without a commit holds everything.
fn lowest_committed(
    tx: &Tx<'_>,
    topic: &Topic,
    number: u32,
    bounds: Bounds,
) -> Result<u64, LocalError> {
    let sql = "SELECT min(coalesce(committed, 0)) FROM claims
               WHERE number = ?2 AND grp IN (SELECT id FROM groups WHERE topic = ?1)";
    let lowest = tx.row(sql, &[topic.id.into(), number.into()], |row| row.maybe_unsigned(0))?;
    Ok(lowest.flatten().unwrap_or(bounds.end))
}

struct Rule<'a> {
    retention: &'a Retention,
    end: u64,
    floor: u64,
    now: Timestamp,
}

impl Rule<'_> {
    /// Whether the oldest record may go, when the partition holds `bytes` with it.
    fn lets_go(&self, position: u64, appended_at: Timestamp, bytes: u64) -> bool {
        if position >= self.floor || position + 1 >= self.end {
            return false;
        }
        let Retention { max_age, max_records, max_bytes, .. } = self.retention;
        let age = self.now.as_millis().saturating_sub(appended_at.as_millis());
        max_age.is_some_and(|max| age >= 0 && age as u128 > max.as_millis())
            || max_records.is_some_and(|max| self.end - position > max)
            || max_bytes.is_some_and(|max| bytes > max)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn lets_go(retention: &Retention, position: u64, bytes: u64) -> bool {
        let now = Timestamp::from_millis(1_000);
        let rule = Rule { retention, end: 10, floor: 10, now };
        // Record `n` was appended at n * 100 ms.
        rule.lets_go(position, Timestamp::from_millis(position as i64 * 100), bytes)
    }

    #[test]
    fn each_limit_is_enough_by_itself() {
        let everything = Retention::default();
        assert!(!lets_go(&everything, 0, u64::MAX) && everything.keeps_everything());

        let age = Retention { max_age: Some(Duration::from_millis(700)), ..Retention::default() };
        assert!(lets_go(&age, 2, 0) && !lets_go(&age, 3, 0));

        let records = Retention { max_records: Some(4), ..Retention::default() };
        assert!(lets_go(&records, 5, 0) && !lets_go(&records, 6, 0));

        let bytes = Retention { max_bytes: Some(500), ..Retention::default() };
        assert!(lets_go(&bytes, 0, 501) && !lets_go(&bytes, 0, 500));
    }

    #[test]
    fn the_newest_record_and_what_is_held_stay() {
        let nothing = Retention { max_bytes: Some(0), ..Retention::default() };
        assert!(lets_go(&nothing, 8, 1) && !lets_go(&nothing, 9, 1));
        let now = Timestamp::from_millis(0);
        let rule = Rule { retention: &nothing, end: 10, floor: 3, now };
        assert!(rule.lets_go(2, now, 1) && !rule.lets_go(3, now, 1));
    }
}
