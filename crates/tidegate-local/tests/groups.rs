//! Consumer groups: who owns what, and what members are told, on a clock that the test moves.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::*;
use tidegate_core::Source;
use tidegate_local::{LocalError, LocalSource};

const SESSION: Duration = Duration::from_secs(10);

/// Lets time pass in which these members live and nothing happens to them.
async fn live(sources: &mut [&mut LocalSource], time: Duration) {
    let end = tokio::time::Instant::now() + time;
    while tokio::time::Instant::now() < end {
        for source in &mut *sources {
            assert!(soon(source, &closed()).await.is_none());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_member_owns_everything_and_reads_from_the_beginning() {
    let log = Log::new(3);
    log.produce(5);
    let mut a = log.source("a");
    assert_eq!(told(&mut a, &open()).await, ["+p0#1 +p1#1 +p2#1", "p0@0..2", "p1@0..2", "p2@0..1"]);
    assert_eq!(a.member(), Some("a"));
    log.produce(1);
    assert_eq!(told(&mut a, &open()).await, ["p2@1..2"]);
}

/// P14, P24: only what moves is revoked, it moves only when it was released, and the next owner
/// goes on at what was committed until then.
#[tokio::test(start_paused = true)]
async fn a_second_member_gets_a_partition_once_the_first_has_released_it() {
    let log = Log::new(4);
    log.produce(8);
    let (mut a, mut b) = (log.source("a"), log.source("b"));
    told(&mut a, &open()).await;

    assert!(soon(&mut b, &open()).await.is_none(), "nothing is free yet");
    assert_eq!(told(&mut a, &open()).await, ["-p2 -p3"]);
    log.produce(4);
    assert_eq!(told(&mut a, &open()).await, ["p0@2..3", "p1@2..3"], "the others go on");
    assert!(soon(&mut b, &open()).await.is_none(), "still being drained");

    let report = commit(&mut a, &[frontier(2, 1, 2), frontier(3, 1, 1)]).await;
    assert!(report.refused.is_empty(), "it owns them until it releases them");
    a.release(&[partition(3)]).await.unwrap();
    assert_eq!(told(&mut b, &open()).await, ["+p3#2", "p3@1..3"]);
    a.release(&[partition(2)]).await.unwrap();
    assert_eq!(told(&mut b, &open()).await, ["+p2#2", "p2@2..3"]);
    assert!(told(&mut a, &open()).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_member_that_leaves_is_replaced_at_once() {
    let log = Log::new(2);
    let (mut a, mut b) = (log.source("a"), log.source("b"));
    told(&mut a, &open()).await;
    told(&mut b, &open()).await;
    a.close().await.unwrap();
    assert_eq!(told(&mut b, &open()).await, ["+p0#2 +p1#2"]);
    let group = &log.admin().groups().unwrap()[0];
    assert_eq!(group.members.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn more_members_than_partitions_stand_by() {
    let log = Log::new(1);
    let (mut a, mut b) = (log.source("a"), log.source("b"));
    told(&mut a, &open()).await;
    assert!(told(&mut b, &open()).await.is_empty());
    live(&mut [&mut a, &mut b], SESSION * 3).await;
    a.close().await.unwrap();
    assert_eq!(told(&mut b, &open()).await, ["+p0#2"]);
}

/// A member that dies is found out when its session ends, not one heartbeat later.
#[tokio::test(start_paused = true)]
async fn the_partitions_of_a_dead_member_move_when_its_session_ends() {
    let log = Log::new(2);
    log.produce(4);
    let (mut a, mut b) = (log.source("a"), log.source("b"));
    told(&mut a, &open()).await;
    told(&mut b, &open()).await;
    commit(&mut a, &[frontier(0, 1, 1)]).await;
    let died = tokio::time::Instant::now();
    drop(a);

    let event = b.next(&open()).await.unwrap();
    assert_eq!(brief(&event), "+p0#2 +p1#2");
    let stalled = died.elapsed();
    assert!(stalled > SESSION - Duration::from_secs(1), "{stalled:?}");
    assert!(stalled < SESSION + Duration::from_millis(100), "{stalled:?}");
    assert_eq!(told(&mut b, &open()).await, ["p0@1..2", "p1@0..2"], "from the last commit");
}

/// P22: a process that was stopped (`SIGSTOP`) and goes on after its session has ended.
#[tokio::test(start_paused = true)]
async fn a_zombie_commits_nothing_is_told_and_joins_again() {
    let log = Log::new(2);
    log.produce(8);
    let (mut zombie, mut b) = (log.source("zombie"), log.source("b"));
    told(&mut zombie, &open()).await;
    told(&mut b, &open()).await;
    assert_eq!(brief(&b.next(&open()).await.unwrap()), "+p0#2 +p1#2");
    commit(&mut b, &[frontier(0, 2, 0)]).await;

    let report = commit(&mut zombie, &[frontier(0, 1, 4), frontier(1, 1, 4)]).await;
    assert_eq!(report.refused, [partition(0), partition(1)]);
    assert_eq!(log.committed(), [Some(0), None]);

    assert!(soon(&mut zombie, &open()).await.is_none(), "what was refused isn't told again");
    assert_eq!(revoked(b.next(&closed()).await.ok()), [partition(1)], "it is a member again");
    b.release(&[partition(1)]).await.unwrap();
    assert_eq!(told(&mut zombie, &open()).await, ["+p1#3", "p1@0..4"]);
}

/// P22: without a commit in between, the loss is an event.
#[tokio::test(start_paused = true)]
async fn a_zombie_that_has_nothing_to_commit_is_told_what_it_lost() {
    let log = Log::new(2);
    let (mut zombie, mut b) = (log.source("zombie"), log.source("b"));
    told(&mut zombie, &open()).await;
    told(&mut b, &open()).await;
    b.next(&open()).await.unwrap();
    assert_eq!(lost(soon(&mut zombie, &open()).await), [partition(0), partition(1)]);
    let report = commit(&mut zombie, &[frontier(0, 1, 0)]).await;
    assert_eq!(report.refused, [partition(0)]);
}

/// P26: a commit that overlaps a rebalance is data; the partitions that are still owned pass.
#[tokio::test(start_paused = true)]
async fn a_commit_passes_for_the_partitions_that_are_still_owned() {
    let log = Log::new(2);
    log.produce(6);
    let (mut a, mut b) = (log.source("a"), log.source("b"));
    told(&mut a, &open()).await;
    told(&mut b, &open()).await;
    assert_eq!(told(&mut a, &open()).await, ["-p1"]);
    a.release(&[partition(1)]).await.unwrap();
    told(&mut b, &open()).await;

    let report = commit(&mut a, &[frontier(0, 1, 2), frontier(1, 1, 3)]).await;
    assert_eq!(report.refused, [partition(1)]);
    assert_eq!(log.committed(), [Some(2), None]);
    assert_eq!(log.owners(), [Some("a".to_owned()), Some("b".to_owned())]);
}

/// P24: the partition was revoked for a member that is gone again before it was released.
#[tokio::test(start_paused = true)]
async fn a_partition_that_was_revoked_in_vain_comes_back_in_a_new_generation() {
    let log = Log::new(2);
    log.produce(2);
    let (mut a, mut b) = (log.source("a"), log.source("b"));
    told(&mut a, &open()).await;
    told(&mut b, &open()).await;
    assert_eq!(told(&mut a, &open()).await, ["-p1"]);
    b.close().await.unwrap();
    assert!(told(&mut a, &open()).await.is_empty(), "it is still being drained");
    commit(&mut a, &[frontier(1, 1, 1)]).await;
    a.release(&[partition(1)]).await.unwrap();
    assert_eq!(told(&mut a, &open()).await, ["+p1#2"]);
}

/// P24: also while the partition is being drained for someone else.
#[tokio::test(start_paused = true)]
async fn a_member_that_is_expired_while_it_drains_may_release_late() {
    let log = Log::new(2);
    log.produce(2);
    let (mut a, mut b) = (log.source("a"), log.source("b"));
    told(&mut a, &open()).await;
    told(&mut b, &open()).await;
    assert_eq!(told(&mut a, &open()).await, ["-p1"]);
    assert_eq!(brief(&b.next(&open()).await.unwrap()), "+p0#2 +p1#2");

    assert_eq!(lost(soon(&mut a, &open()).await), [partition(0)], "p1 was told already");
    told(&mut a, &open()).await;
    assert_eq!(revoked(Some(b.next(&closed()).await.unwrap())), [partition(1)]);
    b.release(&[partition(1)]).await.unwrap();
    assert!(told(&mut a, &open()).await.is_empty(), "not before it has released the old one");
    a.release(&[partition(1)]).await.unwrap();
    assert_eq!(told(&mut a, &open()).await, ["+p1#3", "p1@0..1"]);
}

/// P23, P25: heartbeats and rebalances go on while nothing may be fetched.
#[tokio::test(start_paused = true)]
async fn a_member_without_room_keeps_its_partitions_and_gives_up_what_it_must() {
    let log = Log::new(2);
    log.produce(2);
    let (mut a, mut b) = (log.source("a"), log.source("b"));
    assert_eq!(told(&mut a, &closed()).await, ["+p0#1 +p1#1"]);
    told(&mut b, &closed()).await;
    assert_eq!(told(&mut a, &closed()).await, ["-p1"]);
    live(&mut [&mut a, &mut b], SESSION * 5).await;
    assert_eq!(log.owners(), [Some("a".to_owned()), Some("a".to_owned())]);
    let only_one = open().without([partition(0)]);
    assert!(told(&mut a, &only_one).await.is_empty(), "p1 is revoked, p0 has no room");
    assert_eq!(told(&mut a, &open()).await, ["p0@0..1"]);
}

/// A long drain keeps the session as long as commits are made, even if `next` is not called.
#[tokio::test(start_paused = true)]
async fn commits_keep_a_member_alive() {
    let log = Log::new(1);
    log.produce(9);
    let (mut a, mut b) = (log.source("a"), log.source("b"));
    told(&mut a, &open()).await;
    told(&mut b, &open()).await;
    for position in 1..9 {
        live(&mut [&mut b], SESSION / 2).await;
        assert!(commit(&mut a, &[frontier(0, 1, position)]).await.refused.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_of_the_same_name_takes_the_place_of_the_other() {
    let log = Log::new(1);
    let mut old = log.source("a");
    told(&mut old, &open()).await;
    let mut new = log.source("a");
    assert_eq!(told(&mut new, &open()).await, ["+p0#2"], "a restart waits for no session");
    let error = old.next(&open()).await.unwrap_err();
    assert!(error.to_string().contains("another process joined group shop as member a"), "{error}");
    assert!(!error.is_retryable());
    assert_eq!(commit(&mut old, &[frontier(0, 1, 0)]).await.refused, [partition(0)]);
    old.close().await.unwrap();
    assert_eq!(log.owners(), [Some("a".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn members_without_a_name_get_one_of_their_own() {
    let log = Log::new(2);
    let config = || tidegate_local::LocalSourceConfig { member: None, ..log.config("") };
    let (mut a, mut b) = (log.open(config()), log.open(config()));
    told(&mut a, &open()).await;
    told(&mut b, &open()).await;
    assert_ne!(a.member(), b.member());
}

/// At shutdown partitions are released one by one while `next` is still called.
#[tokio::test(start_paused = true)]
async fn a_partition_that_was_let_go_unasked_is_not_taken_again_at_once() {
    let log = Log::new(2);
    log.produce(2);
    let mut a = log.source("a");
    told(&mut a, &open()).await;
    a.release(&[partition(0)]).await.unwrap();
    assert!(soon(&mut a, &open()).await.is_none());
    assert_eq!(log.owners(), [None, Some("a".to_owned())]);
    let event = a.next(&open()).await.unwrap();
    assert_eq!(brief(&event), "+p0#2", "what was not committed comes again");
    assert_eq!(told(&mut a, &open()).await, ["p0@0..1"]);
}

/// A member that shuts down drains its partitions one by one; those that are done go on elsewhere
/// at once.
#[tokio::test(start_paused = true)]
async fn a_partition_that_was_let_go_unasked_goes_to_another_member() {
    let log = Log::new(4);
    let (mut a, mut b) = (log.source("a"), log.source("b"));
    told(&mut a, &open()).await;
    told(&mut b, &open()).await;
    told(&mut a, &open()).await;
    a.release(&[partition(2), partition(3)]).await.unwrap();
    assert_eq!(told(&mut b, &open()).await, ["+p2#2 +p3#2"]);

    a.release(&[partition(0)]).await.unwrap();
    assert_eq!(told(&mut b, &open()).await, ["+p0#2"]);
    live(&mut [&mut a, &mut b], Duration::from_secs(5)).await;
    a.release(&[partition(1)]).await.unwrap();
    a.close().await.unwrap();
    assert_eq!(told(&mut b, &open()).await, ["+p1#2"]);
}

/// P5
#[tokio::test(start_paused = true)]
async fn a_commit_never_goes_back_and_never_beyond_what_was_delivered() {
    let log = Log::new(1);
    log.produce(5);
    let mut a = log.source("a");
    told(&mut a, &open()).await;
    commit(&mut a, &[frontier(0, 1, 4)]).await;
    commit(&mut a, &[frontier(0, 1, 2)]).await;
    assert_eq!(log.committed(), [Some(4)]);
    let beyond = [frontier(0, 1, 6)];
    let error = a.commit(tidegate_core::Commit::Through(&beyond)).await.unwrap_err();
    assert!(error.to_string().contains("only records before 5 were delivered"), "{error}");
    assert_eq!(log.committed(), [Some(4)]);
}

#[tokio::test(start_paused = true)]
async fn groups_are_independent_of_each_other() {
    let log = Log::new(1);
    log.produce(2);
    let mut a = log.source("a");
    let mut other =
        log.open(tidegate_local::LocalSourceConfig::new(&log.path, TOPIC, "another group"));
    told(&mut a, &open()).await;
    assert_eq!(told(&mut other, &open()).await, ["+p0#1", "p0@0..2"]);
}

/// P38: a minute without work is about twenty looks a second, each a few microseconds.
#[tokio::test(start_paused = true)]
async fn an_idle_source_hardly_ever_looks() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    let log = Log::new(4);
    let asked = Arc::new(AtomicU64::new(0));
    let (count, clock) = (Arc::clone(&asked), log.clock.clone());
    let counting = tidegate_core::Clock::from_fn(move || {
        count.fetch_add(1, Ordering::Relaxed);
        clock.now()
    });
    let mut a = LocalSource::open_with_clock(log.config("a"), counting).unwrap();
    told(&mut a, &open()).await;
    for demand in [open(), closed()] {
        asked.store(0, Ordering::Relaxed);
        let minute = Duration::from_secs(60);
        assert!(tokio::time::timeout(minute, a.next(&demand)).await.is_err());
        let steps = asked.load(Ordering::Relaxed);
        assert!((1_000..1_300).contains(&steps), "{steps} steps in a minute");
    }
}

/// The wall clock was set back: a member that died then is not kept until the clock catches up.
#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_back_does_not_keep_the_dead_alive() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    let log = Log::new(1);
    let back = Arc::new(AtomicI64::new(0));
    let (offset, clock) = (Arc::clone(&back), log.clock.clone());
    let clock = tidegate_core::Clock::from_fn(move || {
        let now = clock.now().as_millis() - offset.load(Ordering::Relaxed);
        tidegate_core::Timestamp::from_millis(now)
    });
    let mut a = LocalSource::open_with_clock(log.config("a"), clock.clone()).unwrap();
    let mut b = LocalSource::open_with_clock(log.config("b"), clock).unwrap();
    told(&mut a, &open()).await;
    told(&mut b, &open()).await;
    back.store(3_600_000, Ordering::Relaxed);
    drop(a);
    let event = tokio::time::timeout(SESSION * 2, b.next(&open())).await.unwrap().unwrap();
    assert_eq!(brief(&event), "+p0#2");
}

#[tokio::test(start_paused = true)]
async fn a_source_says_at_once_that_the_topic_is_not_there_or_waits_for_it() {
    let log = Log::new(1);
    let mut config = tidegate_local::LocalSourceConfig::new(&log.path, "oders", GROUP);
    let error = LocalSource::open(config.clone()).unwrap_err();
    assert!(matches!(error, LocalError::NoSuchTopic { .. }));
    assert!(error.to_string().contains("it has: orders"), "{error}");

    config.on_missing_topic = tidegate_local::OnMissingTopic::Wait;
    let mut source = log.open(config);
    assert!(soon(&mut source, &open()).await.is_none());
    log.admin().create_topic("oders", 1, &tidegate_local::Retention::default()).unwrap();
    assert_eq!(told(&mut source, &open()).await, ["+p0#1"]);
}
