//! Partitions that come and go, in every state.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate_core::{Chunk, Outlet, Position, Step, Stopped};
use tidegate_runtime::{BatchLimits, Concurrency, Running};
use tidegate_testkit::{Event, Fault, Gate, pass};

use crate::support::{Item, World, seconds};

async fn ends_clean(world: &World, running: Running) -> u64 {
    world.source.end();
    let summary = running.wait().await.unwrap();
    assert_eq!((summary.status.in_flight, summary.status.in_flight_bytes), (0, 0));
    assert_eq!((summary.status.failed, summary.status.diverted), (0, 0));
    let findings = world.checker().check();
    findings.assert_clean();
    findings.duplicates as u64
}

fn releases(world: &World) -> usize {
    world.journal.collect(|e| matches!(e.event, Event::Released(_)).then_some(())).len()
}

async fn released(world: &World, times: usize) {
    world.source.wait_for_events(times, |event| matches!(event, Event::Released(_))).await;
}

/// P24
#[tokio::test(start_paused = true)]
async fn a_partition_may_go_before_its_first_message_and_come_back_at_once() {
    let world = World::new(2);
    world.source.revoke([0, 1], None);
    world.source.assign([0]);
    world.source.revoke([0], Some(seconds(0)));
    world.source.assign([1, 0]);
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    world.source.push_numbers(0, 0..10);
    world.source.wait_for_commit(0, 10).await;
    assert_eq!(releases(&world), 3);
    assert_eq!(ends_clean(&world, running).await, 0);
}

/// P24, P14
#[tokio::test(start_paused = true)]
async fn a_batch_that_is_partly_filled_is_written_and_committed_before_the_partition_goes() {
    let world = World::new(2);
    world.source.push_numbers(0, 0..25);
    world.source.push_numbers(1, 0..5);
    let sink = world.batch_sink("batches");
    let batches = BatchLimits::count(10).every(seconds(3600));
    let running = world.items().batch(batches).sink(sink.sink()).start().unwrap();
    pass(seconds(5)).await;
    assert_eq!((world.committed(0), world.source.committed(1)), (20, None));
    world.source.revoke([0], None);
    world.source.assign([0]);
    released(&world, 1).await;
    assert_eq!(world.committed(0), 25);
    assert_eq!(world.source.committed(1), None, "the other partition's batch is left alone");
    assert_eq!(sink.items().len(), 3);
    assert_eq!(ends_clean(&world, running).await, 0);
}

/// P24, P27, P22
#[tokio::test(start_paused = true)]
async fn a_partition_that_goes_while_the_sink_stalls_is_let_go_at_its_time_uncommitted() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..100);
    world.sink.gate().set_open(false);
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    world.sink.wait_for_attempts(1).await;
    let begin = tokio::time::Instant::now();
    world.source.revoke([0], Some(seconds(7)));
    released(&world, 1).await;
    assert_eq!(begin.elapsed().as_secs(), 7);
    assert_eq!(world.source.committed(0), None);
    // The write that was under way ends after all. Nobody owns the partition.
    world.sink.gate().set_open(true);
    world.sink.wait_for_items(100).await;
    pass(seconds(10)).await;
    assert_eq!(world.source.committed(0), None, "an answer of a past generation moves nothing");
    assert_eq!(running.handle().status().in_flight, 0);
    world.source.assign([0]);
    world.source.wait_for_commit(0, 100).await;
    assert_eq!(ends_clean(&world, running).await, 100);
}

/// P24, P27
#[tokio::test(start_paused = true)]
async fn a_second_revocation_while_draining_can_only_shorten_the_time() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..100);
    world.sink.gate().set_open(false);
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    world.sink.wait_for_attempts(1).await;
    let begin = tokio::time::Instant::now();
    world.source.revoke([0], Some(seconds(9)));
    world.source.revoke([0], Some(seconds(4)));
    world.source.revoke([0], Some(seconds(20)));
    released(&world, 1).await;
    assert_eq!(begin.elapsed().as_secs(), 4);
    world.sink.gate().set_open(true);
    world.source.assign([0]);
    ends_clean(&world, running).await;
}

/// P24
#[tokio::test(start_paused = true)]
async fn a_partition_that_is_lost_while_it_drains_is_not_committed() {
    let world = World::new(2);
    world.source.push_numbers(0, 0..100);
    world.source.push_numbers(1, 0..100);
    world.sink.gate().set_open(false);
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    world.sink.wait_for_attempts(1).await;
    world.source.revoke([0], None);
    world.source.lose([0]);
    pass(seconds(1)).await;
    world.sink.gate().set_open(true);
    world.source.wait_for_commit(1, 100).await;
    assert_eq!((world.source.committed(0), releases(&world)), (None, 0));
    world.source.assign([0]);
    ends_clean(&world, running).await;
    assert_eq!(world.committed(0), 100);
}

/// P24
#[tokio::test(start_paused = true)]
async fn a_partition_may_go_after_its_end_and_during_a_stop() {
    let world = World::new(3);
    for partition in 0..3 {
        world.source.push_numbers(partition, 0..10);
    }
    world.sink.gate().set_open(false);
    world.source.finish([0]);
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    world.sink.wait_for_attempts(1).await;
    world.source.revoke([0], Some(seconds(25)));
    pass(seconds(1)).await;
    running.handle().stop();
    world.source.revoke([1], Some(seconds(5)));
    world.source.lose([2]);
    pass(seconds(1)).await;
    world.sink.gate().set_open(true);
    let summary = running.wait().await.unwrap();
    assert_eq!((world.committed(0), world.committed(1)), (10, 10));
    assert_eq!((world.source.committed(2), summary.status.committed), (None, 20));
}

