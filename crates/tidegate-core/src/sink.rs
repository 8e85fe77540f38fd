//! Where results go.

use std::future::{Future, ready};

use crate::{BoxError, SinkError};

/// What a sink can do; `tidegate check` and the guarantee report read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SinkCapabilities {
    /// Writing the same item twice leaves the same result as writing it once (an upsert by key).
    pub idempotent: bool,
    /// How many items one write may carry.
    pub max_items: usize,
}

impl SinkCapabilities {
    /// Repeats show, and a write carries at most 10,000 items.
    pub const fn new() -> Self {
        Self { idempotent: false, max_items: 10_000 }
    }

    /// Sets whether writing twice is the same as writing once.
    #[must_use]
    pub const fn idempotent(mut self, idempotent: bool) -> Self {
        self.idempotent = idempotent;
        self
    }

    /// Sets how many items one write may carry; at least 1.
    #[must_use]
    pub const fn max_items(mut self, max_items: usize) -> Self {
        self.max_items = if max_items == 0 { 1 } else { max_items };
        self
    }
}

impl Default for SinkCapabilities {
    fn default() -> Self {
        Self::new()
    }
}

/// This one item can't be written, now or later; the others of its batch are not concerned.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ItemError(#[source] BoxError);

impl ItemError {
    /// Refuses an item, with the reason.
    pub fn new(reason: impl Into<BoxError>) -> Self {
        Self(reason.into())
    }

    /// The reason.
    pub fn into_inner(self) -> BoxError {
        self.0
    }
}

/// A sink's answer for every item of a batch.
///
/// "Done" means confirmed by the broker or the database and durable there, not merely sent.
/// An answer that is missing counts as lost: the pipeline stops rather than guess.
#[derive(Debug)]
pub struct Report(ReportKind);

#[derive(Debug)]
enum ReportKind {
    AllDone(usize),
    Each(Vec<Result<(), ItemError>>),
}

impl Report {
    /// All `items` of the batch are done.
    pub fn all_done(items: usize) -> Self {
        Self(ReportKind::AllDone(items))
    }

    /// An answer for each item, in the batch's order.
    pub fn each(answers: Vec<Result<(), ItemError>>) -> Self {
        Self(ReportKind::Each(answers))
    }

    /// For how many items it answers.
    pub fn len(&self) -> usize {
        match &self.0 {
            ReportKind::AllDone(items) => *items,
            ReportKind::Each(answers) => answers.len(),
        }
    }

    /// Whether it answers for no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The items that were refused, by their index in the batch; all others are done.
    pub fn into_rejections(self) -> Vec<(usize, ItemError)> {
        match self.0 {
            ReportKind::AllDone(_) => Vec::new(),
            ReportKind::Each(answers) => answers
                .into_iter()
                .enumerate()
                .filter_map(|(index, answer)| answer.err().map(|error| (index, error)))
                .collect(),
        }
    }
}

/// Writes batches and answers for every item.
///
/// One task owns the sink for the life of the pipeline, whatever the rebalances; a write carries
/// what is waiting, of several partitions, each partition's items in order. Blocking work belongs
/// on a blocking thread (`tokio::task::spawn_blocking`).
///
/// - A write is never cancelled but by the end of the process or by a drain that ran out of time.
/// - After an error that [is retryable](SinkError::is_retryable) the same batch is written again,
///   after a pause that grows, under the pipeline's limit; meanwhile nothing else is written.
pub trait Sink: Send + 'static {
    /// What one write takes many of.
    type Item: Send + Sync + 'static;

    /// What it can do. Constant over its life.
    fn capabilities(&self) -> SinkCapabilities {
        SinkCapabilities::new()
    }

    /// Called once, before the first message is read: connect, create, check. An error stops the
    /// pipeline before it has begun.
    fn open(&mut self) -> impl Future<Output = Result<(), SinkError>> + Send {
        ready(Ok(()))
    }

    /// Writes the batch and returns when every item of it is durable or refused.
    fn write(
        &mut self,
        batch: &[Self::Item],
    ) -> impl Future<Output = Result<Report, SinkError>> + Send;

    /// Called once, after the last write.
    fn close(&mut self) -> impl Future<Output = Result<(), SinkError>> + Send {
        ready(Ok(()))
    }
}
