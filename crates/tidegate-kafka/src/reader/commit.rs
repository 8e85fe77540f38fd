//! Commits: one at a time, checked before they are sent and sorted out when they are answered.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::{CommitReport, Generation, Partition, PartitionFrontier};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Reader;
use crate::client::{CommitAnswer, Kind, Trouble};
use crate::connect;
use crate::error::KafkaError;
use crate::holding::{Holding, Phase};
use crate::wake::Wake;

/// How soon a commit of a place is made again that nobody waits for.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long the source waits for the answer to a commit. It does nothing else meanwhile, so it is
/// not for long.
pub(crate) const COMMIT_WITHIN: Duration = Duration::from_millis(500);
const STUCK: &str = "it has not answered an earlier one; its members may be joining anew";

/// How long the last notes may take at the end.
const NOTES_WITHIN: Duration = Duration::from_secs(2);

type Answer = oneshot::Sender<Result<CommitReport, KafkaError>>;

/// The commit that is under way, and those that wait.
#[derive(Default)]
pub(super) struct Commits {
    under_way: Option<UnderWay>,
    waiting: Option<(Vec<PartitionFrontier>, Answer)>,
    /// Places to commit beside what the source asks for: where partitions begin that had no
    /// commit, and gaps at the end of finished ones.
    notes: BTreeMap<Partition, u64>,
    notes_at: Option<Instant>,
}

struct UnderWay {
    since: Instant,
    sent: Vec<Sent>,
    refused: Vec<Partition>,
    /// Nobody waits for a note.
    answer: Option<Answer>,
}

/// A position that was sent, and for which ownership.
struct Sent {
    partition: Partition,
    /// `None` for what is committed on nobody's behalf.
    generation: Option<Generation>,
    at: u64,
}

fn positions(sent: &[Sent]) -> Vec<(Partition, u64)> {
    sent.iter().map(|sent| (sent.partition.clone(), sent.at)).collect()
}

impl Commits {
    /// Commits this place, too, unless the source commits a later one first.
    pub(super) fn note(&mut self, partition: Partition, at: u64) {
        self.notes.insert(partition, at);
        self.notes_at = None;
    }

    /// The partition is gone; nothing of it may be committed any more.
    pub(super) fn forget(&mut self, partition: &Partition) {
        self.notes.remove(partition);
    }

    /// Whether nothing is to be committed that was noted.
    pub(super) fn has_no_notes(&self) -> bool {
        self.notes.is_empty()
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.notes_at.filter(|_| !self.notes.is_empty())
    }
}

impl Reader {
    pub(super) fn commit_requested(
        &mut self,
        frontiers: Vec<PartitionFrontier>,
        answer: Answer,
    ) -> Result<(), KafkaError> {
        // While members join, the group answers nothing else, perhaps for as long as a session
        // lasts. The source must not wait for that: it is told to come again.
        let is_stuck = |under_way: &UnderWay| under_way.since.elapsed() >= COMMIT_WITHIN;
        if self.commits.under_way.as_ref().is_some_and(is_stuck) {
            let _ = answer.send(Err(KafkaError::CommitDelayed { reason: STUCK.to_owned() }));
            return Ok(());
        }
        // A commit before this one whose caller gave up: its frontiers are in this one, too.
        self.commits.waiting = Some((frontiers, answer));
        self.send_waiting();
        Ok(())
    }

    pub(super) fn serve_commits(&mut self, now: Instant) -> Result<(), KafkaError> {
        while let Some(answer) = self.consumer.commit_answer() {
            self.commit_answered(answer, now)?;
        }
        self.send_waiting();
        self.send_notes(now);
        Ok(())
    }

