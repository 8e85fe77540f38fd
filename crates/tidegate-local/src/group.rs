//! Consumer groups, as rows of the file. Every function is part of its caller's transaction.
//!
//! - A partition has at most one owner. Ownership passes only through "nobody": the owner releases
//!   it, leaves, or is expired, and only then the target acquires it, with a higher generation.
//! - A commit counts only for the owner, in its generation.
//! - Who joins, leaves or is expired changes the targets of as few partitions as possible; nobody
//!   is taken anything but by expiry.
//! - A member's heartbeat is what keeps it; it is compared by the machine's wall clock. If that
//!   clock jumps forward, members may be expired although they live: they find out, and rejoin.

use std::time::Duration;

use tidegate_core::Timestamp;

use crate::assignment::{self, MemberId, Seat};
use crate::client::{Tx, Value};
use crate::config::Start;
use crate::error::LocalError;
use crate::topic::{self, Topic};

/// One partition from the group's point of view; in a list, the index is its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    pub(crate) owner: Option<MemberId>,
    pub(crate) target: Option<MemberId>,
    pub(crate) generation: u64,
    pub(crate) committed: Option<u64>,
}

/// What a member finds when it reports.
#[derive(Debug)]
pub(crate) enum Attendance {
    /// It belongs to the group.
    Present {
        /// When the next other member expires unless it reports; `None` without others.
        next_expiry: Option<Timestamp>,
    },
    /// It was expired, and what it owned may have other owners by now.
    Evicted,
    /// Another process joined under its name.
    Replaced,
}

/// The group's id; a group that is new begins where `start` says, in all partitions at once.
pub(crate) fn find_or_create(
    tx: &Tx<'_>,
    topic: &Topic,
    name: &str,
    start: Start,
) -> Result<i64, LocalError> {
    let sql = "SELECT id FROM groups WHERE name = ?1 AND topic = ?2";
    if let Some(id) = tx.row(sql, &[name.into(), topic.id.into()], |row| row.integer(0))? {
        return Ok(id);
    }
    tx.execute(
        "INSERT INTO groups (name, topic, version, joins) VALUES (?1, ?2, 0, 0)",
        &[name.into(), topic.id.into()],
    )?;
    let group = tx.last_id();
    let mut insert = tx.prepare(
        "INSERT INTO claims (grp, number, generation, committed) VALUES (?1, ?2, 0, ?3)",
    )?;
    for (number, bounds) in (0_u32..).zip(topic::bounds(tx, topic)?) {
        let committed = match start {
            Start::Earliest => Value::Null,
            Start::Latest => Value::unsigned(bounds.end),
        };
        insert.execute(&[group.into(), number.into(), committed])?;
    }
    Ok(group)
}

/// Adds a member and decides anew who shall own what. A member of the same name is replaced.
/// Without a name it gets one that nobody else has.
pub(crate) fn join(
    tx: &Tx<'_>,
    group: i64,
    name: Option<&str>,
    session_timeout: Duration,
    now: Timestamp,
) -> Result<(MemberId, String), LocalError> {
    tx.execute("UPDATE groups SET joins = joins + 1 WHERE id = ?1", &[group.into()])?;
    let name = match name {
        Some(name) => name.to_owned(),
        None => {
            let sql = "SELECT joins FROM groups WHERE id = ?1";
            let joins = tx.row(sql, &[group.into()], |row| row.integer(0))?.unwrap_or_default();
            format!("{}-{joins}", std::process::id())
        }
    };
    tx.execute(
        "DELETE FROM members WHERE grp = ?1 AND name = ?2",
        &[group.into(), name.as_str().into()],
    )?;
    tx.execute(
        "INSERT INTO members (grp, name, session_timeout, heartbeat_at) VALUES (?1, ?2, ?3, ?4)",
        &[
            group.into(),
            name.as_str().into(),
            Value::unsigned(u64::try_from(session_timeout.as_millis()).unwrap_or(u64::MAX)),
            now.as_millis().into(),
        ],
    )?;
    let member = tx.last_id();
    rebalance(tx, group)?;
    Ok((member, name))
}

