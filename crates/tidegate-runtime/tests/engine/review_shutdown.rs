//! The end comes, whatever is stuck by then.

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use tidegate_core::{Report, Sink, SinkError};
use tidegate_runtime::{BatchLimits, CommitPolicy, Limits, Settings, Threads};
use tidegate_testkit::{Event, Fault, pass, virtual_settings};

use crate::support::{Item, World, assert_says, error_of, seconds};

/// A sink that blocks its thread, which it must not.
struct Blocking(Mutex<mpsc::Receiver<()>>);

impl Sink for Blocking {
    type Item = Item;

    async fn write(&mut self, batch: &[Item]) -> Result<Report, SinkError> {
        // Ends when the test's side is dropped.
        let _ = self.0.lock().unwrap().recv();
        Ok(Report::all_done(batch.len()))
    }
}

fn own_threads(workers: usize) -> Settings {
    let commit = CommitPolicy { every: Duration::from_millis(10), count: None };
    let drain = Duration::from_millis(50);
    Settings { commit, drain, threads: Threads::Own { workers }, ..Settings::default() }
}

/// P27, P32
#[tokio::test]
async fn a_sink_that_blocks_its_thread_does_not_keep_the_pipeline_from_stopping() {
    let world = World::new(1);
    let (release, blocked) = mpsc::channel::<()>();
    let sink = Blocking(Mutex::new(blocked));
    let running = world.items_with(own_threads(1)).sink(sink).start().unwrap();
    world.source.push_numbers(0, 0..10);
    world.source.wait_for_read(0, 10).await;
    running.handle().stop();
    let summary = tokio::time::timeout(seconds(60), running.wait()).await.expect("it must end");
    drop(release);
    assert_eq!(summary.unwrap().status.committed, 0);
}

/// P25
#[tokio::test]
async fn a_closure_that_blocks_does_not_keep_what_went_before_from_the_sink() {
    let world = World::new(2);
    let (release, blocked) = mpsc::channel::<()>();
    let blocked = Mutex::new(blocked);
    let limits = Limits { chunk_messages: 1, ..Limits::default() };
    let settings = Settings { limits, ..own_threads(2) };
    world.source.push_numbers(0, 0..10);
    world.source.push_numbers(1, 10..20);
    let running = world
        .items_with(settings)
        .inspect(move |item| {
            if item.n == 5 {
                let _ = blocked.lock().unwrap().recv();
            }
        })
        .sink(world.sink.sink())
        .start()
        .unwrap();
    world.sink.wait_for_items(15).await;
    drop(release);
    world.source.end();
    assert_eq!(running.wait().await.unwrap().status.committed, 20);
}

/// P27
#[tokio::test(start_paused = true)]
async fn a_stop_is_heard_while_the_sinks_are_closed_at_the_end_of_the_input() {
    let world = World::with_numbers(1, 10);
    world.sink.close_faults().plan(Fault::delay(seconds(3600)));
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    world.source.wait_for_commit(0, 10).await;
    pass(seconds(60)).await;
    running.handle().stop();
    let summary = tokio::time::timeout(seconds(32), running.wait()).await.expect("it must end");
    assert_eq!(summary.unwrap().status.committed, 10);
}

/// P27
#[tokio::test(start_paused = true)]
async fn a_source_that_can_not_be_closed_does_not_keep_the_pipeline_from_stopping() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..10);
    world.source.close_faults().plan(Fault::delay(seconds(3600)));
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    world.source.wait_for_commit(0, 10).await;
    running.handle().stop();
    let summary = tokio::time::timeout(seconds(32), running.wait()).await.expect("it must end");
    assert_eq!(summary.unwrap().status.committed, 10);
}

/// P32
#[tokio::test(start_paused = true)]
async fn a_source_or_sink_that_panics_while_it_is_closed_is_named() {
    let world = World::with_numbers(1, 10);
    world.source.close_faults().plan(Fault::panic("the socket is a tree"));
    let error = error_of(world.items().sink(world.sink.sink()).run().await);
    assert_says(&error, &["the source panicked", "the socket is a tree"]);

    let world = World::with_numbers(1, 10);
    world.sink.close_faults().plan(Fault::panic("the table is a chair"));
    let error = error_of(world.items().sink(world.sink.sink()).named("orders").run().await);
    assert_says(&error, &["sink orders (", "panicked", "the table is a chair"]);
}

