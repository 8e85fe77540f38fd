//! Messages that fail: what stops, what goes on, what is said.

use tidegate_core::{SinkCapabilities, SourceError};
use tidegate_runtime::{
    BatchLimits, Concurrency, Limits, Pipeline, PipelineErrorKind, RetryPolicy, Settings,
};
use tidegate_testkit::{Fault, RecordId, pass, virtual_settings};

use crate::support::{Item, World, assert_says, error_of, seconds};

/// P41, P48, P1
#[tokio::test(start_paused = true)]
async fn without_dead_letters_a_failed_message_stops_the_pipeline_and_is_not_committed() {
    let world = World::new(1);
    world.source.push_numbers(0, 0..17);
    world.source.push(0, "seventeen");
    world.source.push_numbers(0, 18..30);
    let running = world.items_or_stop().sink(world.sink.sink()).start().unwrap();
    let handle = running.handle();
    let error = error_of(running.wait().await);
    assert_says(
        &error,
        &[
            "pipeline shop",
            "step parse (",
            "support.rs:",
            "at t[0]@17",
            "attempt 1",
            "invalid digit",
        ],
    );
    assert_eq!(world.committed(0), 17);
    assert!(world.numbers().starts_with(&(0..17).collect::<Vec<_>>()));
    assert!(!world.numbers().contains(&17));
    assert_eq!((handle.status().failed, handle.status().in_flight), (1, 0));
}

/// P48
#[tokio::test(start_paused = true)]
async fn the_error_of_a_step_names_every_cause_the_users_first() {
    let world = World::new(1);
    world.source.push(0, "1");
    let outcome = world
        .items_or_stop()
        .try_map(|item| {
            let cause = SourceError::stop("price is missing").with_source("row 7 is short");
            if item.n == 1 { Err(cause) } else { Ok(item) }
        })
        .named("price")
        .sink(world.sink.sink())
        .run()
        .await;
    let PipelineErrorKind::Message { step, partition, position, attempt, .. } =
        outcome.as_ref().unwrap_err().kind()
    else {
        panic!("{outcome:?}")
    };
    assert!(step.starts_with("price (") && step.contains("failures.rs:"), "{step}");
    assert_eq!((partition.to_string(), position.unwrap().get()), ("t[0]".to_owned(), 0));
    assert_eq!(*attempt, 1);
    assert_says(&error_of(outcome), &["price is missing: row 7 is short"]);
}

/// P43, P36
#[tokio::test(start_paused = true)]
async fn an_item_that_the_sink_refuses_is_diverted_and_its_neighbours_are_written() {
    let world = World::with_numbers(2, 1000);
    world.sink.refuse_when(|item| (item.n % 100 == 7).then(|| "seven of hundred".to_owned()));
    let summary = world.items().sink(world.sink.sink()).run().await.unwrap();
    let status = summary.status;
    assert_eq!((status.written, status.diverted, status.committed), (1980, 20, 2000));
    world.checker().check().assert_clean();
    let letters = world.dead.items();
    for letter in &letters {
        assert_eq!((letter.pipeline.as_str(), letter.step.as_str()), ("shop", "sink"));
        assert_eq!(letter.error, "seven of hundred");
        assert_eq!(letter.payload, Some(letter.position.to_string().into_bytes()));
        assert!(letter.failed_at >= tidegate_testkit::EPOCH);
    }
    assert_eq!(letters.len(), 20);
}

/// P43
#[tokio::test(start_paused = true)]
async fn a_batch_that_the_sink_refuses_is_diverted_whole_and_other_batches_are_not() {
    let world = World::with_numbers(1, 30);
    let sink = world.batch_sink("batches");
    sink.refuse_when(|batch: &Vec<Item>| (batch[0].n == 10).then(|| "second batch".to_owned()));
    world.items().batch(BatchLimits::count(10)).sink(sink.sink()).run().await.unwrap();
    let letters: Vec<_> = world.dead.items().iter().map(|l| l.position.get()).collect();
    assert_eq!(letters, (10..20).collect::<Vec<_>>());
    world.checker().check().assert_clean();
}

/// P49, P44
#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_can_not_be_written_stops_the_pipeline_and_holds_the_frontier() {
    let failing: [fn(&World); 2] = [
        |world| world.dead.write_faults().always(Fault::fail_for_good("the disk is full")),
        |world| world.dead.refuse_when(|_| Some("the disk is full".to_owned())),
    ];
    for fail in failing {
        let world = World::new(1);
        world.source.push_numbers(0, 0..5);
        world.source.push(0, "five");
        world.source.push_numbers(0, 6..10);
        fail(&world);
        let error = error_of(world.items().sink(world.sink.sink()).run().await);
        assert_says(&error, &["pipeline shop", "sink dead letters (", "the disk is full"]);
        assert_eq!(world.committed(0), 5);
        assert!(world.dead.items().is_empty());
    }
}

/// P49, P7
#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_durable_before_its_message_settles() {
    let world = World::new(1);
    world.source.push(0, "zero");
    world.source.push_numbers(0, 1..10);
    world.dead.write_faults().plan_times(5, Fault::fail("locked"));
    world.dead.write_faults().plan(Fault::lose_reply());
    world.dead.gate().set_open(false);
    let running = world.items().sink(world.sink.sink()).start().unwrap();
    pass(seconds(30)).await;
    assert_eq!((world.source.committed(0), world.numbers().len()), (None, 9));
    world.dead.gate().set_open(true);
    world.source.wait_for_commit(0, 10).await;
    assert_eq!(world.dead.items().len(), 2, "the same letter, since the first reply got lost");
    world.source.end();
    let summary = running.wait().await.unwrap();
    assert_eq!((summary.status.diverted, summary.status.committed), (1, 10));
}

