//! The process dies at a named point, and another one goes on.

use tidegate_runtime::Running;
use tidegate_testkit::{Checker, Fault, Process, pass};

use crate::support::{Item, World, commit_every, seconds};

fn start(world: &World, process: &Process) -> Running {
    let source = world.source.source_in(process);
    tidegate_runtime::Pipeline::new("shop")
        .settings(commit_every(seconds(1)))
        .dead_letters(world.dead.sink_in(process))
        .source(source)
        .try_map(Item::parse)
        .filter(|item| item.n % 10 != 9)
        .sink(world.sink.sink_in(process))
        .start()
        .unwrap()
}

fn checker(world: &World) -> Checker<'_> {
    world.checker().filtered(|id| id.position.get() % 10 == 9)
}

/// P13, P7, P1
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_point_loses_nothing_and_repeats_what_was_not_committed() {
    let (before, after) = (Fault::crash(), Fault::work().and(Fault::crash()));
    type Plan = fn(&World, Fault);
    let points: [(&str, Plan, &Fault, usize); 7] = [
        ("before a write", |world, fault| world.sink.write_faults().plan(fault), &before, 0),
        ("after a write", |world, fault| world.sink.write_faults().plan(fault), &after, 90),
        ("before a commit", |world, fault| world.source.commit_faults().plan(fault), &before, 90),
        ("after a commit", |world, fault| world.source.commit_faults().plan(fault), &after, 0),
        ("before a dead letter", |world, fault| world.dead.write_faults().plan(fault), &before, 90),
        ("after a dead letter", |world, fault| world.dead.write_faults().plan(fault), &after, 90),
        ("while reading", |world, _| world.source.crash(), &before, 90),
    ];
    for (point, crash, fault, most_repeated) in points {
        let world = World::new(1);
        world.source.push_numbers(0, 0..50);
        world.source.push(0, "fifty");
        world.source.push_numbers(0, 51..100);
        crash(&world, fault.clone());
        let process = Process::new();
        let left_behind = start(&world, &process);
        process.crashed().await;
        pass(seconds(60)).await;
        checker(&world).check().early_commits.is_empty().then_some(()).expect(point);

        world.source.push_numbers(0, 100..200);
        world.source.end();
        let summary = start(&world, &Process::new()).wait().await.unwrap();
        let findings = checker(&world).check();
        assert!(findings.is_clean(), "{point}: {findings:?}");
        assert!(findings.duplicates <= most_repeated, "{point}: {}", findings.duplicates);
        assert_eq!(world.committed(0), 200, "{point}");
        assert!(summary.status.read >= 100, "{point}");
        assert!(world.dead.items().len() <= 2, "{point}");
        drop(left_behind);
    }
}