/// P24
#[tokio::test(start_paused = true)]
async fn a_finished_partition_is_drained_without_a_limit_and_let_go_while_others_go_on() {
    let world = World::new(2);
    world.source.push_numbers(0, 0..10);
    world.source.finish([0]);
    world.sink.write_faults().plan(Fault::delay(seconds(100)));
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    released(&world, 1).await;
    assert_eq!(world.committed(0), 10);
    world.source.push_numbers(1, 0..10);
    world.source.wait_for_commit(1, 10).await;
    assert_eq!(ends_clean(&world, running).await, 0);
}

/// P24
#[tokio::test(start_paused = true)]
async fn other_partitions_keep_their_work_in_flight_through_a_rebalance() {
    let world = World::new(2);
    let gate = Gate::closed();
    let (held, calls) = (gate.clone(), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&calls);
    let running = world
        .items()
        .map_async(Concurrency::ordered(100), move |item| {
            let held = held.clone();
            counted.fetch_add(1, Relaxed);
            async move {
                held.pass().await;
                Ok::<_, String>(item)
            }
        })
        .sink(world.sink.sink())
        .start()
        .unwrap();
    world.source.push_numbers(0, 0..50);
    world.source.push_numbers(1, 0..50);
    while calls.load(Relaxed) < 100 {
        pass(seconds(1)).await;
    }
    world.source.revoke([0], Some(seconds(3)));
    released(&world, 1).await;
    gate.set_open(true);
    world.source.wait_for_commit(1, 50).await;
    assert_eq!(calls.load(Relaxed), 100, "the other partition's calls were not made again");
    world.source.assign([0]);
    ends_clean(&world, running).await;
}

struct Passing;

impl Step for Passing {
    type In = Item;
    type Out = Item;

    async fn process(
        &mut self,
        chunk: Chunk<Item>,
        out: &mut Outlet<'_, Item>,
    ) -> Result<(), Stopped> {
        out.send(chunk).await
    }
}

/// P24, P54
#[tokio::test(start_paused = true)]
async fn a_partition_that_flaps_a_thousand_times_rebuilds_nothing() {
    let world = World::new(2);
    world.source.push_numbers(1, 0..10);
    let made = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&made);
    let make = move || {
        count.fetch_add(1, Relaxed);
        Passing
    };
    let running = world.items().step(make).sink(world.sink.sink()).start().unwrap();
    world.source.wait_for_commit(1, 10).await;
    for _ in 0..1000 {
        world.source.revoke([0], None);
        world.source.assign([0]);
    }
    released(&world, 1000).await;
    world.source.push_numbers(0, 0..10);
    world.source.wait_for_commit(0, 10).await;
    assert_eq!(made.load(Relaxed), 2, "steps are made for a partition with its first message");
    assert_eq!((world.sink.opened(), world.sink.closed()), (1, 0));
    assert_eq!(ends_clean(&world, running).await, 0);
    assert_eq!((world.sink.opened(), world.sink.closed()), (1, 1));
}

/// P26
#[tokio::test(start_paused = true)]
async fn a_commit_that_is_refused_fences_that_partition_and_no_other() {
    let world = World::new(3);
    for partition in 0..3 {
        world.source.push_numbers(partition, 0..20);
    }
    world.source.refuse_commit(1);
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    world.source.wait_for_commit(0, 20).await;
    pass(seconds(5)).await;
    assert_eq!((world.committed(2), world.source.committed(1)), (20, None));
    world.source.push_numbers(0, 20..30);
    world.source.push_numbers(1, 20..30);
    world.source.wait_for_commit(0, 30).await;
    assert_eq!(world.source.committed(1), None);
    world.source.assign([1]);
    world.source.wait_for_commit(1, 30).await;
    assert_eq!(ends_clean(&world, running).await, 20);
}

/// P26, P24
#[tokio::test(start_paused = true)]
async fn a_commit_that_is_refused_at_the_release_ends_the_drain() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..20);
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    world.sink.wait_for_items(20).await;
    world.source.refuse_commit(0);
    world.source.revoke([0], None);
    world.source.assign([0]);
    world.source.wait_for_commit(0, 20).await;
    assert_eq!(releases(&world), 0, "what isn't owned is not released");
    assert_eq!(ends_clean(&world, running).await, 20);
}

/// P5, P22
#[tokio::test(start_paused = true)]
async fn a_new_owner_goes_on_at_the_commit_and_the_old_one_commits_nothing_any_more() {
    let world = World::new(2);
    world.source.push_numbers(0, 0..100);
    let zombie = world.items().sink(world.sink.sink()).start().unwrap();
    world.source.wait_for_commit(0, 100).await;
    world.sink.gate().set_open(false);
    world.source.push_numbers(0, 100..200);
    world.source.wait_for_read(0, 200).await;
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    world.sink.wait_for_attempts(3).await;
    world.sink.gate().set_open(true);
    world.source.wait_for_commit(0, 200).await;
    pass(seconds(10)).await;
    let refused = world.journal.collect(|entry| match entry.event {
        Event::Refused { position, .. } => Some(position),
        _ => None,
    });
    assert_eq!(refused, [Position::new(200)]);
    zombie.handle().stop();
    assert_eq!(zombie.wait().await.unwrap().status.committed, 100);
    assert_eq!(ends_clean(&world, running).await, 100);
}
