//! The rate is kept over all partitions, and what comes behind keeps its timers.

use tidegate_runtime::{BatchLimits, Settings};
use tidegate_testkit::{pass, virtual_settings};

use crate::support::{World, seconds};

#[tokio::test(start_paused = true)]
async fn the_rate_holds_over_all_partitions_and_the_burst_is_one_intervals_worth() {
    let world = World::with_numbers(3, 1000);
    let running = world.items().throttle(100, seconds(1)).sink(world.sink.sink()).start().unwrap();
    for second in 1..=20u64 {
        pass(seconds(1)).await;
        let written = world.numbers().len() as u64;
        let most = 100 + second * 100;
        assert!(written <= most, "{written} after {second} s");
        assert!(written + 20 >= second * 100, "{written} after {second} s");
    }
    let summary = running.wait().await.unwrap();
    assert_eq!(summary.status.committed, 3000);
    assert!((28..=31).contains(&summary.elapsed.as_secs()), "{:?}", summary.elapsed);
    world.checker().check().assert_clean();
}

/// P33, P3
#[tokio::test(start_paused = true)]
async fn a_batch_behind_a_throttle_is_not_held_up_by_it() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..200);
    let sink = world.batch_sink("batches");
    let running = world
        .items()
        .throttle(1, seconds(1))
        .batch(BatchLimits::count(100).every(seconds(5)))
        .sink(sink.sink())
        .start()
        .unwrap();
    pass(seconds(31)).await;
    let written: usize = sink.items().iter().map(Vec::len).sum();
    assert!(written >= 24, "no message waits for its batch longer than 5 s: {written}");
    assert!(world.committed(0) >= 22, "{}", world.committed(0));
    running.handle().stop();
    running.wait().await.unwrap();
}

/// P27
#[tokio::test(start_paused = true)]
async fn what_a_throttle_holds_back_at_a_stop_is_released() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..500);
    let settings = Settings { drain: seconds(10), ..virtual_settings() };
    let running = world
        .items_with(settings)
        .throttle(10, seconds(1))
        .sink(world.sink.sink())
        .start()
        .unwrap();
    world.source.wait_for_read(0, 500).await;
    running.handle().stop();
    let summary = running.wait().await.unwrap();
    let committed = world.committed(0);
    assert!((100..=115).contains(&committed), "{committed}");
    assert_eq!((summary.status.failed, summary.status.in_flight), (0, 0));
}
