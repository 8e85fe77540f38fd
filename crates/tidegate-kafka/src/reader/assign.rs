//! Takes partitions: finds out where each begins, and tells the source.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tidegate_core::{Assignment, Generation, Partition};
use tokio::time::Instant;

use super::{CALL_WITHIN, Reader};
use crate::client::{Kind, Trouble};
use crate::config::Start;
use crate::connect;
use crate::error::KafkaError;
use crate::holding::Holding;

/// How soon an assignment is tried again whose places could not be found out.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Generations of one generation of the group, at most.
const STEPS: u64 = 1 << 20;

/// Where a partition begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    at: u64,
    /// Committed by the group, or by the settings.
    is_committed: bool,
}

type Places = BTreeMap<Partition, Place>;

impl Reader {
    /// Takes these partitions, unless something is in the way for now: then it is tried again.
    pub(super) fn try_assign(
        &mut self,
        partitions: &[Partition],
        now: Instant,
    ) -> Result<bool, KafkaError> {
        if self.assign_at.is_some_and(|at| now < at) {
            return Ok(false);
        }
        let membership = self.consumer.membership();
        let (group_generation, member) = membership.unwrap_or_default();
        let mut partitions = partitions.to_vec();
        partitions.extend(self.take_back(&member)?);
        let places = match self.places(&partitions) {
            Ok(places) => places,
            Err(trouble) => {
                self.assign_at = Some(Instant::now() + TRY_AGAIN_AFTER);
                self.not_found(trouble)?;
                return Ok(false);
            }
        };
        let places = match self.within_the_log(places)? {
            Ok(places) => places,
            Err(trouble) => {
                self.assign_at = Some(Instant::now() + TRY_AGAIN_AFTER);
                self.not_found(trouble)?;
                return Ok(false);
            }
        };
        self.assign_at = None;
        self.member = Some(member);
        self.assignments += 1;
        let generation =
            u64::try_from(group_generation).unwrap_or(0) * STEPS + self.assignments.min(STEPS - 1);
        self.take(&places, Generation::new(generation))?;
        Ok(true)
    }

    /// If the group has forgotten this member meanwhile, everything that it still seems to have
    /// may have been somebody else's: it is given up, and begins anew at the commits.
    fn take_back(&mut self, member: &str) -> Result<Vec<Partition>, KafkaError> {
        if self.assigned.is_empty() || self.member.as_deref() == Some(member) {
            return Ok(Vec::new());
        }
        let stale: Vec<_> = self.assigned.iter().cloned().collect();
        tracing::warn!(
            group = self.config.group,
            partitions = ?stale,
            "the group had given this member up; its partitions begin anew at their commits"
        );
        self.lose_all();
        for partition in &stale {
            self.assigned.remove(partition);
            self.commits.forget(partition);
        }
        self.consumer
            .unassign(&stale)
            .map_err(|trouble| KafkaError::Broken { reason: trouble.reason })?;
        Ok(stale)
    }

    fn take(&mut self, places: &Places, generation: Generation) -> Result<(), KafkaError> {
        let added: Vec<_> =
            places.iter().map(|(partition, place)| (partition.clone(), place.at)).collect();
        tracing::debug!(group = self.config.group, ?added, ?generation, "the group assigns");
        let holdings = &self.holdings;
        let all = || {
            let held =
                holdings.iter().map(|(partition, holding)| (partition.clone(), holding.next));
            held.chain(added.iter().cloned()).collect()
        };
        self.consumer
            .assign(&added, all)
            .map_err(|trouble| KafkaError::Broken { reason: trouble.reason })?;
        let mut assignments = Vec::with_capacity(places.len());
        for (partition, place) in places {
            self.assigned.insert(partition.clone());
            let until = self.bounded.as_ref().map(|bounded| bounded.end(partition));
            let holding = Holding::new(generation, place.at, until);
            self.holdings.insert(partition.clone(), holding);
            if !place.is_committed && self.config.start == Start::Latest {
                self.commits.note(partition.clone(), place.at);
            }
            assignments.push(Assignment { partition: partition.clone(), generation });
        }
        if !assignments.is_empty() {
            self.handover.assigned(assignments);
        }
        Ok(())
    }

