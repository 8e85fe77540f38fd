//! Looking at a log file and changing its topics, for the command line and for tests.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use tidegate_core::{Clock, Timestamp};

use crate::client::{Access, Client, Tx};
use crate::config::{Retention, check_name, check_partitions};
use crate::error::LocalError;
use crate::group::{self, Claim};
use crate::retention;
use crate::topic::{self, Bounds, Topic};

const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// How many records of a partition one transaction of [`Admin::apply_retention`] deletes.
const RETENTION_BUDGET: usize = 10_000;

/// Administers a log file.
///
/// ```
/// use tidegate_local::{Admin, Retention};
/// # let folder = tempfile::tempdir()?;
/// let mut admin = Admin::create(&folder.path().join("q.db"))?;
/// admin.create_topic("orders", 8, &Retention::default())?;
/// assert_eq!(admin.topics()?[0].partitions.len(), 8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Admin {
    client: Client,
    clock: Clock,
}

impl Admin {
    /// Opens a file that is there.
    pub fn open(path: &Path) -> Result<Self, LocalError> {
        Self::with_access(path, Access::Existing)
    }

    /// Opens a file, and creates it if it isn't there.
    pub fn create(path: &Path) -> Result<Self, LocalError> {
        Self::with_access(path, Access::Create)
    }

    fn with_access(path: &Path, access: Access) -> Result<Self, LocalError> {
        Ok(Self { client: Client::open(path, access, LOCK_TIMEOUT)?, clock: Clock::system() })
    }

    /// Uses another clock: for the topics' creation, retention, and which members live.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Creates a topic with 1 to 10,000 partitions; an error if it exists.
    pub fn create_topic(
        &mut self,
        name: &str,
        partitions: u32,
        retention: &Retention,
    ) -> Result<(), LocalError> {
        let mut problems = Vec::new();
        check_name("topic", name, &mut problems);
        check_partitions(partitions, &mut problems);
        retention.check(&mut problems);
        if !problems.is_empty() {
            return Err(LocalError::Config { what: "topic", problems });
        }
        let now = self.clock.now();
        self.client.write(|tx| {
            if let Some(topic) = topic::find(tx, name)? {
                let partitions = topic.partitions();
                return Err(LocalError::TopicExists { topic: topic.name, partitions });
            }
            topic::create(tx, name, partitions, retention, now).map(|_| ())
        })
    }

    /// Changes what a topic keeps. Takes effect with the next writes, or [`Admin::apply_retention`].
    pub fn set_retention(&mut self, topic: &str, retention: &Retention) -> Result<(), LocalError> {
        let mut problems = Vec::new();
        retention.check(&mut problems);
        if !problems.is_empty() {
            return Err(LocalError::Config { what: "topic", problems });
        }
        self.client.write(|tx| {
            let topic = topic::expect(tx, topic)?;
            topic::set_retention(tx, &topic, retention)
        })
    }

    /// Deletes everything now that the topic doesn't keep; returns how many records.
    pub fn apply_retention(&mut self, topic: &str) -> Result<u64, LocalError> {
        let now = self.clock.now();
        let topic = self.client.read(|tx| topic::expect(tx, topic))?;
        let mut deleted = 0;
        for number in 0..topic.partitions() {
            loop {
                let step = self
                    .client
                    .write(|tx| retention::step(tx, &topic, [number], now, RETENTION_BUDGET))?;
                deleted += step;
                if step < RETENTION_BUDGET as u64 {
                    break;
                }
            }
        }
        Ok(deleted)
    }

    /// All topics, by name.
    pub fn topics(&mut self) -> Result<Vec<TopicInfo>, LocalError> {
        self.client.read(|tx| {
            let sql = "SELECT name, created_at, max_age, max_records, max_bytes, keep_uncommitted
                       FROM topics ORDER BY name";
            let rows = tx.rows(sql, &[], |row| {
                let created_at = Timestamp::from_millis(row.integer(1)?);
                Ok((row.text(0)?.to_owned(), created_at, topic::read_retention(row, 2)?))
            })?;
            rows.into_iter()
                .map(|(name, created_at, retention)| {
                    let topic = topic::expect(tx, &name)?;
                    let bounds = topic::bounds(tx, &topic)?;
                    Ok(TopicInfo::new(name, created_at, retention, &bounds))
                })
                .collect()
        })
    }

    /// All groups, by topic and name.
    pub fn groups(&mut self) -> Result<Vec<GroupInfo>, LocalError> {
        let now = self.clock.now();
        self.client.read(|tx| {
            let sql = "SELECT groups.id, groups.name, topics.name
                       FROM groups JOIN topics ON topics.id = groups.topic
                       ORDER BY topics.name, groups.name";
            let rows = tx.rows(sql, &[], |row| {
                Ok((row.integer(0)?, row.text(1)?.to_owned(), row.text(2)?.to_owned()))
            })?;
            rows.into_iter()
                .map(|(id, name, topic)| {
                    let topic = topic::expect(tx, &topic)?;
                    group_info(tx, id, name, &topic, now)
                })
                .collect()
        })
    }
}

