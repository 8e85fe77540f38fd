//! Answers to what the group wants.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_core::Partition;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Reader;
use crate::client::Rebalancing;
use crate::error::KafkaError;
use crate::holding::Phase;

/// A revocation whose partitions the pipeline drains.
pub(super) struct Drain {
    /// All that the group wants back.
    partitions: Vec<Partition>,
    /// Those of them that the source has not let go yet.
    left: BTreeSet<Partition>,
    /// The group waits no longer.
    pub(super) deadline: Instant,
}

impl Drain {
    /// The source has let this one go.
    pub(super) fn released(&mut self, partition: &Partition) {
        self.left.remove(partition);
    }
}

impl Reader {
    /// How long partitions may be drained: what the group waits, less some time to join again.
    fn drain_within(&self) -> Duration {
        self.config.rebalance_timeout.mul_f64(0.8)
    }

    /// Goes on with the rebalance that is under way, and with those behind it.
    pub(super) fn serve_rebalances(&mut self, now: Instant) -> Result<(), KafkaError> {
        loop {
            if let Some(drain) = &self.drain {
                let is_lost = self.consumer.is_lost();
                if !drain.left.is_empty() && !is_lost && now < drain.deadline {
                    return Ok(());
                }
                self.end_drain(is_lost)?;
            }
            match self.rebalances.pop_front() {
                None => return Ok(()),
                Some(Rebalancing::Revoke(partitions)) => self.begin_revoke(partitions, now)?,
                Some(Rebalancing::Assign(partitions)) => {
                    if !self.try_assign(&partitions, now)? {
                        self.rebalances.push_front(Rebalancing::Assign(partitions));
                        return Ok(());
                    }
                }
            }
        }
    }

    fn begin_revoke(&mut self, partitions: Vec<Partition>, now: Instant) -> Result<(), KafkaError> {
        tracing::debug!(group = self.config.group, ?partitions, "the group revokes");
        if self.consumer.is_lost() {
            self.lose(&partitions);
            return self.unassign(&partitions);
        }
        let held: Vec<_> =
            partitions.iter().filter(|p| self.holdings.contains_key(p)).cloned().collect();
        let within = self.drain_within();
        let known = self.handover.revoking(held.clone(), within.mul_f64(0.9));
        for partition in &held {
            match self.holdings.get_mut(partition) {
                Some(holding) if known.contains(partition) => holding.phase = Phase::Revoking,
                _ => drop(self.holdings.remove(partition)),
            }
        }
        if known.is_empty() {
            return self.unassign(&partitions);
        }
        let left = known.into_iter().collect();
        self.drain = Some(Drain { partitions, left, deadline: now + within });
        Ok(())
    }

    /// Everything is drained, or there is no more time.
    fn end_drain(&mut self, is_lost: bool) -> Result<(), KafkaError> {
        let Some(drain) = self.drain.take() else { return Ok(()) };
        if !drain.left.is_empty() {
            tracing::warn!(
                group = self.config.group,
                partitions = ?drain.left,
                is_lost,
                "partitions go before they are drained; what isn't committed is handled again"
            );
            self.lose(&drain.left.into_iter().collect::<Vec<_>>());
        }
        self.unassign(&drain.partitions)
    }

    fn lose(&mut self, partitions: &[Partition]) {
        let held = partitions.iter().filter(|p| self.holdings.remove(p).is_some());
        self.handover.lost(held.cloned().collect());
    }

    fn unassign(&mut self, partitions: &[Partition]) -> Result<(), KafkaError> {
        for partition in partitions {
            self.assigned.remove(partition);
            self.commits.forget(partition);
        }
        self.consumer
            .unassign(partitions)
            .map_err(|trouble| KafkaError::Broken { reason: trouble.reason })
    }

    /// The source lets partitions go: those that the group wants back, or any at its end.
    pub(super) fn release(
        &mut self,
        partitions: &[Partition],
        answer: oneshot::Sender<()>,
    ) -> Result<(), KafkaError> {
        for partition in &self.handover.released(partitions) {
            let Some(holding) = self.holdings.remove(partition) else { continue };
            match holding.phase {
                Phase::Revoking => {
                    if let Some(drain) = &mut self.drain {
                        drain.released(partition);
                    }
                }
                Phase::Finished => {
                    self.commit_gap(partition, &holding);
                    self.consumer.silence(partition);
                }
                Phase::Active => self.consumer.silence(partition),
            }
        }
        self.serve_rebalances(Instant::now())?;
        // Nobody waits for it if the call was given up.
        let _ = answer.send(());
        Ok(())
    }
}