    /// Where each of these partitions begins.
    fn places(&self, partitions: &[Partition]) -> Result<Places, Trouble> {
        let committed = if self.config.ignore_commits {
            HashMap::new()
        } else {
            self.consumer.committed(partitions, CALL_WITHIN)?
        };
        let open: Vec<_> =
            partitions.iter().filter(|p| !committed.contains_key(p)).cloned().collect();
        let fresh = self.fresh_places(&open)?;
        let place = |partition: &Partition| {
            let found = committed.get(partition).map(|at| Place { at: *at, is_committed: true });
            let fresh = || fresh.get(partition).map(|at| Place { at: *at, is_committed: false });
            let missing = || {
                let reason = format!("the cluster does not say where {partition} begins");
                Trouble { kind: Kind::Passing, reason }
            };
            Ok((partition.clone(), found.or_else(fresh).ok_or_else(missing)?))
        };
        partitions.iter().map(place).collect()
    }

    /// In a run with an end, a place beyond the log must not be taken for the end. Elsewhere the
    /// fetch finds out.
    fn within_the_log(&self, mut places: Places) -> Result<Result<Places, Trouble>, KafkaError> {
        if self.bounded.is_none() {
            return Ok(Ok(places));
        }
        let partitions: Vec<_> = places.keys().cloned().collect();
        let ends = match self.consumer.ends(&partitions, CALL_WITHIN) {
            Ok(ends) => ends,
            Err(trouble) => return Ok(Err(trouble)),
        };
        for (partition, place) in &mut places {
            if ends.get(partition).is_some_and(|end| place.at > *end) {
                match self.elsewhere(partition, place.at)? {
                    Ok(to) => *place = Place { at: to, is_committed: false },
                    Err(trouble) => return Ok(Err(trouble)),
                }
            }
        }
        Ok(Ok(places))
    }

    /// Where partitions begin that the group has no commit for.
    fn fresh_places(&self, open: &[Partition]) -> Result<HashMap<Partition, u64>, Trouble> {
        match &self.config.start {
            Start::Earliest => self.consumer.beginnings(open, CALL_WITHIN),
            Start::Latest => self.consumer.ends(open, CALL_WITHIN),
            Start::Time(time) => {
                let mut places = self.consumer.ends(open, CALL_WITHIN)?;
                places.extend(self.consumer.at_time(open, time.as_millis(), CALL_WITHIN)?);
                Ok(places)
            }
            Start::Offsets(offsets) => {
                let mut places = self.consumer.beginnings(open, CALL_WITHIN)?;
                for (partition, place) in &mut places {
                    let chosen = partition
                        .index()
                        .and_then(|index| offsets.get(partition.stream())?.get(&index));
                    *place = chosen.copied().unwrap_or(*place);
                }
                Ok(places)
            }
        }
    }

    /// The places could not be found out. Errors that can pass are told to the source, whose
    /// pipeline knows how long to go on.
    fn not_found(&mut self, trouble: Trouble) -> Result<(), KafkaError> {
        match trouble.kind {
            Kind::TopicForbidden => Err(connect::may_not_read(&connect::topic_in(
                &trouble.reason,
                self.config.topic_names(),
            ))),
            Kind::GroupForbidden => Err(connect::may_not_join(&self.config.group)),
            Kind::Fatal => Err(KafkaError::Broken { reason: trouble.reason }),
            Kind::Fenced => Err(self.replaced()),
            _ => {
                self.handover.failed(KafkaError::Unavailable {
                    brokers: self.config.brokers.clone(),
                    reason: format!("can't find out where to begin: {}", trouble.reason),
                });
                Ok(())
            }
        }
    }
}
