//! Drives a source by hand, as the runtime would, and keeps positions in memory.
#![allow(dead_code)] // each test file uses its part

use std::collections::HashMap;
use std::future::Future;
use std::io::Write;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tempfile::TempDir;
use tidegate_core::*;
use tidegate_file::*;

/// A store whose content tests can look at and damage.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<HashMap<Partition, SavedPosition>>>);

impl Memory {
    pub(crate) fn boxed(&self) -> Option<BoxPositionStore> {
        Some(BoxPositionStore::new(self.clone()))
    }

    pub(crate) fn get(&self, partition: &str) -> Option<SavedPosition> {
        self.0.lock().unwrap().get(&Partition::whole(partition)).cloned()
    }

    pub(crate) fn put(&self, saved: SavedPosition) {
        self.0.lock().unwrap().insert(saved.partition.clone(), saved);
    }

    pub(crate) fn frontiers(&self) -> Vec<(String, u64)> {
        let positions = self.0.lock().unwrap();
        let mut all: Vec<_> =
            positions.values().map(|p| (p.partition.to_string(), p.frontier.get())).collect();
        all.sort();
        all
    }
}

impl PositionStore for Memory {
    async fn load(&mut self) -> Result<Vec<SavedPosition>, StoreError> {
        Ok(self.0.lock().unwrap().values().cloned().collect())
    }

    async fn save(&mut self, positions: &[SavedPosition]) -> Result<(), StoreError> {
        for position in positions {
            self.put(position.clone());
        }
        Ok(())
    }
}

/// A record as a test sees it: partition, line, payload.
pub(crate) type Seen = (String, u64, String);

/// A source and what it owns.
pub(crate) struct Driver {
    pub(crate) source: FileSource,
    pub(crate) demand: Demand,
    pub(crate) generations: HashMap<Partition, Generation>,
    pub(crate) seen: Vec<Seen>,
    pub(crate) finished: Vec<String>,
}

impl Driver {
    pub(crate) fn new(config: FileSourceConfig, store: Option<BoxPositionStore>) -> Self {
        Self {
            source: FileSource::new(config, store).unwrap(),
            demand: Demand::new(1_000, 1 << 20),
            generations: HashMap::new(),
            seen: Vec::new(),
            finished: Vec::new(),
        }
    }

    /// The next event, noted.
    pub(crate) async fn next(&mut self) -> Result<SourceEvent, SourceError> {
        let event = self.source.next(&self.demand).await?;
        self.note(&event);
        Ok(event)
    }

    fn note(&mut self, event: &SourceEvent) {
        match event {
            SourceEvent::Assigned(assignments) => {
                for assignment in assignments {
                    let Assignment { partition, generation } = assignment.clone();
                    assert_eq!(self.generations.insert(partition, generation), None);
                }
            }
            SourceEvent::Fetched(batch) => {
                assert!(self.generations.contains_key(batch.partition()), "assigned before");
                assert!(!batch.is_empty() && batch.len() <= self.demand.max_records());
                let lines = batch.iter().map(|record| {
                    let text = String::from_utf8_lossy(record.payload()).into_owned();
                    (record.partition().to_string(), record.position().get(), text)
                });
                self.seen.extend(lines);
            }
            SourceEvent::Finished(partitions) => {
                self.finished.extend(partitions.iter().map(ToString::to_string));
            }
            _ => {}
        }
    }

    /// Reads until the end or the first error.
    pub(crate) async fn read_all(&mut self) -> Result<(), SourceError> {
        loop {
            if let SourceEvent::Ended = self.next().await? {
                return Ok(());
            }
        }
    }

    /// Reads until so many records were seen.
    pub(crate) async fn read_until(&mut self, records: usize) {
        while self.seen.len() < records {
            self.next().await.unwrap();
        }
    }

    /// Polls for the next event once, and drops the call if it isn't there.
    pub(crate) fn poll_once(&mut self) -> Option<Result<SourceEvent, SourceError>> {
        let answer = {
            let next = pin!(self.source.next(&self.demand));
            poll(next)
        };
        if let Some(Ok(event)) = &answer {
            self.note(event);
        }
        answer
    }

    pub(crate) async fn commit(&mut self, partition: &str, frontier: u64) {
        let partition = Partition::whole(partition);
        let generation = self.generations[&partition];
        let frontier =
            PartitionFrontier { partition, generation, position: Position::new(frontier) };
        let report = self.source.commit(Commit::Through(&[frontier])).await.unwrap();
        assert_eq!(report, CommitReport::default());
    }

    pub(crate) async fn release(&mut self, partition: &str) {
        self.source.release(&[Partition::whole(partition)]).await.unwrap();
        self.generations.remove(&Partition::whole(partition));
    }

    /// The payloads so far.
    pub(crate) fn payloads(&self) -> Vec<&str> {
        self.seen.iter().map(|(_, _, text)| text.as_str()).collect()
    }

    /// The lines' numbers so far.
    pub(crate) fn lines(&self) -> Vec<u64> {
        self.seen.iter().map(|(_, line, _)| *line).collect()
    }
}

pub(crate) fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// A directory for one test.
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), content).unwrap();
        self.text(name)
    }

    pub(crate) fn append(&self, name: &str, content: impl AsRef<[u8]>) {
        let mut file =
            std::fs::OpenOptions::new().create(true).append(true).open(self.path(name)).unwrap();
        file.write_all(content.as_ref()).unwrap();
    }

    pub(crate) fn rename(&self, from: &str, to: &str) {
        std::fs::rename(self.path(from), self.path(to)).unwrap();
    }

    pub(crate) fn config(&self, name: &str, format: FileFormat) -> FileSourceConfig {
        FileSourceConfig { format, ..FileSourceConfig::new(self.text(name)) }
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    // With a checksum, as the command-line tool writes it: without one, damage may not show.
    let mut encoder = ::zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
