//! The source: a member of a consumer group on one topic.
//!
//! - Everything between two await points is one synchronous step, and the only await point is the
//!   pause when there is nothing to do; so `next` can be dropped at any time.
//! - What the file says is changed first, what this source believes afterwards; a call that fails
//!   in between leaves a claim that the next report finds and tidies up.
//! - An event is queued before anything else can happen, and the queue is emptied before the next
//!   look at the file: it never holds more than the changes of one look.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tidegate_core::{
    Assignment, Clock, Commit, CommitReport, Demand, Generation, Partition, PartitionFrontier,
    Position, RecordBatch, Revocation, Source, SourceCapabilities, SourceError, SourceEvent,
    Timestamp,
};
use tokio::time::Instant;

use crate::bounded::Bounded;
use crate::client::{Access, Client};
use crate::config::{LocalSourceConfig, OnMissingTopic};
use crate::error::LocalError;
use crate::group;
use crate::holdings::{Holdings, Phase};
use crate::log::{self, Fetch};
use crate::pace::Pace;
use crate::range;
use crate::session::{self, Present, Report, Session, Wishes};
use crate::topic::{self, Bounds};

/// For how long a partition is left alone that the runtime let go although nobody asked for it.
const REST: Duration = Duration::from_secs(1);

/// Reads a topic as a member of a consumer group.
///
/// It joins with the first call of `next`, and leaves with `close`. A source that is only dropped
/// keeps its partitions until its session times out, like a process that was killed.
///
/// A partition that is released although it was neither revoked nor finished (at shutdown) goes
/// to another member. This one takes it again after a second at the earliest, if there is no
/// other, so that `next` can be called until everything is drained.
#[derive(Debug)]
pub struct LocalSource {
    config: LocalSourceConfig,
    clock: Clock,
    client: Client,
    session: Option<Session>,
    bounded: Option<Bounded>,
    /// What the partitions hold, as of the last look.
    bounds: Vec<Bounds>,
    /// The file's version at the last look.
    seen: Option<i64>,
    /// This source has changed something that the next look has to find.
    is_stale: bool,
    holdings: Holdings,
    resting: BTreeMap<u32, Instant>,
    queue: VecDeque<SourceEvent>,
    pace: Pace,
}

impl LocalSource {
    /// Opens the file and checks that the topic is there, on the machine's clock.
    pub fn open(config: LocalSourceConfig) -> Result<Self, LocalError> {
        Self::open_with_clock(config, Clock::system())
    }

    /// The same on another clock. It is asked for heartbeats and expiry, and must be the same for
    /// all members of the group.
    pub fn open_with_clock(config: LocalSourceConfig, clock: Clock) -> Result<Self, LocalError> {
        let problems = config.problems();
        if !problems.is_empty() {
            return Err(LocalError::Config { what: "local source", problems });
        }
        let wait = config.on_missing_topic == OnMissingTopic::Wait;
        let access = if wait { Access::Create } else { Access::Existing };
        let mut client = Client::open(&config.path, access, config.effective_lock_timeout())?;
        if !wait {
            client.read(|tx| topic::expect(tx, &config.topic))?;
        }
        Ok(Self {
            pace: Pace::new(config.poll_interval),
            config,
            clock,
            client,
            session: None,
            bounded: None,
            bounds: Vec::new(),
            seen: None,
            is_stale: false,
            holdings: Holdings::default(),
            resting: BTreeMap::new(),
            queue: VecDeque::new(),
        })
    }

    /// The name under which it is a member; `None` while it isn't.
    pub fn member(&self) -> Option<&str> {
        self.session.as_ref().map(|session| session.name.as_str())
    }

    /// One synchronous step: what happens next, or `None` if nothing does.
    fn step(&mut self, demand: &Demand) -> Result<Option<SourceEvent>, LocalError> {
        if self.queue.is_empty() {
            self.look()?;
        }
        if let Some(event) = self.queue.pop_front() {
            return Ok(Some(event));
        }
        if let Some(batch) = self.fetch(demand)? {
            return Ok(Some(SourceEvent::Fetched(batch)));
        }
        Ok(self.conclude())
    }

