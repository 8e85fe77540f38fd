//! Processes and members that are killed, frozen and replaced while records flow, with a checker
//! that counts what was lost, repeated and put out of order. Each prints what was repeated.
//! Needs the broker of `scripts/services up kafka`.
#![allow(clippy::unwrap_used)]

mod common;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::copy::{Feed, caught_up, check, pipeline, slow_pipeline};
use common::{Broker, unique};
use tidegate_kafka::KafkaSourceConfig;

const PARTITIONS: u32 = 6;
const RATE: u64 = 2000;

const TOPIC: &str = "TIDEGATE_KAFKA_TEST_TOPIC";
const OUT: &str = "TIDEGATE_KAFKA_TEST_OUT";
const GROUP: &str = "TIDEGATE_KAFKA_TEST_GROUP";

/// A copying process: this binary, with the body below.
struct Process(Child);

impl Process {
    fn start(job: &Job) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "copying_process", "--ignored"])
            .env(TOPIC, &job.topic)
            .env(OUT, &job.out)
            .env(GROUP, &job.group)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    fn signal(&self, signal: &str) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A test that fails leaves nothing behind.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the body of a process that copies until it is killed"]
async fn copying_process() {
    let [Ok(topic), Ok(out), Ok(group)] = [TOPIC, OUT, GROUP].map(std::env::var) else { return };
    common::log();
    let broker = Broker::single();
    let config = broker.source(&topic, &group);
    pipeline(&broker, config, &out).run().await.unwrap();
}

struct Job {
    broker: Broker,
    topic: String,
    out: String,
    group: String,
}

impl Job {
    async fn new() -> Self {
        let broker = Broker::single();
        let (topic, out) = (broker.topic(PARTITIONS).await, broker.topic(PARTITIONS).await);
        Self { broker, topic, out, group: unique("group") }
    }

    fn config(&self) -> KafkaSourceConfig {
        self.broker.source(&self.topic, &self.group)
    }

    fn feed(&self) -> Feed {
        Feed::start(&self.broker, &self.topic, PARTITIONS, RATE)
    }

    /// Waits until the rest is copied and committed.
    async fn caught_up(&self) {
        caught_up(&self.broker, &self.topic, &self.group, PARTITIONS).await;
    }

    /// Nothing is lost and nothing out of order. Returns how many were repeated.
    async fn check(&self, what: &str) -> u64 {
        let findings = check(&self.broker, &self.topic, &self.out, PARTITIONS).await;
        println!("{what}: {findings:?}");
        assert_eq!((findings.lost, findings.disordered), (0, 0), "{what}: {findings:?}");
        findings.repeated
    }
}

/// P1, P13, P50: one of three is killed, again and again.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn a_killed_process_loses_nothing() {
    let job = Job::new().await;
    let feed = job.feed();
    let mut processes: Vec<_> = (0..3).map(|_| Process::start(&job)).collect();
    feed.produce_more(4 * RATE).await;
    for _ in 0..4 {
        processes.remove(0).kill();
        processes.push(Process::start(&job));
        feed.produce_more(3 * RATE).await;
    }
    feed.stop().await;
    job.caught_up().await;
    processes.into_iter().for_each(Process::kill);
    let repeated = job.check("4 kills of one of three processes").await;
    println!("repeated per kill: {}", repeated / 4);
}

/// P22: a process that is frozen for longer than its session lasts, and thawed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn a_frozen_process_loses_nothing_when_it_is_thawed() {
    let job = Job::new().await;
    let feed = job.feed();
    let processes: Vec<_> = (0..3).map(|_| Process::start(&job)).collect();
    feed.produce_more(4 * RATE).await;
    for round in 0..3 {
        let frozen = &processes[round % 3];
        frozen.signal("-STOP");
        // The session lasts 3 s.
        feed.produce_more(6 * RATE).await;
        frozen.signal("-CONT");
        feed.produce_more(3 * RATE).await;
    }
    feed.stop().await;
    job.caught_up().await;
    processes.into_iter().for_each(Process::kill);
    job.check("3 processes frozen for twice their session").await;
}

/// P24: members join and leave every 2 s for a minute; a batch takes 50 ms.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn a_rebalance_storm_loses_and_repeats_nothing() {
    let job = Job::new().await;
    let feed = job.feed();
    let slow = || {
        let pause = Duration::from_millis(50);
        slow_pipeline(&job.broker, job.config(), &job.out, pause).start().unwrap()
    };
    let steady = slow();
    let mut guests = Vec::new();
    for round in 0..30 {
        if round % 3 == 2 {
            let guest: tidegate_runtime::Running = guests.remove(0);
            guest.handle().stop();
            guest.wait().await.unwrap();
        } else {
            guests.push(slow());
        }
        if guests.len() > 4 {
            let guest = guests.remove(0);
            guest.handle().stop();
            guest.wait().await.unwrap();
        }
        feed.produce_more(2 * RATE).await;
    }
    feed.stop().await;
    job.caught_up().await;
    for member in guests.into_iter().chain([steady]) {
        member.handle().stop();
        member.wait().await.unwrap();
    }
    let repeated = job.check("a minute of members that join and leave").await;
    assert_eq!(repeated, 0, "every drain came to its end, so nothing is repeated");
}

/// Partitions are added while records flow.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn added_partitions_are_copied_too() {
    let broker = Broker::single();
    let (topic, out) = (broker.topic(2).await, broker.topic(PARTITIONS).await);
    let job = Job { broker, topic, out, group: unique("group") };
    let mut config = job.config();
    config.properties.set("topic.metadata.refresh.interval.ms", "500");
    let running = pipeline(&job.broker, config, &job.out).start().unwrap();
    let few = Feed::start(&job.broker, &job.topic, 2, RATE);
    few.produce_more(2 * RATE).await;
    job.broker.add_partitions(&job.topic, PARTITIONS as usize).await;
    let all = job.feed();
    all.produce_more(4 * RATE).await;
    few.stop().await;
    all.stop().await;
    job.caught_up().await;
    running.handle().stop();
    running.wait().await.unwrap();
    assert_eq!(job.check("partitions added").await, 0);
}
