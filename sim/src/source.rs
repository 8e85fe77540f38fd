//! The source as the engine sees it: a log's, with the world in between.

use std::time::Duration;

use tidegate_core::{
    Commit, CommitReport, Demand, Partition, PartitionFrontier, Position, RecordBatch, Source,
    SourceCapabilities, SourceError, SourceEvent,
};
use tidegate_local::LocalSource;

use crate::fault::{Call, Edge};
use crate::memory_source::MemorySource;
use crate::message::decode;
use crate::mutant::Mutant;
use crate::trace::Event;
use crate::world::{Line, World};

/// A log's source.
#[derive(Debug)]
pub enum LogSource {
    /// Of the memory log.
    Memory(MemorySource),
    /// Of Tidegate's local log.
    Local(Box<LocalSource>),
}

/// The source of one incarnation.
#[derive(Debug)]
pub struct BorderSource {
    world: World,
    incarnation: u32,
    inner: LogSource,
    /// The log isn't asked before.
    ready_at: Duration,
    /// When reading fails, unless an event comes before, and whether for good.
    failure: Option<(Duration, bool)>,
}

impl BorderSource {
    /// Puts the world between a log and an incarnation's engine.
    pub fn new(world: World, incarnation: u32, inner: LogSource) -> Self {
        Self { world, incarnation, inner, ready_at: Duration::ZERO, failure: None }
    }

    async fn inner_next(&mut self, demand: &Demand) -> Result<SourceEvent, SourceError> {
        match &mut self.inner {
            LogSource::Memory(source) => source.next(demand).await,
            LogSource::Local(source) => source.next(demand).await,
        }
    }

    async fn inner_commit(&mut self, commit: Commit<'_>) -> Result<CommitReport, SourceError> {
        match &mut self.inner {
            LogSource::Memory(source) => source.commit(commit).await,
            LogSource::Local(source) => source.commit(commit).await,
        }
    }

    async fn inner_release(&mut self, partitions: &[Partition]) -> Result<(), SourceError> {
        match &mut self.inner {
            LogSource::Memory(source) => source.release(partitions).await,
            LogSource::Local(source) => source.release(partitions).await,
        }
    }

    /// Decides how the call behind this one goes. It is decided once, however often `next` is
    /// dropped meanwhile.
    fn plan_next(&mut self) {
        let plan = self.world.plan_call(Call::Next);
        self.ready_at = self.world.now() + plan.before;
        self.failure = plan.refused.then_some((self.ready_at + plan.quiet, plan.fatal));
    }

    fn hear(&self, event: &SourceEvent) {
        let (world, incarnation) = (&self.world, self.incarnation);
        match event {
            SourceEvent::Assigned(assignments) => {
                for assignment in assignments {
                    let partition = number(&assignment.partition);
                    let generation = assignment.generation.get();
                    world.note(&Event::Assigned { incarnation, partition, generation });
                    world.count(|tally| tally.assignments += 1);
                    world.check(|account| account.assigned(incarnation, partition, generation));
                }
            }
            SourceEvent::Fetched(batch) => self.hear_batch(batch),
            SourceEvent::Revoking(revocation) => {
                let within = revocation.within;
                for partition in revocation.partitions.iter().map(number) {
                    world.note(&Event::Revoking { incarnation, partition, within });
                    world.count(|tally| tally.revocations += 1);
                    world.revokes(incarnation, partition, within);
                }
            }
            SourceEvent::Lost(partitions) => {
                for partition in partitions.iter().map(number) {
                    world.note(&Event::Lost { incarnation, partition });
                    world.count(|tally| tally.losses += 1);
                    world.takes(incarnation, partition);
                }
            }
            SourceEvent::Finished(partitions) => {
                for partition in partitions.iter().map(number) {
                    world.note(&Event::Finished { incarnation, partition });
                }
            }
            SourceEvent::Ended => world.note(&Event::SourceEnded { incarnation }),
        }
    }

