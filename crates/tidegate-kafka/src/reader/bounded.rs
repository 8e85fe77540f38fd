//! A run with an end.

use std::collections::HashMap;
use std::time::Duration;

use tidegate_core::Partition;
use tokio::time::Instant;

use super::{CALL_WITHIN, Reader};
use crate::client::{Layout, Trouble};
use crate::config::Stop;
use crate::error::KafkaError;
use crate::holding::Phase;

/// How often the group's commits are looked at, while this member waits for the others.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where the run ends in each partition.
pub(super) struct Bounded {
    ends: HashMap<Partition, u64>,
    beginnings: HashMap<Partition, u64>,
    look_at: Option<Instant>,
    has_ended: bool,
}

impl Bounded {
    /// A partition that came later is not part of the run.
    pub(super) fn end(&self, partition: &Partition) -> u64 {
        self.ends.get(partition).copied().unwrap_or(0)
    }
}

impl Reader {
    /// Where the run ends, if it does.
    pub(super) fn find_ends(&self, layout: &Layout) -> Result<Option<Bounded>, KafkaError> {
        if self.config.stop == Stop::Never {
            return Ok(None);
        }
        let partitions: Vec<Partition> = match &self.config.partitions {
            Some(chosen) => chosen
                .iter()
                .flat_map(|(topic, all)| all.iter().map(|n| Partition::new(topic.as_str(), *n)))
                .collect(),
            None => layout
                .topics
                .iter()
                .flat_map(|(topic, count)| (0..*count).map(|n| Partition::new(topic.as_str(), n)))
                .collect(),
        };
        let bounds = self
            .ends_of(&partitions)
            .and_then(|ends| Ok((ends, self.consumer.beginnings(&partitions, CALL_WITHIN)?)));
        let (ends, beginnings) = bounds.map_err(|trouble| KafkaError::Broken {
            reason: format!("can't find out where the run ends: {}", trouble.reason),
        })?;
        Ok(Some(Bounded { ends, beginnings, look_at: None, has_ended: false }))
    }

    fn ends_of(&self, partitions: &[Partition]) -> Result<HashMap<Partition, u64>, Trouble> {
        match &self.config.stop {
            Stop::Offsets(offsets) => {
                let end = |partition: &Partition| {
                    let chosen = partition
                        .index()
                        .and_then(|index| offsets.get(partition.stream())?.get(&index));
                    (partition.clone(), chosen.copied().unwrap_or(0))
                };
                Ok(partitions.iter().map(end).collect())
            }
            Stop::Time(time) => {
                let mut ends = self.consumer.ends(partitions, CALL_WITHIN)?;
                ends.extend(self.consumer.at_time(partitions, time.as_millis(), CALL_WITHIN)?);
                Ok(ends)
            }
            Stop::End | Stop::Never => self.consumer.ends(partitions, CALL_WITHIN),
        }
    }

    /// Ends the run once every partition has come to its end, here or at another member.
    pub(super) fn conclude(&mut self, now: Instant) -> Result<(), KafkaError> {
        let Some(bounded) = &self.bounded else { return Ok(()) };
        let is_reading = self.holdings.values().any(|holding| holding.phase == Phase::Active);
        let is_open = is_reading || self.drain.is_some() || !self.commits.has_no_notes();
        if bounded.has_ended || is_open {
            return Ok(());
        }
        let others: Vec<_> = bounded
            .ends
            .iter()
            .filter(|(partition, end)| {
                let beginning = bounded.beginnings.get(partition).copied().unwrap_or(0);
                beginning < **end && !self.holdings.contains_key(partition)
            })
            .map(|(partition, _)| partition.clone())
            .collect();
        if !others.is_empty() {
            if bounded.look_at.is_some_and(|at| now < at) {
                return Ok(());
            }
            let committed = self.consumer.committed(&others, CALL_WITHIN);
            let Some(bounded) = &mut self.bounded else { return Ok(()) };
            bounded.look_at = Some(Instant::now() + LOOK_EVERY);
            let Ok(committed) = committed else { return Ok(()) };
            let is_done = |partition: &Partition| {
                committed.get(partition).is_some_and(|at| *at >= bounded.end(partition))
            };
            if !others.iter().all(is_done) {
                return Ok(());
            }
        }
        if let Some(bounded) = &mut self.bounded {
            bounded.has_ended = true;
        }
        self.handover.ended();
        Ok(())
    }
}
