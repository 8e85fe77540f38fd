//! The sink: appends to a topic.
//!
//! A write answers once the transaction with the whole batch is on the disk. If a write is
//! dropped half-way, its blocking thread still finishes it; the next write opens the file anew.

use tidegate_core::{Clock, ItemError, Report, Sink, SinkCapabilities, SinkError};

use crate::config::{Blocking, LocalSinkConfig};
use crate::encoded::EncodedBatch;
use crate::error::LocalError;
use crate::producer::Producer;
use crate::record::LocalRecord;

/// Appends to a topic; also the dead letters' sink, see `LocalRecord::from`.
///
/// A record that is too large is refused alone. A repeated write shows twice.
#[derive(Debug)]
pub struct LocalSink {
    config: LocalSinkConfig,
    clock: Clock,
    producer: Option<Producer>,
}

impl LocalSink {
    /// A sink with these settings, on the machine's clock. The file is opened before the first
    /// message is read.
    pub fn new(config: LocalSinkConfig) -> Result<Self, LocalError> {
        Self::with_clock(config, Clock::system())
    }

    /// The same on another clock: it gives records without a timestamp theirs.
    pub fn with_clock(config: LocalSinkConfig, clock: Clock) -> Result<Self, LocalError> {
        let problems = config.problems();
        if !problems.is_empty() {
            return Err(LocalError::Config { what: "local sink", problems });
        }
        Ok(Self { config, clock, producer: None })
    }

    /// Runs the work where the settings say, with an open producer.
    async fn run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Producer) -> Result<T, LocalError> + Send + 'static,
    ) -> Result<T, LocalError> {
        let (config, clock) = (self.config.clone(), self.clock.clone());
        let producer = self.producer.take();
        let job = move || {
            let mut producer = match producer {
                Some(producer) => producer,
                None => Producer::open_with_clock(config, clock)?,
            };
            let result = work(&mut producer);
            Ok::<_, LocalError>((producer, result))
        };
        let (producer, result) = match self.config.blocking {
            Blocking::Inline => job()?,
            Blocking::Pool => match tokio::task::spawn_blocking(job).await {
                Ok(done) => done?,
                Err(error) => {
                    let path = self.config.path.clone();
                    return Err(LocalError::Interrupted { path, reason: error.to_string() });
                }
            },
        };
        self.producer = Some(producer);
        result
    }

    async fn append(&mut self, batch: &[LocalRecord]) -> Result<EncodedBatch, LocalError> {
        if self.producer.is_none() {
            self.run(|_| Ok(())).await?;
        }
        let encoded = match &mut self.producer {
            Some(producer) => producer.encode(batch),
            None => return Ok(EncodedBatch::default()),
        };
        self.run(move |producer| producer.append_encoded(&encoded).map(|()| encoded)).await
    }
}

impl Sink for LocalSink {
    type Item = LocalRecord;

    fn capabilities(&self) -> SinkCapabilities {
        SinkCapabilities::new()
    }

    async fn open(&mut self) -> Result<(), SinkError> {
        Ok(self.run(|_| Ok(())).await?)
    }

    async fn write(&mut self, batch: &[LocalRecord]) -> Result<Report, SinkError> {
        let refused = self.append(batch).await?.into_refused();
        if refused.is_empty() {
            return Ok(Report::all_done(batch.len()));
        }
        let mut answers: Vec<Result<(), ItemError>> = batch.iter().map(|_| Ok(())).collect();
        for (index, error) in refused {
            answers[index] = Err(ItemError::new(error));
        }
        Ok(Report::each(answers))
    }

    async fn close(&mut self) -> Result<(), SinkError> {
        self.producer = None;
        Ok(())
    }
}