/// A topic.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TopicInfo {
    /// Its name.
    pub name: String,
    /// When it was created, in milliseconds since 1970.
    pub created_at: Timestamp,
    /// How many records it holds.
    pub records: u64,
    /// How many bytes of keys, payloads and headers it holds.
    pub bytes: u64,
    /// What it keeps.
    pub retention: Retention,
    /// Its partitions, by their number.
    pub partitions: Vec<PartitionInfo>,
}

/// A partition of a topic. It holds the positions from `first` to `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct PartitionInfo {
    /// Its number.
    pub partition: u32,
    /// The first position that is still there.
    pub first: u64,
    /// The position that the next record gets.
    pub end: u64,
    /// How many records it holds.
    pub records: u64,
    /// How many bytes of keys, payloads and headers it holds.
    pub bytes: u64,
}

/// A consumer group on one topic.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GroupInfo {
    /// Its name.
    pub group: String,
    /// The topic it reads.
    pub topic: String,
    /// How many records it has not committed.
    pub lag: u64,
    /// Its members, in the order in which they joined.
    pub members: Vec<MemberInfo>,
    /// The topic's partitions, by their number.
    pub partitions: Vec<GroupPartitionInfo>,
}

/// A member of a group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MemberInfo {
    /// Its name; by default process id and a number.
    pub name: String,
    /// When it was last heard of, in milliseconds since 1970.
    pub heartbeat_at: Timestamp,
    /// Whether that is within its session timeout. The others will take over from one that isn't.
    pub is_live: bool,
    /// The partitions that it owns.
    pub partitions: Vec<u32>,
}

/// A partition from a group's point of view.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GroupPartitionInfo {
    /// Its number.
    pub partition: u32,
    /// The member that owns it; `None` while nobody does.
    pub owner: Option<String>,
    /// How many times it was taken over.
    pub generation: u64,
    /// The first position that is not settled; `None` before the first commit.
    pub committed: Option<u64>,
    /// The position behind the last record.
    pub end: u64,
    /// How many records are not committed.
    pub lag: u64,
}

impl TopicInfo {
    fn new(name: String, created_at: Timestamp, retention: Retention, bounds: &[Bounds]) -> Self {
        let partitions: Vec<_> = (0..)
            .zip(bounds)
            .map(|(partition, bounds)| PartitionInfo {
                partition,
                first: bounds.first,
                end: bounds.end,
                records: bounds.end - bounds.first,
                bytes: bounds.bytes,
            })
            .collect();
        let records = partitions.iter().map(|partition| partition.records).sum();
        let bytes = partitions.iter().map(|partition| partition.bytes).sum();
        Self { name, created_at, records, bytes, retention, partitions }
    }
}

fn group_info(
    tx: &Tx<'_>,
    id: i64,
    name: String,
    topic: &Topic,
    now: Timestamp,
) -> Result<GroupInfo, LocalError> {
    let sql = "SELECT id, name, heartbeat_at, session_timeout FROM members
               WHERE grp = ?1 ORDER BY id";
    let rows = tx.rows(sql, &[id.into()], |row| {
        let (heartbeat, timeout) = (row.integer(2)?, row.integer(3)?);
        let member = MemberInfo {
            name: row.text(1)?.to_owned(),
            heartbeat_at: Timestamp::from_millis(heartbeat),
            is_live: now.as_millis() <= heartbeat.saturating_add(timeout),
            partitions: Vec::new(),
        };
        Ok((row.integer(0)?, member))
    })?;
    let mut members: BTreeMap<i64, MemberInfo> = rows.into_iter().collect();
    let mut partitions = Vec::new();
    let bounds = topic::bounds(tx, topic)?;
    for ((partition, claim), bounds) in (0..).zip(group::claims(tx, id)?).zip(bounds) {
        let Claim { owner, generation, committed, .. } = claim;
        let owner = owner.and_then(|owner| members.get_mut(&owner)).map(|member| {
            member.partitions.push(partition);
            member.name.clone()
        });
        let end = bounds.end;
        let lag = end.saturating_sub(committed.unwrap_or(0).max(bounds.first));
        partitions.push(GroupPartitionInfo { partition, owner, generation, committed, end, lag });
    }
    Ok(GroupInfo {
        group: name,
        topic: topic.name.clone(),
        lag: partitions.iter().map(|partition| partition.lag).sum(),
        members: members.into_values().collect(),
        partitions,
    })
}
