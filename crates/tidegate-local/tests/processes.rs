//! Several processes on one file, some of them killed. The tests that are ignored are the bodies
//! of those processes: this binary starts itself with one of their names.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tidegate_core::{Commit, Demand, PartitionFrontier, Position, Source, SourceEvent};
use tidegate_local::{
    Admin, LocalRecord, LocalSinkConfig, LocalSource, LocalSourceConfig, Producer,
};

const PATH: &str = "TIDEGATE_LOCAL_TEST_PATH";
const NAME: &str = "TIDEGATE_LOCAL_TEST_NAME";
const BATCH: usize = 10;

struct Process(Child);

impl Process {
    fn start(body: &str, path: &Path, name: &str) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", body, "--ignored"])
            .env(PATH, path)
            .env(NAME, name)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// `SIGKILL`, on Unix.
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    fn wait(mut self) {
        assert!(self.0.wait().unwrap().success());
    }
}

/// What the parent has told this process; `None` if a person runs the ignored tests.
fn from_environment() -> Option<(String, String)> {
    Some((std::env::var(PATH).ok()?, std::env::var(NAME).ok()?))
}

fn records(path: &Path, topic: &str) -> u64 {
    let topics = Admin::open(path).unwrap().topics().unwrap();
    topics.iter().find(|info| info.name == topic).map_or(0, |info| info.records)
}

async fn until(mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("happens in a minute");
}

/// All records of a topic, by partition.
async fn read_all(path: &Path, topic: &str) -> BTreeMap<u32, Vec<(u64, LocalRecord)>> {
    let config =
        LocalSourceConfig { until_end: true, ..LocalSourceConfig::new(path, topic, "reader") };
    let mut source = LocalSource::open(config).unwrap();
    let demand = Demand::new(1000, 1 << 20);
    let mut all: BTreeMap<u32, Vec<_>> = BTreeMap::new();
    loop {
        match source.next(&demand).await.unwrap() {
            SourceEvent::Fetched(batch) => {
                let records = all.entry(batch.partition().index().unwrap()).or_default();
                records.extend(batch.iter().map(|r| (r.position().get(), r.into())));
            }
            SourceEvent::Finished(_) => break,
            _ => {}
        }
    }
    source.close().await.unwrap();
    all
}

#[test]
#[ignore = "the body of a process that appends until it is killed or has appended 50 batches"]
fn produce() {
    let Some((path, name)) = from_environment() else { return };
    let config = LocalSinkConfig {
        partitions: Some(3),
        lock_timeout: Duration::from_secs(60),
        ..LocalSinkConfig::new(path, "in")
    };
    let mut producer = Producer::open(config).unwrap();
    for batch in 0..50 {
        let records: Vec<_> = (0..BATCH)
            .map(|n| LocalRecord::new(format!("{:04}", batch * BATCH + n)).with_key(name.as_str()))
            .collect();
        producer.append(&records).unwrap();
    }
}

/// A batch is there as a whole or not at all, whenever its producer is killed; positions have no
/// gap, and each producer's records are in its order.
#[tokio::test]
async fn producers_that_are_killed_leave_whole_batches() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q.db");
    let victims: Vec<_> =
        ["a", "b"].map(|name| Process::start("produce", &path, name)).into_iter().collect();
    let survivor = Process::start("produce", &path, "c");
    until(|| path.exists() && Admin::open(&path).is_ok() && records(&path, "in") > 100).await;
    victims.into_iter().for_each(Process::kill);
    survivor.wait();

    let mut by_producer: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    for records in read_all(&path, "in").await.into_values() {
        let positions: Vec<_> = records.iter().map(|(position, _)| *position).collect();
        assert_eq!(positions, (0..records.len() as u64).collect::<Vec<_>>());
        for (_, record) in records {
            by_producer.entry(record.key.unwrap()).or_default().push(record.payload.unwrap());
        }
    }
    assert_eq!(by_producer[&b"c"[..]].len(), 50 * BATCH);
    for (name, payloads) in by_producer {
        assert_eq!(payloads.len() % BATCH, 0, "{name:?} left half a batch");
        let expected: Vec<_> =
            (0..payloads.len()).map(|n| format!("{n:04}").into_bytes()).collect();
        assert_eq!(payloads, expected);
    }
}

#[test]
#[ignore = "the body of a process that copies the topic `in` to the topic `out`, then ends"]
fn copy() {
    let Some((path, name)) = from_environment() else { return };
    let config = LocalSourceConfig {
        until_end: true,
        session_timeout: Duration::from_secs(1),
        ..LocalSourceConfig::new(&path, "in", "copy")
    };
    let mut source = LocalSource::open(config).unwrap();
    let mut producer = Producer::open(LocalSinkConfig::new(&path, "out")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let demand = Demand::new(5, 1 << 20);
        let mut generations = BTreeMap::new();
        loop {
            match source.next(&demand).await.unwrap() {
                SourceEvent::Assigned(all) => {
                    generations.extend(all.into_iter().map(|a| (a.partition, a.generation)));
                }
                SourceEvent::Fetched(batch) => {
                    let records: Vec<_> = batch
                        .iter()
                        .map(|r| LocalRecord::from(r).with_header("by", name.as_str()))
                        .collect();
                    producer.append(&records).unwrap();
                    let partition = batch.partition().clone();
                    let generation = generations[&partition];
                    let position: Position = batch.get(batch.len() - 1).position().next();
                    let frontier = [PartitionFrontier { partition, generation, position }];
                    source.commit(Commit::Through(&frontier)).await.unwrap();
                }
                SourceEvent::Revoking(revocation) => {
                    source.release(&revocation.partitions).await.unwrap();
                }
                SourceEvent::Finished(partitions) => source.release(&partitions).await.unwrap(),
                SourceEvent::Lost(_) => {}
                SourceEvent::Ended => break,
            }
        }
        source.close().await.unwrap();
    });
}

/// Three members, one killed and one added half-way: everything is copied, each key in order, and
/// all that are left end by themselves.
#[tokio::test]
async fn a_group_of_processes_copies_everything_although_one_is_killed_and_one_is_added() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q.db");
    let config = LocalSinkConfig { partitions: Some(6), ..LocalSinkConfig::new(&path, "in") };
    let input: Vec<_> = (0..3_000_usize)
        .map(|n| LocalRecord::new(format!("{n:04}")).with_key(format!("key {}", n % 40)))
        .collect();
    Producer::open(config).unwrap().append(&input).unwrap();

    let first = Process::start("copy", &path, "first");
    let victim = Process::start("copy", &path, "victim");
    until(|| records(&path, "out") > 500).await;
    let added = Process::start("copy", &path, "added");
    victim.kill();
    first.wait();
    added.wait();

    let mut by_key: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    let mut payloads = BTreeSet::new();
    for (_, record) in read_all(&path, "out").await.into_values().flatten() {
        let payload = record.payload.unwrap();
        payloads.insert(payload.clone());
        by_key.entry(record.key.unwrap()).or_default().push(payload);
    }
    let expected: BTreeSet<_> =
        input.iter().map(|record| record.payload.clone().unwrap()).collect();
    assert_eq!(payloads, expected, "every record was copied");
    for (key, payloads) in by_key {
        let repeated = payloads.windows(2).filter(|pair| pair[0] >= pair[1]).count();
        assert!(repeated <= 2, "{key:?}: order is kept but where a commit is repeated");
    }
    let group = &Admin::open(&path).unwrap().groups().unwrap()[0];
    assert_eq!((group.lag, group.members.len()), (0, 0), "all have left");
}
