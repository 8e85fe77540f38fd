//! Brokers that restart, and connections that break, while records flow.
//! Needs the brokers of `scripts/services up kafka` and `scripts/services up kafka3`, and stops
//! them now and then; so it doesn't run beside other tests.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::copy::{Feed, caught_up, check, pipeline};
use common::proxy::Proxy;
use common::{Broker, Member, PATIENCE, unique};
use tidegate_core::Sink;
use tidegate_kafka::{KafkaRecord, KafkaSink, KafkaSinkConfig};
use tidegate_runtime::Running;

const PARTITIONS: u32 = 6;
const RATE: u64 = 1000;

fn services(arguments: &[&str]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/services");
    assert!(Command::new(script).args(arguments).status().unwrap().success(), "{arguments:?}");
}

async fn services_in_background(arguments: &'static [&'static str]) {
    tokio::task::spawn_blocking(|| services(arguments)).await.unwrap();
}

struct Job {
    /// Where it is looked at from.
    broker: Broker,
    topic: String,
    out: String,
    group: String,
    members: Vec<Running>,
}

impl Job {
    /// Two members that copy, through `through`.
    async fn start(broker: Broker, through: &Broker) -> Self {
        common::log();
        let (topic, out) = (broker.topic(PARTITIONS).await, broker.topic(PARTITIONS).await);
        let group = unique("group");
        let members = (0..2)
            .map(|_| {
                let config = through.source(&topic, &group);
                pipeline(through, config, &out).start().unwrap()
            })
            .collect();
        Self { broker, topic, out, group, members }
    }

    fn feed(&self) -> Feed {
        Feed::start(&self.broker, &self.topic, PARTITIONS, RATE)
    }

    /// Nothing is lost and nothing out of order.
    async fn finish(self, feed: Feed, what: &str) {
        feed.stop().await;
        caught_up(&self.broker, &self.topic, &self.group, PARTITIONS).await;
        for member in self.members {
            member.handle().stop();
            member.wait().await.unwrap();
        }
        let findings = check(&self.broker, &self.topic, &self.out, PARTITIONS).await;
        println!("{what}: {findings:?}");
        assert_eq!((findings.lost, findings.disordered), (0, 0), "{what}: {findings:?}");
    }
}

/// P28
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn the_restart_of_the_only_broker_is_survived() {
    let broker = Broker::single();
    let job = Job::start(broker.clone(), &broker).await;
    let feed = job.feed();
    feed.produce_more(3 * RATE).await;
    services_in_background(&["stop", "kafka", "1"]).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    services_in_background(&["start", "kafka", "1"]).await;
    feed.produce_more(3 * RATE).await;
    job.finish(feed, "a restart of the only broker").await;
}

/// P28, P50
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka3"]
async fn a_rolling_restart_and_a_killed_leader_are_survived() {
    let broker = Broker::cluster();
    let job = Job::start(broker.clone(), &broker).await;
    let feed = job.feed();
    feed.produce_more(3 * RATE).await;
    for (stop, start) in [
        (&["stop", "kafka3", "1"], &["start", "kafka3", "1"]),
        (&["stop", "kafka3", "2"], &["start", "kafka3", "2"]),
        (&["stop", "kafka3", "3"], &["start", "kafka3", "3"]),
        (&["kill", "kafka3", "1"], &["start", "kafka3", "1"]),
    ] {
        services_in_background(stop).await;
        feed.produce_more(2 * RATE).await;
        services_in_background(start).await;
        broker.in_sync(&job.topic, 3).await;
        feed.produce_more(2 * RATE).await;
    }
    job.finish(feed, "a rolling restart and a killed leader").await;
}

/// P29, P50
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn connections_that_break_are_made_again() {
    let proxy = Proxy::start().await;
    let job = Job::start(Broker::single(), &proxy.broker()).await;
    let feed = job.feed();
    feed.produce_more(2 * RATE).await;
    for _ in 0..10 {
        proxy.hiccup().await;
        feed.produce_more(RATE / 2).await;
    }
    // For longer than a session: the members are expired, and join anew.
    proxy.block();
    feed.produce_more(5 * RATE).await;
    proxy.open();
    feed.produce_more(2 * RATE).await;
    job.finish(feed, "connections that broke and were blocked").await;
}

/// P28: the pipeline hears of it, so its own limit decides.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn while_the_broker_is_away_the_source_says_so_and_afterwards_goes_on() {
    let proxy = Proxy::start().await;
    let broker = Broker::single();
    let topic = broker.topic(1).await;
    broker.produce(&topic, 0, &["a".to_owned()]).await;
    let mut member = Member::new(proxy.broker().source(&topic, &unique("group")));
    member.until(|member| member.count() == 1).await;
    let partitions: Vec<_> = member.owned.keys().cloned().collect();
    member.commit(&partitions).await;
    proxy.cut();
    let error = member.error().await;
    assert!(error.is_retryable());
    assert!(error.to_string().contains("no broker of 127.0.0.1:19095 can be reached"), "{error}");
    proxy.open();
    broker.produce(&topic, 0, &["b".to_owned()]).await;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while member.count() < 2 {
        assert!(tokio::time::Instant::now() < deadline);
        if let Err(error) = member.hear(Duration::from_secs(1)).await {
            assert!(error.is_retryable(), "{error}");
        }
    }
    assert_eq!(member.texts(0), ["a", "b"]);
    member.close().await;
}

/// P6, P7: a write whose answer doesn't come fails as a whole, and is made again.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn a_write_that_is_not_confirmed_in_time_fails_and_can_be_made_again() {
    let proxy = Proxy::start().await;
    let broker = Broker::single();
    let topic = broker.topic(1).await;
    let config =
        KafkaSinkConfig { delivery_timeout: Duration::from_secs(2), ..proxy.broker().sink(&topic) };
    let mut sink = KafkaSink::new(config).unwrap();
    sink.open().await.unwrap();
    let records: Vec<_> = (0..10).map(|n| KafkaRecord::new(n.to_string())).collect();
    assert_eq!(sink.write(&records).await.unwrap().len(), 10);

    proxy.block();
    let error = sink.write(&records).await.unwrap_err();
    assert!(error.is_retryable());
    assert!(error.to_string().starts_with("10 of 10 records were not confirmed"), "{error}");

    proxy.open();
    assert_eq!(sink.write(&records).await.unwrap().len(), 10);
    sink.close().await.unwrap();
    let end = broker.end(&topic, 0).await;
    assert!((20..=30).contains(&end), "{end}");
}