/// Reports that the member lives, and expires those that don't.
pub(crate) fn attend(
    tx: &Tx<'_>,
    group: i64,
    member: MemberId,
    name: &str,
    now: Timestamp,
) -> Result<Attendance, LocalError> {
    let at = now.as_millis();
    if !heartbeat(tx, member, now)? {
        let sql = "SELECT 1 FROM members WHERE grp = ?1 AND name = ?2";
        let replaced = tx.row(sql, &[group.into(), name.into()], |_| Ok(()))?.is_some();
        return Ok(if replaced { Attendance::Replaced } else { Attendance::Evicted });
    }
    // A clock that was set back would otherwise keep a dead member until it caught up.
    tx.execute(
        "UPDATE members SET heartbeat_at = ?2 WHERE grp = ?1 AND heartbeat_at > ?2",
        &[group.into(), at.into()],
    )?;
    let expired = tx.execute(
        "DELETE FROM members WHERE grp = ?1 AND id <> ?2 AND heartbeat_at + session_timeout < ?3",
        &[group.into(), member.into(), at.into()],
    )?;
    if expired > 0 {
        rebalance(tx, group)?;
    }
    let sql = "SELECT min(heartbeat_at + session_timeout) FROM members WHERE grp = ?1 AND id <> ?2";
    let next_expiry =
        tx.row(sql, &[group.into(), member.into()], |row| row.maybe_integer(0))?.flatten();
    Ok(Attendance::Present { next_expiry: next_expiry.map(Timestamp::from_millis) })
}

/// Notes that the member lives; false if it is not a member any more.
pub(crate) fn heartbeat(tx: &Tx<'_>, member: MemberId, now: Timestamp) -> Result<bool, LocalError> {
    let sql = "UPDATE members SET heartbeat_at = ?2 WHERE id = ?1";
    Ok(tx.execute(sql, &[member.into(), now.as_millis().into()])? == 1)
}

/// All partitions, by their number.
pub(crate) fn claims(tx: &Tx<'_>, group: i64) -> Result<Vec<Claim>, LocalError> {
    let sql =
        "SELECT owner, target, generation, committed FROM claims WHERE grp = ?1 ORDER BY number";
    tx.rows(sql, &[group.into()], |row| {
        Ok(Claim {
            owner: row.maybe_integer(0)?,
            target: row.maybe_integer(1)?,
            generation: row.unsigned(2)?,
            committed: row.maybe_unsigned(3)?,
        })
    })
}

/// Rises with every change of members, owners or targets.
pub(crate) fn version(tx: &Tx<'_>, group: i64) -> Result<i64, LocalError> {
    let sql = "SELECT version FROM groups WHERE id = ?1";
    tx.row(sql, &[group.into()], |row| row.integer(0))?
        .ok_or_else(|| tx.damaged("a consumer group is gone"))
}

/// Takes a partition that nobody else owns; returns the new generation.
pub(crate) fn acquire(
    tx: &Tx<'_>,
    group: i64,
    number: u32,
    claim: &Claim,
    member: MemberId,
) -> Result<u64, LocalError> {
    let generation = claim.generation + 1;
    tx.execute(
        "UPDATE claims SET owner = ?3, generation = ?4 WHERE grp = ?1 AND number = ?2",
        &[group.into(), number.into(), member.into(), Value::unsigned(generation)],
    )?;
    touch(tx, group)?;
    Ok(generation)
}

/// Moves the committed position, also backwards: only for a position that is not in the log.
pub(crate) fn reset(tx: &Tx<'_>, group: i64, number: u32, position: u64) -> Result<(), LocalError> {
    tx.execute(
        "UPDATE claims SET committed = ?3 WHERE grp = ?1 AND number = ?2",
        &[group.into(), number.into(), Value::unsigned(position)],
    )?;
    Ok(())
}

