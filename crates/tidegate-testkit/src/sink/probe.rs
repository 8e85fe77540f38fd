use std::fmt;
use std::sync::Arc;

use tidegate_core::{ItemError, Report, Sink, SinkCapabilities, SinkError};

use super::control::Shared;
use crate::Process;
use crate::fault_point::Failed;

/// A sink that keeps what it is given for the test's [`SinkControl`](crate::SinkControl) to see,
/// and misbehaves as that says.
pub struct ProbeSink<T> {
    shared: Arc<Shared<T>>,
    process: Process,
}

impl<T> ProbeSink<T> {
    pub(super) fn new(shared: Arc<Shared<T>>, process: Process) -> Self {
        Self { shared, process }
    }
}

impl<T> fmt::Debug for ProbeSink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProbeSink")
    }
}

impl From<Failed> for SinkError {
    fn from(failed: Failed) -> Self {
        let Failed { message, retryable } = failed;
        if retryable { Self::retry(message) } else { Self::stop(message) }
    }
}

impl<T: Clone + Send + Sync + 'static> Sink for ProbeSink<T> {
    type Item = T;

    fn capabilities(&self) -> SinkCapabilities {
        self.shared.lock().capabilities
    }

    async fn open(&mut self) -> Result<(), SinkError> {
        let shared = &self.shared;
        let done = shared.opens.call(&self.process, || {
            shared.lock().opened += 1;
            shared.changed.changed();
        });
        Ok(done.await?)
    }

    async fn write(&mut self, batch: &[T]) -> Result<Report, SinkError> {
        let shared = &self.shared;
        shared.lock().attempts += 1;
        shared.changed.changed();
        shared.gate.pass().await;
        let done = shared.writes.call(&self.process, || {
            let mut state = shared.lock();
            let answers: Vec<Result<(), ItemError>> = batch
                .iter()
                .map(|item| match state.refusal(item) {
                    Some(reason) => Err(ItemError::new(reason)),
                    None => Ok(()),
                })
                .collect();
            let done = batch.iter().zip(&answers).filter(|(_, answer)| answer.is_ok());
            let written: Vec<T> = done.map(|(item, _)| item.clone()).collect();
            shared.note(&written);
            state.batches.push(written);
            answers
        });
        let mut answers = done.await?;
        let fewer = std::mem::take(&mut shared.lock().answers_fewer);
        answers.truncate(answers.len().saturating_sub(fewer));
        shared.changed.changed();
        Ok(Report::each(answers))
    }

    async fn close(&mut self) -> Result<(), SinkError> {
        let shared = &self.shared;
        let done = shared.closes.call(&self.process, || {
            shared.lock().closed += 1;
            shared.changed.changed();
        });
        Ok(done.await?)
    }
}
