//! Slow calls, several at a time: limits, orders, failures, back-pressure.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_runtime::{Concurrency, Limits, Settings};
use tidegate_testkit::{Gate, Order, pass, virtual_settings};

use crate::support::{Item, World, seconds};

/// Counts calls under way, and the most there ever were.
#[derive(Clone, Default)]
struct Meter(Arc<(AtomicUsize, AtomicUsize)>);

impl Meter {
    fn enter(&self) -> Inside {
        let now = self.0.0.fetch_add(1, SeqCst) + 1;
        self.0.1.fetch_max(now, SeqCst);
        Inside(self.clone())
    }

    fn most(&self) -> usize {
        self.0.1.load(SeqCst)
    }
}

struct Inside(Meter);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.0.0.fetch_sub(1, SeqCst);
    }
}

/// Takes a time that is different from message to message, and always the same for one.
async fn work(item: Item) -> Result<Item, String> {
    tokio::time::sleep(Duration::from_millis(item.n * 37 % 91)).await;
    if item.n % 50 == 49 { Err(format!("{} is a bad number", item.n)) } else { Ok(item) }
}

fn is_bad(item: &Item) -> bool {
    item.n % 50 == 49
}

/// P50
#[tokio::test(start_paused = true)]
async fn ordered_calls_overlap_up_to_the_limit_and_leave_in_order() {
    let world = World::with_numbers(2, 500);
    let (meter, counted) = (Meter::default(), Meter::default());
    let (inner, all) = (counted.clone(), meter.clone());
    let flow = world
        .items()
        .map_async(Concurrency::ordered(8), move |item| {
            let first = (item.id.partition.index() == Some(0)).then(|| inner.enter());
            let inside = (first, all.enter());
            async move {
                let result = work(item).await;
                drop(inside);
                result
            }
        })
        .sink(world.sink.sink());
    let summary = flow.run().await.unwrap();
    assert_eq!(counted.most(), 8, "in one partition");
    assert_eq!(meter.most(), 16, "in both");
    world.checker().check().assert_clean();
    assert_eq!((summary.status.diverted, summary.status.committed), (20, 1000));
    assert!(!world.sink.items().iter().any(is_bad));
    // 500 calls of 45 ms each on average, eight at a time: three seconds, not 22.
    assert!(summary.elapsed < seconds(6), "{:?}", summary.elapsed);
}

/// P50
#[tokio::test(start_paused = true)]
async fn unordered_results_leave_as_they_come_and_commits_wait_for_the_earlier_ones() {
    let world = World::with_numbers(1, 500);
    let flow = world.items().map_async(Concurrency::unordered(8), work).sink(world.sink.sink());
    let summary = flow.run().await.unwrap();
    let findings = world.checker().order(Order::Any).check();
    findings.assert_clean();
    assert!(!world.checker().check().out_of_order.is_empty(), "some overtook others");
    assert_eq!((summary.status.diverted, world.committed(0)), (10, 500));
}

/// P50
#[tokio::test(start_paused = true)]
async fn a_keys_messages_are_called_one_after_another_and_keys_in_parallel() {
    let world = World::new(2);
    for n in 0..500u64 {
        // The same keys in both partitions.
        world.source.push_keyed(0, (n * n % 7).to_string(), n.to_string());
        world.source.push_keyed(1, (n * n % 7).to_string(), n.to_string());
    }
    world.source.end();
    let meter = Meter::default();
    type Key = (Option<u32>, u64);
    let busy: Arc<Mutex<HashMap<Key, bool>>> = Arc::default();
    let (all, keys) = (meter.clone(), Arc::clone(&busy));
    let flow = world
        .items()
        .map_async(Concurrency::key_ordered(8, |item: &Item| item.n * item.n % 7), move |item| {
            let key = (item.id.partition.index(), item.n * item.n % 7);
            assert_eq!(keys.lock().unwrap().insert(key, true).filter(|busy| *busy), None);
            let (inside, keys) = (all.enter(), Arc::clone(&keys));
            async move {
                let result = work(item).await;
                keys.lock().unwrap().insert(key, false);
                drop(inside);
                result
            }
        })
        .sink(world.sink.sink());
    let summary = flow.run().await.unwrap();
    // n² mod 7 is one of 0, 1, 2 and 4.
    assert_eq!(meter.most(), 8, "four keys in each of two partitions");
    world.checker().order(Order::Key).check().assert_clean();
    assert!(!world.checker().check().out_of_order.is_empty(), "keys overtook each other");
    assert_eq!((summary.status.diverted, summary.status.committed), (20, 1000));
}

#[tokio::test(start_paused = true)]
async fn a_limit_for_the_pipeline_bounds_the_calls_of_all_partitions() {
    let world = World::with_numbers(10, 50);
    let meter = Meter::default();
    let all = meter.clone();
    let flow = world
        .items()
        .map_async(Concurrency::ordered(8).in_pipeline(5), move |item| {
            let inside = all.enter();
            async move {
                let result = work(item).await;
                drop(inside);
                result
            }
        })
        .sink(world.sink.sink());
    let summary = flow.run().await.unwrap();
    assert_eq!((meter.most(), summary.status.committed), (5, 500));
    world.checker().check().assert_clean();
}

