//! What a record carries comes through as it was written, by this crate's sink and by others.
//! Needs the broker of `scripts/services up kafka`.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Broker, PATIENCE, read_to_end, unique};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use tidegate_core::{Sink, Timestamp};
use tidegate_kafka::{Compression, Isolation, KafkaRecord, KafkaSink, KafkaSinkConfig};

async fn write(config: KafkaSinkConfig, records: &[KafkaRecord]) -> Vec<(usize, String)> {
    let mut sink = KafkaSink::new(config).unwrap();
    sink.open().await.unwrap();
    let report = sink.write(records).await.unwrap();
    sink.close().await.unwrap();
    let refused = report.into_rejections().into_iter();
    refused.map(|(index, error)| (index, error.to_string())).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn keys_tombstones_headers_and_timestamps_come_through_as_they_were_written() {
    let broker = Broker::single();
    let topic = broker.topic_with(1, &[("retention.ms", "-1")]).await;
    let at = Timestamp::from_millis(1_700_000_000_123);
    let records = [
        KafkaRecord::new("whole")
            .with_key("key")
            .with_header("a", "1")
            .with_header("b", b"\xff\x00".to_vec())
            .with_header("a", "2")
            .with_timestamp(at),
        KafkaRecord { key: Some(b"gone".to_vec()), ..KafkaRecord::default() }.with_timestamp(at),
        KafkaRecord { key: Some(Vec::new()), payload: Some(Vec::new()), ..KafkaRecord::default() }
            .with_timestamp(at),
        KafkaRecord::default().with_timestamp(at),
        KafkaRecord::new(b"\x00\xff".to_vec()).with_header("", "").with_timestamp(at),
    ];
    assert_eq!(write(broker.sink(&topic), &records).await, []);

    let came = read_to_end(broker.source(&topic, &unique("group"))).await;

    let came: Vec<_> = came[&0].iter().map(|(_, record)| record.clone()).collect();
    assert_eq!(came, records);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn a_topic_that_notes_the_time_of_the_append_says_so() {
    let broker = Broker::single();
    let settings = [("message.timestamp.type", "LogAppendTime")];
    let topic = broker.topic_with(1, &settings).await;
    let long_ago = Timestamp::from_millis(1_000_000_000_000);
    let record = KafkaRecord::new("x").with_timestamp(long_ago);
    write(broker.sink(&topic), std::slice::from_ref(&record)).await;
    write(broker.sink(&topic), &[KafkaRecord::new("y")]).await;

    let came = read_to_end(broker.source(&topic, &unique("group"))).await;

    for (_, record) in &came[&0] {
        let noted = record.timestamp.unwrap();
        assert!(noted > Timestamp::from_millis(1_700_000_000_000), "{noted:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn every_compression_is_written_and_read() {
    let broker = Broker::single();
    let topic = broker.topic(1).await;
    let all = [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];
    for compression in all {
        let config = KafkaSinkConfig { compression, ..broker.sink(&topic) };
        let records: Vec<_> =
            (0..100).map(|n| KafkaRecord::new(format!("{compression:?} {n}").repeat(20))).collect();
        assert_eq!(write(config, &records).await, []);
    }

    let came = read_to_end(broker.source(&topic, &unique("group"))).await;

    assert_eq!(came[&0].len(), 500);
    let expected: Vec<_> = all
        .iter()
        .flat_map(|c| (0..100).map(move |n| format!("{c:?} {n}").repeat(20).into_bytes()))
        .collect();
    let payloads: Vec<_> = came[&0].iter().map(|(_, r)| r.payload.clone().unwrap()).collect();
    assert_eq!(payloads, expected);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn a_key_goes_where_kafkas_own_client_sends_it() {
    let broker = Broker::single();
    let topic = broker.topic(7).await;
    // Utils.murmur2(key) & 0x7fffffff, as in the Java client's tests.
    let known = [("21", -973_932_308_i32), ("foobar", -790_332_482), ("abc", 479_470_107)];
    let records: Vec<_> =
        known.iter().map(|(key, _)| KafkaRecord::new(*key).with_key(*key)).collect();
    write(broker.sink(&topic), &records).await;

    let came = read_to_end(broker.source(&topic, &unique("group"))).await;

    for (key, hash) in known {
        let partition = (hash & 0x7fff_ffff) as u32 % 7;
        let keys: Vec<_> = came[&partition].iter().map(|(_, r)| r.key.clone().unwrap()).collect();
        assert!(keys.contains(&key.as_bytes().to_vec()), "{key} is not in {partition}");
    }
}

/// P43
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn a_record_names_its_own_topic_and_one_that_does_not_exist_is_refused_alone() {
    let broker = Broker::single();
    let (first, second) = (broker.topic(2).await, broker.topic(1).await);
    let nowhere = unique("nowhere");
    let mut config = KafkaSinkConfig { topic: None, ..broker.sink(&first) };
    config.properties.set("topic.metadata.propagation.max.ms", "500");
    let records = [
        KafkaRecord::new("a").with_topic(&first).with_partition(1),
        KafkaRecord::new("b").with_topic(&nowhere),
        KafkaRecord::new("c"),
        KafkaRecord::new("d").with_topic(&second),
        KafkaRecord::new("e").with_topic(&second).with_partition(9),
    ];

    let mut refused = write(config, &records).await;

    refused.sort();
    assert_eq!(
        refused,
        [
            (1, format!("topic {nowhere} does not exist")),
            (2, "the record names no topic, and the sink has none".to_owned()),
            (4, format!("{second}[9] does not exist")),
        ]
    );
    assert_eq!(broker.end(&first, 1).await, 1);
    assert_eq!(broker.end(&second, 0).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn a_record_that_only_the_broker_finds_too_large_is_refused_alone() {
    let broker = Broker::single();
    let topic = broker.topic_with(1, &[("max.message.bytes", "2000")]).await;
    let records =
        [KafkaRecord::new("a"), KafkaRecord::new("x".repeat(10_000)), KafkaRecord::new("b")];
    // Each record in a batch of its own: the broker refuses whole batches.
    let mut config = broker.sink(&topic);
    config.properties.set("batch.num.messages", "1");

    let refused = write(config, &records).await;

    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].0 == 1 && refused[0].1.contains("than the broker allows"), "{refused:?}");
    assert_eq!(broker.end(&topic, 0).await, 2);
}

fn transactions(broker: &Broker, topic: &str) {
    let producer: BaseProducer =
        broker.client().set("transactional.id", unique("tx")).create().unwrap();
    producer.init_transactions(PATIENCE).unwrap();
    for (transaction, commits) in [("first", true), ("second", false), ("third", true)] {
        producer.begin_transaction().unwrap();
        for n in 0..5 {
            let payload = format!("{transaction} {n}");
            producer.send(BaseRecord::<(), _>::to(topic).payload(&payload)).unwrap();
        }
        producer.flush(PATIENCE).unwrap();
        if commits {
            producer.commit_transaction(PATIENCE).unwrap();
        } else {
            producer.abort_transaction(PATIENCE).unwrap();
        }
    }
}

/// The markers behind transactions are gaps in the offsets, at the end of the log too; a run comes
/// to its end over them, and the group's commit has no lag left.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn aborted_transactions_are_not_read_and_their_gaps_are_passed() {
    let broker = Broker::single();
    let (topic, group) = (broker.topic(1).await, unique("group"));
    let (other, name) = (broker.clone(), topic.clone());
    tokio::task::spawn_blocking(move || transactions(&other, &name)).await.unwrap();

    let came = read_to_end(broker.source(&topic, &group)).await;

    let payloads: Vec<_> = came[&0].iter().map(|(_, r)| r.payload.clone().unwrap()).collect();
    let expected: Vec<_> = ["first", "third"]
        .iter()
        .flat_map(|t| (0..5).map(move |n| format!("{t} {n}").into_bytes()))
        .collect();
    assert_eq!(payloads, expected);
    let end = broker.end(&topic, 0).await;
    assert_eq!(end, 18, "15 records and 3 markers");
    assert_eq!(broker.committed(&group, &topic, 0).await, Some(end));

    let mut all = broker.source(&topic, &unique("group"));
    all.isolation = Isolation::Uncommitted;
    assert_eq!(read_to_end(all).await[&0].len(), 15);
}
