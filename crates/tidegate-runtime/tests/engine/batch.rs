//! Batches: when they are full, in which order they leave, and what happens to their members.

use tidegate_runtime::{BatchLimits, Limits, Settings};
use tidegate_testkit::{Handled, SinkControl, TestPipeline, pass, text, virtual_settings};

use crate::support::{Item, World, seconds};

fn sizes(batches: &[Vec<Item>]) -> Vec<usize> {
    batches.iter().map(Vec::len).collect()
}

/// P50
#[tokio::test(start_paused = true)]
async fn a_batch_is_full_by_count_whatever_the_chunks_are() {
    for chunk_messages in [1, 3, 7, 10, 512] {
        let world = World::with_numbers(2, 95);
        let limits = Limits { chunk_messages, ..Limits::default() };
        let settings = Settings { limits, ..virtual_settings() };
        let sink = world.batch_sink("batches");
        let batches = BatchLimits::count(10).every(seconds(3600));
        let flow = world.items_with(settings).batch(batches).sink(sink.sink());
        flow.run().await.unwrap();
        for partition in 0..2 {
            let of_it = |batch: &Vec<Item>| batch[0].id.partition.index() == Some(partition);
            let batches: Vec<_> = sink.items().into_iter().filter(of_it).collect();
            assert_eq!(sizes(&batches), [10, 10, 10, 10, 10, 10, 10, 10, 10, 5]);
            let numbers: Vec<_> = batches.concat().iter().map(|item| item.n).collect();
            assert_eq!(numbers, (0..95).collect::<Vec<_>>());
            assert!(batches.concat().iter().all(|i| i.id.partition.index() == Some(partition)));
        }
        world.checker().check().assert_clean();
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_full_by_bytes_with_the_message_that_reaches_the_limit() {
    let world = World::new(1);
    // Each counts for its own number of bytes.
    world.source.push_numbers(0, [4, 4, 4, 10, 1, 2, 3, 30, 9, 1]);
    world.source.end();
    let sink = world.batch_sink("batches");
    let batches = BatchLimits::count(4).bytes(10).every(seconds(3600));
    let flow = world.items().batch_by_bytes(batches, |item| item.n as usize).sink(sink.sink());
    flow.run().await.unwrap();
    let numbers: Vec<Vec<u64>> =
        sink.items().iter().map(|batch| batch.iter().map(|item| item.n).collect()).collect();
    assert_eq!(numbers, [vec![4, 4, 4], vec![10], vec![1, 2, 3, 30], vec![9, 1]]);
    assert_eq!(world.committed(0), 10);
}

/// P33
#[tokio::test(start_paused = true)]
async fn a_batch_leaves_when_its_first_message_is_old_enough_and_not_later_ones() {
    let world = World::new(1);
    let sink = world.batch_sink("batches");
    let batches = BatchLimits::count(100).every(seconds(10));
    let running = world.items().batch(batches).sink(sink.sink()).start().unwrap();
    for n in 0..15 {
        world.source.push(0, n.to_string());
        pass(seconds(1)).await;
    }
    assert_eq!(sizes(&sink.items()), [10]);
    pass(seconds(6)).await;
    assert_eq!(sizes(&sink.items()), [10, 5]);
    pass(seconds(60)).await;
    world.source.push(0, "15");
    pass(seconds(9)).await;
    assert_eq!(sink.items().len(), 2, "a new batch has its own time");
    pass(seconds(2)).await;
    assert_eq!(sizes(&sink.items()), [10, 5, 1]);
    running.handle().stop();
    running.wait().await.unwrap();
}

/// P43
#[tokio::test(start_paused = true)]
async fn a_measure_that_panics_diverts_that_message_alone() {
    let world = World::with_numbers(1, 30);
    let sink = world.batch_sink("batches");
    let flow = world
        .items()
        .batch_by_bytes(BatchLimits::count(10).bytes(1000), |item| {
            assert_ne!(item.n, 12, "can't be measured");
            1
        })
        .named("gather")
        .sink(sink.sink());
    let summary = flow.run().await.unwrap();
    let letters = world.dead.items();
    assert_eq!((letters.len(), letters[0].position.get(), &*letters[0].step), (1, 12, "gather"));
    assert!(letters[0].error.contains("can't be measured"), "{}", letters[0].error);
    assert_eq!((summary.status.committed, sizes(&sink.items())), (30, vec![10, 10, 9]));
    world.checker().check().assert_clean();
}

/// P2, P46
#[tokio::test(start_paused = true)]
async fn a_step_that_fails_on_a_batch_diverts_all_of_its_members() {
    let world = World::with_numbers(1, 20);
    let sink = world.batch_sink("batches");
    let flow = world
        .items()
        .batch(BatchLimits::count(5))
        .try_map(|batch| if batch[0].n == 5 { Err("a five") } else { Ok(batch) })
        .named("check")
        .sink(sink.sink());
    flow.run().await.unwrap();
    let letters = world.dead.items();
    let positions: Vec<_> = letters.iter().map(|letter| letter.position.get()).collect();
    assert_eq!(positions, [5, 6, 7, 8, 9]);
    assert!(letters.iter().all(|letter| letter.error == "a five" && letter.step == "check"));
    world.checker().check().assert_clean();
}

/// P2
#[tokio::test(start_paused = true)]
async fn batches_that_are_taken_apart_settle_when_all_members_have() {
    let sink = SinkControl::new();
    let mut pipeline = TestPipeline::start(|records| {
        records
            .map(|record| text(record).len())
            .batch(BatchLimits::count(3).every(seconds(2)))
            .map(|lengths| lengths.into_iter().filter(|length| *length > 0).collect::<Vec<_>>())
            .unbatch()
            .sink(sink.sink())
    });
    assert!(matches!(pipeline.handle("abc").await, Ok(Handled::Written)));
    assert!(matches!(pipeline.handle("").await, Ok(Handled::Filtered)));
    assert_eq!(sink.items(), [3]);
    pipeline.finish().await.unwrap();
}