    /// Looks at the file if it is time, and queues what is to be told.
    fn look(&mut self) -> Result<(), LocalError> {
        let now = self.now();
        let Some(session) = &self.session else {
            return if self.is_stale || self.pace.is_due(now.0) { self.join(now) } else { Ok(()) };
        };
        let rested = self.resting.values().any(|until| *until <= now.0);
        let must_report = rested || session.is_report_due(now, self.config.heartbeat_interval());
        if !must_report && !self.is_stale && !self.pace.is_due(now.0) {
            return Ok(());
        }
        self.pace.looked(now.0);
        // Read before the rest, so that a change in between is found by the next look.
        let seen = self.client.data_version()?;
        if must_report {
            self.report(now)?;
        } else if self.is_stale || self.seen != Some(seen) {
            let observed = session.observe(&mut self.client, self.bounded.is_some())?;
            let changed = observed.version != session.version;
            if changed {
                self.report(now)?;
            } else {
                self.note(observed.bounds, &observed.claims);
            }
        } else {
            return Ok(());
        }
        self.seen = Some(seen);
        Ok(())
    }

    fn join(&mut self, now: (Instant, Timestamp)) -> Result<(), LocalError> {
        self.pace.looked(now.0);
        let Some((session, bounds)) = Session::join(&mut self.client, &self.config, now)? else {
            return Ok(());
        };
        tracing::debug!(
            topic = self.config.topic,
            group = self.config.group,
            member = session.name,
            "joined"
        );
        if self.config.until_end && self.bounded.is_none() {
            self.bounded = Some(Bounded::new(&bounds));
        }
        self.session = Some(session);
        self.report(now)
    }

    /// Reports to the group and queues what is to be told.
    fn report(&mut self, now: (Instant, Timestamp)) -> Result<(), LocalError> {
        let Some(session) = &mut self.session else { return Ok(()) };
        let wishes = Wishes {
            config: &self.config,
            holdings: &self.holdings,
            resting: &self.resting,
            ends: self.bounded.as_ref().map(|bounded| bounded.ends.as_slice()),
        };
        match session.report(&mut self.client, &wishes, now)? {
            Report::Present(present) => {
                self.resting.retain(|_, until| *until > now.0);
                self.take(present);
            }
            Report::Evicted => {
                tracing::warn!(
                    topic = self.config.topic,
                    group = self.config.group,
                    member = session.name,
                    "was silent for longer than the session timeout; joins again"
                );
                let lost = self.holdings.lose_all();
                self.session = None;
                self.is_stale = true;
                if !lost.is_empty() {
                    self.queue.push_back(SourceEvent::Lost(lost));
                }
            }
            Report::Replaced => {
                return Err(LocalError::MemberReplaced {
                    group: self.config.group.clone(),
                    member: session.name.clone(),
                });
            }
        }
        Ok(())
    }

    /// Nothing here can fail: what the transaction has changed is told in any case.
    fn take(&mut self, present: Present) {
        let Some(session) = &self.session else { return };
        let changes = self.holdings.compare(&present.claims, session.member);
        if !changes.lost.is_empty() {
            self.queue.push_back(SourceEvent::Lost(changes.lost));
        }
        if !changes.revoked.is_empty() {
            let revocation = Revocation { partitions: changes.revoked, within: None };
            self.queue.push_back(SourceEvent::Revoking(revocation));
        }
        self.note(present.bounds, &present.claims);
        let mut assigned = Vec::new();
        for acquired in present.acquired {
            if let Some(from) = acquired.moved_from {
                self.warn_of_move(acquired.number, from, acquired.holding.next);
            }
            assigned.push(Assignment {
                partition: acquired.holding.partition.clone(),
                generation: Generation::new(acquired.holding.generation),
            });
            self.holdings.insert(acquired.number, acquired.holding);
        }
        if !assigned.is_empty() {
            self.queue.push_back(SourceEvent::Assigned(assigned));
        }
    }

    fn note(&mut self, bounds: Vec<Bounds>, claims: &[group::Claim]) {
        if let Some(bounded) = &mut self.bounded {
            bounded.update(claims, &bounds, self.config.on_out_of_range);
        }
        self.bounds = bounds;
        self.is_stale = false;
    }

