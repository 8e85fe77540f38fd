//! Bounded reading, alone and in a group.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::*;
use tidegate_core::Source;
use tidegate_local::{LocalError, LocalSource, LocalSourceConfig, OnMissingTopic};

fn bounded(log: &Log, member: &str) -> LocalSource {
    log.open(LocalSourceConfig { until_end: true, ..log.config(member) })
}

/// P10: it ends when the last positions are committed.
#[tokio::test(start_paused = true)]
async fn it_ends_when_everything_up_to_the_end_is_committed() {
    let log = Log::new(2);
    log.produce(4);
    let mut a = bounded(&log, "a");
    assert!(a.capabilities().bounded);
    assert_eq!(brief(&a.next(&open()).await.unwrap()), "+p0#1 +p1#1");
    log.produce(10);
    assert_eq!(told(&mut a, &open()).await, ["p0@0..2", "p1@0..2", ".p0 .p1"]);
    assert_eq!(a.end(&partition(0)).map(|end| end.get()), Some(2), "what came later is not for it");

    commit(&mut a, &[frontier(0, 1, 2), frontier(1, 1, 1)]).await;
    a.release(&[partition(0)]).await.unwrap();
    assert!(told(&mut a, &open()).await.is_empty(), "one record is open");
    commit(&mut a, &[frontier(1, 1, 2)]).await;
    a.release(&[partition(1)]).await.unwrap();
    assert_eq!(brief(&a.next(&open()).await.unwrap()), "end");
    a.close().await.unwrap();
    assert_eq!(log.committed(), [Some(2), Some(2)]);

    let mut again = bounded(&log, "a");
    assert_eq!(brief(&again.next(&open()).await.unwrap()), "+p0#2 +p1#2");
    assert_eq!(told(&mut again, &open()).await, ["p0@2..7", "p1@2..7", ".p0 .p1"]);
}

#[tokio::test(start_paused = true)]
async fn an_empty_topic_and_one_that_is_done_end_at_once() {
    let log = Log::new(2);
    let mut a = bounded(&log, "a");
    assert_eq!(brief(&a.next(&open()).await.unwrap()), "end");
    a.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn partitions_that_have_nothing_to_read_are_not_taken() {
    let log = Log::new(3);
    log.producer().append(&[tidegate_local::LocalRecord::new("x")]).unwrap();
    let mut a = bounded(&log, "a");
    assert_eq!(told(&mut a, &open()).await, ["+p0#1", "p0@0..1", ".p0"]);
    commit(&mut a, &[frontier(0, 1, 1)]).await;
    assert_eq!(brief(&a.next(&open()).await.unwrap()), "end");
}

#[tokio::test(start_paused = true)]
async fn members_end_together_when_the_group_is_done() {
    let log = Log::new(2);
    log.produce(4);
    let (mut a, mut b) = (bounded(&log, "a"), bounded(&log, "b"));
    let few = tidegate_core::Demand::new(1, 1000);
    assert_eq!(brief(&a.next(&few).await.unwrap()), "+p0#1 +p1#1");
    assert!(soon(&mut b, &few).await.is_none());
    assert_eq!(told(&mut a, &few).await, ["-p1", "p0@0..1", "p0@1..2", ".p0"]);
    a.release(&[partition(1)]).await.unwrap();
    assert_eq!(told(&mut b, &few).await, ["+p1#2", "p1@0..1", "p1@1..2", ".p1"]);
    commit(&mut a, &[frontier(0, 1, 2)]).await;
    a.release(&[partition(0)]).await.unwrap();
    assert!(told(&mut a, &few).await.is_empty(), "b has not committed");
    commit(&mut b, &[frontier(1, 2, 2)]).await;
    assert_eq!(brief(&a.next(&few).await.unwrap()), "end");
    assert_eq!(brief(&b.next(&few).await.unwrap()), "end");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_done_stands_by_for_one_that_dies() {
    let log = Log::new(2);
    log.produce(4);
    let (mut a, mut b) = (bounded(&log, "a"), bounded(&log, "b"));
    told(&mut b, &closed()).await;
    told(&mut a, &closed()).await;
    assert_eq!(told(&mut b, &closed()).await, ["-p1"]);
    b.release(&[partition(1)]).await.unwrap();
    assert_eq!(told(&mut a, &open()).await, ["+p1#2", "p1@0..2", ".p1"]);
    commit(&mut a, &[frontier(1, 2, 2)]).await;
    a.release(&[partition(1)]).await.unwrap();
    drop(b);
    let event = tokio::time::timeout(Duration::from_secs(11), a.next(&open())).await;
    assert_eq!(brief(&event.unwrap().unwrap()), "+p0#2");
    assert_eq!(told(&mut a, &open()).await, ["p0@0..2", ".p0"]);
    commit(&mut a, &[frontier(0, 2, 2)]).await;
    assert_eq!(brief(&a.next(&open()).await.unwrap()), "end");
}

/// The later one sees ends that the earlier one doesn't care about; both end.
#[tokio::test(start_paused = true)]
async fn members_with_different_ends_both_end() {
    let log = Log::new(1);
    log.produce(2);
    let mut early = bounded(&log, "early");
    assert_eq!(told(&mut early, &closed()).await, ["+p0#1"]);
    log.produce(3);
    let mut late = bounded(&log, "late");
    assert!(told(&mut late, &open()).await.is_empty());
    assert_eq!(told(&mut early, &open()).await, ["p0@0..2", ".p0"]);
    commit(&mut early, &[frontier(0, 1, 2)]).await;
    early.release(&[partition(0)]).await.unwrap();
    assert_eq!(brief(&early.next(&open()).await.unwrap()), "end");
    early.close().await.unwrap();
    assert_eq!(told(&mut late, &open()).await, ["+p0#2", "p0@2..5", ".p0"]);
    commit(&mut late, &[frontier(0, 2, 5)]).await;
    assert_eq!(brief(&late.next(&open()).await.unwrap()), "end");
}

#[tokio::test(start_paused = true)]
async fn it_does_not_wait_for_a_topic_that_is_not_there() {
    let log = Log::new(1);
    let config = LocalSourceConfig {
        until_end: true,
        on_missing_topic: OnMissingTopic::Wait,
        ..log.config("a")
    };
    let error = LocalSource::open(config).unwrap_err();
    assert!(matches!(error, LocalError::Config { .. }), "{error:?}");
}
