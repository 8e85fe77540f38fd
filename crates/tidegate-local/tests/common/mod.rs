//! What the tests share: a file, a clock that follows tokio's paused time, and short calls.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use tidegate_core::{
    Assignment, Clock, Commit, CommitReport, Demand, Generation, Partition, PartitionFrontier,
    Position, Source, SourceEvent, Timestamp,
};
use tidegate_local::{
    Admin, LocalRecord, LocalSinkConfig, LocalSource, LocalSourceConfig, Producer, Retention,
};
use tokio::time::Instant;

pub(crate) const TOPIC: &str = "orders";
pub(crate) const GROUP: &str = "shop";

/// A log file in a folder of its own, with one topic.
pub(crate) struct Log {
    _folder: TempDir,
    pub(crate) path: PathBuf,
    pub(crate) clock: Clock,
}

impl Log {
    /// Must be called inside a tokio runtime with paused time.
    pub(crate) fn new(partitions: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("q.db");
        let start = Instant::now();
        let clock = Clock::from_fn(move || {
            Timestamp::from_millis(1_000_000 + start.elapsed().as_millis() as i64)
        });
        let log = Self { _folder: folder, path, clock };
        log.admin().create_topic(TOPIC, partitions, &Retention::default()).unwrap();
        log
    }

    pub(crate) fn admin(&self) -> Admin {
        Admin::create(&self.path).unwrap().with_clock(self.clock.clone())
    }

    pub(crate) fn producer(&self) -> Producer {
        let config = LocalSinkConfig::new(&self.path, TOPIC);
        Producer::open_with_clock(config, self.clock.clone()).unwrap()
    }

    /// Appends this many records without a key, so that partitions get them in turn; the payload
    /// is the number, from 0.
    pub(crate) fn produce(&self, records: usize) {
        let records: Vec<_> = (0..records).map(|n| LocalRecord::new(n.to_string())).collect();
        assert!(self.producer().append(&records).unwrap().is_empty());
    }

    pub(crate) fn config(&self, member: &str) -> LocalSourceConfig {
        LocalSourceConfig {
            member: Some(member.to_owned()),
            ..LocalSourceConfig::new(&self.path, TOPIC, GROUP)
        }
    }

    pub(crate) fn source(&self, member: &str) -> LocalSource {
        self.open(self.config(member))
    }

    pub(crate) fn open(&self, config: LocalSourceConfig) -> LocalSource {
        LocalSource::open_with_clock(config, self.clock.clone()).unwrap()
    }

    /// What the group has committed, by partition.
    pub(crate) fn committed(&self) -> Vec<Option<u64>> {
        let groups = self.admin().groups().unwrap();
        groups[0].partitions.iter().map(|partition| partition.committed).collect()
    }

    /// Who owns what, by partition.
    pub(crate) fn owners(&self) -> Vec<Option<String>> {
        let groups = self.admin().groups().unwrap();
        groups[0].partitions.iter().map(|partition| partition.owner.clone()).collect()
    }
}

pub(crate) fn partition(number: u32) -> Partition {
    Partition::new(TOPIC, number)
}

/// Room for everything.
pub(crate) fn open() -> Demand {
    Demand::new(100, 1 << 20)
}

/// Room for nothing.
pub(crate) fn closed() -> Demand {
    Demand::new(0, 0)
}

/// The next event, if there is one within a quarter of a second.
pub(crate) async fn soon(source: &mut LocalSource, demand: &Demand) -> Option<SourceEvent> {
    match tokio::time::timeout(Duration::from_millis(250), source.next(demand)).await {
        Ok(event) => Some(event.unwrap()),
        Err(_) => None,
    }
}

/// Everything that happens until nothing does.
pub(crate) async fn all_soon(source: &mut LocalSource, demand: &Demand) -> Vec<SourceEvent> {
    let mut events = Vec::new();
    while let Some(event) = soon(source, demand).await {
        events.push(event);
    }
    events
}

pub(crate) fn assigned(event: Option<SourceEvent>) -> Vec<Assignment> {
    match event {
        Some(SourceEvent::Assigned(assignments)) => assignments,
        other => panic!("expected an assignment, not {other:?}"),
    }
}

pub(crate) fn revoked(event: Option<SourceEvent>) -> Vec<Partition> {
    match event {
        Some(SourceEvent::Revoking(revocation)) => revocation.partitions,
        other => panic!("expected a revocation, not {other:?}"),
    }
}

pub(crate) fn lost(event: Option<SourceEvent>) -> Vec<Partition> {
    match event {
        Some(SourceEvent::Lost(partitions)) => partitions,
        other => panic!("expected a loss, not {other:?}"),
    }
}

/// An event, briefly: `+p0#1` assigned in generation 1, `p0@0..5` fetched, `-p0` revoked,
/// `!p0` lost, `.p0` finished, `end`.
pub(crate) fn brief(event: &SourceEvent) -> String {
    let list = |sign: &str, partitions: &[Partition]| {
        let all: Vec<_> =
            partitions.iter().map(|p| format!("{sign}p{}", p.index().unwrap())).collect();
        all.join(" ")
    };
    match event {
        SourceEvent::Assigned(assignments) => {
            let all: Vec<_> = assignments
                .iter()
                .map(|a| format!("+p{}#{}", a.partition.index().unwrap(), a.generation.get()))
                .collect();
            all.join(" ")
        }
        SourceEvent::Fetched(batch) => {
            let number = batch.partition().index().unwrap();
            let first = batch.get(0).position().get();
            format!("p{number}@{first}..{}", first + batch.len() as u64)
        }
        SourceEvent::Revoking(revocation) => list("-", &revocation.partitions),
        SourceEvent::Lost(partitions) => list("!", partitions),
        SourceEvent::Finished(partitions) => list(".", partitions),
        SourceEvent::Ended => "end".to_owned(),
    }
}

/// All that happens until nothing does, briefly.
pub(crate) async fn told(source: &mut LocalSource, demand: &Demand) -> Vec<String> {
    all_soon(source, demand).await.iter().map(brief).collect()
}

pub(crate) fn frontier(number: u32, generation: u64, position: u64) -> PartitionFrontier {
    PartitionFrontier {
        partition: partition(number),
        generation: Generation::new(generation),
        position: Position::new(position),
    }
}

pub(crate) async fn commit(
    source: &mut LocalSource,
    frontiers: &[PartitionFrontier],
) -> CommitReport {
    source.commit(Commit::Through(frontiers)).await.unwrap()
}
