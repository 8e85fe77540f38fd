//! Appending, reading and keeping.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::*;
use tidegate_core::{Demand, Header, Sink, Source, SourceEvent, Timestamp};
use tidegate_local::{
    Admin, Blocking, LocalError, LocalRecord, LocalSink, LocalSinkConfig, LocalSource,
    LocalSourceConfig, OnOutOfRange, Producer, Retention, Start,
};

/// Reads a whole topic with a group of its own: the records by partition, in order.
async fn read_all(log: &Log) -> BTreeMap<u32, Vec<(u64, LocalRecord)>> {
    let config =
        LocalSourceConfig { until_end: true, ..LocalSourceConfig::new(&log.path, TOPIC, "reader") };
    let mut source = log.open(config);
    let mut all: BTreeMap<u32, Vec<_>> = BTreeMap::new();
    for event in all_soon(&mut source, &open()).await {
        if let SourceEvent::Fetched(batch) = event {
            let records = all.entry(batch.partition().index().unwrap()).or_default();
            records.extend(batch.iter().map(|r| (r.position().get(), LocalRecord::from(r))));
        }
    }
    source.close().await.unwrap();
    all
}

#[tokio::test(start_paused = true)]
async fn a_record_comes_back_as_it_was_written() {
    let log = Log::new(1);
    let at = Timestamp::from_millis(-5);
    let records = vec![
        LocalRecord::new([0, 0xff]).with_key([0xfe]).with_timestamp(at),
        LocalRecord { payload: None, ..LocalRecord::default() }.with_key("").with_timestamp(at),
        LocalRecord::new("").with_timestamp(at),
        LocalRecord::new("p")
            .with_header("a", "1")
            .with_header("a", [0xff; 200])
            .with_header("", "")
            .with_timestamp(at),
        LocalRecord::new("without a time"),
    ];
    log.producer().append(&records).unwrap();
    let read: Vec<_> = read_all(&log).await.remove(&0).unwrap();
    for (n, (position, record)) in read.iter().enumerate() {
        let mut expected = records[n].clone();
        expected.timestamp = expected.timestamp.or(Some(log.clock.now()));
        assert_eq!((*position, record.timestamp.is_some()), (n as u64, true));
        if n < 4 {
            assert_eq!(*record, expected);
        }
    }
    assert_eq!(read.len(), 5);
    assert!(read[4].1.timestamp >= Some(Timestamp::from_millis(1_000_000)), "the append's time");
}

/// P50: per key and producer, also with several producers at once; positions have no gap.
#[tokio::test(start_paused = true)]
async fn producers_at_once_leave_no_gap_and_keep_their_order() {
    let log = Log::new(3);
    std::thread::scope(|scope| {
        for id in 0..4_usize {
            let path = &log.path;
            scope.spawn(move || {
                let config = LocalSinkConfig {
                    lock_timeout: Duration::from_secs(60),
                    ..LocalSinkConfig::new(path, TOPIC)
                };
                let mut producer = Producer::open(config).unwrap();
                for batch in 0..20_usize {
                    let records: Vec<_> = (0..10_usize)
                        .map(|n| {
                            let payload = format!("{:03}", batch * 10 + n);
                            LocalRecord::new(payload).with_key(format!("{id}/{}", n % 5))
                        })
                        .collect();
                    producer.append(&records).unwrap();
                }
            });
        }
    });
    let mut by_key: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    for records in read_all(&log).await.into_values() {
        let positions: Vec<_> = records.iter().map(|(position, _)| *position).collect();
        assert_eq!(positions, (0..records.len() as u64).collect::<Vec<_>>());
        for (_, record) in records {
            by_key.entry(record.key.unwrap()).or_default().push(record.payload.unwrap());
        }
    }
    assert_eq!(by_key.len(), 20, "keys");
    for (key, payloads) in by_key {
        assert_eq!(payloads.len(), 40);
        assert!(payloads.is_sorted(), "{key:?}");
    }
}

/// A fetch carries what there is room for, and a single larger record.
#[tokio::test(start_paused = true)]
async fn a_fetch_keeps_to_the_demand() {
    let log = Log::new(1);
    let records: Vec<_> =
        [10, 10, 500, 10, 10].map(|size| LocalRecord::new(vec![b'x'; size])).into();
    log.producer().append(&records).unwrap();
    let mut a = log.source("a");
    let small = Demand::new(2, 100);
    assert_eq!(
        told(&mut a, &small).await,
        ["+p0#1", "p0@0..2", "p0@2..3", "p0@3..5"],
        "two records, the large one, two records"
    );
    assert_eq!(a.end(&partition(0)).map(|end| end.get()), Some(5));
    assert_eq!(a.end(&partition(1)), None);
}

