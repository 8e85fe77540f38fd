//! When the source is told to forget, and what happens when that fails.

use std::time::Duration;

use tidegate_core::{Generation, Position};
use tidegate_runtime::{BatchLimits, CommitPolicy, PipelineErrorKind, RetryPolicy, Settings};
use tidegate_testkit::{Event, Fault, pass, virtual_settings};

use crate::support::{World, assert_says, commit_every, error_of, seconds};

/// P3
#[tokio::test(start_paused = true)]
async fn a_filtered_or_diverted_tail_is_committed_within_the_interval_without_more_input() {
    let world = World::new(2);
    world.source.push(0, "1");
    world.source.push_numbers(0, [2, 2, 2]);
    world.source.push(1, "1");
    world.source.push(1, "not a number");
    let running = world
        .items_with(commit_every(seconds(5)))
        .filter(|item| item.n == 1)
        .sink(world.sink.sink())
        .start()
        .unwrap();
    pass(seconds(6)).await;
    assert_eq!((world.committed(0), world.committed(1)), (4, 2));
    running.handle().stop();
    running.wait().await.unwrap();
}

/// P3, P33
#[tokio::test(start_paused = true)]
async fn a_tail_behind_a_batch_is_committed_when_its_time_is_up() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..25);
    let sink = world.batch_sink("batches");
    let batches = BatchLimits::count(10).every(seconds(30));
    let running = world.items().batch(batches).sink(sink.sink()).start().unwrap();
    pass(seconds(2)).await;
    assert_eq!(world.committed(0), 20);
    pass(seconds(30)).await;
    assert_eq!(world.committed(0), 25, "the source has been idle since");
    running.handle().stop();
    running.wait().await.unwrap();
}

/// P3
#[tokio::test(start_paused = true)]
async fn a_count_commits_before_the_interval_is_over() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..99);
    let commit = CommitPolicy { every: seconds(3600), count: Some(100) };
    let settings = Settings { commit, ..virtual_settings() };
    let running = world.items_with(settings).sink(world.sink.sink()).start().unwrap();
    pass(seconds(10)).await;
    assert_eq!(world.source.committed(0), None);
    world.source.push(0, "99");
    pass(seconds(1)).await;
    assert_eq!(world.committed(0), 100);
    running.handle().stop();
    running.wait().await.unwrap();
}

/// P28, P38
#[tokio::test(start_paused = true)]
async fn commits_that_fail_are_not_made_more_often_because_more_comes() {
    let world = World::new(1);
    world.source.commit_faults().plan_times(8, Fault::fail("away"));
    let commit = CommitPolicy { every: seconds(1), count: Some(1) };
    let settings = Settings { commit, ..virtual_settings() };
    let running = world.items_with(settings).sink(world.sink.sink()).start().unwrap();
    let begin = tokio::time::Instant::now();
    for n in 0..2000u64 {
        world.source.push(0, n.to_string());
        pass(Duration::from_millis(5)).await;
    }
    world.source.wait_for_commit(0, 2000).await;
    // 0.1 + 0.2 + 0.4 + 0.8 + 1.6 + 3.2 + 5 + 5 seconds of pauses.
    assert!(begin.elapsed() >= seconds(16), "{:?}", begin.elapsed());
    running.handle().stop();
    running.wait().await.unwrap();
}

/// P23
#[tokio::test(start_paused = true)]
async fn a_pause_of_the_source_that_ends_during_a_slow_commit_is_over_then() {
    let world = World::new(1);
    let commit = CommitPolicy { every: seconds(30), count: Some(1) };
    let settings = Settings { commit, ..virtual_settings() };
    // The source fails first; the commit begins while it is left alone.
    world.sink.write_faults().plan(Fault::delay(Duration::from_millis(50)));
    world.source.commit_faults().plan(Fault::delay(Duration::from_millis(500)));
    let running = world.items_with(settings).sink(world.sink.sink()).start().unwrap();
    let begin = tokio::time::Instant::now();
    world.source.push(0, "0");
    world.source.wait_for_read(0, 1).await;
    world.source.fail("away");
    world.source.push(0, "1");
    world.source.wait_for_read(0, 2).await;
    // The pause is 0.1 s and ends within the commit; nothing else wakes the coordinator for 1 s.
    assert!(begin.elapsed() < Duration::from_millis(700), "{:?}", begin.elapsed());
    running.handle().stop();
    running.wait().await.unwrap();
}

/// P7, P5
#[tokio::test(start_paused = true)]
async fn a_commit_that_fails_or_whose_reply_is_lost_is_made_again() {
    let world = World::new(2);
    world.source.push_numbers(0, 0..10);
    world.source.push_numbers(1, 0..20);
    world.source.commit_faults().plan_times(3, Fault::fail("the broker is away"));
    world.source.commit_faults().plan(Fault::lose_reply());
    world.source.commit_faults().plan(Fault::delay(seconds(20)));
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    world.source.wait_for_commit(0, 10).await;
    world.source.push_numbers(0, 10..15);
    world.source.wait_for_commit(0, 15).await;
    assert_eq!(world.committed(1), 20);
    world.source.end();
    let summary = running.wait().await.unwrap();
    assert_eq!(summary.status.committed, 35, "what was committed twice is counted once");
    world.checker().check().assert_clean();
}

