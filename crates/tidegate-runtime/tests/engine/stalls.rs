//! What doesn't move is named; what is idle is left in peace.

use tidegate_runtime::{BatchLimits, Concurrency, Settings, Stall};
use tidegate_testkit::{Gate, pass, virtual_settings};

use crate::support::{World, seconds};

fn stall_after_20_s() -> Settings {
    Settings { stall_after: seconds(20), ..virtual_settings() }
}

/// P31
#[tokio::test(start_paused = true)]
async fn a_stall_names_the_partition_the_position_and_the_sink_and_ends_with_it() {
    let world = World::new(2);
    world.source.push_numbers(0, 0..30);
    world.source.push_numbers(1, 0..30);
    let running = world
        .items_with(stall_after_20_s())
        .sink(world.sink.sink())
        .named("orders table")
        .start()
        .unwrap();
    world.source.wait_for_commit(0, 30).await;
    world.source.wait_for_commit(1, 30).await;
    world.sink.gate().set_open(false);
    world.source.push_numbers(1, 30..60);
    pass(seconds(18)).await;
    assert!(running.handle().status().is_live());
    pass(seconds(5)).await;
    let status = running.handle().status();
    let [Stall { partition, position, step, since }] = status.stalls.as_slice() else {
        panic!("{status:?}")
    };
    assert_eq!((partition, position.get()), (&world.source.partition(1), 30));
    assert!(step.starts_with("orders table (") && step.contains("stalls.rs:"), "{step}");
    assert!((20..24).contains(&since.as_secs()), "{since:?}");
    assert!(!status.is_live());
    let text = status.stalls[0].to_string();
    assert!(text.starts_with("t[1]@30 has been in step orders table ("), "{text}");
    world.sink.gate().set_open(true);
    pass(seconds(3)).await;
    assert!(running.handle().status().is_live());
    running.handle().stop();
    running.wait().await.unwrap();
}

/// P31
#[tokio::test(start_paused = true)]
async fn a_stall_names_the_step_that_has_the_message() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..30);
    let gate = Gate::closed();
    let held = gate.clone();
    let running = world
        .items_with(stall_after_20_s())
        .map_async(Concurrency::ordered(10), move |item| {
            let held = held.clone();
            async move {
                if item.n == 3 {
                    held.pass().await;
                }
                Ok::<_, String>(item)
            }
        })
        .named("look up")
        .batch(BatchLimits::count(1000).every(seconds(60)))
        .named("gather")
        .sink(world.batch_sink("batches").sink())
        .start()
        .unwrap();
    pass(seconds(30)).await;
    let stall = running.handle().status().stalls.remove(0);
    assert!(stall.step.starts_with("gather (") && stall.position.get() == 0, "{stall}");
    pass(seconds(55)).await;
    let stall = running.handle().status().stalls.remove(0);
    assert!(stall.step.starts_with("look up (") && stall.position.get() == 3, "{stall}");
    gate.set_open(true);
    world.source.end();
    running.wait().await.unwrap();
}

/// P31, P38
#[tokio::test(start_paused = true)]
async fn an_idle_pipeline_is_live_and_hardly_awake() {
    let world = World::new(100);
    world.source.push_numbers(7, 0..10);
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    world.source.wait_for_commit(7, 10).await;
    let polls = world.source.polls();
    pass(seconds(600)).await;
    assert!(running.handle().status().is_live());
    let asked = world.source.polls() - polls;
    assert!(asked <= 1250, "asked {asked} times in ten minutes");
    running.handle().stop();
    running.wait().await.unwrap();
}

/// P31
#[tokio::test(start_paused = true)]
async fn a_pipeline_without_partitions_is_live_and_waits() {
    let world = World::new(0);
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    pass(seconds(600)).await;
    let status = running.handle().status();
    assert!(status.is_live() && status.stalls.is_empty());
    running.handle().stop();
    assert!(!running.wait().await.unwrap().ended);
}

/// P31
#[tokio::test(start_paused = true)]
async fn work_that_comes_after_a_long_rest_is_no_stall() {
    let world = World::new(1);
    let running = world.items_with(stall_after_20_s()).sink(world.sink.sink()).start().unwrap();
    pass(seconds(300)).await;
    world.sink.gate().set_open(false);
    world.source.push_numbers(0, 0..10);
    pass(seconds(10)).await;
    assert!(running.handle().status().is_live(), "it has been here for ten seconds");
    pass(seconds(15)).await;
    assert!(!running.handle().status().is_live());
    world.sink.gate().set_open(true);
    world.source.end();
    running.wait().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_lag_is_what_lies_between_the_frontiers_and_the_ends() {
    let world = World::new(2);
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    world.source.push_numbers(0, 0..10);
    world.source.push_numbers(1, 0..10);
    pass(seconds(3)).await;
    assert_eq!(running.handle().status().lag, Some(0));
    world.sink.gate().set_open(false);
    world.source.push_numbers(0, 10..17);
    pass(seconds(3)).await;
    let status = running.handle().status();
    assert_eq!((status.lag, status.in_flight, status.read), (Some(7), 7, 27));
    world.sink.gate().set_open(true);
    world.source.end();
    running.wait().await.unwrap();
}
