//! Where a source begins, where it ends, and what it does when its place is not in the log.
//! Needs the broker of `scripts/services up kafka`.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{Broker, Member, read_to_end, unique};
use tidegate_core::{Sink, Source, SourceEvent, Timestamp};
use tidegate_kafka::{
    KafkaRecord, KafkaSink, KafkaSourceConfig, OnMissingTopic, OnOutOfRange, Start, Stop,
};

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}

/// A topic whose record `n` has the time `n` seconds after the beginning.
async fn timed(broker: &Broker, partitions: u32, each: usize) -> String {
    // The times are old, and retention goes by them.
    let topic = broker.topic_with(partitions, &[("retention.ms", "-1")]).await;
    let mut sink = KafkaSink::new(broker.sink(&topic)).unwrap();
    sink.open().await.unwrap();
    for partition in 0..partitions {
        let record = |n: usize| {
            KafkaRecord::new(n.to_string()).with_partition(partition).with_timestamp(second(n))
        };
        let records: Vec<_> = (0..each).map(record).collect();
        assert!(sink.write(&records).await.unwrap().into_rejections().is_empty());
    }
    sink.close().await.unwrap();
    topic
}

fn second(n: usize) -> Timestamp {
    Timestamp::from_millis(1_790_000_000_000 + n as i64 * 1000)
}

/// Longer than a source that has nothing to read needs to find that out.
const QUIET: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn a_new_group_begins_where_it_is_told() {
    let broker = Broker::single();
    let topic = timed(&broker, 2, 10).await;
    let offsets = BTreeMap::from([(topic.clone(), BTreeMap::from([(0, 7)]))]);
    let cases = [
        (Start::Earliest, [0, 0]),
        (Start::Time(second(4)), [4, 4]),
        (Start::Time(Timestamp::from_millis(second(4).as_millis() - 1)), [4, 4]),
        (Start::Time(second(99)), [10, 10]),
        (Start::Offsets(offsets), [7, 0]),
    ];
    for (start, from) in cases {
        let config =
            KafkaSourceConfig { start: start.clone(), ..broker.source(&topic, &unique("group")) };
        let came = read_to_end(config).await;
        for (partition, from) in from.into_iter().enumerate() {
            let offsets: Vec<_> =
                came.get(&(partition as u32)).into_iter().flatten().map(|(at, _)| *at).collect();
            assert_eq!(offsets, (from..10).collect::<Vec<_>>(), "{start:?}, {partition}");
        }
    }
}

/// P10: what comes after a group has begun at the latest record is not skipped by a restart.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn a_group_that_begins_at_the_latest_record_stays_there() {
    let broker = Broker::single();
    let (topic, group) = (broker.topic(1).await, unique("group"));
    broker.produce(&topic, 0, &numbers(0..5)).await;
    let config = KafkaSourceConfig { start: Start::Latest, ..broker.source(&topic, &group) };
    let mut member = Member::new(config.clone());
    member.until(|member| !member.owned.is_empty()).await;
    // It commits nothing itself.
    while broker.committed(&group, &topic, 0).await.is_none() {
        assert!(member.hear(Duration::from_millis(50)).await.unwrap().is_none());
    }
    assert_eq!(broker.committed(&group, &topic, 0).await, Some(5));
    drop(member);
    broker.produce(&topic, 0, &numbers(5..8)).await;

    let mut member = Member::new(config);
    member.until(|member| member.count() >= 3).await;

    assert_eq!(member.texts(0), numbers(5..8));
    member.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn a_run_ends_where_it_is_told() {
    let broker = Broker::single();
    let topic = timed(&broker, 2, 10).await;
    let offsets = BTreeMap::from([(topic.clone(), BTreeMap::from([(1, 4)]))]);
    let cases = [
        (Stop::End, [10, 10]),
        (Stop::Time(second(6)), [6, 6]),
        (Stop::Time(second(99)), [10, 10]),
        (Stop::Time(second(0)), [0, 0]),
        (Stop::Offsets(offsets), [0, 4]),
    ];
    for (stop, to) in cases {
        let mut member = Member::new(KafkaSourceConfig {
            stop: stop.clone(),
            ..broker.source(&topic, &unique("group"))
        });
        while !matches!(member.hear(common::PATIENCE).await.unwrap(), Some(SourceEvent::Ended)) {}
        for (partition, to) in to.into_iter().enumerate() {
            let texts = member.texts(partition as u32);
            assert_eq!(texts, numbers(0..to), "{stop:?}, {partition}");
        }
        member.close().await;
    }
}

