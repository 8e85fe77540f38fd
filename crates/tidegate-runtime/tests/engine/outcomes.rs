//! Every way in which a message can end settles it, once.

use tidegate_runtime::{BatchLimits, Concurrency};
use tidegate_testkit::{
    Gate, Handled, Order, RecordId, SinkControl, TestPipeline, pass, text, virtual_settings,
};

use crate::support::{Item, World, seconds};

/// P2
#[tokio::test(start_paused = true)]
async fn a_message_of_which_nothing_one_or_many_are_made_is_committed() {
    let sink = SinkControl::new();
    let mut pipeline = TestPipeline::start(|records| {
        records
            .try_map(|record| text(record).parse::<u64>())
            .flat_map(|n| (0..n).map(move |copy| (n, copy)))
            .sink(sink.sink())
    });
    assert!(matches!(pipeline.handle("0").await, Ok(Handled::Filtered)));
    assert!(matches!(pipeline.handle("1").await, Ok(Handled::Written)));
    assert!(matches!(pipeline.handle("2000").await, Ok(Handled::Written)));
    assert!(matches!(pipeline.handle("nothing").await, Ok(Handled::Diverted(_))));
    assert_eq!(sink.items().len(), 2001);
    let status = pipeline.finish().await.unwrap().status;
    assert_eq!((status.read, status.committed, status.written), (4, 4, 2001));
    assert_eq!((status.filtered, status.diverted, status.in_flight), (1, 1, 0));
    assert_eq!(status.in_flight_bytes, 0);
}

/// P2
#[tokio::test(start_paused = true)]
async fn a_message_is_committed_only_when_all_that_was_made_of_it_is_written() {
    let sink =
        SinkControl::new().capabilities(tidegate_core::SinkCapabilities::new().max_items(100));
    let world = World::new(1);
    let running = world.items().flat_map(|item| 0..item.n).sink(sink.sink()).start().unwrap();
    let gate = Gate::closed();
    sink.write_faults().plan_times(9, tidegate_testkit::Fault::work());
    sink.write_faults().plan(tidegate_testkit::Fault::hold(&gate));
    world.source.push(0, "1000");
    sink.wait_for_attempts(10).await;
    pass(seconds(30)).await;
    let written = sink.items().len();
    assert!((1..1000).contains(&written), "{written} of its results are written");
    assert_eq!(world.source.committed(0), None);
    gate.set_open(true);
    world.source.wait_for_commit(0, 1).await;
    assert_eq!(sink.items().len(), 1000);
    running.handle().stop();
    running.wait().await.unwrap();
}

/// P2
#[tokio::test(start_paused = true)]
async fn every_kind_of_step_settles_every_message() {
    let world = World::with_numbers(3, 1000);
    let (even, odd) = (world.another_sink("even"), world.another_sink("odd"));
    let summary = world
        .items()
        .filter(|item| item.n % 10 != 0)
        .filter_map(|item| (item.n % 10 != 1).then_some(item))
        .try_map(|item| if item.n % 10 == 2 { Err("a two") } else { Ok(item) })
        .map_async(Concurrency::unordered(8), |item| async move {
            if item.n % 10 == 3 { Err("a three") } else { Ok(item) }
        })
        .inspect(|item| assert_ne!(item.n, 4, "a four"))
        .batch(BatchLimits::count(7))
        .unbatch()
        .branch(|branches| {
            branches
                .when(|item| item.n % 10 == 6, |items| items.sink(even.sink()))
                .when(|item| item.n % 2 == 1, |items| items.sink(odd.sink()))
        })
        .run()
        .await
        .unwrap();
    let digit = |id: &RecordId| id.position.get() % 10;
    let findings = world
        .checker()
        .filtered(move |id| matches!(digit(id), 0 | 1 | 4 | 8) && id.position.get() != 4)
        .sink("even", move |id| digit(id) == 6)
        .sink("odd", move |id| digit(id) % 2 == 1)
        .order(Order::Any)
        .check();
    // All twos and threes and the first four were diverted, and nothing else was.
    findings.assert_clean();
    assert_eq!(findings.duplicates, 0);
    let status = summary.status;
    // Fours and eights match no branch; they were batched with others and end as those do.
    assert_eq!((status.filtered, status.diverted, status.written), (600, 603, 1200));
    assert_eq!((status.read, status.committed, status.failed), (3000, 3000, 0));
    assert!(summary.ended);
}

/// P2
#[tokio::test(start_paused = true)]
async fn a_message_for_two_sinks_is_committed_when_both_have_written_it() {
    let world = World::with_numbers(1, 10);
    let slow = world.another_sink("slow");
    slow.gate().set_open(false);
    let flow = world.items().tee(|ways| {
        ways.to(|items| items.sink(world.sink.sink())).to(|items| items.sink(slow.sink()))
    });
    let running = flow.start().unwrap();
    world.sink.wait_for_items(10).await;
    pass(seconds(30)).await;
    assert_eq!(world.source.committed(0), None);
    slow.gate().set_open(true);
    let summary = running.wait().await.unwrap();
    assert_eq!((summary.status.written, world.committed(0)), (20, 10));
    world.checker().check().assert_clean();
}

