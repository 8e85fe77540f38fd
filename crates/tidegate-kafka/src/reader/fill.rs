//! Fills empty slots with what has been fetched.

use tidegate_core::{Assignment, Generation, Partition};

use super::{CALL_WITHIN, Reader};
use crate::client::{Kind, Limits, Read, Trouble};
use crate::config::OnOutOfRange;
use crate::connect;
use crate::error::KafkaError;
use crate::holding::Phase;

impl Reader {
    /// Returns whether anything was there.
    pub(super) fn fill(&mut self) -> Result<bool, KafkaError> {
        let Some(limits) = self.handover.limits() else { return Ok(false) };
        let limits = Limits { bytes: limits.bytes.min(self.share), ..limits };
        let mut empty = std::mem::take(&mut self.empty);
        self.handover.empty_slots(&mut empty);
        let mut is_busy = false;
        for partition in empty.drain(..) {
            is_busy |= self.fill_one(&partition, limits)?;
        }
        self.empty = empty;
        Ok(is_busy)
    }

    fn fill_one(&mut self, partition: &Partition, limits: Limits) -> Result<bool, KafkaError> {
        let Some(holding) = self.holdings.get_mut(partition) else { return Ok(false) };
        if holding.phase != Phase::Active {
            return Ok(false);
        }
        if holding.is_through() {
            self.finish(partition);
            return Ok(true);
        }
        match self.consumer.read(partition, holding.next, holding.until, limits) {
            Read::Nothing => {
                // Behind the last record may be a gap up to where the run ends.
                if holding.until.is_some()
                    && let Some(passed) = self.consumer.passed(partition)
                    && holding.until.is_some_and(|until| passed >= until)
                {
                    self.finish(partition);
                    return Ok(true);
                }
                Ok(false)
            }
            Read::Run(run) => {
                holding.next = run.next;
                holding.has_delivered = true;
                self.handover.fill(partition, run);
                Ok(true)
            }
            Read::AtEnd => {
                self.finish(partition);
                Ok(true)
            }
            Read::Trouble(trouble) => {
                self.unread(partition, trouble)?;
                Ok(true)
            }
        }
    }

    fn finish(&mut self, partition: &Partition) {
        if let Some(holding) = self.holdings.get_mut(partition) {
            holding.phase = Phase::Finished;
            self.handover.finish(partition);
        }
    }

    /// An error came in place of a record.
    fn unread(&mut self, partition: &Partition, trouble: Trouble) -> Result<(), KafkaError> {
        let Some(holding) = self.holdings.get(partition) else { return Ok(()) };
        let (topic, number) = (partition.stream().to_owned(), partition.index().unwrap_or(0));
        let position = holding.next;
        match trouble.kind {
            Kind::OutOfRange => return self.out_of_range(partition),
            Kind::Undecodable => {
                let reason = trouble.reason;
                return Err(KafkaError::Unreadable { topic, partition: number, position, reason });
            }
            Kind::TopicForbidden => return Err(connect::may_not_read(&topic)),
            Kind::Fatal => return Err(KafkaError::Broken { reason: trouble.reason }),
            _ => {}
        }
        tracing::warn!(%partition, position, reason = trouble.reason, "a fetch failed; is repeated");
        // Taking the error has moved the consumer past the place where it happened.
        self.consumer
            .seek(partition, position)
            .map_err(|trouble| KafkaError::Broken { reason: trouble.reason })
    }

    /// The place to go on at is not in the log.
    fn out_of_range(&mut self, partition: &Partition) -> Result<(), KafkaError> {
        let Some(holding) = self.holdings.get(partition).cloned() else { return Ok(()) };
        let to = self
            .elsewhere(partition, holding.next)?
            .map_err(|trouble| KafkaError::Broken { reason: trouble.reason })?;
        self.go_on_at(partition, to, holding.has_delivered && to < holding.next)
    }

    /// Where to go on instead, as the settings say. Goes over the network.
    pub(super) fn elsewhere(
        &self,
        partition: &Partition,
        from: u64,
    ) -> Result<Result<u64, Trouble>, KafkaError> {
        let one = std::slice::from_ref(partition);
        let bounds = self
            .consumer
            .beginnings(one, CALL_WITHIN)
            .and_then(|start| Ok((start, self.consumer.ends(one, CALL_WITHIN)?)));
        let (start, end) = match bounds {
            Ok((start, end)) => (start.get(partition).copied(), end.get(partition).copied()),
            Err(trouble) => return Ok(Err(trouble)),
        };
        let (start, end) = (start.unwrap_or(0), end.unwrap_or(0));
        let to = match self.config.on_out_of_range {
            OnOutOfRange::Stop => {
                return Err(KafkaError::OutOfRange {
                    topic: partition.stream().to_owned(),
                    partition: partition.index().unwrap_or(0),
                    group: self.config.group.clone(),
                    position: from,
                    start,
                    end,
                });
            }
            OnOutOfRange::Earliest => start,
            OnOutOfRange::Latest => end,
        };
        tracing::warn!(
            %partition,
            group = self.config.group,
            from,
            to,
            "the group's position is not in the log; goes on elsewhere, as on_out_of_range says"
        );
        Ok(Ok(to))
    }

    /// Reads on elsewhere. What was delivered of a partition that goes back belongs to an ownership
    /// that has ended, so it is assigned anew.
    fn go_on_at(&mut self, partition: &Partition, to: u64, anew: bool) -> Result<(), KafkaError> {
        let failed = |trouble: Trouble| KafkaError::Broken { reason: trouble.reason };
        self.consumer.unassign(std::slice::from_ref(partition)).map_err(failed)?;
        let Some(holding) = self.holdings.get_mut(partition) else { return Ok(()) };
        holding.next = to;
        if anew {
            holding.generation = Generation::new(holding.generation.get() + 1);
            holding.has_delivered = false;
            holding.committed = None;
            let assignment =
                Assignment { partition: partition.clone(), generation: holding.generation };
            self.handover.lost(vec![partition.clone()]);
            self.handover.assigned(vec![assignment]);
        }
        let holdings = &self.holdings;
        let all = || holdings.iter().map(|(p, holding)| (p.clone(), holding.next)).collect();
        self.consumer.assign(&[(partition.clone(), to)], all).map_err(failed)
    }
}
