//! A sink that stalls: nothing lost, nothing called twice, memory bounded, the others go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate_runtime::{Concurrency, Limits, Settings};
use tidegate_testkit::{Event, Fault, Gate, Order, pass, virtual_settings};

use crate::support::{World, seconds};

const CHUNK: usize = 4 << 10;
const BUDGET: usize = 64 << 10;

fn small() -> Settings {
    let limits =
        Limits { bytes: BUDGET, chunk_bytes: CHUNK, chunk_messages: 64, ..Limits::default() };
    Settings { limits, ..virtual_settings() }
}

/// What one fetch may overshoot the budget by: the chunk's own bytes, and what a batch keeps for
/// each of its 64 records besides.
const OVERSHOOT: u64 = 2 * CHUNK as u64;

/// P4, P35, P38
#[tokio::test(start_paused = true)]
async fn a_stalled_sink_stops_the_source_within_the_budget_and_then_everything_goes_on() {
    let world = World::new(3);
    for partition in 0..3 {
        world.source.push_numbers(partition, 0..5000);
    }
    world.source.end();
    world.sink.gate().set_open(false);
    let running = world.items_with(small()).sink(world.sink.sink()).start().unwrap();
    world.sink.wait_for_attempts(1).await;
    pass(seconds(2)).await;
    let (polls, status) = (world.source.polls(), running.handle().status());
    assert!(status.in_flight_bytes >= BUDGET as u64 / 2, "{status:?}");
    assert!(status.in_flight_bytes <= BUDGET as u64 + OVERSHOOT, "{status:?}");
    pass(seconds(60)).await;
    let later = running.handle().status();
    assert_eq!((later.read, later.in_flight_bytes), (status.read, status.in_flight_bytes));
    let asked = world.source.polls() - polls;
    assert!((50..=130).contains(&asked), "it is asked still, but not in a spin: {asked} times");
    world.sink.gate().set_open(true);
    let summary = running.wait().await.unwrap();
    assert_eq!((summary.status.committed, summary.status.in_flight_bytes), (15_000, 0));
    let findings = world.checker().check();
    findings.assert_clean();
    assert_eq!(findings.duplicates, 0);
}

/// P35
#[tokio::test(start_paused = true)]
async fn a_thousand_partitions_share_one_budget() {
    let world = World::new(1000);
    for partition in 0..1000 {
        world.source.push_numbers(partition, 0..100);
    }
    world.source.end();
    world.sink.gate().set_open(false);
    let running = world.items_with(small()).sink(world.sink.sink()).start().unwrap();
    pass(seconds(10)).await;
    let status = running.handle().status();
    assert!(status.in_flight_bytes <= BUDGET as u64 + OVERSHOOT, "{status:?}");
    world.sink.gate().set_open(true);
    let summary = running.wait().await.unwrap();
    assert_eq!(summary.status.committed, 100_000);
    world.checker().check().assert_clean();
}

/// P35
#[tokio::test(start_paused = true)]
async fn a_record_that_is_larger_than_the_budget_passes_alone() {
    let world = World::new(1);
    for n in 0..5 {
        world.source.push(0, format!("{}{n}", "0".repeat(200_000)));
    }
    world.source.end();
    world.sink.gate().set_open(false);
    let running = world.items_with(small()).sink(world.sink.sink()).start().unwrap();
    pass(seconds(10)).await;
    assert_eq!(running.handle().status().read, 1);
    world.sink.gate().set_open(true);
    running.wait().await.unwrap();
    assert_eq!(world.numbers(), [0, 1, 2, 3, 4]);
}

