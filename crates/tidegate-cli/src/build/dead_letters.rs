use tidegate_core::{DeadLetter, Report, Sink, SinkError};
use tidegate_file::FileSink;
use tidegate_local::{LocalRecord, LocalSink};
use tidegate_runtime::Pipeline;

use crate::config::{DeadLettersConfig, DeadLettersKind, VALIDATED};

/// Adds the dead letters to the pipeline.
pub(super) fn add(pipeline: Pipeline, config: DeadLettersConfig) -> Pipeline {
    let DeadLettersConfig { name, kind } = config;
    match kind {
        DeadLettersKind::File(config) => {
            let sink = FileSink::<DeadLetter>::new(config).expect(VALIDATED);
            pipeline.named_dead_letters(&name, sink)
        }
        DeadLettersKind::Local(config) => {
            let sink = Topic(LocalSink::new(config).expect(VALIDATED));
            pipeline.named_dead_letters(&name, sink)
        }
    }
}

/// A topic for dead letters: the original records, with what happened in their headers.
struct Topic(LocalSink);

impl Sink for Topic {
    type Item = DeadLetter;

    async fn open(&mut self) -> Result<(), SinkError> {
        self.0.open().await
    }

    async fn write(&mut self, batch: &[DeadLetter]) -> Result<Report, SinkError> {
        let records: Vec<_> = batch.iter().cloned().map(LocalRecord::from).collect();
        self.0.write(&records).await
    }

    async fn close(&mut self) -> Result<(), SinkError> {
        self.0.close().await
    }
}