    fn hear_batch(&self, batch: &RecordBatch) {
        let (world, incarnation) = (&self.world, self.incarnation);
        let partition = number(batch.partition());
        let records: Vec<(u64, u32)> = batch
            .iter()
            .map(|record| (record.position().get(), decode(record.payload()).unwrap_or(u32::MAX)))
            .collect();
        let (Some(first), Some(last)) = (records.first(), records.last()) else { return };
        world.note(&Event::Fetched {
            incarnation,
            partition,
            first: first.0,
            last: last.0,
            records: records.len(),
        });
        let again = records
            .iter()
            .filter(|(_, record)| world.ask(|account| account.deliveries(*record) > 0));
        let again = again.count() as u64;
        world.count(|tally| tally.redeliveries += again);
        world.check(|account| account.delivered(incarnation, partition, &records));
        world.check_budget(incarnation);
    }

    /// Tells the account what the engine wants, and what the log has made of it.
    async fn make_commit(
        &mut self,
        frontiers: &[PartitionFrontier],
        plan: crate::world::CallPlan,
    ) -> Result<CommitReport, SourceError> {
        let (world, incarnation) = (self.world.clone(), self.incarnation);
        for frontier in frontiers {
            let partition = number(&frontier.partition);
            let (generation, position) = (frontier.generation.get(), frontier.position.get());
            world.note(&Event::Committing { incarnation, partition, generation, position });
            world.check(|a| a.committing(incarnation, partition, generation, position));
        }
        world.at_call(incarnation, Call::Commit, Edge::Before)?;
        world.sleep_until(world.now() + plan.before).await;
        world.gate(incarnation).await?;
        if plan.refused {
            let fatal = plan.fatal;
            world.note(&Event::CommitFailed { incarnation, made: false, fatal });
            return Err(self.failure(Line::Committing, fatal));
        }
        let report = self.inner_commit(Commit::Through(frontiers)).await?;
        for frontier in frontiers {
            let partition = number(&frontier.partition);
            let (generation, position) = (frontier.generation.get(), frontier.position.get());
            if report.refused.contains(&frontier.partition) {
                world.note(&Event::CommitRefused { incarnation, partition, generation });
                world.count(|tally| tally.refusals += 1);
                world.takes(incarnation, partition);
            } else {
                world.note(&Event::Committed { incarnation, partition, position });
                world.check(|account| account.committed(partition, generation, position));
            }
        }
        world.at_call(incarnation, Call::Commit, Edge::After)?;
        world.sleep_until(world.now() + plan.after).await;
        world.gate(incarnation).await?;
        // A refusal is what the source knows itself: it can't get lost on the way.
        if plan.reply_lost && report.refused.is_empty() {
            world.note(&Event::CommitFailed { incarnation, made: true, fatal: false });
            return Err(self.failure(Line::Committing, false));
        }
        world.succeeded(incarnation, Line::Committing);
        Ok(report)
    }

    /// A commit, as far as it gets.
    async fn commit_all(
        &mut self,
        frontiers: &[PartitionFrontier],
    ) -> Result<CommitReport, SourceError> {
        self.world.gate(self.incarnation).await?;
        let plan = self.world.plan_call(Call::Commit);
        let mut frontiers = frontiers.to_vec();
        for frontier in &mut frontiers {
            let position = frontier.position.get();
            if self.world.has(Mutant::CommitOneTooFar) {
                frontier.position = Position::new(position + 1);
            } else if self.world.has(Mutant::CommitGoesBack) {
                frontier.position = Position::new(position.saturating_sub(position % 4));
            }
        }
        self.make_commit(&frontiers, plan).await
    }

