//! The public conformance suites.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;
use tidegate_core::{Demand, Partition, Position, Source, SourceEvent};
use tidegate_local::{
    Admin, LocalRecord, LocalSink, LocalSinkConfig, LocalSource, LocalSourceConfig, Producer,
    Retention,
};
use tidegate_testkit::conformance::{self, SinkHarness, SourceHarness};
use tidegate_testkit::virtual_clock;

const PARTITIONS: u32 = 4;

/// A log with one topic; each place is a new file.
struct Log {
    folder: TempDir,
    places: u32,
    partitions: u32,
    /// For each partition a key that belongs there.
    keys: Vec<String>,
    until_end: bool,
    clock: tidegate_core::Clock,
    lock: Option<Connection>,
}

impl Log {
    fn new(partitions: u32, until_end: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = virtual_clock();
        let keys = Vec::new();
        let mut log = Self { folder, places: 0, partitions, keys, until_end, clock, lock: None };
        log.create();
        log.keys = (0..partitions).map(|partition| log.key_of(partition)).collect();
        log
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(format!("{}.db", self.places))
    }

    fn create(&mut self) {
        self.places += 1;
        self.admin().create_topic("t", self.partitions, &Retention::default()).unwrap();
    }

    fn admin(&self) -> Admin {
        Admin::create(&self.path()).unwrap().with_clock(self.clock.clone())
    }

    fn sink_config(&self) -> LocalSinkConfig {
        let lock_timeout = Duration::from_millis(1);
        LocalSinkConfig { lock_timeout, ..LocalSinkConfig::new(self.path(), "t") }
    }

    fn append(&self, records: &[LocalRecord]) {
        let config = LocalSinkConfig::new(self.path(), "t");
        let mut producer = Producer::open_with_clock(config, self.clock.clone()).unwrap();
        assert!(producer.append(records).unwrap().is_empty());
    }

    fn ends(&self) -> Vec<u64> {
        self.admin().topics().unwrap()[0].partitions.iter().map(|p| p.end).collect()
    }

    /// Found by trial, so that the test doesn't repeat the partitioner.
    fn key_of(&self, partition: u32) -> String {
        let belongs = |key: &String| {
            let before = self.ends();
            self.append(&[LocalRecord::new("trial").with_key(key.as_str())]);
            self.ends()[partition as usize] > before[partition as usize]
        };
        (0..1000).map(|n| format!("key {n}")).find(belongs).unwrap()
    }
}

impl SourceHarness for Log {
    type Source = LocalSource;

    async fn reset(&mut self) {
        self.create();
    }

    fn partitions(&self) -> usize {
        self.partitions as usize
    }

    fn partition(&self, index: usize) -> Partition {
        Partition::new("t", index as u32)
    }

    async fn produce(&mut self, partition: usize, payloads: &[String]) {
        let record = |payload: &String| {
            LocalRecord::new(payload.as_str()).with_key(self.keys[partition].as_str())
        };
        self.append(&payloads.iter().map(record).collect::<Vec<_>>());
    }

    async fn start(&mut self) -> LocalSource {
        let config = LocalSourceConfig {
            until_end: self.until_end,
            ..LocalSourceConfig::new(self.path(), "t", "group")
        };
        LocalSource::open_with_clock(config, self.clock.clone()).unwrap()
    }

    async fn committed(&mut self, partition: usize) -> Option<Position> {
        let groups = self.admin().groups().unwrap();
        groups[0].partitions[partition].committed.map(Position::new)
    }
}

/// P14, P22, P24, P26 and the rules of every source.
#[tokio::test(start_paused = true)]
async fn the_source_conforms() {
    let report = conformance::source(&mut Log::new(PARTITIONS, false)).await;
    report.assert_passed_except(&["ends_when_everything_is_read", "ends_when_there_is_nothing"]);
}

#[tokio::test(start_paused = true)]
async fn the_source_that_ends_conforms() {
    let report = conformance::source(&mut Log::new(PARTITIONS, true)).await;
    report.assert_passed_except(&[
        "delivers_what_comes_later",
        "waits_when_there_is_nothing",
        "shares_partitions_between_members",
        "hands_over_at_the_commit_with_a_higher_generation",
        "takes_over_from_a_member_that_left",
        "takes_over_from_a_member_that_died",
        "refuses_the_commits_of_a_zombie",
        "rebalances_while_nothing_is_allowed",
    ]);
}

impl SinkHarness for Log {
    type Sink = LocalSink;

    async fn reset(&mut self) {
        self.create();
    }

    async fn make(&mut self) -> LocalSink {
        LocalSink::with_clock(self.sink_config(), self.clock.clone()).unwrap()
    }

    fn item(&self, number: u64) -> LocalRecord {
        LocalRecord::new(number.to_string())
    }

    fn bad_item(&self) -> Option<LocalRecord> {
        Some(LocalRecord::new(vec![b'x'; self.sink_config().max_record_bytes + 1]))
    }

    async fn read(&mut self) -> Vec<u64> {
        let config = LocalSourceConfig {
            until_end: true,
            ..LocalSourceConfig::new(self.path(), "t", format!("reader {}", self.ends()[0]))
        };
        let mut source = LocalSource::open_with_clock(config, self.clock.clone()).unwrap();
        let demand = Demand::new(1000, 1 << 20);
        let mut numbers = Vec::new();
        while (numbers.len() as u64) < self.ends()[0] {
            if let SourceEvent::Fetched(batch) = source.next(&demand).await.unwrap() {
                let number = |payload| std::str::from_utf8(payload).unwrap().parse::<u64>();
                numbers.extend(batch.iter().map(|record| number(record.payload()).unwrap()));
            }
        }
        source.close().await.unwrap();
        numbers
    }

    fn keeps_order(&self) -> bool {
        true
    }

    async fn break_down(&mut self) -> bool {
        let other = Connection::open(self.path()).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        self.lock = Some(other);
        true
    }

    async fn repair(&mut self) {
        self.lock = None;
    }
}

/// P6, P43
#[tokio::test(start_paused = true)]
async fn the_sink_conforms() {
    let report = conformance::sink(&mut Log::new(1, false)).await;
    report.assert_passed_except(&["repeats_leave_one"]);
}
