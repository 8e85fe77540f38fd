use std::future::{Future, ready};

use tidegate_core::{Partition, Position, Source};

/// Makes sources of one kind, feeds them, and looks at their commits from outside.
///
/// A place is what the source reads from (a topic, a folder); each check gets a new one.
pub trait SourceHarness: Send {
    /// The source.
    type Source: Source;

    /// A new, empty place with [`SourceHarness::partitions`] partitions.
    fn reset(&mut self) -> impl Future<Output = ()> + Send;

    /// How many partitions a place has, at least 1; better 2 or more.
    fn partitions(&self) -> usize;

    /// The name of a partition, as the source assigns it; the number is less than
    /// [`SourceHarness::partitions`].
    fn partition(&self, index: usize) -> Partition;

    /// Appends records with these payloads to a partition, in order. When it returns, a source
    /// that is made can read them, and one that is unbounded will come to them.
    fn produce(&mut self, partition: usize, payloads: &[String])
    -> impl Future<Output = ()> + Send;

    /// A source as a new process would make it: of the same group, store or whatever keeps its
    /// commits. Sources that rebalance may be made while others are there.
    fn start(&mut self) -> impl Future<Output = Self::Source> + Send;

    /// What is durably committed of a partition, read without a source; `None` if nothing is.
    /// Not called if the source does not resume.
    fn committed(&mut self, partition: usize) -> impl Future<Output = Option<Position>> + Send;

    /// Ends a source as the death of its process would: nothing of it is closed or waited for.
    fn kill(&mut self, source: Self::Source) -> impl Future<Output = ()> + Send {
        drop(source);
        ready(())
    }
}
