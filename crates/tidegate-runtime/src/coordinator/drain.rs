//! Giving partitions up: drain, commit, release, in this order, within one deadline.

use tidegate_core::{Moment, Partition, Source, SourceError};

use super::Coordinator;
use crate::board::OwnershipId;
use crate::error::PipelineErrorKind;

impl Coordinator {
    /// Begins to stop if somebody asked for it or something failed.
    pub(super) fn look_at_stop(&mut self, now: Moment) {
        if let Some(within) = self.board.must_end_within(self.settings.drain) {
            self.stop_by(Some(now + within));
        }
    }

    /// Drains everything. The first deadline stands; a later call can only set one where there was
    /// none.
    pub(super) fn stop_by(&mut self, deadline: Option<Moment>) {
        if matches!(self.stopping, Some(Some(_))) || self.stopping == Some(deadline) {
            return;
        }
        self.stopping = Some(deadline);
        let ids: Vec<_> = self.owned.keys().copied().collect();
        ids.into_iter().for_each(|id| self.begin_drain(id, deadline));
    }

    pub(super) fn begin_drain(&mut self, id: OwnershipId, deadline: Option<Moment>) {
        if let Some(owned) = self.owned.get_mut(&id) {
            owned.begin_drain(deadline);
            self.demand.set_open(owned.partition(), false);
            self.draining.insert(id);
            // A pause for the sake of others doesn't outlast this partition's time.
            self.release_at = self.release_at.map(|at| deadline.map_or(at, |end| at.min(end)));
        }
    }

    /// The source has hung for as long as a stop or a failure left it: nothing but its close is
    /// asked of it any more, and everything is let go (P27).
    pub(super) fn give_source_up(&mut self, during: &'static str) {
        let error = SourceError::stop(
            "it gave no answer until the pipeline had to end; whether that took effect is unknown, \
             so what was done since the last commit may be handled again",
        );
        self.board.fail(PipelineErrorKind::Source { during, error });
        (self.source_ended, self.commit_failed) = (true, true);
        self.stopping = Some(Some(self.stopping.flatten().unwrap_or_else(|| self.now())));
        self.unowned.clear();
        let ids: Vec<_> = self.owned.keys().copied().collect();
        ids.into_iter().for_each(|id| self.forget(id));
    }

    /// The partition is gone: nothing of it may be committed.
    pub(super) fn forget(&mut self, id: OwnershipId) {
        if let Some(mut owned) = self.owned.remove(&id) {
            owned.fence();
            self.ids.remove(owned.partition());
            self.demand.set_open(owned.partition(), true);
            self.draining.remove(&id);
        }
    }

    /// Looks at the partitions that asked for it.
    pub(super) fn look_at_attention(&mut self) {
        for id in self.board.take_attention() {
            self.reopen(id);
        }
    }

    /// Commits and releases the partitions that have drained, or whose time is up.
    pub(super) async fn release_drained(&mut self, now: Moment) {
        if self.release_at.is_some_and(|at| at > now) {
            return;
        }
        self.release_at = None;
        let is_late = |deadline: Option<Moment>| deadline.is_some_and(|deadline| deadline <= now);
        let (mut going, mut late, mut released) = (Vec::new(), Vec::new(), 0);
        for &id in &self.draining {
            let Some(owned) = self.owned.get_mut(&id) else { continue };
            if owned.is_drained() {
                going.push(id);
            } else if is_late(owned.deadline()) {
                // From here on an answer that comes late moves nothing.
                released += owned.fence();
                late.push(owned.partition().clone());
                going.push(id);
            }
        }
        if let Some(first) = late.first() {
            let (pipeline, partitions) = (&self.board.names.pipeline, late.len());
            tracing::warn!(pipeline, partitions, %first, released, "the drain ran out of time; \
                the released messages are not committed and will be handled again");
        }
        if going.is_empty() && self.unowned.is_empty() {
            return;
        }
        if !self.commit(going.clone()).await {
            // It is tried again until the partition's time is up; then it goes uncommitted, and
            // what it has done is repeated.
            going.retain(|id| {
                self.commit_failed
                    || self.owned.get(id).is_some_and(|owned| is_late(owned.deadline()))
            });
            if !going.is_empty() {
                let (pipeline, partitions) = (&self.board.names.pipeline, going.len());
                tracing::warn!(
                    pipeline,
                    partitions,
                    "the last commit failed; what was done since \
                    the one before is handled again"
                );
            }
            self.try_release_again(self.commit_at, now);
        }
        self.release(going).await;
    }

    /// Leaves the drained partitions alone until `at`, or until the next deadline if that is
    /// earlier.
    fn try_release_again(&mut self, at: Moment, now: Moment) {
        let deadlines = self.deadlines().filter(|&deadline| deadline > now);
        self.release_at = deadlines.chain([at]).min();
    }

    async fn release(&mut self, ids: Vec<OwnershipId>) {
        let partitions: Vec<Partition> = ids
            .iter()
            .filter_map(|id| Some(self.owned.get(id)?.partition().clone()))
            .chain(self.unowned.iter().cloned())
            .collect();
        if partitions.is_empty() {
            return;
        }
        let mut ending = self.ending();
        let Some(answer) = ending.wait_for(self.source.release(&partitions)).await else {
            self.give_source_up("releasing partitions");
            return;
        };
        if let Err(error) = answer {
            // The call may have taken a while.
            let now = self.now();
            let pause = if error.is_retryable() { self.release_backoff.failed(now) } else { None };
            let out_of_time = self.stopping.flatten().is_some_and(|deadline| deadline <= now);
            match pause {
                Some(pause) if !out_of_time => {
                    self.try_release_again(now + pause, now);
                    self.warn("releasing partitions", error);
                    return;
                }
                // The source lets go of them when it is closed.
                Some(_) => self.warn("releasing partitions", error),
                None => {
                    let during = "releasing partitions";
                    self.board.fail(PipelineErrorKind::Source { during, error });
                }
            }
        } else {
            self.release_backoff.succeeded();
        }
        self.unowned.clear();
        ids.into_iter().for_each(|id| self.forget(id));
    }
}
