//! What a check does with a source: a member of its group, driven by hand.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::{
    Commit, CommitReport, Demand, Generation, Partition, PartitionFrontier, Position, Source,
    SourceEvent,
};

use super::report::{Outcome, ensure, unexpected};

/// The longest that a check waits for something that must come.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// How long nothing must come for a check to believe that nothing will.
pub(super) const QUIET: Duration = Duration::from_secs(3);

/// A record as it came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Got {
    pub(super) position: Position,
    pub(super) payload: String,
}

/// A source, and what it has said so far.
pub(super) struct Member<S> {
    pub(super) source: S,
    pub(super) owned: BTreeMap<Partition, Generation>,
    pub(super) revoking: Vec<Partition>,
    pub(super) finished: Vec<Partition>,
    pub(super) got: BTreeMap<Partition, Vec<Got>>,
    pub(super) ended: bool,
    /// The records and the bytes of their payloads in the largest batches so far.
    pub(super) largest: (usize, usize),
}

pub(super) fn wide() -> Demand {
    Demand::new(1000, 1 << 20)
}

impl<S: Source> Member<S> {
    pub(super) fn new(source: S) -> Self {
        Self {
            source,
            owned: BTreeMap::new(),
            revoking: Vec::new(),
            finished: Vec::new(),
            got: BTreeMap::new(),
            ended: false,
            largest: (0, 0),
        }
    }

    /// Lets the source say one thing. False if it stayed silent for so long.
    pub(super) async fn step(&mut self, demand: &Demand, wait: Duration) -> Result<bool, String> {
        match tokio::time::timeout(wait, self.source.next(demand)).await {
            Ok(Ok(event)) => self.hear(event, demand).map(|()| true),
            Ok(Err(error)) => Err(unexpected("next")(error)),
            Err(_) => Ok(false),
        }
    }

    /// Takes in what the source said, and checks what holds of every event.
    pub(super) fn hear(&mut self, event: SourceEvent, demand: &Demand) -> Outcome {
        ensure!(!self.ended, "it said {event:?} after its end");
        match event {
            SourceEvent::Assigned(assignments) => {
                for assigned in assignments {
                    let partition = assigned.partition;
                    let before = self.owned.insert(partition.clone(), assigned.generation);
                    ensure!(before.is_none(), "{partition} was assigned twice");
                    self.got.remove(&partition);
                }
            }
            SourceEvent::Fetched(batch) => {
                let partition = batch.partition().clone();
                ensure!(
                    self.owned.contains_key(&partition),
                    "{batch:?} came before its assignment"
                );
                ensure!(!self.revoking.contains(&partition), "{batch:?} came after a revocation");
                ensure!(demand.allows(&partition), "{batch:?} came without room for {partition}");
                ensure!(!batch.is_empty(), "an empty batch came");
                let records = batch.iter().map(|record| Got {
                    position: record.position(),
                    payload: String::from_utf8_lossy(record.payload()).into_owned(),
                });
                let got = self.got.entry(partition.clone()).or_default();
                for record in records {
                    if let Some(last) = got.last() {
                        ensure!(
                            last.position < record.position,
                            "{partition}: {record:?} came after {last:?}"
                        );
                    }
                    got.push(record);
                }
                let bytes: usize = batch.iter().map(|record| record.payload().len()).sum();
                ensure!(
                    batch.len() <= demand.max_records(),
                    "{} records came where {} were allowed",
                    batch.len(),
                    demand.max_records()
                );
                ensure!(
                    batch.len() == 1 || bytes <= demand.max_bytes(),
                    "{bytes} bytes of payload came in one batch where {} were allowed",
                    demand.max_bytes()
                );
                self.largest = (self.largest.0.max(batch.len()), self.largest.1.max(bytes));
            }
            SourceEvent::Revoking(revocation) => self.revoking.extend(revocation.partitions),
            SourceEvent::Lost(partitions) => {
                for partition in partitions {
                    self.owned.remove(&partition);
                    self.revoking.retain(|going| *going != partition);
                }
            }
            SourceEvent::Finished(partitions) => self.finished.extend(partitions),
            SourceEvent::Ended => self.ended = true,
        }
        Ok(())
    }

    /// Reads until it has this many records of these partitions in all.
    pub(super) async fn read(&mut self, demand: &Demand, records: usize) -> Outcome {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while self.count() < records {
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            ensure!(!self.ended, "it ended after {} of {records} records", self.count());
            ensure!(
                self.step(demand, left).await?,
                "{} of {records} records came in {} s",
                self.count(),
                PATIENCE.as_secs()
            );
        }
        Ok(())
    }

    /// Reads until it says nothing more for a while, or has ended.
    pub(super) async fn read_until_quiet(&mut self, demand: &Demand) -> Outcome {
        while !self.ended && self.step(demand, QUIET).await? {}
        Ok(())
    }

    pub(super) fn count(&self) -> usize {
        self.got.values().map(Vec::len).sum()
    }

    /// The payloads that came of a partition.
    pub(super) fn payloads(&self, partition: &Partition) -> Vec<&str> {
        let got = self.got.get(partition);
        got.into_iter().flatten().map(|got| got.payload.as_str()).collect()
    }

    /// Commits the first `records` of those that came of the partition, and returns the frontier.
    pub(super) async fn commit(
        &mut self,
        partition: &Partition,
        records: usize,
    ) -> Result<Position, String> {
        let Some(got) = self.got.get(partition).and_then(|got| got.get(records.checked_sub(1)?))
        else {
            return Err(format!("{records} records of {partition} should have come"));
        };
        let position = got.position.next();
        let report = self.commit_at(partition, position).await?;
        ensure!(report.refused.is_empty(), "the commit of {partition} was refused");
        Ok(position)
    }

    pub(super) async fn commit_at(
        &mut self,
        partition: &Partition,
        position: Position,
    ) -> Result<CommitReport, String> {
        let generation = self.owned.get(partition).copied().unwrap_or_default();
        let frontiers = [PartitionFrontier { partition: partition.clone(), generation, position }];
        let commit = self.source.commit(Commit::Through(&frontiers)).await;
        commit.map_err(unexpected("commit"))
    }

    /// Lets partitions go.
    pub(super) async fn release(&mut self, partitions: &[Partition]) -> Outcome {
        self.source.release(partitions).await.map_err(unexpected("release"))?;
        for partition in partitions {
            self.owned.remove(partition);
            self.revoking.retain(|going| going != partition);
        }
        Ok(())
    }

    /// Lets everything go and closes the source, as the end of a pipeline does.
    pub(super) async fn close(mut self) -> Outcome {
        let partitions: Vec<_> = self.owned.keys().cloned().collect();
        self.release(&partitions).await?;
        self.source.close().await.map_err(unexpected("close"))
    }
}