#[tokio::test(start_paused = true)]
async fn partitions_are_read_in_turn_and_only_where_there_is_room() {
    let log = Log::new(2);
    log.produce(6);
    let mut a = log.source("a");
    let one = Demand::new(1, 1000);
    let without = one.clone().without([partition(1)]);
    assert_eq!(told(&mut a, &without).await, ["+p0#1 +p1#1", "p0@0..1", "p0@1..2", "p0@2..3"]);
    log.produce(2);
    assert_eq!(told(&mut a, &one).await, ["p1@0..1", "p0@3..4", "p1@1..2", "p1@2..3", "p1@3..4"]);
}

/// The future of `next` is dropped after each single poll, wherever it stands.
#[tokio::test(start_paused = true)]
async fn a_source_whose_next_is_dropped_at_every_poll_loses_nothing() {
    let log = Log::new(3);
    let mut a = log.source("a");
    let mut seen: BTreeMap<u32, u64> = BTreeMap::new();
    let mut assigned = 0;
    let demand = Demand::new(2, 1000);
    for round in 0..2_000 {
        if round % 100 == 0 {
            log.produce(7);
        }
        let event = {
            let next = a.next(&demand);
            let mut next = std::pin::pin!(next);
            std::future::poll_fn(|context| std::task::Poll::Ready(next.as_mut().poll(context)))
                .await
        };
        match event {
            std::task::Poll::Ready(Ok(SourceEvent::Fetched(batch))) => {
                let next = seen.entry(batch.partition().index().unwrap()).or_default();
                for record in batch.iter() {
                    assert_eq!(record.position().get(), *next);
                    *next += 1;
                }
            }
            std::task::Poll::Ready(Ok(SourceEvent::Assigned(all))) => assigned += all.len(),
            std::task::Poll::Ready(other) => panic!("{other:?}"),
            std::task::Poll::Pending => tokio::time::advance(Duration::from_millis(3)).await,
        }
    }
    assert_eq!((assigned, seen.values().sum::<u64>()), (3, 20 * 7));
}

#[tokio::test(start_paused = true)]
async fn a_group_that_starts_at_the_latest_misses_nothing_that_comes_later() {
    let log = Log::new(2);
    log.produce(4);
    let config = |member: &str| LocalSourceConfig { start: Start::Latest, ..log.config(member) };
    let mut a = log.open(config("a"));
    assert_eq!(told(&mut a, &open()).await, ["+p0#1 +p1#1"]);
    drop(a);
    log.produce(2);
    let mut b = log.open(config("b"));
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(told(&mut b, &open()).await, ["+p0#2 +p1#2", "p0@2..3", "p1@2..3"]);
}

/// P37: cleaning up costs what it deletes.
#[tokio::test(start_paused = true)]
async fn retention_deletes_the_oldest_records_and_no_position_is_used_twice() {
    let log = Log::new(1);
    let keep = |retention: Retention| log.admin().set_retention(TOPIC, &retention).unwrap();
    let held = || {
        let partition = log.admin().topics().unwrap()[0].partitions[0];
        (partition.first, partition.end, partition.records, partition.bytes)
    };
    log.produce(10);
    assert_eq!(held(), (0, 10, 10, 10));

    keep(Retention { max_records: Some(4), ..Retention::default() });
    log.produce(1);
    assert_eq!(held(), (7, 11, 4, 4), "an append deletes along");

    keep(Retention { max_bytes: Some(2), ..Retention::default() });
    assert_eq!(log.admin().apply_retention(TOPIC).unwrap(), 2);
    assert_eq!(held(), (9, 11, 2, 2));

    keep(Retention { max_age: Some(Duration::from_secs(60)), ..Retention::default() });
    tokio::time::advance(Duration::from_secs(61)).await;
    log.produce(1);
    assert_eq!(held(), (11, 12, 1, 1));
    let records: Vec<_> = read_all(&log).await.remove(&0).unwrap();
    assert_eq!(records.iter().map(|(position, _)| *position).collect::<Vec<_>>(), [11]);
}