/// A bounded run of two members: the one that has nothing left waits for the other, and the group
/// has committed everything when the last ends.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn a_run_of_a_group_ends_when_the_group_is_through() {
    let broker = Broker::single();
    let (topic, group) = (timed(&broker, 4, 50).await, unique("group"));
    let members = (0..2).map(|_| {
        let config = broker.source(&topic, &group);
        tokio::spawn(read_to_end(config))
    });
    let mut came: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for member in members.collect::<Vec<_>>() {
        for (partition, records) in member.await.unwrap() {
            came.entry(partition).or_default().extend(records.iter().map(|(at, _)| *at));
        }
    }
    let committed = broker.all_committed(&group, &topic, 4).await;
    for partition in 0..4 {
        let mut offsets = came.remove(&partition).unwrap();
        offsets.sort_unstable();
        offsets.dedup();
        assert_eq!(offsets, (0..50).collect::<Vec<_>>());
        assert_eq!(committed.get(&partition), Some(&50));
    }
}

/// A group at offset 3 of a log that begins at 6.
async fn overtaken(broker: &Broker, group: &str) -> String {
    let topic = broker.topic(1).await;
    broker.produce(&topic, 0, &numbers(0..3)).await;
    read_to_end(broker.source(&topic, group)).await;
    assert_eq!(broker.committed(group, &topic, 0).await, Some(3));
    broker.produce(&topic, 0, &numbers(3..10)).await;
    broker.delete_records(&topic, 0, 6).await;
    topic
}

/// P30
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn a_group_whose_records_were_deleted_stops_unless_it_is_told_where_to_go_on() {
    let broker = Broker::single();
    let group = unique("group");
    let topic = overtaken(&broker, &group).await;
    let mut member = Member::new(broker.source(&topic, &group));
    let error = member.error().await;
    assert!(!error.is_retryable());
    let text = error.to_string();
    assert!(text.contains(&format!("{topic}[0]: group {group} wants to go on at 3")), "{text}");
    assert!(text.contains("offsets 6 to 10") && text.contains("retention deleted"), "{text}");
    member.source.close().await.unwrap();
    assert_eq!(broker.committed(&group, &topic, 0).await, Some(3), "as it was");

    for (policy, from) in [(OnOutOfRange::Earliest, 6), (OnOutOfRange::Latest, 10)] {
        let group = unique("group");
        let topic = overtaken(&broker, &group).await;
        let config = KafkaSourceConfig { on_out_of_range: policy, ..broker.source(&topic, &group) };
        let mut member = Member::new(config);
        member.until(|member| !member.owned.is_empty()).await;
        while member.hear(QUIET).await.unwrap().is_some() {}
        broker.produce(&topic, 0, &numbers(10..12)).await;
        member.until(|member| member.texts(0).ends_with(&numbers(10..12))).await;
        assert_eq!(member.texts(0), numbers(from..12), "{policy:?}");
        member.close().await;
    }
}

/// P30: the topic was deleted and made anew, so the group's commit is beyond its end.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn a_commit_beyond_the_end_stops_the_source_or_begins_anew() {
    let broker = Broker::single();
    for policy in [OnOutOfRange::Stop, OnOutOfRange::Earliest] {
        let (topic, group) = (broker.topic(1).await, unique("group"));
        broker.produce(&topic, 0, &numbers(0..20)).await;
        read_to_end(broker.source(&topic, &group)).await;
        let other = broker.topic(1).await;
        broker.produce(&other, 0, &numbers(0..5)).await;
        broker.commit(&group, &other, 0, 20).await;
        let config = KafkaSourceConfig { on_out_of_range: policy, ..broker.source(&other, &group) };
        let mut member = Member::new(config);
        if policy == OnOutOfRange::Stop {
            let text = member.error().await.to_string();
            assert!(text.contains("wants to go on at 20"), "{text}");
            assert!(text.contains("offsets 0 to 5") && text.contains("created anew"), "{text}");
            member.source.close().await.unwrap();
        } else {
            member.until(|member| member.count() >= 5).await;
            assert_eq!(member.texts(0), numbers(0..5));
            member.close().await;
        }
    }
}