/// P2, P36
#[tokio::test(start_paused = true)]
async fn a_message_that_both_sinks_refuse_is_one_dead_letter() {
    let world = World::with_numbers(1, 10);
    let other = world.another_sink("other");
    for sink in [&world.sink, &other] {
        sink.refuse_when(|item| (item.n == 3).then(|| "no threes".to_owned()));
    }
    other.refuse_when(|item| (item.n == 3 || item.n == 5).then(|| "no primes".to_owned()));
    let flow = world.items().tee(|ways| {
        ways.to(|items| items.sink(world.sink.sink())).to(|items| items.sink(other.sink()))
    });
    flow.run().await.unwrap();
    let letters: Vec<_> = world.dead.items().iter().map(|letter| letter.position.get()).collect();
    let mut sorted = letters.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [3, 5]);
    world.checker().partial_diversion().check().assert_clean();
    assert_eq!(world.committed(0), 10);
}

/// P1
#[tokio::test(start_paused = true)]
async fn a_later_success_does_not_carry_an_earlier_open_message_past() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..100);
    let gate = Gate::closed();
    let held = gate.clone();
    let running = world
        .items()
        .map_async(Concurrency::unordered(10), move |item| {
            let held = held.clone();
            async move {
                if item.n == 40 {
                    held.pass().await;
                }
                Ok::<_, String>(item)
            }
        })
        .sink(world.sink.sink())
        .start()
        .unwrap();
    world.sink.wait_for_items(99).await;
    world.source.wait_for_commit(0, 40).await;
    pass(seconds(30)).await;
    assert_eq!(world.committed(0), 40);
    gate.set_open(true);
    world.source.wait_for_commit(0, 100).await;
    world.checker().order(Order::Any).check().assert_clean();
    running.handle().stop();
    running.wait().await.unwrap();
}

/// P2
#[tokio::test(start_paused = true)]
async fn a_filter_before_a_batch_does_not_overtake_it() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..10);
    let sink = world.batch_sink("batches");
    let running = world
        .items()
        .filter(|item| item.n == 0)
        .batch(BatchLimits::count(100).every(seconds(20)))
        .sink(sink.sink())
        .start()
        .unwrap();
    pass(seconds(19)).await;
    assert_eq!(running.handle().status().filtered, 9);
    assert_eq!(world.source.committed(0), None, "the first message is still in the batch");
    world.source.wait_for_commit(0, 10).await;
    world.checker().filtered(|id| id.position.get() > 0).check().assert_clean();
    running.handle().stop();
    running.wait().await.unwrap();
}

/// P43, P32
#[tokio::test(start_paused = true)]
async fn a_closure_that_panics_diverts_that_message_alone_whichever_step_it_is_in() {
    fn boom(item: &Item, n: u64) -> bool {
        assert_ne!(item.n, n, "boom");
        true
    }
    let world = World::with_numbers(1, 20);
    let summary = world
        .records_with(virtual_settings())
        .filter_map(|record| {
            let item = Item::parse(record).ok()?;
            boom(&item, 0).then_some(item)
        })
        .map(|item| (boom(&item, 1), item).1)
        .try_map(|item| boom(&item, 2).then_some(item).ok_or("never"))
        .filter(|item| boom(item, 3))
        .filter_map(|item| boom(&item, 4).then_some(item))
        .inspect(|item| {
            boom(item, 5);
        })
        .flat_map(|item| boom(&item, 6).then_some(item))
        .flat_map(|item| {
            let copies = [item.clone(), item];
            copies.into_iter().enumerate().map(|(copy, item)| {
                assert!(item.n != 7 || copy == 0, "boom");
                item
            })
        })
        .branch(|branches| {
            branches
                .when(|item| boom(item, 8) && item.n == 9, |items| items.sink(world.sink.sink()))
                .otherwise(|items| items.sink(world.sink.sink()))
        })
        .run()
        .await
        .unwrap();
    let mut positions: Vec<_> = world.dead.items().iter().map(|l| l.position.get()).collect();
    positions.sort_unstable();
    assert_eq!(positions, (0..9).collect::<Vec<_>>());
    assert!(world.dead.items().iter().all(|letter| letter.error.contains("boom")));
    assert_eq!((summary.status.diverted, summary.status.committed), (9, 20));
    // The first copy of seven was written before the second one failed.
    world.checker().partial_diversion().order(Order::Any).check().assert_clean();
}

/// P48
#[tokio::test(start_paused = true)]
async fn steps_are_named_after_their_kind_or_as_told_in_branches_too() {
    let world = World::new(1);
    world.source.push_numbers(0, [0, 1, 2]);
    world.source.end();
    world
        .items()
        .tee(|ways| {
            ways.to(|items| {
                items
                    .named("both ways")
                    .try_map(|item| if item.n == 1 { Err("one") } else { Ok(item) })
                    .named("check")
                    .sink(world.sink.sink())
            })
            .to(|items| {
                items
                    .try_map(|item| if item.n == 2 { Err("two") } else { Ok(item) })
                    .sink(world.sink.sink())
                    .named("other")
            })
        })
        .run()
        .await
        .unwrap();
    let steps: Vec<_> = world.dead.items().into_iter().map(|l| (l.step, l.error)).collect();
    let named = |step: &str, error: &str| (step.to_owned(), error.to_owned());
    assert_eq!(steps, [named("check", "one"), named("try_map", "two")]);
}
