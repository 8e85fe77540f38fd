//! The same engine on threads of its own, in real time.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_runtime::{CommitPolicy, Concurrency, Settings, Threads};
use tidegate_testkit::Order;

use crate::support::{World, seconds};

fn own_threads(workers: usize) -> Settings {
    let every = Duration::from_millis(10);
    let commit = CommitPolicy { every, count: None };
    let stall_after = Duration::from_millis(1);
    Settings { commit, stall_after, threads: Threads::Own { workers }, ..Settings::default() }
}

/// P23, P31
#[tokio::test]
async fn a_closure_that_blocks_keeps_the_source_from_nothing_and_is_named() {
    let world = World::new(1);
    let (release, blocked) = mpsc::channel::<()>();
    let blocked = Mutex::new(blocked);
    let running = world
        .items_with(own_threads(1))
        .inspect(move |item| {
            if item.n == 3 {
                // Ends when the test's side is dropped.
                let _ = blocked.lock().unwrap().recv();
            }
        })
        .named("stubborn")
        .sink(world.sink.sink())
        .start()
        .unwrap();
    world.source.push_numbers(0, 0..10);
    world.source.wait_for_read(0, 10).await;
    world.source.wait_for_polls(20).await;
    world.source.push_numbers(0, 10..20);
    world.source.wait_for_read(0, 20).await;
    let stall = loop {
        world.source.wait_for_polls(1).await;
        if let Some(stall) = running.handle().status().stalls.pop() {
            break stall;
        }
    };
    assert!(stall.step.starts_with("stubborn ("), "{stall}");
    drop(release);
    world.source.end();
    assert_eq!(running.wait().await.unwrap().status.committed, 20);
    world.checker().check().assert_clean();
}

/// P32, P27
#[tokio::test]
async fn a_closure_that_blocks_for_ever_does_not_keep_the_pipeline_from_stopping() {
    let world = World::new(1);
    let (release, blocked) = mpsc::channel::<()>();
    let blocked = Mutex::new(blocked);
    let settings = Settings { drain: Duration::from_millis(50), ..own_threads(2) };
    let running = world
        .items_with(settings)
        .inspect(move |_| {
            let _ = blocked.lock().unwrap().recv();
        })
        .sink(world.sink.sink())
        .start()
        .unwrap();
    world.source.push_numbers(0, 0..10);
    world.source.wait_for_read(0, 10).await;
    running.handle().stop();
    let summary = running.wait().await.unwrap();
    assert_eq!((summary.status.committed, summary.status.failed), (0, 0));
    drop(release);
}

/// P50, P1
#[tokio::test]
async fn everything_holds_with_several_workers_too() {
    let world = World::with_numbers(8, 3000);
    let seen = Arc::new(Mutex::new(std::collections::HashSet::new()));
    let threads = Arc::clone(&seen);
    let summary = world
        .items_with(own_threads(4))
        .inspect(move |_| {
            threads.lock().unwrap().insert(std::thread::current().id());
        })
        .filter(|item| item.n % 3 != 0)
        .map_async(Concurrency::ordered(32), |item| async move {
            tokio::task::yield_now().await;
            if item.n % 100 == 50 { Err("a fifty") } else { Ok(item) }
        })
        .batch(tidegate_runtime::BatchLimits::count(100))
        .unbatch()
        .map_blocking(Concurrency::ordered(2), Ok::<_, String>)
        .sink(world.sink.sink())
        .run()
        .await
        .unwrap();
    assert_eq!((summary.status.read, summary.status.committed), (24_000, 24_000));
    let checker = world.checker().filtered(|id| id.position.get() % 3 == 0);
    checker.order(Order::Partition).check().assert_clean();
    assert!(!seen.lock().unwrap().contains(&std::thread::current().id()));
    assert!(summary.elapsed < seconds(100));
}