/// P7
#[tokio::test(start_paused = true)]
async fn a_commit_that_can_not_succeed_stops_the_pipeline() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..10);
    world.source.commit_faults().always(Fault::fail_for_good("not allowed: ask for write access"));
    let outcome = world.items().sink(world.sink.sink()).run().await;
    assert!(matches!(
        outcome.as_ref().unwrap_err().kind(),
        PipelineErrorKind::Source { during: "committing", .. }
    ));
    assert_says(&error_of(outcome), &["shop", "committing", "ask for write access"]);
    assert_eq!(world.source.committed(0), None);
}

/// P7
#[tokio::test(start_paused = true)]
async fn a_commit_that_keeps_failing_stops_the_pipeline_at_the_named_limit() {
    let world = World::with_numbers(1, 10);
    world.source.commit_faults().always(Fault::fail("the broker is away"));
    let retry = RetryPolicy { give_up_after: seconds(60), ..RetryPolicy::default() };
    let settings = Settings { retry, ..virtual_settings() };
    let begin = tokio::time::Instant::now();
    let outcome = world.items_with(settings).sink(world.sink.sink()).run().await;
    assert_says(&error_of(outcome), &["committing", "the broker is away"]);
    let took = begin.elapsed().as_secs();
    assert!((60..80).contains(&took), "it took {took} s");
}

/// P7
#[tokio::test(start_paused = true)]
async fn a_close_that_fails_is_an_error_and_the_commits_stand() {
    let world = World::with_numbers(1, 10);
    world.sink.close_faults().plan(Fault::fail_for_good("the last page is torn"));
    let error = error_of(world.items().sink(world.sink.sink()).run().await);
    assert_says(&error, &["sink sink (", "the last page is torn"]);
    assert_eq!(world.committed(0), 10);

    let world = World::with_numbers(1, 10);
    world.source.close_faults().plan(Fault::fail_for_good("the group is gone"));
    let error = error_of(world.items().sink(world.sink.sink()).run().await);
    assert_says(&error, &["the source failed while closing", "the group is gone"]);
    assert_eq!(world.committed(0), 10);
}

/// P10
#[tokio::test(start_paused = true)]
async fn the_last_positions_are_committed_at_the_end_before_anything_is_let_go() {
    let world = World::with_numbers(3, 50);
    let hour = commit_every(seconds(3600));
    let summary = world.items_with(hour).sink(world.sink.sink()).run().await.unwrap();
    assert!(summary.ended && summary.elapsed < seconds(1), "{summary:?}");
    let last = world.journal.collect(|entry| match &entry.event {
        Event::Committed { partition, position, .. } => {
            Some((partition.index().unwrap(), format!("commit {position}")))
        }
        Event::Released(partition) => Some((partition.index().unwrap(), "release".to_owned())),
        Event::Closed => Some((9, "close".to_owned())),
        _ => None,
    });
    for partition in 0..3 {
        let of_it: Vec<_> = last.iter().filter(|(index, _)| *index == partition).collect();
        let [(_, commit), (_, release)] = of_it.as_slice() else { panic!("{last:?}") };
        assert_eq!((commit.as_str(), release.as_str()), ("commit 50", "release"));
    }
    assert_eq!(last.last().unwrap().1, "close");
}

/// P10
#[tokio::test(start_paused = true)]
async fn the_last_positions_are_committed_at_a_stop() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..10);
    let sink = world.batch_sink("batches");
    let running = world
        .items_with(commit_every(seconds(3600)))
        .batch(BatchLimits::count(100).every(seconds(3600)))
        .sink(sink.sink())
        .start()
        .unwrap();
    world.source.wait_for_read(0, 10).await;
    assert_eq!((world.source.committed(0), sink.items().len()), (None, 0));
    running.handle().stop();
    let summary = running.wait().await.unwrap();
    assert!(!summary.ended);
    assert_eq!((world.committed(0), sink.items().len()), (10, 1), "the drain gave the batch out");
}

/// P10, P38
#[tokio::test(start_paused = true)]
async fn an_idle_stream_is_committed_once_and_then_left_alone() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..10);
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    pass(seconds(100)).await;
    let commits = world.journal.collect(|entry| match entry.event {
        Event::Committed { position, generation, .. } => Some((position, generation)),
        _ => None,
    });
    assert_eq!(commits, [(Position::new(10), Generation::new(1))]);
    running.handle().stop();
    running.wait().await.unwrap();
}

/// P54
#[tokio::test(start_paused = true)]
async fn sinks_are_opened_before_the_first_record_is_read_and_closed_once() {
    let world = World::with_numbers(1, 10);
    world.sink.open_faults().plan_times(3, Fault::fail("not up yet"));
    world.sink.open_faults().plan(Fault::delay(seconds(20)));
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    pass(seconds(19)).await;
    assert_eq!((world.sink.opened(), world.source.polls()), (0, 0));
    running.wait().await.unwrap();
    assert_eq!((world.sink.opened(), world.sink.closed(), world.numbers().len()), (1, 1, 10));
}
