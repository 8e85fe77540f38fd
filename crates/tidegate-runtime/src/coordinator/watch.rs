//! Looks now and then how things stand: the lag, and partitions that don't move.

use std::time::Duration;

use tidegate_core::{Moment, Source, StepId};

use super::Coordinator;
use crate::status::Stall;

/// How often it looks.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

impl Coordinator {
    pub(super) fn watch(&mut self, now: Moment) {
        self.watch_at = now + INTERVAL;
        let lag = self.lag();
        self.board.set_lag(lag);
        let stalls = self.stalls(now);
        if let Some(stall) = stalls.first()
            && let Some(suppressed) = self.stall_log.allow(now)
        {
            tracing::warn!(
                pipeline = self.board.names.pipeline,
                stalled_partitions = stalls.len(),
                suppressed,
                "a partition doesn't move: {stall}"
            );
        }
        self.board.set_stalls(stalls);
    }

    /// Messages between where the partitions stand and their ends.
    fn lag(&mut self) -> Option<u64> {
        let mut lag = None;
        for owned in self.owned.values() {
            if let (Some(standing), Some(end)) =
                (owned.standing(), self.source.end(owned.partition()))
            {
                *lag.get_or_insert(0) += end.get().saturating_sub(standing.get());
            }
        }
        lag
    }

    /// The partitions with work whose frontier has stood still for too long (P31). An idle one is
    /// none of them.
    fn stalls(&mut self, now: Moment) -> Vec<Stall> {
        let mut stalls = Vec::new();
        for owned in self.owned.values_mut() {
            let frontier = owned.ledger().frontier();
            let oldest = owned.ledger().oldest();
            let Some(oldest) = oldest.filter(|_| owned.seen.0 == frontier && owned.seen.2) else {
                owned.seen = (frontier, now, oldest.is_some());
                continue;
            };
            let since = now.since(owned.seen.1);
            if since >= self.settings.stall_after {
                // What no step has said that it keeps is in the hands of the step that runs.
                let holder = match oldest.holder {
                    StepId::SOURCE => owned.current_step(),
                    holder => holder,
                };
                stalls.push(Stall {
                    partition: owned.partition().clone(),
                    position: oldest.position,
                    step: self.board.names.describe(holder),
                    since,
                });
            }
        }
        stalls
    }
}