/// P16
#[tokio::test(start_paused = true)]
async fn closures_run_once_a_message_whatever_the_sink_does() {
    let world = World::with_numbers(2, 2000);
    world.sink.write_faults().plan(Fault::fail("locked"));
    world.sink.write_faults().plan(Fault::delay(seconds(30)));
    world.sink.write_faults().plan_times(3, Fault::lose_reply());
    let calls = Arc::new(AtomicU64::new(0));
    let (first, second) = (Arc::clone(&calls), Arc::clone(&calls));
    let flow = world
        .items_with(small())
        .inspect(move |_| {
            first.fetch_add(1, Relaxed);
        })
        .map_async(Concurrency::ordered(10), move |item| {
            second.fetch_add(1, Relaxed);
            async move { Ok::<_, String>(item) }
        })
        .sink(world.sink.sink());
    let summary = flow.run().await.unwrap();
    assert_eq!(calls.load(Relaxed), 2 * 4000);
    assert_eq!((summary.status.written, summary.status.committed), (4000, 4000));
    let findings = world.checker().check();
    findings.assert_clean();
    assert!(findings.duplicates > 0, "three writes were done and their replies lost");
}

/// P25
#[tokio::test(start_paused = true)]
async fn a_partition_without_room_stops_no_other() {
    let world = World::new(2);
    world.source.push_numbers(0, 0..1000);
    world.source.push_numbers(1, 0..1000);
    let limits = Limits { messages_per_partition: 50, chunk_messages: 10, ..Limits::default() };
    let settings = Settings { limits, ..virtual_settings() };
    let gate = Gate::closed();
    let held = gate.clone();
    let running = world
        .items_with(settings)
        .map_async(Concurrency::ordered(4), move |item| {
            let held = held.clone();
            async move {
                if item.id.partition.index() == Some(0) {
                    held.pass().await;
                }
                Ok::<_, String>(item)
            }
        })
        .sink(world.sink.sink())
        .start()
        .unwrap();
    world.source.wait_for_commit(1, 1000).await;
    assert_eq!((world.source.read(0), world.source.committed(0)), (50, None));
    gate.set_open(true);
    world.source.wait_for_commit(0, 1000).await;
    world.source.end();
    running.wait().await.unwrap();
    world.checker().check().assert_clean();
}

/// P25
#[tokio::test(start_paused = true)]
async fn a_partition_that_was_closed_when_it_went_is_open_when_it_comes_back() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..200);
    world.sink.gate().set_open(false);
    let limits = Limits { messages_per_partition: 50, chunk_messages: 10, ..Limits::default() };
    let settings = Settings { limits, ..virtual_settings() };
    let running = world.items_with(settings).sink(world.sink.sink()).start().unwrap();
    pass(seconds(5)).await;
    assert_eq!(world.source.read(0), 50);
    world.source.revoke([0], Some(seconds(1)));
    world.source.assign([0]);
    pass(seconds(5)).await;
    world.sink.gate().set_open(true);
    world.source.wait_for_commit(0, 200).await;
    world.source.end();
    running.wait().await.unwrap();
    world.checker().check().assert_clean();
}

/// P4, P50
#[tokio::test(start_paused = true)]
async fn a_sink_that_comes_and_goes_gets_everything_in_order() {
    let world = World::with_numbers(4, 3000);
    for _ in 0..20 {
        world.sink.write_faults().plan(Fault::fail("away"));
        world.sink.write_faults().plan(Fault::delay(seconds(1)));
    }
    let flow = world
        .items_with(small())
        .map_async(Concurrency::ordered(64), |item| async move {
            tokio::time::sleep(std::time::Duration::from_millis(item.n * 7 % 13)).await;
            Ok::<_, String>(item)
        })
        .sink(world.sink.sink());
    let summary = flow.run().await.unwrap();
    assert_eq!(summary.status.committed, 12_000);
    let findings = world.checker().order(Order::Partition).check();
    findings.assert_clean();
    assert_eq!(findings.duplicates, 0);
    let commits =
        world.journal.collect(|e| matches!(e.event, Event::Committed { .. }).then_some(()));
    assert!(commits.len() > 4, "it was committed on the way too");
}
