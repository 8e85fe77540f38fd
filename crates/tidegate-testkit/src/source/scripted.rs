use std::fmt;
use std::future::pending;
use std::sync::Arc;

use tidegate_core::{
    Commit, CommitReport, Demand, Partition, Position, Source, SourceCapabilities, SourceError,
    SourceEvent,
};
use tokio::time::Instant;

use super::control::Shared;
use super::state::Next;
use crate::Process;
use crate::fault_point::Failed;
use crate::journal::Event;

/// A source that says what the test's [`SourceControl`](crate::SourceControl) tells it to.
pub struct ScriptedSource {
    shared: Arc<Shared>,
    process: Process,
    incarnation: u64,
}

impl ScriptedSource {
    pub(super) fn new(shared: Arc<Shared>, process: Process, incarnation: u64) -> Self {
        Self { shared, process, incarnation }
    }
}

impl fmt::Debug for ScriptedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScriptedSource({})", self.incarnation)
    }
}

fn error(message: String, retryable: bool) -> SourceError {
    if retryable { SourceError::retry(message) } else { SourceError::stop(message) }
}

impl From<Failed> for SourceError {
    fn from(failed: Failed) -> Self {
        error(failed.message, failed.retryable)
    }
}

impl Source for ScriptedSource {
    fn capabilities(&self) -> SourceCapabilities {
        self.shared.lock().capabilities
    }

    async fn next(&mut self, demand: &Demand) -> Result<SourceEvent, SourceError> {
        self.process.must_be_alive().await;
        self.shared.lock().polls += 1;
        self.shared.changed.changed();
        let mut changes = self.shared.changed.subscribe();
        loop {
            let next = {
                let mut state = self.shared.lock();
                if state.incarnation == self.incarnation {
                    state.next(demand, Instant::now(), &self.shared.journal)
                } else {
                    // Another one has taken over: this is a zombie and hears nothing.
                    Next::Nothing(None)
                }
            };
            match next {
                // Nothing is awaited between taking the event and returning it.
                Next::Event(event) => {
                    self.shared.changed.changed();
                    return Ok(event);
                }
                Next::Fail { message, retryable } => return Err(error(message, retryable)),
                Next::Panic(message) => panic!("{message}"),
                Next::Crash => {
                    self.process.crash();
                    self.process.must_be_alive().await;
                }
                Next::Nothing(until) => {
                    let pause = async {
                        match until {
                            Some(until) => tokio::time::sleep_until(until).await,
                            None => pending().await,
                        }
                    };
                    tokio::select! {
                        // The sender is in `shared`, so it is there.
                        _ = changes.changed() => {}
                        () = pause => {}
                    }
                    self.process.must_be_alive().await;
                }
            }
        }
    }

    async fn commit(&mut self, commit: Commit<'_>) -> Result<CommitReport, SourceError> {
        let shared = &self.shared;
        let done = shared.commits.call(&self.process, || {
            let Commit::Through(frontiers) = commit else {
                return Err(SourceError::stop("this kind of commit is not known to the test kit"));
            };
            let mut state = shared.lock();
            let refused: Vec<_> = frontiers
                .iter()
                .filter(|frontier| !state.commit(self.incarnation, frontier, &shared.journal))
                .map(|frontier| frontier.partition.clone())
                .collect();
            drop(state);
            shared.changed.changed();
            Ok(refused)
        });
        let refused = done.await??;
        shared.lock().heard(&refused);
        shared.changed.changed();
        Ok(CommitReport { refused })
    }

    async fn release(&mut self, partitions: &[Partition]) -> Result<(), SourceError> {
        let shared = &self.shared;
        let done = shared.releases.call(&self.process, || {
            shared.lock().release(self.incarnation, partitions, &shared.journal);
        });
        done.await?;
        shared.lock().heard(partitions);
        shared.changed.changed();
        Ok(())
    }

    async fn close(&mut self) -> Result<(), SourceError> {
        let shared = &self.shared;
        let done = shared.closes.call(&self.process, || {
            shared.journal.note(Event::Closed);
            shared.changed.changed();
        });
        Ok(done.await?)
    }

    fn end(&mut self, partition: &Partition) -> Option<Position> {
        let state = self.shared.lock();
        state.index(partition).map(|index| state.logs[index].end())
    }
}