/// Notes that everything before `position` is settled; never lowers what is noted. False if the
/// member doesn't own the partition in this generation: then nothing is noted.
pub(crate) fn commit(
    tx: &Tx<'_>,
    group: i64,
    number: u32,
    member: MemberId,
    generation: u64,
    position: u64,
) -> Result<bool, LocalError> {
    let changed = tx.execute(
        "UPDATE claims SET committed = max(coalesce(committed, 0), ?5)
         WHERE grp = ?1 AND number = ?2 AND owner = ?3 AND generation = ?4",
        &[
            group.into(),
            number.into(),
            member.into(),
            Value::unsigned(generation),
            Value::unsigned(position),
        ],
    )?;
    Ok(changed == 1)
}

/// Lets a partition go, if the member owns it in this generation.
pub(crate) fn release(
    tx: &Tx<'_>,
    group: i64,
    number: u32,
    member: MemberId,
    generation: u64,
) -> Result<(), LocalError> {
    let changed = tx.execute(
        "UPDATE claims SET owner = NULL
         WHERE grp = ?1 AND number = ?2 AND owner = ?3 AND generation = ?4",
        &[group.into(), number.into(), member.into(), Value::unsigned(generation)],
    )?;
    if changed > 0 { touch(tx, group) } else { Ok(()) }
}

/// Gives a partition that its target doesn't want to another member, if there is one: to the one
/// that has fewest.
pub(crate) fn hand_over(
    tx: &Tx<'_>,
    group: i64,
    number: u32,
    from: MemberId,
) -> Result<(), LocalError> {
    let sql = "SELECT id FROM members WHERE grp = ?1 AND id <> ?2 ORDER BY
               (SELECT count(*) FROM claims WHERE grp = ?1 AND target = members.id), id";
    let other = tx.row(sql, &[group.into(), from.into()], |row| row.integer(0))?;
    let Some(other) = other else { return Ok(()) };
    tx.execute(
        "UPDATE claims SET target = ?4 WHERE grp = ?1 AND number = ?2 AND target = ?3",
        &[group.into(), number.into(), from.into(), other.into()],
    )?;
    touch(tx, group)
}

/// Removes the member; others may take at once what it owned.
pub(crate) fn leave(tx: &Tx<'_>, group: i64, member: MemberId) -> Result<(), LocalError> {
    tx.execute("DELETE FROM members WHERE id = ?1", &[member.into()])?;
    rebalance(tx, group)
}

/// Frees what nobody living owns, and decides who shall own what.
fn rebalance(tx: &Tx<'_>, group: i64) -> Result<(), LocalError> {
    let sql = "SELECT id FROM members WHERE grp = ?1";
    let members = tx.rows(sql, &[group.into()], |row| row.integer(0))?;
    tx.execute(
        "UPDATE claims SET owner = NULL WHERE grp = ?1 AND owner IS NOT NULL
             AND owner NOT IN (SELECT id FROM members WHERE grp = ?1)",
        &[group.into()],
    )?;
    let claims = claims(tx, group)?;
    let seats: Vec<Seat> =
        claims.iter().map(|c| Seat { owner: c.owner, target: c.target }).collect();
    let decided = assignment::assign(&members, &seats);
    let mut update = tx.prepare("UPDATE claims SET target = ?3 WHERE grp = ?1 AND number = ?2")?;
    for ((number, claim), target) in (0_u32..).zip(&claims).zip(decided) {
        if claim.target != target {
            update.execute(&[group.into(), number.into(), target.into()])?;
        }
    }
    touch(tx, group)
}

fn touch(tx: &Tx<'_>, group: i64) -> Result<(), LocalError> {
    tx.execute("UPDATE groups SET version = version + 1 WHERE id = ?1", &[group.into()])?;
    Ok(())
}
