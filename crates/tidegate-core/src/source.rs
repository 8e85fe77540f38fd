//! Where records come from.

use std::future::Future;
use std::time::Duration;

use crate::{Demand, Generation, Partition, Position, RecordBatch, SourceError};

/// What a source can do. The runtime and the conformance suite choose by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SourceCapabilities {
    /// It comes to an end ([`SourceEvent::Ended`]).
    pub bounded: bool,
    /// After a restart it goes on at the last commit. Without it every run begins anew.
    pub resumes: bool,
    /// Partitions move between several instances while they run.
    pub rebalances: bool,
}

impl SourceCapabilities {
    /// An unbounded source that starts anew each time and has its partitions to itself.
    pub const fn new() -> Self {
        Self { bounded: false, resumes: false, rebalances: false }
    }

    /// Sets whether it comes to an end.
    #[must_use]
    pub const fn bounded(mut self, bounded: bool) -> Self {
        self.bounded = bounded;
        self
    }

    /// Sets whether it goes on at the last commit.
    #[must_use]
    pub const fn resumes(mut self, resumes: bool) -> Self {
        self.resumes = resumes;
        self
    }

    /// Sets whether partitions move between instances.
    #[must_use]
    pub const fn rebalances(mut self, rebalances: bool) -> Self {
        self.rebalances = rebalances;
        self
    }
}

impl Default for SourceCapabilities {
    fn default() -> Self {
        Self::new()
    }
}

/// A partition that the source now owns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// The partition.
    pub partition: Partition,
    /// The period of ownership; it comes back with every commit, so that the source can fence.
    pub generation: Generation,
}

/// Partitions that the source will give up, once what is in flight has settled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Revocation {
    /// The partitions that go. Others are not touched.
    pub partitions: Vec<Partition>,
    /// How long the source can wait, if less than the pipeline's own drain time.
    pub within: Option<Duration>,
}

/// What a source says.
#[derive(Debug)]
pub enum SourceEvent {
    /// These partitions are owned from now on. Comes before their first record.
    Assigned(Vec<Assignment>),
    /// Records of one owned partition, behind all that it delivered before.
    Fetched(RecordBatch),
    /// These partitions are to be given up. The source delivers nothing more of them; the runtime
    /// drains them, commits, and calls [`Source::release`]. Meanwhile `next` is called as always.
    Revoking(Revocation),
    /// These partitions are gone already. Nothing of them may be committed any more.
    Lost(Vec<Partition>),
    /// These partitions have no more records, ever. They are drained without a time limit,
    /// committed and released.
    Finished(Vec<Partition>),
    /// No partition will have another record. `next` is not called again; commits and releases
    /// still are.
    Ended,
}

/// The frontier of one partition: everything before `position` is settled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionFrontier {
    /// The partition.
    pub partition: Partition,
    /// The period of ownership in which the messages were delivered.
    pub generation: Generation,
    /// The first position that is not settled.
    pub position: Position,
}

/// What a source may forget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Commit<'a> {
    /// In each of these partitions everything before the frontier. Frontiers of one generation
    /// only rise.
    Through(&'a [PartitionFrontier]),
}

/// What became of a commit that did not fail as a whole.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CommitReport {
    /// Partitions of the commit that are not owned any more. Nothing was committed for them; the
    /// runtime fences them, as after [`SourceEvent::Lost`], which needn't follow.
    pub refused: Vec<Partition>,
}

/// Where records come from.
///
/// One task owns the source and calls its methods one after another, on a thread that runs no
/// user code, so a method may block for as long as its client needs for one exchange.
///
/// - `next` is **cancel-safe**: its future is dropped whenever the runtime has something to
///   commit or the demand changes, and the next call goes on where it was. A record that was
///   taken from the client is returned by this or a later call, never dropped.
/// - It waits without spinning, and serves its client (heartbeats, rebalances) also when the
///   demand allows nothing.
/// - Events of a partition come in the order `Assigned`, `Fetched`…, then one of `Revoking`,
///   `Lost` or `Finished`. A partition that was released may be assigned again.
/// - An error that [is retryable](SourceError::is_retryable) is followed by another call, after a
///   pause that grows, under the pipeline's limit. Every other error stops the pipeline.
/// - `commit` and `release` are awaited to their end, unless they hang when the pipeline has to
///   stop: once the time for that is over, they are dropped, and only `close` is called after.
pub trait Source: Send + 'static {
    /// What it can do. Constant over its life.
    fn capabilities(&self) -> SourceCapabilities;

    /// Waits for what happens next.
    fn next(
        &mut self,
        demand: &Demand,
    ) -> impl Future<Output = Result<SourceEvent, SourceError>> + Send;

    /// Makes it durable that the source may forget what the commit says. Returns only when it is.
    /// If it fails, nothing may have been forgotten, and the commit is made again.
    fn commit(
        &mut self,
        commit: Commit<'_>,
    ) -> impl Future<Output = Result<CommitReport, SourceError>> + Send;

    /// These partitions are drained and committed, or their time ran out: let them go. What was
    /// not committed comes again, here or elsewhere. Not called for partitions that were
    /// [`Lost`](SourceEvent::Lost) or [refused](CommitReport::refused): those are gone already.
    fn release(
        &mut self,
        partitions: &[Partition],
    ) -> impl Future<Output = Result<(), SourceError>> + Send;

    /// The end: everything is committed and released. Leaves the group, closes the client.
    fn close(&mut self) -> impl Future<Output = Result<(), SourceError>> + Send;

    /// The position behind the last record that the partition is known to have, for the lag.
    /// Called about once a second for each partition, so it must be cheap.
    fn end(&mut self, _partition: &Partition) -> Option<Position> {
        None
    }
}
