//! Parts from outside that break their rules: the pipeline stops, says who it was, and loses
//! nothing.

use std::time::Duration;

use tidegate_core::{
    Assignment, Chunk, Generation, NewRecord, Outlet, Partition, Position, RecordBatch, Revocation,
    SourceEvent, Step, Stopped,
};
use tidegate_runtime::{PipelineErrorKind, RetryPolicy, Settings};
use tidegate_testkit::{Fault, pass, virtual_settings};

use crate::support::{Item, World, assert_says, error_of, seconds};

/// How a step misbehaves when it meets the number 5.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Vice {
    DropsTheChunk,
    DropsOneMessage,
    KeepsItAtTheEnd,
    StopsEarly,
    Panics,
}

struct Bad {
    vice: Vice,
    kept: Vec<Chunk<Item>>,
}

impl Step for Bad {
    type In = Item;
    type Out = Item;

    async fn process(
        &mut self,
        mut chunk: Chunk<Item>,
        out: &mut Outlet<'_, Item>,
    ) -> Result<(), Stopped> {
        let Some(at) = chunk.values().iter().position(|item| item.n == 5) else {
            return out.send(chunk).await;
        };
        out.send(chunk.split_front(at)).await?;
        match self.vice {
            Vice::DropsTheChunk => Ok(()),
            Vice::DropsOneMessage => {
                drop(chunk.split_front(1));
                out.send(chunk).await
            }
            Vice::KeepsItAtTheEnd => {
                self.kept.push(chunk.split_front(1));
                out.send(chunk).await
            }
            Vice::StopsEarly => Err(Stopped),
            Vice::Panics => panic!("five is too much"),
        }
    }
}

/// P9, P32
#[tokio::test(start_paused = true)]
async fn a_step_that_does_not_answer_for_a_message_stops_the_pipeline_and_is_named() {
    for vice in [
        Vice::DropsTheChunk,
        Vice::DropsOneMessage,
        Vice::KeepsItAtTheEnd,
        Vice::StopsEarly,
        Vice::Panics,
    ] {
        let world = World::with_numbers(1, 10);
        let outcome = world
            .items()
            .step(move || Bad { vice, kept: Vec::new() })
            .named("bad one")
            .sink(world.sink.sink())
            .run()
            .await;
        let error = error_of(outcome);
        assert_says(&error, &["pipeline shop", "step bad one (", "broken_parts.rs:", "t[0]@5"]);
        if vice == Vice::Panics {
            assert_says(&error, &["five is too much"]);
        }
        assert_eq!(world.committed(0), 5, "{vice:?}");
        assert!(world.dead.items().is_empty());
    }
}

/// P9
#[tokio::test(start_paused = true)]
async fn a_step_that_panics_behind_an_async_step_is_named_too() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..10);
    let flow = world
        .items()
        .map_async(tidegate_runtime::Concurrency::ordered(3), |item| async move {
            Ok::<_, String>(item)
        })
        .step(|| Bad { vice: Vice::Panics, kept: Vec::new() })
        .named("bad one")
        .sink(world.sink.sink());
    let error = error_of(flow.run().await);
    assert_says(&error, &["step bad one (", "five is too much", "t[0]@5"]);
    assert!(world.committed(0) <= 5);
}

/// P32
#[tokio::test(start_paused = true)]
async fn a_part_that_panics_ends_the_pipeline_with_its_message() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..10);
    world.source.panic("the client is confused");
    let error = error_of(world.items().sink(world.sink.sink()).run().await);
    assert_says(&error, &["pipeline shop", "panicked", "the client is confused"]);

    let world = World::with_numbers(1, 10);
    world.sink.write_faults().plan(Fault::panic("the driver is confused"));
    let error = error_of(world.items().sink(world.sink.sink()).run().await);
    assert_says(&error, &["pipeline shop", "panicked", "the driver is confused", "sink ("]);
    assert_eq!(world.source.committed(0), None);

    let world = World::new(1);
    world.source.push(0, "word");
    world.dead.write_faults().plan(Fault::panic("the drawer is stuck"));
    let error = error_of(world.items().sink(world.sink.sink()).run().await);
    assert_says(&error, &["pipeline shop", "panicked", "the drawer is stuck"]);
    assert_eq!(world.source.committed(0), None);

    let world = World::with_numbers(1, 10);
    let flow = world.items().step(|| -> Bad { panic!("no more of these") });
    let error = error_of(flow.sink(world.sink.sink()).run().await);
    assert_says(&error, &["pipeline shop", "panicked", "no more of these"]);
    assert_eq!(world.source.committed(0), None);
}