    fn send_waiting(&mut self) {
        if self.commits.under_way.is_some() {
            return;
        }
        let Some((frontiers, answer)) = self.commits.waiting.take() else { return };
        let (sent, refused) = match self.check(&frontiers) {
            Ok(checked) => checked,
            Err(error) => {
                let _ = answer.send(Err(error));
                return;
            }
        };
        if sent.is_empty() {
            let _ = answer.send(Ok(CommitReport { refused }));
            return;
        }
        match self.consumer.commit(&positions(&sent)) {
            Ok(()) => {
                let (since, answer) = (Instant::now(), Some(answer));
                self.commits.under_way = Some(UnderWay { since, sent, refused, answer });
            }
            Err(trouble) => {
                let _ = answer.send(Err(KafkaError::CommitDelayed { reason: trouble.reason }));
            }
        }
    }

    /// What of it may be committed, and what is not owned any more.
    fn check(
        &self,
        frontiers: &[PartitionFrontier],
    ) -> Result<(Vec<Sent>, Vec<Partition>), KafkaError> {
        let is_lost = self.config.partitions.is_none() && self.consumer.is_lost();
        let (mut good, mut refused) = (Vec::new(), Vec::new());
        for PartitionFrontier { partition, generation, position } in frontiers {
            let position = position.get();
            match self.holdings.get(partition) {
                Some(holding) if holding.generation == *generation && !is_lost => {
                    if position > holding.next {
                        return Err(KafkaError::CommitBeyondDelivered {
                            topic: partition.stream().to_owned(),
                            partition: partition.index().unwrap_or(0),
                            position,
                            delivered: holding.next,
                        });
                    }
                    // What is committed is never taken back.
                    let position = position.max(holding.committed.unwrap_or(0));
                    let position = self.over_the_gap(partition, holding, position);
                    // An earlier answer may have come too late for the one who waited for it.
                    if holding.committed != Some(position) {
                        let (partition, generation) = (partition.clone(), Some(*generation));
                        good.push(Sent { partition, generation, at: position });
                    }
                }
                _ => refused.push(partition.clone()),
            }
        }
        Ok((good, refused))
    }

    /// Behind the last record that there is may be a gap (markers of transactions, records that
    /// were compacted away). Once everything before it is settled, so is the gap.
    fn over_the_gap(&self, partition: &Partition, holding: &Holding, position: u64) -> u64 {
        if position < holding.next || !self.handover.is_empty(partition) {
            return position;
        }
        let passed = self.consumer.passed(partition).unwrap_or(position).max(position);
        holding.until.map_or(passed, |until| passed.min(until.max(position)))
    }

    /// A finished partition is let go: if all of it is settled, the group needn't read on here to
    /// find that nothing is left.
    pub(super) fn commit_gap(&mut self, partition: &Partition, holding: &Holding) {
        if let Some(until) = holding.until
            && holding.is_settled()
            && holding.committed.is_none_or(|committed| committed < until)
        {
            self.commits.note(partition.clone(), until);
        }
    }

    /// The source learns from the answer that the partition is gone. If it came back meanwhile,
    /// that is another ownership.
    fn forget(&mut self, sent: &Sent) {
        let partition = &sent.partition;
        self.commits.forget(partition);
        let held = self.holdings.get(partition).map(|holding| (holding.generation, holding.phase));
        let Some((_, phase)) = held.filter(|held| Some(held.0) == sent.generation) else { return };
        self.holdings.remove(partition);
        self.handover.released(std::slice::from_ref(partition));
        if phase == Phase::Revoking
            && let Some(drain) = &mut self.drain
        {
            drain.released(partition);
        }
        self.consumer.silence(partition);
    }