/// P30
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn a_bounded_run_does_not_take_a_commit_beyond_the_end_for_its_end() {
    let broker = Broker::single();
    let (topic, group) = (broker.topic(1).await, unique("group"));
    broker.produce(&topic, 0, &numbers(0..5)).await;
    broker.commit(&group, &topic, 0, 20).await;
    let mut member =
        Member::new(KafkaSourceConfig { stop: Stop::End, ..broker.source(&topic, &group) });
    let text = member.error().await.to_string();
    assert!(text.contains("wants to go on at 20") && text.contains("offsets 0 to 5"), "{text}");
    member.source.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn chosen_partitions_are_read_alone_and_with_or_without_commits() {
    let broker = Broker::single();
    let (topic, group) = (timed(&broker, 3, 5).await, unique("group"));
    let config = KafkaSourceConfig {
        topics: Vec::new(),
        partitions: Some([(topic.clone(), vec![0, 2])].into()),
        ..broker.source(&topic, &group)
    };
    let came = read_to_end(config.clone()).await;
    assert_eq!(came.keys().copied().collect::<Vec<_>>(), [0, 2]);
    assert_eq!(broker.committed(&group, &topic, 2).await, Some(5));
    assert_eq!(read_to_end(config.clone()).await.len(), 0, "it goes on at its commits");
    let anew = KafkaSourceConfig { ignore_commits: true, ..config };
    assert_eq!(read_to_end(anew).await[&2].len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn a_pattern_finds_topics_that_come_later() {
    let broker = Broker::single();
    let prefix = unique("pattern");
    let first = broker.named_topic(&format!("{prefix}.a"), 1).await;
    broker.produce(&first, 0, &numbers(0..3)).await;
    let mut config = broker.source(&format!("^{prefix}\\..*"), &unique("group"));
    config.properties.set("topic.metadata.refresh.interval.ms", "500");
    let mut member = Member::new(config);
    member.until(|member| member.count() >= 3).await;

    let second = broker.named_topic(&format!("{prefix}.b"), 1).await;
    broker.produce(&second, 0, &numbers(3..5)).await;
    member.until(|member| member.count() >= 5).await;

    let streams: Vec<_> = member.owned.keys().map(|p| p.stream().to_owned()).collect();
    assert_eq!(streams, [first, second]);
    member.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn partitions_that_are_added_are_read_from_their_beginning() {
    let broker = Broker::single();
    let topic = broker.topic(1).await;
    broker.produce(&topic, 0, &numbers(0..3)).await;
    let mut config = broker.source(&topic, &unique("group"));
    config.properties.set("topic.metadata.refresh.interval.ms", "500");
    let mut member = Member::new(config);
    member.until(|member| member.count() >= 3).await;

    broker.add_partitions(&topic, 3).await;
    broker.produce(&topic, 2, &numbers(0..4)).await;
    broker.produce(&topic, 0, &numbers(3..5)).await;
    member.until(|member| member.count() >= 9).await;

    assert_eq!(member.texts(0), numbers(0..5), "the first partition is read on, not anew");
    assert_eq!(member.texts(2), numbers(0..4));
    assert_eq!(member.owned.len(), 3);
    assert!(member.lost.is_empty());
    member.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn a_topic_that_is_not_there_yet_is_waited_for_if_so_told() {
    let broker = Broker::single();
    let topic = unique("later");
    let config = KafkaSourceConfig {
        on_missing_topic: OnMissingTopic::Wait,
        ..broker.source(&topic, &unique("group"))
    };
    let mut member = Member::new(config);
    assert!(member.hear(QUIET).await.unwrap().is_none());
    broker.named_topic(&topic, 1).await;
    broker.produce(&topic, 0, &numbers(0..3)).await;
    member.until(|member| member.count() >= 3).await;
    member.close().await;
}