/// P6, P9
#[tokio::test(start_paused = true)]
async fn a_sink_that_does_not_answer_for_every_item_stops_the_pipeline() {
    let world = World::with_numbers(1, 10);
    world.sink.answer_for_fewer(3);
    let outcome = world.items().sink(world.sink.sink()).run().await;
    assert!(matches!(outcome.as_ref().unwrap_err().kind(), PipelineErrorKind::Contract { .. }));
    assert_says(&error_of(outcome), &["sink sink (", "answered for 7 of 10 items"]);
    assert_eq!(world.source.committed(0), None);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_can_not_be_opened_stops_the_pipeline_before_anything_is_read() {
    let world = World::with_numbers(1, 10);
    world.sink.open_faults().plan(Fault::fail_for_good("no such folder: make it"));
    let error = error_of(world.items().sink(world.sink.sink()).run().await);
    assert_says(&error, &["sink sink (", "no such folder: make it"]);
    assert_eq!(world.source.polls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_the_sinks_are_opened_is_heard() {
    let world = World::with_numbers(1, 10);
    world.sink.open_faults().always(Fault::fail("not up yet"));
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    pass(seconds(30)).await;
    running.handle().stop();
    let summary = tokio::time::timeout(seconds(1), running.wait()).await.unwrap().unwrap();
    assert_eq!((summary.status.read, summary.ended), (0, false));
}

fn partition() -> Partition {
    Partition::new("t", 0)
}

fn assigned(generation: u64) -> SourceEvent {
    let generation = Generation::new(generation);
    SourceEvent::Assigned(vec![Assignment { partition: partition(), generation }])
}

fn batch(partition: Partition, position: u64) -> SourceEvent {
    let mut batch = RecordBatch::builder(partition);
    let record = NewRecord { payload: Some(b"1"), ..NewRecord::default() };
    batch.push(Position::new(position), record).unwrap();
    SourceEvent::Fetched(batch.finish())
}

/// P24
#[tokio::test(start_paused = true)]
async fn a_source_that_breaks_its_rules_stops_the_pipeline() {
    let world = World::new(1);
    world.source.say(assigned(2));
    let error = error_of(world.items().sink(world.sink.sink()).run().await);
    assert_says(&error, &["assigned t[0] twice"]);

    let world = World::new(1);
    world.source.say(batch(Partition::new("other", 9), 0));
    let error = error_of(world.items().sink(world.sink.sink()).run().await);
    assert_says(&error, &["other[9]@0", "isn't assigned"]);
}

/// P24
#[tokio::test(start_paused = true)]
async fn news_of_partitions_that_are_not_owned_do_no_harm() {
    let world = World::new(1);
    let other = || vec![Partition::new("other", 9)];
    world.source.say(SourceEvent::Lost(other()));
    world.source.say(SourceEvent::Finished(other()));
    world.source.say(SourceEvent::Revoking(Revocation { partitions: other(), within: None }));
    world.source.push_numbers(0, 0..10);
    world.source.end();
    let summary = world.items().sink(world.sink.sink()).run().await.unwrap();
    assert_eq!(summary.status.committed, 10);
    world.checker().check().assert_clean();
}

/// P28
#[tokio::test(start_paused = true)]
async fn a_source_that_fails_for_a_while_is_asked_again_after_growing_pauses() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..5);
    (0..8).for_each(|_| world.source.fail("the broker is away"));
    world.source.push_numbers(0, 5..10);
    let begin = tokio::time::Instant::now();
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    world.source.wait_for_commit(0, 10).await;
    // 0.1 + 0.2 + 0.4 + 0.8 + 1.6 + 3.2 + 5 + 5 seconds.
    let took = begin.elapsed();
    assert!(took >= Duration::from_millis(16_300) && took < seconds(19), "{took:?}");
    world.source.end();
    running.wait().await.unwrap();
    world.checker().check().assert_clean();
}

/// P28
#[tokio::test(start_paused = true)]
async fn a_source_that_stays_away_or_fails_for_good_stops_the_pipeline() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..5);
    world.source.fail_for_good("the topic was deleted");
    let error = error_of(world.items().sink(world.sink.sink()).run().await);
    assert_says(&error, &["the source failed while reading", "the topic was deleted"]);
    assert_eq!(world.committed(0), 5, "what had been read is finished");

    let world = World::new(1);
    world.source.push_numbers(0, 0..5);
    (0..1000).for_each(|_| world.source.fail("the broker is away"));
    let retry = RetryPolicy { give_up_after: seconds(60), ..RetryPolicy::default() };
    let settings = Settings { retry, ..virtual_settings() };
    let error = error_of(world.items_with(settings).sink(world.sink.sink()).run().await);
    assert_says(&error, &["the source failed while reading", "the broker is away"]);
    assert_eq!(world.committed(0), 5);
}