    fn commit_answered(&mut self, answer: CommitAnswer, now: Instant) -> Result<(), KafkaError> {
        let Some(mut under_way) = self.commits.under_way.take() else { return Ok(()) };
        let mut delayed = None;
        for (partition, trouble) in answer {
            let Some(sent) = under_way.sent.iter().find(|sent| sent.partition == partition) else {
                continue;
            };
            let Some(trouble) = trouble else {
                self.committed(sent);
                continue;
            };
            match self.judge(&partition, trouble) {
                Ok(Verdict::Gone) => {
                    self.forget(sent);
                    under_way.refused.push(partition);
                }
                Ok(Verdict::Later(reason)) => delayed = Some(reason),
                Err(error) => {
                    if let Some(answer) = under_way.answer {
                        let _ = answer.send(Err(error.clone()));
                    }
                    return Err(error);
                }
            }
        }
        match under_way.answer {
            Some(answer) => {
                let outcome = match delayed {
                    Some(reason) => Err(KafkaError::CommitDelayed { reason }),
                    None => Ok(CommitReport { refused: under_way.refused }),
                };
                // The caller may have given up; then the next commit says it again.
                let _ = answer.send(outcome);
            }
            None if delayed.is_some() => self.commits.notes_at = Some(now + TRY_AGAIN_AFTER),
            None => {}
        }
        Ok(())
    }

    fn committed(&mut self, sent: &Sent) {
        let Sent { partition, generation, at } = sent;
        if let Some(holding) = self.holdings.get_mut(partition)
            && Some(holding.generation) == *generation
        {
            holding.committed = holding.committed.max(Some(*at));
        }
        if self.commits.notes.get(partition).is_some_and(|noted| noted <= at) {
            self.commits.notes.remove(partition);
        }
    }

    fn judge(&self, partition: &Partition, trouble: Trouble) -> Result<Verdict, KafkaError> {
        let Trouble { kind, reason } = trouble;
        let (topic, number) = (partition.stream().to_owned(), partition.index().unwrap_or(0));
        match kind {
            Kind::UnknownMember if self.config.partitions.is_some() => {
                Err(KafkaError::GroupInUse { group: self.config.group.clone() })
            }
            Kind::UnknownMember => Ok(Verdict::Gone),
            Kind::Passing | Kind::Connection | Kind::AllDown | Kind::Identity => {
                Ok(Verdict::Later(reason))
            }
            Kind::Fenced => Err(self.replaced()),
            Kind::GroupForbidden => Err(connect::may_not_join(&self.config.group)),
            Kind::TopicForbidden => Err(connect::may_not_read(&topic)),
            Kind::Fatal => Err(KafkaError::Broken { reason }),
            _ => Err(KafkaError::CommitRefused { topic, partition: number, reason }),
        }
    }

    /// Before the end: commits what is noted, if that is possible within a moment.
    pub(super) fn finish_notes(&mut self, wake: &Wake) {
        let deadline = Instant::now() + NOTES_WITHIN;
        while !(self.commits.notes.is_empty() && self.commits.under_way.is_none()) {
            let now = Instant::now();
            let _ = self.consumer.poll();
            if now >= deadline || self.serve_commits(now).is_err() {
                return;
            }
            wake.wait(Duration::from_millis(10));
        }
    }

    /// Places that nobody waits for.
    fn send_notes(&mut self, now: Instant) {
        let is_due = self.commits.notes_at.is_none_or(|at| now >= at);
        if self.commits.under_way.is_some() || self.commits.notes.is_empty() || !is_due {
            return;
        }
        if self.config.partitions.is_none() && self.consumer.is_lost() {
            return;
        }
        let note = |(partition, at): (&Partition, &u64)| Sent {
            partition: partition.clone(),
            generation: None,
            at: *at,
        };
        let sent: Vec<_> = self.commits.notes.iter().map(note).collect();
        match self.consumer.commit(&positions(&sent)) {
            Ok(()) => {
                let (refused, answer) = (Vec::new(), None);
                self.commits.under_way = Some(UnderWay { since: now, sent, refused, answer });
            }
            Err(_) => self.commits.notes_at = Some(now + TRY_AGAIN_AFTER),
        }
    }
}

/// What an error of a commit means for its partition.
enum Verdict {
    /// It isn't owned any more.
    Gone,
    /// It may go through later.
    Later(String),
}
