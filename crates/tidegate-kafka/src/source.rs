//! The source: a member of a consumer group.
//!
//! It owns no client: everything happens on the reader's thread. Its methods take what is ready
//! from the hand-over, or ask the reader and wait for the answer; both can be dropped at any time.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tidegate_core::{
    Commit, CommitReport, Demand, Partition, Position, Source, SourceCapabilities, SourceError,
    SourceEvent,
};
use tokio::sync::oneshot;

use crate::client::Probe;
use crate::config::{KafkaSourceConfig, Stop};
use crate::error::KafkaError;
use crate::handover::{Handover, Request};
use crate::reader;
use crate::wake::Wake;

/// How long the client may take to leave the group and to end.
const CLOSE_WITHIN: Duration = Duration::from_secs(10);

/// Reads topics as a member of a consumer group.
///
/// It connects and joins with the first call of `next`, and leaves with `close`. A source that is
/// only dropped leaves, too, in the background: what it has not committed comes again, here or
/// elsewhere.
///
/// Partitions that are released although the group did not want them back (at a stop) stay with
/// this member, unread, until it closes.
#[derive(Debug)]
pub struct KafkaSource {
    config: KafkaSourceConfig,
    state: State,
}

enum State {
    /// Settings are checked; nothing is connected.
    Made(Box<Probe>),
    Running {
        handover: Arc<Handover>,
        thread: Option<JoinHandle<()>>,
    },
    Closed,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Made(_) => "Made",
            Self::Running { .. } => "Running",
            Self::Closed => "Closed",
        })
    }
}

impl KafkaSource {
    /// A source with these settings, which are checked. Connects to nothing yet.
    pub fn new(config: KafkaSourceConfig) -> Result<Self, KafkaError> {
        let problems = config.problems();
        if !problems.is_empty() {
            return Err(KafkaError::Config { what: "kafka source", problems });
        }
        let probe = Probe::new("kafka source", config.connection())?;
        Ok(Self { config, state: State::Made(Box::new(probe)) })
    }

    /// Starts the reader with the first call.
    fn handover(&mut self) -> Result<&Arc<Handover>, KafkaError> {
        if matches!(self.state, State::Made(_)) {
            let State::Made(probe) = std::mem::replace(&mut self.state, State::Closed) else {
                return Err(closed());
            };
            let wake = Arc::new(Wake::default());
            let handover = Arc::new(Handover::new(Arc::clone(&wake)));
            let thread = reader::start(self.config.clone(), *probe, Arc::clone(&handover), wake)
                .map_err(|error| KafkaError::Broken {
                    reason: format!("no thread can be started: {error}"),
                })?;
            self.state = State::Running { handover, thread: Some(thread) };
        }
        match &self.state {
            State::Running { handover, .. } => Ok(handover),
            _ => Err(closed()),
        }
    }

    /// Asks the reader and waits for its answer.
    async fn ask<T>(
        &mut self,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Result<T, KafkaError> {
        let handover = Arc::clone(self.handover()?);
        let (answer, answered) = oneshot::channel();
        handover.request(request(answer));
        answered.await.map_err(|_| handover.broken().unwrap_or_else(closed))
    }
}

impl Source for KafkaSource {
    fn capabilities(&self) -> SourceCapabilities {
        SourceCapabilities::new()
            .bounded(self.config.stop != Stop::Never)
            .resumes(!self.config.ignore_commits)
            .rebalances(self.config.partitions.is_none())
    }

    async fn next(&mut self, demand: &Demand) -> Result<SourceEvent, SourceError> {
        Ok(self.handover()?.next(demand).await?)
    }

    async fn commit(&mut self, commit: Commit<'_>) -> Result<CommitReport, SourceError> {
        match commit {
            Commit::Through(frontiers) => {
                let frontiers = frontiers.to_vec();
                let asked = self.ask(|answer| Request::Commit(frontiers, answer));
                match tokio::time::timeout(reader::COMMIT_WITHIN, asked).await {
                    Ok(report) => Ok(report??),
                    Err(_) => Err(KafkaError::CommitDelayed {
                        reason: format!("no answer within {:?}", reader::COMMIT_WITHIN),
                    }
                    .into()),
                }
            }
            _ => Err(SourceError::stop(
                "this version commits whole prefixes only; please report this as a bug",
            )),
        }
    }

    async fn release(&mut self, partitions: &[Partition]) -> Result<(), SourceError> {
        let partitions = partitions.to_vec();
        Ok(self.ask(|answer| Request::Release(partitions, answer)).await?)
    }

    async fn close(&mut self) -> Result<(), SourceError> {
        let State::Running { handover, thread } = &mut self.state else {
            self.state = State::Closed;
            return Ok(());
        };
        let (answer, answered) = oneshot::channel();
        handover.request(Request::Close(answer));
        let thread = thread.take();
        // The answer comes when the client has ended, or is dropped by a reader that had stopped.
        if tokio::time::timeout(CLOSE_WITHIN, answered).await.is_err() {
            tracing::warn!(
                group = self.config.group,
                "the client did not end within {CLOSE_WITHIN:?}; it is left behind"
            );
        } else if let Some(thread) = thread {
            // It has answered, so there is nothing left to wait for.
            let _ = thread.join();
        }
        self.state = State::Closed;
        Ok(())
    }

    fn end(&mut self, partition: &Partition) -> Option<Position> {
        match &self.state {
            State::Running { handover, .. } => handover.end(partition).map(Position::new),
            _ => None,
        }
    }
}

impl Drop for KafkaSource {
    fn drop(&mut self) {
        if let State::Running { handover, .. } = &self.state {
            handover.abandon();
        }
    }
}

fn closed() -> KafkaError {
    KafkaError::Broken { reason: "the source was closed".to_owned() }
}