    /// Reads from the next partition in turn that has something and may be read.
    fn fetch(&mut self, demand: &Demand) -> Result<Option<RecordBatch>, LocalError> {
        let Some(session) = &self.session else { return Ok(None) };
        loop {
            let (bounds, bounded) = (&self.bounds, &self.bounded);
            let until = |number: u32| limit(bounds, bounded.as_ref(), number);
            let Some((number, holding)) = self.holdings.next_to_read(|number, holding| {
                holding.next < until(number) && demand.allows(&holding.partition)
            }) else {
                return Ok(None);
            };
            let fetch = Fetch {
                from: holding.next,
                until: until(number),
                max_records: demand.max_records(),
                max_bytes: demand.max_bytes(),
                bounds: bounds[number as usize],
            };
            let partition_id = session.topic.partition_ids[number as usize];
            let (batch, bounds) = self.client.read(|tx| {
                let batch = log::read(tx, partition_id, &holding.partition, fetch)?;
                Ok((batch, topic::partition_bounds(tx, partition_id)?))
            })?;
            if !batch.is_empty() {
                holding.next += batch.len() as u64;
                return Ok(Some(batch));
            }
            // Retention was faster than this source.
            let from = holding.next;
            let place = range::place(Some(from), bounds, self.config.on_out_of_range)
                .map_err(|e| session::out_of_range(&self.config, number, e.position, bounds))?;
            if place.moved_from.is_none() {
                return Err(LocalError::Damaged {
                    path: self.config.path.clone(),
                    what: format!("{}@{from} is missing", holding.partition),
                });
            }
            holding.next = place.position;
            self.bounds[number as usize] = bounds;
            self.warn_of_move(number, from, place.position);
        }
    }

    /// For a source with an end: what has arrived there.
    fn conclude(&mut self) -> Option<SourceEvent> {
        let bounded = self.bounded.as_ref()?;
        let finished = self.holdings.finish(&bounded.ends);
        if !finished.is_empty() {
            return Some(SourceEvent::Finished(finished));
        }
        (bounded.is_settled && !self.holdings.has_active()).then_some(SourceEvent::Ended)
    }

    fn commit_through(
        &mut self,
        frontiers: &[PartitionFrontier],
    ) -> Result<CommitReport, LocalError> {
        let mut report = CommitReport::default();
        let mut accepted = Vec::new();
        for frontier in frontiers {
            let PartitionFrontier { partition, generation, position } = frontier;
            match self.holdings.find_in(partition, *generation) {
                Some((number, holding)) if position.get() <= holding.next => {
                    accepted.push((number, frontier));
                }
                Some((number, holding)) => {
                    return Err(LocalError::CommitBeyondDelivered {
                        topic: self.config.topic.clone(),
                        partition: number,
                        position: position.get(),
                        delivered: holding.next,
                    });
                }
                None => report.refused.push(partition.clone()),
            }
        }
        let refused = self.commit_accepted(&accepted)?;
        for (number, frontier) in refused {
            self.holdings.remove(number);
            report.refused.push(frontier.partition.clone());
            self.look_anew();
        }
        for partition in &report.refused {
            self.forget_queued(partition);
        }
        Ok(report)
    }

