//! A membership in a group, from joining to leaving or being expired.
//!
//! Each method is one transaction and changes nothing here unless that transaction succeeded.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::{Partition, Timestamp};
use tokio::time::Instant;

use crate::assignment::MemberId;
use crate::client::{Client, Tx};
use crate::config::{LocalSourceConfig, OnMissingTopic};
use crate::error::LocalError;
use crate::group::{self, Attendance, Claim};
use crate::holdings::{Holding, Holdings, Phase};
use crate::range::{self, Place};
use crate::retention;
use crate::topic::{self, Bounds, Topic};

/// How many records retention may delete from each owned partition with one report.
const RETENTION_BUDGET: usize = 1000;

/// A group's version is at least 1 once somebody joined.
const OLDER_THAN_ANY: i64 = 0;

/// One membership.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) topic: Topic,
    pub(crate) group: i64,
    pub(crate) member: MemberId,
    pub(crate) name: String,
    /// The group's version at the last report.
    pub(crate) version: i64,
    reported_at: (Instant, Timestamp),
    next_expiry: Option<Timestamp>,
}

/// What a report to the group has brought.
pub(crate) enum Report {
    Present(Present),
    Evicted,
    Replaced,
}

pub(crate) struct Present {
    pub(crate) bounds: Vec<Bounds>,
    /// As they were before the acquisitions.
    pub(crate) claims: Vec<Claim>,
    pub(crate) acquired: Vec<Acquired>,
}

/// A partition that is owned from now on.
pub(crate) struct Acquired {
    pub(crate) number: u32,
    pub(crate) holding: Holding,
    pub(crate) moved_from: Option<u64>,
}

/// What decides whether a partition is taken.
pub(crate) struct Wishes<'a> {
    pub(crate) config: &'a LocalSourceConfig,
    pub(crate) holdings: &'a Holdings,
    /// Partitions to leave alone, and until when.
    pub(crate) resting: &'a BTreeMap<u32, Instant>,
    /// Where to stop, for a source that does.
    pub(crate) ends: Option<&'a [u64]>,
}

/// What was read without reporting.
pub(crate) struct Observed {
    pub(crate) version: i64,
    pub(crate) bounds: Vec<Bounds>,
    /// Empty if they were not asked for.
    pub(crate) claims: Vec<Claim>,
}

impl Session {
    /// Joins; returns what the topic holds at that moment. `None` if the topic isn't there and
    /// shall be waited for.
    pub(crate) fn join(
        client: &mut Client,
        config: &LocalSourceConfig,
        now: (Instant, Timestamp),
    ) -> Result<Option<(Self, Vec<Bounds>)>, LocalError> {
        let wait = config.on_missing_topic == OnMissingTopic::Wait;
        if wait && client.read(|tx| topic::find(tx, &config.topic))?.is_none() {
            return Ok(None);
        }
        client.write(|tx| {
            let topic = topic::expect(tx, &config.topic)?;
            let group = group::find_or_create(tx, &topic, &config.group, config.start)?;
            let name = config.member.as_deref();
            let (member, name) = group::join(tx, group, name, config.session_timeout, now.1)?;
            let bounds = topic::bounds(tx, &topic)?;
            let session = Self {
                topic,
                group,
                member,
                name,
                version: OLDER_THAN_ANY,
                reported_at: now,
                next_expiry: None,
            };
            Ok(Some((session, bounds)))
        })
    }

