//! The public conformance suites, against the broker of `scripts/services up kafka`.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Broker, PATIENCE, unique};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Message, Offset, TopicPartitionList};
use tidegate_core::{Partition, Position};
use tidegate_kafka::{KafkaRecord, KafkaSink, KafkaSource, KafkaSourceConfig, Rebalance, Stop};
use tidegate_testkit::conformance::{self, SinkHarness, SourceHarness};

const PARTITIONS: u32 = 4;

/// A topic on the broker; each place is a new one, with a new group.
struct Place {
    broker: Broker,
    partitions: u32,
    topic: String,
    group: String,
    change: fn(&mut KafkaSourceConfig),
}

impl Place {
    fn new(partitions: u32, change: fn(&mut KafkaSourceConfig)) -> Self {
        let broker = Broker::single();
        Self { broker, partitions, topic: String::new(), group: String::new(), change }
    }

    async fn create(&mut self) {
        self.topic = self.broker.topic(self.partitions).await;
        self.group = unique("group");
    }
}

impl SourceHarness for Place {
    type Source = KafkaSource;

    async fn reset(&mut self) {
        self.create().await;
    }

    fn partitions(&self) -> usize {
        self.partitions as usize
    }

    fn partition(&self, index: usize) -> Partition {
        Partition::new(self.topic.as_str(), index as u32)
    }

    async fn produce(&mut self, partition: usize, payloads: &[String]) {
        self.broker.produce(&self.topic, partition as u32, payloads).await;
    }

    async fn start(&mut self) -> KafkaSource {
        let mut config = self.broker.source(&self.topic, &self.group);
        (self.change)(&mut config);
        KafkaSource::new(config).unwrap()
    }

    async fn committed(&mut self, partition: usize) -> Option<Position> {
        let committed = self.broker.committed(&self.group, &self.topic, partition as u32).await;
        committed.map(Position::new)
    }
}

const ENDS: [&str; 2] = ["ends_when_everything_is_read", "ends_when_there_is_nothing"];
const MOVES: [&str; 6] = [
    "shares_partitions_between_members",
    "hands_over_at_the_commit_with_a_higher_generation",
    "takes_over_from_a_member_that_left",
    "takes_over_from_a_member_that_died",
    "refuses_the_commits_of_a_zombie",
    "rebalances_while_nothing_is_allowed",
];

/// P14, P22, P24, P26 and the rules of every source.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn the_source_conforms() {
    let report = conformance::source(&mut Place::new(PARTITIONS, |_| {})).await;
    report.assert_passed_except(&ENDS);
}

/// Where every rebalance takes everything, what comes back is assigned anew and read from its
/// commit. Two checks expect more than that; what they are about is in `groups.rs`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn the_source_that_gives_up_everything_conforms_but_for_what_it_keeps() {
    let eager = |config: &mut KafkaSourceConfig| config.rebalance = Rebalance::Eager;
    let report = conformance::source(&mut Place::new(PARTITIONS, eager)).await;
    let failed: Vec<_> = report.failed.iter().map(|(check, _)| *check).collect();
    let keeping = ["shares_partitions_between_members", "refuses_the_commits_of_a_zombie"];
    assert_eq!(failed, keeping, "{report}");
    assert_eq!(report.passed.len(), 17, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn the_source_of_the_new_protocol_conforms() {
    let consumer = |config: &mut KafkaSourceConfig| config.rebalance = Rebalance::Consumer;
    conformance::source(&mut Place::new(PARTITIONS, consumer)).await.assert_passed_except(&ENDS);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn the_source_that_ends_conforms() {
    let ends = |config: &mut KafkaSourceConfig| config.stop = Stop::End;
    let report = conformance::source(&mut Place::new(PARTITIONS, ends)).await;
    let goes_on = ["delivers_what_comes_later", "waits_when_there_is_nothing"];
    report.assert_passed_except(&[&goes_on[..], &MOVES].concat());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn the_source_of_chosen_partitions_conforms() {
    let chosen = |config: &mut KafkaSourceConfig| {
        let topic = config.topics.pop().unwrap();
        config.partitions = Some([(topic, (0..PARTITIONS).collect())].into());
    };
    let report = conformance::source(&mut Place::new(PARTITIONS, chosen)).await;
    report.assert_passed_except(&[&ENDS[..], &MOVES].concat());
}

impl SinkHarness for Place {
    type Sink = KafkaSink;

    async fn reset(&mut self) {
        self.create().await;
    }

    async fn make(&mut self) -> KafkaSink {
        KafkaSink::new(self.broker.sink(&self.topic)).unwrap()
    }

    fn item(&self, number: u64) -> KafkaRecord {
        KafkaRecord::new(number.to_string())
    }

    fn bad_item(&self) -> Option<KafkaRecord> {
        Some(KafkaRecord::new(vec![b'x'; self.broker.sink("t").max_record_bytes + 1]))
    }

    async fn read(&mut self) -> Vec<u64> {
        let end = self.broker.end(&self.topic, 0).await;
        let (mut config, topic) = (self.broker.client(), self.topic.clone());
        config.set("group.id", unique("reader"));
        let read = move || {
            let consumer: BaseConsumer = config.create().unwrap();
            let mut list = TopicPartitionList::new();
            list.add_partition_offset(&topic, 0, Offset::Beginning).unwrap();
            consumer.assign(&list).unwrap();
            let mut numbers = Vec::new();
            while (numbers.len() as u64) < end {
                let Some(message) = consumer.poll(PATIENCE) else { break };
                let payload = message.unwrap().payload().unwrap().to_vec();
                numbers.push(String::from_utf8(payload).unwrap().parse().unwrap());
            }
            numbers
        };
        tokio::task::spawn_blocking(read).await.unwrap()
    }

    fn keeps_order(&self) -> bool {
        true
    }
}

/// P6, P43
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn the_sink_conforms() {
    let report = conformance::sink(&mut Place::new(1, |_| {})).await;
    report.assert_passed_except(&["repeats_leave_one", "loses_nothing_by_a_failed_write"]);
}
