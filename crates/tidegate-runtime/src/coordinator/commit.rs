//! Tells the source what it may forget.

use tidegate_core::{Commit, Moment, PartitionFrontier, Source};

use super::Coordinator;
use crate::board::OwnershipId;
use crate::error::PipelineErrorKind;

impl Coordinator {
    /// Commits every frontier that has moved. A failed commit is made again later: its partitions
    /// stay on the list (P7).
    pub(super) async fn commit_moved(&mut self, now: Moment) {
        self.commit_at = now + self.settings.commit.every;
        let moved = self.board.take_moved();
        self.commit(moved).await;
    }

    /// Commits the frontiers of these partitions. Returns whether all that could be is committed.
    pub(super) async fn commit(&mut self, ids: Vec<OwnershipId>) -> bool {
        let mut frontiers: Vec<PartitionFrontier> = Vec::with_capacity(ids.len());
        let mut passed = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(owned) = self.owned.get(&id) else { continue };
            if let Some((frontier, count)) = owned.to_commit() {
                frontiers.push(frontier);
                passed.push((id, count));
            }
        }
        if frontiers.is_empty() {
            return true;
        }
        let mut ending = self.ending();
        let answer = ending.wait_for(self.source.commit(Commit::Through(&frontiers))).await;
        let Some(answer) = answer else {
            self.give_source_up("committing");
            return false;
        };
        match answer {
            Ok(report) => {
                self.commit_backoff.succeeded();
                for (frontier, (id, count)) in frontiers.iter().zip(passed) {
                    if report.refused.contains(&frontier.partition) {
                        // Somebody else owns it: what we do with it counts for nothing any more.
                        self.forget(id);
                    } else if let Some(owned) = self.owned.get_mut(&id) {
                        owned.committed(frontier.position, count);
                    }
                }
                true
            }
            Err(error) => {
                for (id, _) in &passed {
                    if let Some(owned) = self.owned.get(id) {
                        owned.watch().frontier_moved();
                    }
                }
                // The call may have taken a while.
                let now = self.now();
                let pause =
                    if error.is_retryable() { self.commit_backoff.failed(now) } else { None };
                match pause {
                    Some(pause) => {
                        self.commit_at = now + pause;
                        self.warn("committing", error);
                    }
                    None => {
                        self.commit_failed = true;
                        let during = "committing";
                        self.board.fail(PipelineErrorKind::Source { during, error });
                    }
                }
                false
            }
        }
    }
}