    /// Whether the group must hear from this member, or has to be told that another one is gone.
    /// Both clocks count: the monotonic one may stand still while the machine sleeps, the wall
    /// clock may be set back.
    pub(crate) fn is_report_due(&self, now: (Instant, Timestamp), interval: Duration) -> bool {
        let (instant, wall) = self.reported_at;
        let interval_millis = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX);
        now.0.duration_since(instant) >= interval
            || now.1 < wall
            || now.1.as_millis().saturating_sub(wall.as_millis()) >= interval_millis
            || self.next_expiry.is_some_and(|expiry| now.1 > expiry)
    }

    /// A commit has carried a heartbeat.
    pub(crate) fn reported(&mut self, now: (Instant, Timestamp)) {
        self.reported_at = now;
    }

    /// What this member wants has changed, so the next look reports even if nobody else has
    /// changed anything.
    pub(crate) fn expect_change(&mut self) {
        self.version = OLDER_THAN_ANY;
    }

    /// Reports to the group: heartbeat, expiry of others, acquisition of what is free.
    pub(crate) fn report(
        &mut self,
        client: &mut Client,
        wishes: &Wishes<'_>,
        now: (Instant, Timestamp),
    ) -> Result<Report, LocalError> {
        let report = client.write(|tx| {
            let attendance = group::attend(tx, self.group, self.member, &self.name, now.1)?;
            let next_expiry = match attendance {
                Attendance::Present { next_expiry } => next_expiry,
                Attendance::Evicted => return Ok(Err(Report::Evicted)),
                Attendance::Replaced => return Ok(Err(Report::Replaced)),
            };
            let owned = wishes.holdings.numbers();
            retention::step(tx, &self.topic, owned, now.1, RETENTION_BUDGET)?;
            let bounds = topic::bounds(tx, &self.topic)?;
            let claims = group::claims(tx, self.group)?;
            let acquired = self.acquire(tx, wishes, now.0, &claims, &bounds)?;
            let version = group::version(tx, self.group)?;
            Ok(Ok((Present { bounds, claims, acquired }, version, next_expiry)))
        })?;
        let (present, version, next_expiry) = match report {
            Ok(report) => report,
            Err(absent) => return Ok(absent),
        };
        self.version = version;
        self.next_expiry = next_expiry;
        self.reported_at = now;
        Ok(Report::Present(present))
    }

    /// Reads what may have changed, without a write.
    pub(crate) fn observe(
        &self,
        client: &mut Client,
        with_claims: bool,
    ) -> Result<Observed, LocalError> {
        client.read(|tx| {
            Ok(Observed {
                version: group::version(tx, self.group)?,
                bounds: topic::bounds(tx, &self.topic)?,
                claims: if with_claims { group::claims(tx, self.group)? } else { Vec::new() },
            })
        })
    }

    fn acquire(
        &self,
        tx: &Tx<'_>,
        wishes: &Wishes<'_>,
        now: Instant,
        claims: &[Claim],
        bounds: &[Bounds],
    ) -> Result<Vec<Acquired>, LocalError> {
        let mut acquired = Vec::new();
        for ((number, claim), bounds) in (0_u32..).zip(claims).zip(bounds) {
            if wishes.holdings.contains(number) {
                continue;
            }
            // Owned by this member without its knowing: the answer to an acquisition was lost.
            let stray = claim.owner == Some(self.member);
            let free = stray || claim.owner.is_none();
            let rests = wishes.resting.get(&number).is_some_and(|until| *until > now);
            let meant = claim.target == Some(self.member) && !rests;
            let place =
                if free && meant { self.place(wishes, number, claim, *bounds)? } else { None };
            if let Some(Place { position, moved_from }) = place {
                let generation = group::acquire(tx, self.group, number, claim, self.member)?;
                if moved_from.is_some() {
                    group::reset(tx, self.group, number, position)?;
                }
                let partition = Partition::new(self.topic.name.as_str(), number);
                let phase = Phase::Active;
                let holding = Holding { partition, generation, next: position, phase };
                acquired.push(Acquired { number, holding, moved_from });
            } else if stray {
                group::release(tx, self.group, number, self.member, claim.generation)?;
            }
        }
        Ok(acquired)
    }

    /// Where to go on; `None` if there is nothing left to read.
    fn place(
        &self,
        wishes: &Wishes<'_>,
        number: u32,
        claim: &Claim,
        bounds: Bounds,
    ) -> Result<Option<Place>, LocalError> {
        let place = range::place(claim.committed, bounds, wishes.config.on_out_of_range)
            .map_err(|error| out_of_range(wishes.config, number, error.position, bounds))?;
        let end = wishes.ends.map(|ends| ends[number as usize]);
        Ok(end.is_none_or(|end| place.position < end).then_some(place))
    }
}

/// The error for a position that the log doesn't have.
pub(crate) fn out_of_range(
    config: &LocalSourceConfig,
    partition: u32,
    position: u64,
    bounds: Bounds,
) -> LocalError {
    LocalError::OutOfRange {
        topic: config.topic.clone(),
        partition,
        group: config.group.clone(),
        position,
        start: bounds.first,
        end: bounds.end,
    }
}
