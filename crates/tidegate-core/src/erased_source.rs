use std::fmt;

use crate::outlet::BoxFuture;
use crate::{
    Commit, CommitReport, Demand, Partition, Position, Source, SourceCapabilities, SourceError,
    SourceEvent,
};

/// A source of whichever type. Calls cost one allocation each: once a chunk, not once a message.
pub struct BoxSource(Box<dyn ErasedSource>);

impl BoxSource {
    /// Erases the source's type.
    pub fn new(source: impl Source) -> Self {
        Self(Box::new(source))
    }
}

impl fmt::Debug for BoxSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoxSource({:?})", self.0.capabilities())
    }
}

impl Source for BoxSource {
    fn capabilities(&self) -> SourceCapabilities {
        self.0.capabilities()
    }

    async fn next(&mut self, demand: &Demand) -> Result<SourceEvent, SourceError> {
        self.0.next(demand).await
    }

    async fn commit(&mut self, commit: Commit<'_>) -> Result<CommitReport, SourceError> {
        self.0.commit(commit).await
    }

    async fn release(&mut self, partitions: &[Partition]) -> Result<(), SourceError> {
        self.0.release(partitions).await
    }

    async fn close(&mut self) -> Result<(), SourceError> {
        self.0.close().await
    }

    fn end(&mut self, partition: &Partition) -> Option<Position> {
        self.0.end(partition)
    }
}

trait ErasedSource: Send {
    fn capabilities(&self) -> SourceCapabilities;
    fn next<'a>(
        &'a mut self,
        demand: &'a Demand,
    ) -> BoxFuture<'a, Result<SourceEvent, SourceError>>;
    fn commit<'a>(
        &'a mut self,
        commit: Commit<'a>,
    ) -> BoxFuture<'a, Result<CommitReport, SourceError>>;
    fn release<'a>(
        &'a mut self,
        partitions: &'a [Partition],
    ) -> BoxFuture<'a, Result<(), SourceError>>;
    fn close(&mut self) -> BoxFuture<'_, Result<(), SourceError>>;
    fn end(&mut self, partition: &Partition) -> Option<Position>;
}

impl<S: Source> ErasedSource for S {
    fn capabilities(&self) -> SourceCapabilities {
        Source::capabilities(self)
    }

    fn next<'a>(
        &'a mut self,
        demand: &'a Demand,
    ) -> BoxFuture<'a, Result<SourceEvent, SourceError>> {
        Box::pin(Source::next(self, demand))
    }

    fn commit<'a>(
        &'a mut self,
        commit: Commit<'a>,
    ) -> BoxFuture<'a, Result<CommitReport, SourceError>> {
        Box::pin(Source::commit(self, commit))
    }

    fn release<'a>(
        &'a mut self,
        partitions: &'a [Partition],
    ) -> BoxFuture<'a, Result<(), SourceError>> {
        Box::pin(Source::release(self, partitions))
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), SourceError>> {
        Box::pin(Source::close(self))
    }

    fn end(&mut self, partition: &Partition) -> Option<Position> {
        Source::end(self, partition)
    }
}
