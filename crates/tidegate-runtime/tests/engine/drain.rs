//! Giving up and stopping, within one deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tidegate_runtime::{BatchLimits, Concurrency, Settings};
use tidegate_testkit::{Event, Fault, FaultPoint, Gate, pass, virtual_settings};

use crate::support::{World, assert_says, error_of, seconds};

fn drain_in(drain: Duration) -> Settings {
    Settings { drain, ..virtual_settings() }
}

/// P27, P47, P14
#[tokio::test(start_paused = true)]
async fn a_stop_with_a_stalled_sink_ends_at_the_deadline_and_releases_what_is_not_done() {
    let world = World::new(2);
    world.source.push_numbers(0, 0..100);
    world.source.push_numbers(1, 0..100);
    let running = world.items_with(drain_in(seconds(12))).sink(world.sink.sink()).start().unwrap();
    world.source.wait_for_commit(0, 100).await;
    world.source.wait_for_commit(1, 100).await;
    world.sink.gate().set_open(false);
    world.source.push_numbers(0, 100..150);
    world.source.wait_for_read(0, 150).await;
    let (begin, polls) = (tokio::time::Instant::now(), world.source.polls());
    running.handle().stop();
    let summary = running.wait().await.unwrap();
    assert_eq!(begin.elapsed().as_secs(), 12);
    assert!(world.source.polls() >= polls + 12, "the client is served while everything drains");
    let status = summary.status;
    assert_eq!((status.failed, status.diverted, status.in_flight), (0, 0, 0));
    assert_eq!((world.committed(0), status.committed), (100, 200));
    assert!(world.dead.items().is_empty());
    // What the write would still have answered, had it not been cut off.
    world.sink.gate().set_open(true);
    pass(seconds(60)).await;
    assert_eq!(world.committed(0), 100);
    let released = world.journal.collect(|e| matches!(e.event, Event::Released(_)).then_some(()));
    assert_eq!(released.len(), 2);
}

/// P27
#[tokio::test(start_paused = true)]
async fn all_steps_share_one_deadline_and_what_fits_is_committed() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..10);
    let slow = |item| async move {
        tokio::time::sleep(seconds(2)).await;
        Ok::<_, String>(item)
    };
    let running = world
        .items_with(drain_in(seconds(9)))
        .map_async(Concurrency::ordered(5), slow)
        .map_async(Concurrency::ordered(5), slow)
        .map_async(Concurrency::ordered(4), slow)
        .sink(world.sink.sink())
        .start()
        .unwrap();
    world.source.wait_for_read(0, 10).await;
    let begin = tokio::time::Instant::now();
    running.handle().stop();
    let summary = running.wait().await.unwrap();
    // The first five pass in 2, 4 and then 6 (four of them) and 8 seconds (with three more).
    assert_eq!(begin.elapsed().as_secs(), 9);
    assert_eq!((world.committed(0), summary.status.committed), (8, 8));
    assert_eq!((summary.status.failed, summary.status.in_flight), (0, 0));
    assert_eq!(world.numbers(), (0..8).collect::<Vec<_>>());
}

/// P27, P47
#[tokio::test(start_paused = true)]
async fn calls_that_do_not_end_in_time_are_cut_off_and_not_failed() {
    struct Guard(Arc<AtomicU64>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let world = World::new(1);
    world.source.push_numbers(0, 0..3);
    let dropped = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&dropped);
    let running = world
        .items_with(drain_in(seconds(5)))
        .map_async(Concurrency::unordered(2), move |item| {
            let guard = Guard(Arc::clone(&counter));
            async move {
                Gate::closed().pass().await;
                drop(guard);
                Ok::<_, String>(item)
            }
        })
        .sink(world.sink.sink())
        .start()
        .unwrap();
    world.source.wait_for_read(0, 3).await;
    pass(seconds(1)).await;
    running.handle().stop();
    let summary = running.wait().await.unwrap();
    assert_eq!(dropped.load(Relaxed), 2);
    assert_eq!((summary.status.failed, summary.status.diverted), (0, 0));
    assert!(world.dead.items().is_empty());
}

/// P27, P10
#[tokio::test(start_paused = true)]
async fn a_stop_gives_out_what_batches_hold_even_behind_other_steps() {
    let world = World::new(2);
    world.source.push_numbers(0, 0..25);
    world.source.push_numbers(1, 0..7);
    let sink = world.batch_sink("batches");
    let running = world
        .items()
        .batch(BatchLimits::count(10).every(seconds(3600)))
        .map_async(Concurrency::ordered(2), |batch| async move {
            tokio::time::sleep(seconds(3)).await;
            Ok::<_, String>(batch)
        })
        .unbatch()
        .batch(BatchLimits::count(4).every(seconds(3600)))
        .sink(sink.sink())
        .start()
        .unwrap();
    world.source.wait_for_read(0, 25).await;
    world.source.wait_for_read(1, 7).await;
    running.handle().stop();
    running.wait().await.unwrap();
    assert_eq!((world.committed(0), world.committed(1)), (25, 7));
    world.checker().check().assert_clean();
}