    /// A release, as far as it gets.
    async fn release_all(&mut self, partitions: &[Partition]) -> Result<(), SourceError> {
        let (world, incarnation) = (self.world.clone(), self.incarnation);
        world.gate(incarnation).await?;
        let plan = world.plan_call(Call::Release);
        world.at_call(incarnation, Call::Release, Edge::Before)?;
        world.sleep_until(world.now() + plan.before).await;
        world.gate(incarnation).await?;
        if plan.refused {
            world.note(&Event::ReleaseFailed { incarnation });
            return Err(self.failure(Line::Releasing, false));
        }
        self.inner_release(partitions).await?;
        for partition in partitions.iter().map(number) {
            world.note(&Event::Released { incarnation, partition });
            world.releases(incarnation, partition);
        }
        world.at_call(incarnation, Call::Release, Edge::After)?;
        world.succeeded(incarnation, Line::Releasing);
        Ok(())
    }

    fn fail_reading(&mut self, fatal: bool) -> SourceError {
        let incarnation = self.incarnation;
        self.world.note(&Event::NextFailed { incarnation, fatal });
        self.plan_next();
        self.failure(Line::Reading, fatal)
    }

    fn failure(&self, line: Line, fatal: bool) -> SourceError {
        if fatal {
            self.world.failed_for_good(self.incarnation, line);
            SourceError::stop("injected: it fails for good")
        } else {
            self.world.failed(self.incarnation, line);
            SourceError::retry("injected: it fails this time")
        }
    }
}

impl Source for BorderSource {
    fn capabilities(&self) -> SourceCapabilities {
        match &self.inner {
            LogSource::Memory(source) => source.capabilities(),
            LogSource::Local(source) => source.capabilities(),
        }
    }

    async fn next(&mut self, demand: &Demand) -> Result<SourceEvent, SourceError> {
        let world = self.world.clone();
        let incarnation = self.incarnation;
        let _asking = world.asked(incarnation, demand);
        let event = loop {
            world.gate(incarnation).await?;
            world.sleep_until(self.ready_at).await;
            world.gate(incarnation).await?;
            world.at_call(incarnation, Call::Next, Edge::Before)?;
            let failure = self.failure;
            let event = tokio::select! {
                biased;
                () = world.interrupted(incarnation) => continue,
                fatal = fails(&world, failure) => return Err(self.fail_reading(fatal)),
                event = self.inner_next(demand) => event?,
            };
            let is_pair = matches!(&event, SourceEvent::Fetched(batch) if batch.len() == 2);
            if !(is_pair && world.has(Mutant::SkipBatch)) {
                break event;
            }
        };
        self.plan_next();
        world.succeeded(incarnation, Line::Reading);
        self.hear(&event);
        world.at_call(incarnation, Call::Next, Edge::After)?;
        Ok(event)
    }

    async fn commit(&mut self, commit: Commit<'_>) -> Result<CommitReport, SourceError> {
        let Commit::Through(frontiers) = commit else {
            return Err(SourceError::stop("this world commits prefixes only"));
        };
        let call = self.world.begins(self.incarnation);
        let answer = self.commit_all(frontiers).await;
        call.answered();
        answer
    }

    async fn release(&mut self, partitions: &[Partition]) -> Result<(), SourceError> {
        let call = self.world.begins(self.incarnation);
        let answer = self.release_all(partitions).await;
        call.answered();
        answer
    }

    async fn close(&mut self) -> Result<(), SourceError> {
        let (world, incarnation) = (self.world.clone(), self.incarnation);
        world.gate(incarnation).await?;
        world.note(&Event::Closed { incarnation });
        match &mut self.inner {
            LogSource::Memory(source) => source.close().await,
            LogSource::Local(source) => source.close().await,
        }
    }

    fn end(&mut self, partition: &Partition) -> Option<Position> {
        match &mut self.inner {
            LogSource::Memory(source) => source.end(partition),
            LogSource::Local(source) => source.end(partition),
        }
    }
}

/// Waits for a failure that is to come; returns whether it is for good.
async fn fails(world: &World, failure: Option<(Duration, bool)>) -> bool {
    match failure {
        Some((at, fatal)) => {
            world.sleep_until(at).await;
            fatal
        }
        None => std::future::pending().await,
    }
}

fn number(partition: &Partition) -> u32 {
    partition.index().unwrap_or(u32::MAX)
}