/// P43, P32
#[tokio::test(start_paused = true)]
async fn calls_that_panic_are_diverted_wherever_they_do_it() {
    type Make = fn() -> Concurrency<Item>;
    let orders: [Make; 3] = [
        || Concurrency::ordered(4),
        || Concurrency::unordered(4),
        || {
            Concurrency::key_ordered(4, |item: &Item| {
                assert_ne!(item.n, 3, "while its key was taken");
                item.n % 5
            })
        },
    ];
    for (index, concurrency) in orders.into_iter().enumerate() {
        let world = World::with_numbers(1, 20);
        let flow = world
            .items()
            .map_async(concurrency(), |item| {
                assert_ne!(item.n, 7, "before it waits");
                async move {
                    tokio::time::sleep(seconds(1)).await;
                    assert_ne!(item.n, 11, "after it waited");
                    Ok::<_, String>(item)
                }
            })
            .named("call")
            .sink(world.sink.sink());
        flow.run().await.unwrap();
        let mut letters: Vec<_> =
            world.dead.items().iter().map(|l| (l.position.get(), l.error.clone())).collect();
        letters.sort();
        let mut expected = vec![(7, "before it waits"), (11, "after it waited")];
        if index == 2 {
            expected.insert(0, (3, "while its key was taken"));
        }
        assert_eq!(letters.len(), expected.len(), "{letters:?}");
        for ((position, error), (expected, text)) in letters.iter().zip(expected) {
            assert_eq!(*position, expected);
            assert!(error.starts_with("panicked: ") && error.contains(text), "{error}");
        }
        world.checker().order(Order::Any).check().assert_clean();
        assert_eq!(world.committed(0), 20);
    }
}

/// P4
#[tokio::test(start_paused = true)]
async fn calls_go_on_while_the_sink_has_no_room_and_none_is_begun_beyond_the_window() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..20_000);
    let limits = Limits { chunk_messages: 1, ..Limits::default() };
    let settings = Settings { limits, ..virtual_settings() };
    let (begun, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (begin, end) = (Arc::clone(&begun), Arc::clone(&ended));
    world.sink.gate().set_open(false);
    let running = world
        .items_with(settings)
        .map_async(Concurrency::ordered(16), move |item| {
            begin.fetch_add(1, SeqCst);
            let end = Arc::clone(&end);
            async move {
                tokio::time::sleep(seconds(1)).await;
                end.fetch_add(1, SeqCst);
                Ok::<_, String>(item)
            }
        })
        .sink(world.sink.sink())
        .start()
        .unwrap();
    pass(seconds(1_000)).await;
    let (calls, done) = (begun.load(SeqCst), ended.load(SeqCst));
    assert_eq!(calls, done, "each call that was begun has come to its end");
    assert!(calls >= 8_192, "the sink's queue was filled: {calls}");
    let read = running.handle().status().read;
    // What the sink's queue takes, and the window.
    assert!(read < 8_192 + 1_024 + 200, "{read} were read");
    world.sink.gate().set_open(true);
    world.source.end();
    running.wait().await.unwrap();
    assert_eq!(begun.load(SeqCst), 20_000);
    world.checker().check().assert_clean();
}

/// P33
#[tokio::test(start_paused = true)]
async fn what_is_behind_an_async_step_keeps_its_timers_while_calls_hang() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..5);
    let gate = Gate::closed();
    let held = gate.clone();
    let sink = world.batch_sink("batches");
    let running = world
        .items()
        .map_async(Concurrency::ordered(5), move |item| {
            let held = held.clone();
            async move {
                if item.n == 4 {
                    held.pass().await;
                }
                Ok::<_, String>(item)
            }
        })
        .batch(tidegate_runtime::BatchLimits::count(100).every(seconds(3)))
        .sink(sink.sink())
        .start()
        .unwrap();
    world.source.wait_for_commit(0, 4).await;
    assert_eq!(sink.items().len(), 1);
    gate.set_open(true);
    world.source.end();
    running.wait().await.unwrap();
    assert_eq!(world.committed(0), 5);
}

/// P50
#[tokio::test(start_paused = true)]
async fn async_steps_in_a_row_and_in_branches_keep_the_order() {
    let world = World::with_numbers(3, 400);
    let (even, odd) = (world.another_sink("even"), world.another_sink("odd"));
    let summary = world
        .items()
        .map_async(Concurrency::ordered(7), work)
        .branch(|branches| {
            branches
                .when(
                    |item| item.n % 2 == 0,
                    |items| items.map_async(Concurrency::ordered(3), work).sink(even.sink()),
                )
                .otherwise(|items| items.map_async(Concurrency::ordered(20), work).sink(odd.sink()))
        })
        .run()
        .await
        .unwrap();
    assert_eq!((summary.status.diverted, summary.status.committed), (24, 1200));
    world
        .checker()
        .sink("even", |id| id.position.get() % 2 == 0)
        .sink("odd", |id| id.position.get() % 2 == 1)
        .check()
        .assert_clean();
}