/// P27, P7
#[tokio::test(start_paused = true)]
async fn a_stop_while_commits_fail_waits_for_them_until_the_deadline() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..10);
    world.source.commit_faults().plan_times(4, Fault::fail("away"));
    let running = world.items_with(drain_in(seconds(10))).sink(world.sink.sink()).start().unwrap();
    world.sink.wait_for_items(10).await;
    running.handle().stop();
    running.wait().await.unwrap();
    assert_eq!(world.committed(0), 10);

    let world = World::new(1);
    world.source.push_numbers(0, 0..10);
    world.source.commit_faults().always(Fault::fail("away"));
    let running = world.items_with(drain_in(seconds(10))).sink(world.sink.sink()).start().unwrap();
    world.sink.wait_for_items(10).await;
    let begin = tokio::time::Instant::now();
    running.handle().stop();
    let summary = running.wait().await.unwrap();
    assert!((10..=12).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    assert_eq!((world.source.committed(0), summary.status.committed), (None, 0));
}

/// P27
#[tokio::test(start_paused = true)]
async fn a_stop_while_a_commit_or_a_release_hangs_ends_at_the_deadline_with_an_error() {
    type Point = fn(&World) -> &FaultPoint;
    let points: [(&str, Point); 2] = [
        ("committing", |world| world.source.commit_faults()),
        ("releasing partitions", |world| world.source.release_faults()),
    ];
    for (during, point) in points {
        let world = World::new(2);
        world.source.push_numbers(0, 0..10);
        world.source.push_numbers(1, 0..10);
        point(&world).plan(Fault::hold(&Gate::closed()));
        let settings = drain_in(seconds(10));
        let running = world.items_with(settings).sink(world.sink.sink()).start().unwrap();
        world.sink.wait_for_items(20).await;
        pass(seconds(60)).await;
        let begin = tokio::time::Instant::now();
        running.handle().stop();
        let error = error_of(running.wait().await);
        assert!((10..=12).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
        assert_says(&error, &["the source failed while", during, "it gave no answer"]);
        assert!(world.dead.items().is_empty());
    }
}

/// P27
#[tokio::test(start_paused = true)]
async fn a_stop_while_the_sink_is_retried_ends_at_the_deadline() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..10);
    world.sink.write_faults().always(Fault::fail("away"));
    let running = world.items_with(drain_in(seconds(20))).sink(world.sink.sink()).start().unwrap();
    world.sink.wait_for_attempts(3).await;
    let begin = tokio::time::Instant::now();
    running.handle().stop();
    let summary = running.wait().await.unwrap();
    assert_eq!(begin.elapsed().as_secs(), 20);
    assert_eq!((summary.status.failed, summary.status.diverted), (0, 0));
    assert_eq!(world.sink.closed(), 0, "it was cut off");
}

/// P24
#[tokio::test(start_paused = true)]
async fn a_release_that_fails_is_made_again() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..10);
    world.source.release_faults().plan_times(3, Fault::fail("away"));
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    world.source.wait_for_commit(0, 10).await;
    world.source.revoke([0], Some(seconds(10)));
    world.source.assign([0]);
    world.source.push_numbers(0, 10..20);
    world.source.wait_for_commit(0, 20).await;
    world.source.release_faults().plan(Fault::fail_for_good("not a member"));
    world.source.revoke([0], None);
    assert_says(&error_of(running.wait().await), &["releasing partitions", "not a member"]);
}

/// P47
#[tokio::test(start_paused = true)]
async fn dropping_a_running_pipeline_stops_it_in_good_order() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..10);
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    world.sink.wait_for_items(10).await;
    drop(running);
    world.source.wait_for_events(1, |event| *event == Event::Closed).await;
    assert_eq!((world.committed(0), world.sink.closed()), (10, 1));
}

/// P47
#[tokio::test(start_paused = true)]
async fn a_stop_before_the_first_record_and_a_second_stop_change_nothing() {
    let world = World::new(2);
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    running.handle().stop();
    running.handle().stop();
    let summary = tokio::time::timeout(seconds(1), running.wait()).await.unwrap().unwrap();
    assert_eq!((summary.status.read, summary.ended), (0, false));
}
