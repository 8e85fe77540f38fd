//! A member of the memory log's group.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::{
    Commit, CommitReport, Demand, Partition, Position, Source, SourceCapabilities, SourceError,
    SourceEvent,
};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::memory_log::MemoryLog;

/// How often a member speaks when nothing happens.
const HEARTBEAT: Duration = Duration::from_millis(200);

/// A memory log that several share.
#[derive(Clone, Debug)]
pub struct SharedLog(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    start: Instant,
    log: Mutex<MemoryLog>,
    changed: Notify,
}

impl SharedLog {
    /// Shares the log. Its time begins now.
    pub fn new(log: MemoryLog) -> Self {
        let (start, changed) = (Instant::now(), Notify::new());
        Self(Arc::new(Shared { start, log: Mutex::new(log), changed }))
    }

    /// Changes something, and wakes those that wait.
    pub fn change<T>(&self, change: impl FnOnce(&mut MemoryLog, Duration) -> T) -> T {
        let result = change(&mut self.lock(), self.0.start.elapsed());
        self.0.changed.notify_waiters();
        result
    }

    /// A member with this number, which nobody else had.
    pub fn source(&self, id: u32, bounded: bool) -> MemorySource {
        MemorySource { log: self.clone(), id, bounded }
    }

    fn lock(&self) -> MutexGuard<'_, MemoryLog> {
        self.0.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A member of the group.
#[derive(Debug)]
pub struct MemorySource {
    log: SharedLog,
    id: u32,
    bounded: bool,
}

impl Source for MemorySource {
    fn capabilities(&self) -> SourceCapabilities {
        SourceCapabilities::new().bounded(self.bounded).resumes(true).rebalances(true)
    }

    async fn next(&mut self, demand: &Demand) -> Result<SourceEvent, SourceError> {
        loop {
            let changed = self.log.0.changed.notified();
            let event = self.log.lock().poll(self.id, demand, self.log.0.start.elapsed());
            if let Some(event) = event {
                return Ok(event);
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = tokio::time::sleep(HEARTBEAT) => {}
            }
        }
    }

    async fn commit(&mut self, commit: Commit<'_>) -> Result<CommitReport, SourceError> {
        let Commit::Through(frontiers) = commit else {
            return Err(SourceError::stop("the memory log commits prefixes only"));
        };
        let id = self.id;
        let refused = self.log.change(|log, now| log.commit(id, frontiers, now));
        Ok(CommitReport { refused })
    }

    async fn release(&mut self, partitions: &[Partition]) -> Result<(), SourceError> {
        let id = self.id;
        self.log.change(|log, now| log.release(id, partitions, now));
        Ok(())
    }

    async fn close(&mut self) -> Result<(), SourceError> {
        let id = self.id;
        self.log.change(|log, now| log.leave(id, now));
        Ok(())
    }

    fn end(&mut self, partition: &Partition) -> Option<Position> {
        Some(Position::new(self.log.lock().end(partition.index()?)))
    }
}
