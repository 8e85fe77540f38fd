//! Rules at the edges: credit, lost partitions, slow commits, many partitions.

use std::time::Duration;

use tidegate_core::{NewRecord, Partition, Position, RecordBatch, SourceEvent};
use tidegate_runtime::{BatchLimits, CommitPolicy, Concurrency, Limits, Pipeline, Settings};
use tidegate_testkit::{Event, Fault, Gate, SinkControl, SourceControl, pass, virtual_settings};

use crate::support::{Item, World, assert_says, error_of, seconds};

fn one(position: u64) -> SourceEvent {
    let mut batch = RecordBatch::builder(Partition::new("t", 0));
    let record = NewRecord { payload: Some(b"1"), ..NewRecord::default() };
    batch.push(Position::new(position), record).unwrap();
    SourceEvent::Fetched(batch.finish())
}

/// P35
#[tokio::test(start_paused = true)]
async fn a_source_that_delivers_without_credit_is_named() {
    let few = Limits { messages_per_partition: 5, ..Limits::default() };
    for (limits, why) in [(Limits::default(), "queue is full"), (few, "at most 5 allowed")] {
        let world = World::new(1);
        world.sink.gate().set_open(false);
        (0..1_200).for_each(|position| world.source.say(one(position)));
        let settings = Settings { limits, ..virtual_settings() };
        let error = error_of(world.items_with(settings).sink(world.sink.sink()).run().await);
        assert_says(&error, &["the source delivered t[0]@", "without credit", why]);
    }
}

/// P22, P26
#[tokio::test(start_paused = true)]
async fn what_fails_after_its_partition_was_lost_stops_nobody() {
    let world = World::new(2);
    world.sink.refuse_when(|item| (item.id.partition.index() == Some(0)).then(|| "no".to_owned()));
    let running = world.items_or_stop().sink(world.sink.sink()).start().unwrap();
    world.sink.gate().set_open(false);
    world.source.push_numbers(0, 0..10);
    world.sink.wait_for_attempts(1).await;
    world.source.lose([0]);
    world.source.wait_for_events(1, |event| matches!(event, Event::Lost(_))).await;
    pass(seconds(1)).await;
    world.sink.gate().set_open(true);
    world.source.push_numbers(1, 0..10);
    world.source.wait_for_commit(1, 10).await;
    running.handle().stop();
    running.wait().await.unwrap();
}

/// P23
#[tokio::test(start_paused = true)]
async fn slow_commits_after_each_message_do_not_keep_the_source_from_being_asked() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..200);
    let commit = CommitPolicy { every: seconds(1), count: Some(1) };
    let settings = Settings { commit, ..virtual_settings() };
    world.source.commit_faults().always(Fault::delay(Duration::from_millis(300)));
    let flow = world.items_with(settings).throttle(5, seconds(1)).sink(world.sink.sink());
    let running = flow.start().unwrap();
    world.sink.wait_for_items(20).await;
    let before = world.source.polls();
    pass(seconds(20)).await;
    let polls = world.source.polls() - before;
    assert!(polls >= 20, "asked {polls} times in 20 s");
    running.handle().stop();
    running.wait().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_made_again_names_each_partition_once() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..10);
    let gate = Gate::closed();
    let held = gate.clone();
    let running = world
        .items()
        .map_async(Concurrency::ordered(20), move |item: Item| {
            let held = held.clone();
            async move {
                held.pass().await;
                Ok::<_, String>(item)
            }
        })
        .sink(world.sink.sink())
        .start()
        .unwrap();
    world.source.wait_for_read(0, 10).await;
    world.source.commit_faults().plan_times(3, Fault::fail("away"));
    world.source.revoke([0], None);
    world.source.wait_for_events(1, |event| matches!(event, Event::Revoking(_))).await;
    gate.set_open(true);
    world.source.wait_for_events(1, |event| matches!(event, Event::Released(_))).await;
    let is_commit = |event: &Event| matches!(event, Event::Committed { .. });
    let commits = world.journal.collect(|entry| is_commit(&entry.event).then_some(()));
    assert_eq!(commits.len(), 1, "{:#?}", world.journal.entries());
    running.handle().stop();
    running.wait().await.unwrap();
}

/// P36
#[tokio::test(start_paused = true)]
async fn a_large_batch_that_fails_is_copied_to_the_dead_letters_piece_by_piece() {
    let world = World::new(1);
    for n in 0..40 {
        world.source.push(0, format!("{}{n}", "0".repeat(100_000)));
    }
    let batches = world.batch_sink("batches");
    batches.refuse_when(|_| Some("no".to_owned()));
    let limits = BatchLimits::count(40).every(seconds(60));
    let running = world.items().batch(limits).sink(batches.sink()).start().unwrap();
    world.source.wait_for_commit(0, 40).await;
    let sizes: Vec<_> = world.dead.batches().iter().map(Vec::len).collect();
    assert_eq!(sizes, [11, 11, 11, 7], "1 MiB and at most one record more in each write");
    running.handle().stop();
    assert_eq!(running.wait().await.unwrap().status.diverted, 40);
}

#[test]
fn a_pipeline_for_the_callers_runtime_says_so_where_there_is_none() {
    let settings = Settings { threads: tidegate_runtime::Threads::Current, ..Settings::default() };
    let (source, sink) = (SourceControl::new("t", 1), SinkControl::<u64>::new());
    let flow = Pipeline::new("shop").settings(settings).source(source.source());
    let error = error_of(flow.map(|_| 1).sink(sink.sink()).start());
    assert_says(&error, &["threads:", "tokio runtime"]);
}

/// P33
#[tokio::test(start_paused = true)]
async fn a_way_that_waits_keeps_no_other_ways_batch_from_its_time() {
    let world = World::new(1);
    let batches = world.batch_sink("batches");
    world.source.push_numbers(0, 0..100);
    let limits = BatchLimits::count(1000).every(seconds(1));
    let running = world
        .items()
        .tee(|ways| {
            ways.to(|way| way.batch(limits).sink(batches.sink()))
                .to(|way| way.throttle(1, seconds(1)).sink(world.sink.sink()))
        })
        .start()
        .unwrap();
    pass(seconds(10)).await;
    assert_eq!(batches.items().iter().map(Vec::len).collect::<Vec<_>>(), [100]);
    assert!(world.numbers().len() <= 12, "{:?}", world.numbers());
    world.source.end();
    assert_eq!(running.wait().await.unwrap().status.committed, 100);
}