/// The producer's timestamps are data; old data that was just written is not old.
#[tokio::test(start_paused = true)]
async fn retention_by_age_counts_from_the_append() {
    let log = Log::new(1);
    let retention = Retention { max_age: Some(Duration::from_secs(60)), ..Retention::default() };
    log.admin().set_retention(TOPIC, &retention).unwrap();
    let ancient = LocalRecord::new("x").with_timestamp(Timestamp::from_millis(0));
    log.producer().append(&[ancient.clone(), ancient]).unwrap();
    assert_eq!(log.admin().apply_retention(TOPIC).unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn members_delete_along_with_their_heartbeats() {
    let log = Log::new(1);
    log.produce(10);
    let retention = Retention { max_records: Some(3), ..Retention::default() };
    log.admin().set_retention(TOPIC, &retention).unwrap();
    let mut a = log.source("a");
    told(&mut a, &open()).await;
    tokio::time::timeout(Duration::from_secs(5), a.next(&open())).await.unwrap_err();
    assert_eq!(log.admin().topics().unwrap()[0].records, 3);
}

#[tokio::test(start_paused = true)]
async fn retention_waits_for_every_group_if_it_is_told_to() {
    let log = Log::new(1);
    log.produce(10);
    let mut a = log.source("a");
    told(&mut a, &open()).await;
    let retention =
        Retention { max_records: Some(1), keep_uncommitted: true, ..Retention::default() };
    log.admin().set_retention(TOPIC, &retention).unwrap();
    assert_eq!(log.admin().apply_retention(TOPIC).unwrap(), 0, "nothing is committed");
    commit(&mut a, &[frontier(0, 1, 6)]).await;
    assert_eq!(log.admin().apply_retention(TOPIC).unwrap(), 6);
}

/// P30
#[tokio::test(start_paused = true)]
async fn a_position_that_retention_has_deleted_follows_the_policy() {
    let log = Log::new(1);
    log.produce(10);
    let mut a = log.source("a");
    told(&mut a, &open()).await;
    commit(&mut a, &[frontier(0, 1, 2)]).await;
    a.close().await.unwrap();
    let retention = Retention { max_records: Some(3), ..Retention::default() };
    log.admin().set_retention(TOPIC, &retention).unwrap();
    log.admin().apply_retention(TOPIC).unwrap();

    let mut a = log.source("a");
    let error = a.next(&open()).await.unwrap_err();
    assert!(!error.is_retryable());
    let text = error.to_string();
    assert!(text.contains("is at position 2, but the log has only positions 7 to 10"), "{text}");
    assert!(text.contains("set on_out_of_range to earliest"), "{text}");
    a.close().await.unwrap();

    let moving = |policy| {
        let config = LocalSourceConfig { on_out_of_range: policy, ..log.config("a") };
        LocalSource::open_with_clock(config, log.clock.clone()).unwrap()
    };
    let mut a = moving(OnOutOfRange::Earliest);
    assert_eq!(told(&mut a, &open()).await, ["+p0#2", "p0@7..10"]);
    assert_eq!(log.committed(), [Some(7)], "the new place is noted");
    a.close().await.unwrap();
}

/// P30: the source was delivering when retention overtook it.
#[tokio::test(start_paused = true)]
async fn a_source_that_is_overtaken_by_retention_follows_the_policy() {
    for (policy, expected) in
        [(OnOutOfRange::Earliest, vec!["p0@7..9", "p0@9..10"]), (OnOutOfRange::Latest, vec![])]
    {
        let log = Log::new(1);
        log.produce(10);
        let mut a = log.open(LocalSourceConfig { on_out_of_range: policy, ..log.config("a") });
        let mut stopping = log.open(LocalSourceConfig::new(&log.path, TOPIC, "other"));
        for source in [&mut a, &mut stopping] {
            assert_eq!(assigned(soon(source, &Demand::new(2, 1000)).await).len(), 1);
            assert_eq!(brief(&soon(source, &Demand::new(2, 1000)).await.unwrap()), "p0@0..2");
        }
        let retention = Retention { max_records: Some(3), ..Retention::default() };
        log.admin().set_retention(TOPIC, &retention).unwrap();
        log.admin().apply_retention(TOPIC).unwrap();

        assert_eq!(told(&mut a, &Demand::new(2, 1000)).await, expected, "{policy:?}");
        let error = stopping.next(&open()).await.unwrap_err();
        assert!(error.to_string().contains("retention deleted records"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sink_answers_for_every_record_and_refuses_only_what_is_too_large() {
    for blocking in [Blocking::Inline, Blocking::Pool] {
        let log = Log::new(1);
        let config = LocalSinkConfig {
            max_record_bytes: 10,
            blocking,
            ..LocalSinkConfig::new(&log.path, TOPIC)
        };
        let mut sink = LocalSink::with_clock(config, log.clock.clone()).unwrap();
        sink.open().await.unwrap();
        let batch =
            [LocalRecord::new("one"), LocalRecord::new("x".repeat(11)), LocalRecord::new("two")];
        let report = sink.write(&batch).await.unwrap();
        assert_eq!(report.len(), 3);
        let refused = report.into_rejections();
        assert_eq!(refused.len(), 1);
        assert_eq!(refused[0].0, 1);
        assert!(refused[0].1.to_string().contains("larger than max_record_bytes (10)"));
        assert!(sink.write(&batch[..1]).await.unwrap().into_rejections().is_empty());
        sink.close().await.unwrap();
        let payloads: Vec<_> = read_all(&log).await.remove(&0).unwrap();
        let payloads: Vec<_> = payloads.into_iter().map(|(_, r)| r.payload.unwrap()).collect();
        assert_eq!(payloads, [&b"one"[..], b"two", b"one"]);
    }
}

/// A drain that runs out of time drops the write; the sink stays usable.
#[tokio::test]
async fn a_write_that_was_dropped_half_way_is_followed_by_others() {
    let log = Log::new(1);
    let mut sink = LocalSink::new(LocalSinkConfig::new(&log.path, TOPIC)).unwrap();
    sink.open().await.unwrap();
    {
        let batch = [LocalRecord::new("dropped")];
        let write = sink.write(&batch);
        let mut write = std::pin::pin!(write);
        std::future::poll_fn(|context| {
            let _ = write.as_mut().poll(context);
            std::task::Poll::Ready(())
        })
        .await;
    }
    sink.write(&[LocalRecord::new("kept")]).await.unwrap();
    let all = read_all(&log).await.remove(&0).unwrap();
    assert!(all.iter().any(|(_, record)| record.payload.as_deref() == Some(b"kept")));
}

#[tokio::test(start_paused = true)]
async fn a_sink_creates_its_topic_only_if_it_may_and_checks_the_number_of_partitions() {
    let log = Log::new(3);
    let config = |topic: &str| LocalSinkConfig::new(&log.path, topic);
    let mut sink =
        LocalSink::new(LocalSinkConfig { create: false, ..config("no such topic") }).unwrap();
    let error = sink.open().await.unwrap_err();
    assert!(error.to_string().contains("topic no such topic does not exist"), "{error}");

    let error =
        Producer::open(LocalSinkConfig { partitions: Some(5), ..config(TOPIC) }).unwrap_err();
    assert!(matches!(error, LocalError::PartitionsDiffer { partitions: 3, wanted: 5, .. }));

    Producer::open(LocalSinkConfig { partitions: Some(7), ..config("new") }).unwrap();
    Producer::open(config("default")).unwrap();
    let topics = log.admin().topics().unwrap();
    let partitions: Vec<_> =
        topics.iter().map(|topic| (topic.name.as_str(), topic.partitions.len())).collect();
    assert_eq!(partitions, [("default", 4), ("new", 7), (TOPIC, 3)]);
}

#[tokio::test(start_paused = true)]
async fn the_administrator_sees_topics_groups_members_and_lag() {
    let log = Log::new(2);
    log.admin().create_topic("another", 1, &Retention::default()).unwrap();
    let producer = &mut log.producer();
    producer.append(&[LocalRecord::new("abc").with_header("h", "v")]).unwrap();
    log.produce(4);
    let mut a = log.source("a");
    told(&mut a, &open()).await;
    commit(&mut a, &[frontier(1, 1, 1)]).await;

    let topics = serde_json::to_value(log.admin().topics().unwrap()).unwrap();
    assert_eq!(topics[0]["name"], "another");
    assert_eq!(topics[1]["records"], 5);
    assert_eq!(topics[1]["partitions"][0]["bytes"], 3 + 4 + 2);
    let groups = log.admin().groups().unwrap();
    assert_eq!(groups[0].lag, 4);
    assert_eq!(
        (groups[0].members[0].is_live, &groups[0].members[0].partitions),
        (true, &vec![0, 1])
    );
    tokio::time::advance(Duration::from_secs(11)).await;
    assert!(!log.admin().groups().unwrap()[0].members[0].is_live);
    let json = serde_json::to_value(groups).unwrap();
    assert_eq!(json[0]["partitions"][1]["committed"], 1);
    assert_eq!(json[0]["partitions"][1]["owner"], "a");
}

#[test]
fn the_administrator_refuses_what_cannot_be() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q.db");
    assert!(matches!(Admin::open(&path).unwrap_err(), LocalError::NoSuchFile { .. }));
    let mut admin = Admin::create(&path).unwrap();
    let retention = Retention { max_age: Some(Duration::ZERO), ..Retention::default() };
    let error = admin.create_topic("", 0, &retention).unwrap_err().to_string();
    for key in ["topic: ", "partitions: ", "retention.max_age: "] {
        assert!(error.contains(key), "{error}");
    }
    admin.create_topic("t", 1, &Retention::default()).unwrap();
    let error = admin.create_topic("t", 2, &Retention::default()).unwrap_err();
    assert!(matches!(error, LocalError::TopicExists { partitions: 1, .. }));
}

/// A record of its own for a header that repeats, as brokers allow.
#[test]
fn header_names_may_repeat() {
    let record = LocalRecord::new("").with_header("a", "1").with_header("a", "2");
    assert_eq!(record.headers, [Header::new("a", *b"1"), Header::new("a", *b"2")]);
}