    /// Commits in one transaction; returns what the file refused.
    fn commit_accepted<'a>(
        &mut self,
        accepted: &[(u32, &'a PartitionFrontier)],
    ) -> Result<Vec<(u32, &'a PartitionFrontier)>, LocalError> {
        if accepted.is_empty() {
            return Ok(Vec::new());
        }
        let Some(session) = &mut self.session else { return Ok(accepted.to_vec()) };
        let now = (Instant::now(), self.clock.now());
        let (group, member) = (session.group, session.member);
        let (refused, is_member) = self.client.write(|tx| {
            let mut refused = Vec::new();
            for (number, frontier) in accepted {
                let (generation, position) = (frontier.generation.get(), frontier.position.get());
                if !group::commit(tx, group, *number, member, generation, position)? {
                    refused.push((*number, *frontier));
                }
            }
            // A commit shows that the member lives, and saves a write of its own for that.
            Ok((refused, group::heartbeat(tx, member, now.1)?))
        })?;
        if is_member {
            session.reported(now);
        }
        self.is_stale |= self.bounded.is_some() || !is_member;
        Ok(refused)
    }

    fn release_all(&mut self, partitions: &[Partition]) -> Result<(), LocalError> {
        let held: Vec<_> = partitions
            .iter()
            .filter_map(|partition| self.holdings.find(partition))
            .map(|(number, holding)| (number, holding.generation, holding.phase))
            .collect();
        if let Some(session) = &self.session
            && !held.is_empty()
        {
            let (group, member) = (session.group, session.member);
            self.client.write(|tx| {
                held.iter().try_for_each(|(number, generation, phase)| {
                    group::release(tx, group, *number, member, *generation)?;
                    if *phase == Phase::Active {
                        group::hand_over(tx, group, *number, member)?;
                    }
                    Ok(())
                })
            })?;
        }
        for (number, ..) in held {
            let Some(holding) = self.holdings.remove(number) else { continue };
            if holding.phase != Phase::Revoked {
                self.resting.insert(number, Instant::now() + REST);
            }
            self.forget_queued(&holding.partition);
        }
        self.look_anew();
        Ok(())
    }

    fn leave(&mut self) -> Result<(), LocalError> {
        if let Some(session) = &self.session {
            let (group, member) = (session.group, session.member);
            self.client.write(|tx| group::leave(tx, group, member))?;
        }
        self.session = None;
        self.holdings = Holdings::default();
        self.queue.clear();
        Ok(())
    }

    /// A partition was let go: perhaps it can be taken again, in a new generation.
    fn look_anew(&mut self) {
        self.is_stale = true;
        if let Some(session) = &mut self.session {
            session.expect_change();
        }
    }

    /// The runtime knows already that the partition is gone.
    fn forget_queued(&mut self, partition: &Partition) {
        for event in &mut self.queue {
            if let SourceEvent::Lost(partitions)
            | SourceEvent::Revoking(Revocation { partitions, .. }) = event
            {
                partitions.retain(|queued| queued != partition);
            }
        }
        self.queue.retain(|event| match event {
            SourceEvent::Lost(partitions)
            | SourceEvent::Revoking(Revocation { partitions, .. }) => !partitions.is_empty(),
            _ => true,
        });
    }

    fn now(&self) -> (Instant, Timestamp) {
        (Instant::now(), self.clock.now())
    }

    fn warn_of_move(&self, number: u32, from: u64, to: u64) {
        tracing::warn!(
            topic = self.config.topic,
            partition = number,
            group = self.config.group,
            from,
            to,
            "the group's position is not in the log; goes on elsewhere, as on_out_of_range says"
        );
    }
}

impl Source for LocalSource {
    fn capabilities(&self) -> SourceCapabilities {
        SourceCapabilities::new().bounded(self.config.until_end).resumes(true).rebalances(true)
    }

    async fn next(&mut self, demand: &Demand) -> Result<SourceEvent, SourceError> {
        loop {
            if let Some(event) = self.step(demand)? {
                self.pace.quicken();
                return Ok(event);
            }
            tokio::time::sleep(self.pace.pause()).await;
            self.pace.slacken();
        }
    }

    async fn commit(&mut self, commit: Commit<'_>) -> Result<CommitReport, SourceError> {
        match commit {
            Commit::Through(frontiers) => Ok(self.commit_through(frontiers)?),
            _ => Err(SourceError::stop(
                "a local log commits whole prefixes only; please report this as a bug",
            )),
        }
    }

    async fn release(&mut self, partitions: &[Partition]) -> Result<(), SourceError> {
        Ok(self.release_all(partitions)?)
    }

    async fn close(&mut self) -> Result<(), SourceError> {
        Ok(self.leave()?)
    }

    fn end(&mut self, partition: &Partition) -> Option<Position> {
        let (number, _) = self.holdings.find(partition)?;
        Some(Position::new(limit(&self.bounds, self.bounded.as_ref(), number)))
    }
}

/// The position behind the last record to deliver.
fn limit(bounds: &[Bounds], bounded: Option<&Bounded>, number: u32) -> u64 {
    let end = bounds.get(number as usize).map_or(0, |bounds| bounds.end);
    bounded.map_or(end, |bounded| end.min(bounded.ends[number as usize]))
}

#[cfg(test)]
mod tests;
