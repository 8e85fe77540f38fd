//! The public conformance suites.
#![allow(clippy::unwrap_used)]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use flate2::write::GzEncoder;
use tempfile::TempDir;
use tidegate_core::{
    BoxPositionStore, Partition, Position, PositionStore, SavedPosition, StoreError,
};
use tidegate_file::{FileFormat, FileSink, FileSinkConfig, FileSource, FileSourceConfig};
use tidegate_testkit::conformance::{self, SinkHarness, SourceHarness};

/// A store in memory that outlives the source.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<SavedPosition>>>);

impl PositionStore for Memory {
    async fn load(&mut self) -> Result<Vec<SavedPosition>, StoreError> {
        Ok(self.0.lock().unwrap().clone())
    }

    async fn save(&mut self, positions: &[SavedPosition]) -> Result<(), StoreError> {
        let mut saved = self.0.lock().unwrap();
        for new in positions {
            saved.retain(|old| old.partition != new.partition);
            saved.push(new.clone());
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Gzip,
    Follow,
    WithoutStore,
}

/// Three files; each place is a new folder.
struct Files {
    folder: TempDir,
    store: Memory,
    kind: Kind,
}

impl Files {
    fn new(kind: Kind) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), store: Memory::default(), kind }
    }

    fn path(&self, index: usize) -> PathBuf {
        let end = if self.kind == Kind::Gzip { ".gz" } else { "" };
        self.folder.path().join(format!("{index}.txt{end}"))
    }
}

fn append(path: &std::path::Path) -> File {
    OpenOptions::new().create(true).append(true).open(path).unwrap()
}

impl SourceHarness for Files {
    type Source = FileSource;

    async fn reset(&mut self) {
        *self = Self::new(self.kind);
    }

    fn partitions(&self) -> usize {
        3
    }

    fn partition(&self, index: usize) -> Partition {
        Partition::whole(self.path(index).to_str().unwrap())
    }

    async fn produce(&mut self, partition: usize, payloads: &[String]) {
        let mut file = append(&self.path(partition));
        let lines: String = payloads.iter().map(|payload| format!("{payload}\n")).collect();
        if self.kind == Kind::Gzip {
            let mut member = GzEncoder::new(file, flate2::Compression::fast());
            member.write_all(lines.as_bytes()).unwrap();
            member.finish().unwrap();
        } else {
            file.write_all(lines.as_bytes()).unwrap();
        }
    }

    async fn start(&mut self) -> FileSource {
        let path = self.folder.path().join("*.txt*");
        let config = FileSourceConfig {
            format: FileFormat::Lines,
            follow: self.kind == Kind::Follow,
            ..FileSourceConfig::new(path.to_str().unwrap())
        };
        let has_store = self.kind != Kind::WithoutStore;
        let store = has_store.then(|| BoxPositionStore::new(self.store.clone()));
        FileSource::new(config, store).unwrap()
    }

    async fn committed(&mut self, partition: usize) -> Option<Position> {
        let partition = self.partition(partition);
        let saved = self.store.load().await.unwrap();
        saved.iter().find(|saved| saved.partition == partition).map(|saved| saved.frontier)
    }
}

const REBALANCES: [&str; 6] = [
    "shares_partitions_between_members",
    "hands_over_at_the_commit_with_a_higher_generation",
    "takes_over_from_a_member_that_left",
    "takes_over_from_a_member_that_died",
    "refuses_the_commits_of_a_zombie",
    "rebalances_while_nothing_is_allowed",
];

async fn conforms(kind: Kind, skipped: &[&str]) {
    let report = conformance::source(&mut Files::new(kind)).await;
    report.assert_passed_except(&[&REBALANCES, skipped].concat());
}

const BOUNDED: [&str; 2] = ["delivers_what_comes_later", "waits_when_there_is_nothing"];

#[tokio::test(start_paused = true)]
async fn the_source_of_plain_files_conforms() {
    conforms(Kind::Plain, &BOUNDED).await;
}

#[tokio::test(start_paused = true)]
async fn the_source_of_compressed_files_conforms() {
    conforms(Kind::Gzip, &BOUNDED).await;
}

#[tokio::test(start_paused = true)]
async fn the_source_that_follows_files_conforms() {
    conforms(Kind::Follow, &["ends_when_everything_is_read", "ends_when_there_is_nothing"]).await;
}

#[tokio::test(start_paused = true)]
async fn the_source_without_a_store_conforms() {
    let resuming = [
        "goes_on_at_the_commit",
        "goes_on_at_the_commit_after_a_crash",
        "takes_the_same_commit_twice",
        "commits_partitions_apart",
    ];
    conforms(Kind::WithoutStore, &[&BOUNDED[..], &resuming].concat()).await;
}

/// A number, or what can't be written.
struct Item(Option<u64>);

impl serde::Serialize for Item {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(number) => serializer.serialize_u64(number),
            None => Err(serde::ser::Error::custom("not a number")),
        }
    }
}

struct Output(TempDir);

impl SinkHarness for Output {
    type Sink = FileSink<Item>;

    async fn reset(&mut self) {
        self.0 = tempfile::tempdir().unwrap();
    }

    async fn make(&mut self) -> FileSink<Item> {
        let path = self.0.path().join("out.jsonl");
        FileSink::new(FileSinkConfig::new(path.to_str().unwrap())).unwrap()
    }

    fn item(&self, number: u64) -> Item {
        Item(Some(number))
    }

    fn bad_item(&self) -> Option<Item> {
        Some(Item(None))
    }

    async fn read(&mut self) -> Vec<u64> {
        let text = std::fs::read_to_string(self.0.path().join("out.jsonl")).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    fn keeps_order(&self) -> bool {
        true
    }
}

/// P6, P43
#[tokio::test(start_paused = true)]
async fn the_sink_conforms() {
    let report = conformance::sink(&mut Output(tempfile::tempdir().unwrap())).await;
    let skipped = ["repeats_leave_one", "loses_nothing_by_a_failed_write"];
    report.assert_passed_except(&skipped);
}