/// P36, P35
#[tokio::test(start_paused = true)]
async fn more_dead_letters_than_one_write_takes_are_all_written() {
    let world = World::new(1);
    for n in 0..3000 {
        world.source.push(0, format!("word {n}"));
    }
    world.source.end();
    let dead = world.dead.clone().capabilities(SinkCapabilities::new().max_items(7));
    let summary = world.items().sink(world.sink.sink()).run().await.unwrap();
    assert_eq!((summary.status.diverted, summary.status.committed), (3000, 3000));
    assert!(dead.batches().iter().all(|batch| batch.len() <= 7));
    let payloads: Vec<_> = dead.items().into_iter().filter_map(|letter| letter.payload).collect();
    let expected: Vec<_> = (0..3000).map(|n| format!("word {n}").into_bytes()).collect();
    assert_eq!(payloads, expected);
}

/// P7
#[tokio::test(start_paused = true)]
async fn a_sink_that_stays_away_stops_the_pipeline_at_the_named_limit() {
    let world = World::with_numbers(1, 100);
    world.sink.write_faults().always(Fault::fail("connection refused"));
    let retry = RetryPolicy { give_up_after: seconds(90), ..RetryPolicy::default() };
    let settings = Settings { retry, ..virtual_settings() };
    let begin = tokio::time::Instant::now();
    let outcome = world.items_with(settings).sink(world.sink.sink()).named("table").run().await;
    assert!(matches!(outcome.as_ref().unwrap_err().kind(), PipelineErrorKind::Sink { .. }));
    assert_says(&error_of(outcome), &["sink table (", "failures.rs:", "connection refused"]);
    let took = begin.elapsed().as_secs();
    assert!((90..110).contains(&took), "it took {took} s");
    assert!(world.dead.items().is_empty(), "a dependency that is down fills no dead letters");
    assert_eq!(world.source.committed(0), None);
}

/// P47
#[tokio::test(start_paused = true)]
async fn a_sink_that_fails_for_good_diverts_nothing() {
    let world = World::with_numbers(1, 100);
    world.sink.write_faults().plan(Fault::fail_for_good("no such table"));
    let error = error_of(world.items().sink(world.sink.sink()).run().await);
    assert_says(&error, &["no such table"]);
    assert!(world.dead.items().is_empty());
    assert_eq!(world.source.committed(0), None);
}

/// P47
#[tokio::test(start_paused = true)]
async fn what_stops_with_a_failed_pipeline_is_released_and_not_counted_as_failed() {
    let world = World::new(2);
    let limits = Limits { chunk_messages: 10, ..Limits::default() };
    let settings = Settings { limits, ..virtual_settings() };
    world.source.push_numbers(0, 0..100);
    world.source.push(1, "1");
    world.source.end();
    let pipeline = Pipeline::new("shop").settings(settings).source(world.source.source());
    let running = pipeline
        .try_map(Item::parse)
        .map_async(Concurrency::ordered(2), |item| async move {
            tokio::time::sleep(seconds(1)).await;
            if item.n == 25 { Err("no more") } else { Ok(item) }
        })
        .sink(world.sink.sink())
        .start()
        .unwrap();
    let handle = running.handle();
    assert_says(&error_of(running.wait().await), &["t[0]@25", "no more"]);
    let status = handle.status();
    assert_eq!((status.read, status.failed, status.in_flight), (101, 1, 0));
    assert_eq!(status.committed, 26, "25 of one partition and all of the other");
}

/// P1, P14
#[tokio::test(start_paused = true)]
async fn what_is_not_concerned_by_a_failure_is_committed_before_the_end() {
    let world = World::new(2);
    world.source.push_numbers(0, 0..100);
    world.source.push(1, "one");
    world.sink.write_faults().plan(Fault::delay(seconds(3)));
    let error = error_of(world.items_or_stop().sink(world.sink.sink()).run().await);
    assert_says(&error, &["t[1]@0"]);
    assert_eq!((world.committed(0), world.source.committed(1)), (100, None));
    let other = |id: &RecordId| id.partition.index() == Some(1);
    world.checker().filtered(other).check().assert_clean();
}

#[tokio::test(start_paused = true)]
async fn every_setting_that_makes_no_sense_is_reported_at_once_and_nothing_is_read() {
    let world = World::with_numbers(1, 10);
    let retry = RetryPolicy { first: seconds(0), ..RetryPolicy::default() };
    let settings = Settings { retry, stall_after: seconds(0), ..virtual_settings() };
    let outcome = Pipeline::new("")
        .settings(settings)
        .source(world.source.source())
        .try_map(Item::parse)
        .throttle(0, seconds(1))
        .batch(BatchLimits::count(0))
        .unbatch()
        .named("")
        .sink(world.sink.sink())
        .run()
        .await;
    let PipelineErrorKind::Settings(problems) = outcome.as_ref().unwrap_err().kind() else {
        panic!("{outcome:?}")
    };
    assert_eq!(problems.len(), 6, "{problems:#?}");
    assert_eq!((world.source.polls(), world.sink.opened()), (0, 0));
}