/// P27, P54
#[tokio::test(start_paused = true)]
async fn a_sink_that_is_stuck_keeps_no_other_from_being_closed() {
    let world = World::new(1);
    let other = world.another_sink("other");
    let running = world
        .items()
        .tee(|ways| ways.to(|way| way.sink(world.sink.sink())).to(|way| way.sink(other.sink())))
        .start()
        .unwrap();
    world.sink.gate().set_open(false);
    world.source.push_numbers(0, 0..10);
    other.wait_for_items(10).await;
    running.handle().stop();
    let summary = tokio::time::timeout(seconds(32), running.wait()).await.expect("it must end");
    assert_eq!(summary.unwrap().status.committed, 0);
    assert_eq!((world.sink.closed(), other.closed()), (0, 1));
}

/// P24, P27
#[tokio::test(start_paused = true)]
async fn a_partition_whose_commit_fails_keeps_no_other_beyond_its_time() {
    let world = World::new(2);
    world.source.push_numbers(0, 0..10);
    world.source.push_numbers(1, 0..10);
    world.source.commit_faults().always(Fault::fail("away"));
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    world.sink.wait_for_items(20).await;
    world.source.revoke([0], Some(seconds(60)));
    pass(seconds(25)).await;
    world.source.revoke([1], Some(seconds(1)));
    let is_revoked = |event: &Event| matches!(event, Event::Revoking(p) if p.index() == Some(1));
    world.source.wait_for_events(1, is_revoked).await;
    let begin = tokio::time::Instant::now();
    let is_released = |event: &Event| matches!(event, Event::Released(p) if p.index() == Some(1));
    world.source.wait_for_events(1, is_released).await;
    assert!(begin.elapsed() <= Duration::from_millis(1100), "{:?}", begin.elapsed());
    world.source.commit_faults().clear();
    running.handle().stop();
    running.wait().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn times_without_an_end_are_settings_like_others() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..10);
    let commit = CommitPolicy { every: Duration::MAX, count: None };
    let settings = Settings { drain: Duration::MAX, commit, ..virtual_settings() };
    let batches = world.batch_sink("batches");
    let limits = BatchLimits::count(100).every(Duration::MAX);
    let running = world.items_with(settings).batch(limits).sink(batches.sink()).start().unwrap();
    world.source.wait_for_read(0, 10).await;
    pass(seconds(100)).await;
    running.handle().stop();
    assert_eq!(running.wait().await.unwrap().status.committed, 10);
}

/// P27
#[tokio::test(start_paused = true)]
async fn a_stop_during_a_sinks_back_off_ends_with_the_drain() {
    let world = World::new(1);
    world.sink.write_faults().always(Fault::fail("away"));
    world.source.push_numbers(0, 0..10);
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    world.sink.wait_for_attempts(7).await;
    running.handle().stop();
    let summary = tokio::time::timeout(seconds(32), running.wait()).await.expect("it must end");
    assert_eq!(summary.unwrap().status.committed, 0);
}

/// P27
#[tokio::test(start_paused = true)]
async fn a_sink_that_can_not_be_opened_does_not_wait_long_for_one_that_is_still_trying() {
    let world = World::with_numbers(1, 10);
    let other = world.another_sink("other");
    world.sink.open_faults().plan(Fault::fail_for_good("no such folder"));
    other.open_faults().always(Fault::fail("not up yet"));
    let flow = world
        .items()
        .tee(|ways| ways.to(|way| way.sink(world.sink.sink())).to(|way| way.sink(other.sink())));
    let begin = tokio::time::Instant::now();
    assert_says(&error_of(flow.run().await), &["no such folder"]);
    assert!(begin.elapsed() <= seconds(7), "{:?}", begin.elapsed());
}
