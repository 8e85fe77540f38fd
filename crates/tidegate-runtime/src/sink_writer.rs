use std::time::Duration;

use std::sync::Arc;

use tidegate_core::{Report, Sink, SinkError, StepId, Stopped, error_chain};

use crate::backoff::Backoff;
use crate::board::Board;
use crate::error::PipelineErrorKind;
use crate::log_limit::LogLimit;
use crate::settings::RetryPolicy;
use crate::timer::Timer;

/// What a sink's task needs of the pipeline.
#[derive(Clone)]
pub(crate) struct WriterContext {
    pub(crate) board: Arc<Board>,
    pub(crate) timer: Timer,
    pub(crate) retry: RetryPolicy,
}

/// A sink with its retries. Whatever it can't get done stops the pipeline.
pub(crate) struct SinkWriter<S> {
    sink: S,
    step: StepId,
    context: WriterContext,
    backoff: Backoff,
    log: LogLimit,
}

impl<S: Sink> SinkWriter<S> {
    pub(crate) fn new(sink: S, step: StepId, context: WriterContext) -> Self {
        let backoff = Backoff::new(context.retry);
        Self { sink, step, context, backoff, log: LogLimit::new(Duration::from_secs(10)) }
    }

    pub(crate) fn max_items(&self) -> usize {
        self.sink.capabilities().max_items
    }

    pub(crate) async fn open(&mut self) -> Result<(), Stopped> {
        loop {
            match self.sink.open().await {
                Ok(()) => {
                    self.backoff.succeeded();
                    return Ok(());
                }
                Err(error) => self.pause_or_stop(error).await?,
            }
        }
    }

    /// Writes until the sink has answered for every item of the batch.
    pub(crate) async fn write(&mut self, batch: &[S::Item]) -> Result<Report, Stopped> {
        loop {
            match self.sink.write(batch).await {
                Ok(report) if report.len() == batch.len() => {
                    self.backoff.succeeded();
                    return Ok(report);
                }
                Ok(report) => {
                    let what = format!(
                        "sink {} answered for {} of {} items: which of them are written is unknown",
                        self.context.board.names.describe(self.step),
                        report.len(),
                        batch.len()
                    );
                    self.context.board.fail(PipelineErrorKind::Contract { what });
                    return Err(Stopped);
                }
                Err(error) => self.pause_or_stop(error).await?,
            }
        }
    }

    pub(crate) async fn close(mut self) {
        if let Err(error) = self.sink.close().await {
            self.stop(error);
        }
    }

    async fn pause_or_stop(&mut self, error: SinkError) -> Result<(), Stopped> {
        let now = self.context.timer.now();
        let pause = if error.is_retryable() { self.backoff.failed(now) } else { None };
        let Some(pause) = pause else {
            self.stop(error);
            return Err(Stopped);
        };
        if let Some(suppressed) = self.log.allow(now) {
            tracing::warn!(
                sink = self.context.board.names.describe(self.step),
                error = error_chain(&error.into()),
                suppressed,
                "a sink failed and will be tried again"
            );
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }

    fn stop(&self, error: SinkError) {
        let sink = self.context.board.names.describe(self.step);
        self.context.board.fail(PipelineErrorKind::Sink { sink, error });
    }
}
