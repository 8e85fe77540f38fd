//! Topics and their partitions, as rows of the file.
//!
//! A topic's number of partitions never changes, so what [`find`] returns stays true as long as
//! the file is there; only [`bounds`] move.

use std::time::Duration;

use tidegate_core::Timestamp;

use crate::client::{Row, Tx, Value};
use crate::config::Retention;
use crate::error::LocalError;
use crate::schema::{PARTITION_IDS, POSITIONS};

/// A topic as it was created.
#[derive(Clone, Debug)]
pub(crate) struct Topic {
    pub(crate) id: i64,
    pub(crate) name: String,
    /// The ids of its partitions, by their number.
    pub(crate) partition_ids: Vec<i64>,
}

impl Topic {
    pub(crate) fn partitions(&self) -> u32 {
        self.partition_ids.len() as u32
    }
}

/// What a partition holds: the positions `first..end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    pub(crate) first: u64,
    pub(crate) end: u64,
    pub(crate) bytes: u64,
}

pub(crate) fn find(tx: &Tx<'_>, name: &str) -> Result<Option<Topic>, LocalError> {
    let sql = "SELECT id FROM topics WHERE name = ?1";
    let Some(id) = tx.row(sql, &[name.into()], |row| row.integer(0))? else {
        return Ok(None);
    };
    let sql = "SELECT id FROM partitions WHERE topic = ?1 ORDER BY number";
    let partition_ids = tx.rows(sql, &[id.into()], |row| row.integer(0))?;
    if partition_ids.is_empty() {
        return Err(tx.damaged(format!("topic {name} has no partition")));
    }
    Ok(Some(Topic { id, name: name.to_owned(), partition_ids }))
}

/// The topic, or an error that names those that are there.
pub(crate) fn expect(tx: &Tx<'_>, name: &str) -> Result<Topic, LocalError> {
    match find(tx, name)? {
        Some(topic) => Ok(topic),
        None => Err(LocalError::NoSuchTopic {
            path: tx.path().to_owned(),
            topic: name.to_owned(),
            existing: tx.rows("SELECT name FROM topics ORDER BY name", &[], |row| {
                Ok(row.text(0)?.to_owned())
            })?,
        }),
    }
}

/// Creates a topic that is not there yet.
pub(crate) fn create(
    tx: &Tx<'_>,
    name: &str,
    partitions: u32,
    retention: &Retention,
    now: Timestamp,
) -> Result<Topic, LocalError> {
    let [age, records, bytes, keep] = columns(retention);
    tx.execute(
        "INSERT INTO topics
             (name, partitions, created_at, max_age, max_records, max_bytes, keep_uncommitted)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        &[name.into(), partitions.into(), now.as_millis().into(), age, records, bytes, keep],
    )?;
    let id = tx.last_id();
    let mut insert = tx.prepare(
        "INSERT INTO partitions (topic, number, first, end, bytes) VALUES (?1, ?2, 0, 0, 0)",
    )?;
    let mut partition_ids = Vec::with_capacity(partitions as usize);
    for number in 0..partitions {
        insert.execute(&[id.into(), number.into()])?;
        partition_ids.push(tx.last_id());
    }
    if partition_ids.last().is_some_and(|last| *last >= PARTITION_IDS) {
        return Err(LocalError::FileFull {
            path: tx.path().to_owned(),
            what: format!("{PARTITION_IDS} partitions"),
        });
    }
    Ok(Topic { id, name: name.to_owned(), partition_ids })
}

pub(crate) fn retention(tx: &Tx<'_>, topic: &Topic) -> Result<Retention, LocalError> {
    let sql = "SELECT max_age, max_records, max_bytes, keep_uncommitted FROM topics WHERE id = ?1";
    tx.row(sql, &[topic.id.into()], |row| read_retention(row, 0))?
        .ok_or_else(|| tx.damaged(format!("topic {} is gone", topic.name)))
}

pub(crate) fn set_retention(
    tx: &Tx<'_>,
    topic: &Topic,
    retention: &Retention,
) -> Result<(), LocalError> {
    let [age, records, bytes, keep] = columns(retention);
    tx.execute(
        "UPDATE topics SET max_age = ?2, max_records = ?3, max_bytes = ?4, keep_uncommitted = ?5
         WHERE id = ?1",
        &[topic.id.into(), age, records, bytes, keep],
    )?;
    Ok(())
}

/// The four columns from `first` on, as they are stored.
pub(crate) fn read_retention(row: &Row<'_>, first: usize) -> Result<Retention, LocalError> {
    Ok(Retention {
        max_age: row.maybe_unsigned(first)?.map(Duration::from_millis),
        max_records: row.maybe_unsigned(first + 1)?,
        max_bytes: row.maybe_unsigned(first + 2)?,
        keep_uncommitted: row.integer(first + 3)? != 0,
    })
}

/// What each partition holds now, by its number.
pub(crate) fn bounds(tx: &Tx<'_>, topic: &Topic) -> Result<Vec<Bounds>, LocalError> {
    let sql = "SELECT first, end, bytes FROM partitions WHERE topic = ?1 ORDER BY number";
    let bounds = tx.rows(sql, &[topic.id.into()], |row| read_bounds(tx, row))?;
    if bounds.len() != topic.partition_ids.len() {
        return Err(tx.damaged(format!("the number of partitions of topic {} changed", topic.name)));
    }
    Ok(bounds)
}

pub(crate) fn partition_bounds(tx: &Tx<'_>, partition_id: i64) -> Result<Bounds, LocalError> {
    let sql = "SELECT first, end, bytes FROM partitions WHERE id = ?1";
    tx.row(sql, &[partition_id.into()], |row| read_bounds(tx, row))?
        .ok_or_else(|| tx.damaged("a partition is gone"))
}

fn read_bounds(tx: &Tx<'_>, row: &Row<'_>) -> Result<Bounds, LocalError> {
    let bounds = Bounds { first: row.unsigned(0)?, end: row.unsigned(1)?, bytes: row.unsigned(2)? };
    if bounds.first > bounds.end || bounds.end > POSITIONS {
        return Err(tx.damaged(format!("a partition can't hold {bounds:?}")));
    }
    Ok(bounds)
}

fn columns(retention: &Retention) -> [Value<'static>; 4] {
    let millis = |age: Duration| u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    let number = |limit: Option<u64>| limit.map_or(Value::Null, Value::unsigned);
    [
        number(retention.max_age.map(millis)),
        number(retention.max_records),
        number(retention.max_bytes),
        Value::Integer(retention.keep_uncommitted.into()),
    ]
}
