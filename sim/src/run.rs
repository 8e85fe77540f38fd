//! One run: starts the instances, lets things go wrong, and waits for everything to end well.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::log::{Error, Log};
use crate::mutant::Mutant;
use crate::pipeline::build;
use crate::rng::Rng;
use crate::scenario::{LogKind, Scenario};
use crate::source::BorderSource;
use crate::world::{Outcome, Tally, World};

/// How long everything may take once no fault happens any more, beside what the work needs.
const PATIENCE: Duration = Duration::from_secs(120);

/// What came of a run.
#[derive(Debug)]
pub struct Report {
    /// The hash of the trace.
    pub hash: u64,
    /// The events of the trace.
    pub events: u64,
    /// The virtual time it took.
    pub elapsed: Duration,
    /// What happened how often.
    pub tally: Tally,
    /// The rule that was broken, if one was.
    pub failure: Option<String>,
}

/// Runs a scenario to its end, in virtual time. `folder` is empty and its own.
pub fn run(
    scenario: &Arc<Scenario>,
    mutant: Option<Mutant>,
    print_trace: bool,
    folder: &Path,
) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing of the system");
    let (world, result, elapsed) = runtime.block_on(async {
        let world = World::new(Arc::clone(scenario), mutant, print_trace);
        let result = drive(&world, folder).await;
        let elapsed = world.now();
        (world, result, elapsed)
    });
    let violation = world.violation().map(|(at, violation)| {
        format!("after {:.3} s: {}: {}", at.as_secs_f64(), violation.rule, violation.what)
    });
    let failure = violation.or(result.err().map(|error| format!("the log failed: {error}")));
    let (hash, events, tally) = world.report();
    Report { hash, events, elapsed, tally, failure }
}

async fn drive(world: &World, folder: &Path) -> Result<(), Error> {
    let log = Arc::new(Mutex::new(Log::open(world, folder)?));
    let mut tasks: JoinSet<Result<(), Error>> = JoinSet::new();
    let at_start = produce_at_start(world, &log).await?;
    tasks.spawn(produce(world.clone(), Arc::clone(&log), at_start));
    tasks.spawn(act(world.clone(), Arc::clone(&log)));
    let mut rng = Rng::new(world.scenario().seed ^ 1);
    for instance in 0..world.scenario().instances.len() {
        tasks.spawn(live(world.clone(), Arc::clone(&log), instance, rng.fork()));
    }
    let deadline = world.scenario().faults.calm_at + PATIENCE + work_time(world.scenario());
    let complete = world.wait_for(|world| world.ask(|account| account.is_complete()));
    let finished = async {
        complete.await;
        world.check_promptness();
        if !world.scenario().bounded {
            world.check_idleness().await;
            world.retire();
        }
        while let Some(task) = tasks.join_next().await {
            task.map_err(Error::from).flatten()?;
            if world.violation().is_some() {
                return Ok(());
            }
        }
        for sink in 0..world.scenario().shape.sinks.len() {
            if world.scenario().writes_to_log(sink) {
                let found = log.lock().await.written(world, sink).await?;
                world.found_in_log(sink, found);
            }
        }
        Ok(())
    };
    tokio::select! {
        biased;
        result = finished => result,
        () = world.sleep_until(deadline) => {
            let left = world.ask(|account| account.first_open());
            let left = left.unwrap_or_else(|| "all is committed, but not everybody ended".into());
            world.violated("P31: nothing stands still", format!("{left}; {}", world.standing()));
            Ok(())
        }
    }
}

/// How long the slowest steps need for all records, one after another.
fn work_time(scenario: &Scenario) -> Duration {
    let one = scenario.shape.slowness() + scenario.settings.commit_every / 10;
    let results = (0..scenario.records.len() as u32).map(|record| {
        // In whichever partition it is: this is an estimate.
        crate::expect::expected(scenario, record, 0).len() as u32 + 1
    });
    one * results.sum::<u32>()
}

type Shared = Arc<Mutex<Log>>;

/// A source that ends must find what it ends behind.
async fn produce_at_start(world: &World, log: &Shared) -> Result<usize, Error> {
    let records = &world.scenario().records;
    let count = records.iter().take_while(|plan| plan.at.is_zero()).count();
    let mut log = log.lock().await;
    for (record, plan) in (0..).zip(&records[..count]) {
        log.append(world, record, *plan)?;
    }
    Ok(count)
}

async fn produce(world: World, log: Shared, from: usize) -> Result<(), Error> {
    let scenario = Arc::clone(world.scenario());
    for (record, plan) in (from as u32..).zip(&scenario.records[from..]) {
        world.sleep_until(plan.at).await;
        log.lock().await.append(&world, record, *plan)?;
    }
    Ok(())
}

async fn act(world: World, log: Shared) -> Result<(), Error> {
    let scenario = Arc::clone(world.scenario());
    for (at, action) in &scenario.faults.actions {
        world.sleep_until(*at).await;
        world.act(*action);
        log.lock().await.act(*action);
    }
    Ok(())
}

/// An instance lives, again and again until all is done.
async fn live(world: World, log: Shared, instance: usize, mut rng: Rng) -> Result<(), Error> {
    let scenario = Arc::clone(world.scenario());
    world.sleep_until(scenario.instances[instance].at).await;
    while !world.is_retired() {
        let incarnation = world.start(instance);
        let running = {
            let log = log.lock().await;
            let inner = log.source(&world, incarnation, instance)?;
            let source = BorderSource::new(world.clone(), incarnation, inner);
            let sinks = 0..scenario.shape.sinks.len();
            let logs = sinks.map(|sink| log.sink(&world, sink)).collect::<Result<_, _>>()?;
            build(&world, incarnation, source, logs).start()?
        };
        world.runs(incarnation, running.handle());
        let outcome = tokio::select! {
            biased;
            outcome = running.wait() => Some(outcome),
            () = world.crashed(incarnation) => None,
            () = overdue(&world, incarnation) => {
                let what = format!("incarnation {incarnation} didn't end");
                world.violated("P27: a stop has one deadline", what);
                return Ok(());
            }
        };
        if let Some(outcome) = &outcome {
            world.ended(incarnation, outcome);
        }
        if outcome.is_some_and(|outcome| came_to_its_end(&outcome)) {
            return Ok(());
        }
        let pause = rng.millis(10, 600);
        world.pause_before_restart(pause).await;
    }
    Ok(())
}

async fn overdue(world: &World, incarnation: u32) {
    let stopped_at = world.stopped(incarnation).await;
    loop {
        let deadline = world.must_end_by(incarnation, stopped_at);
        if deadline < world.now() {
            return;
        }
        world.sleep_until(deadline + Duration::from_millis(1)).await;
    }
}

fn came_to_its_end(outcome: &Outcome) -> bool {
    matches!(outcome, Ok(summary) if summary.ended)
}

/// A scenario's seed run twice, and what came of it.
#[derive(Debug)]
pub struct Checked {
    /// The first run.
    pub report: Report,
    /// What went wrong: a rule that was broken, or two runs that differ.
    pub failure: Option<String>,
}

/// Runs a seed twice; both runs must be the same.
pub fn check(seed: u64, log: Option<LogKind>, mutant: Option<Mutant>, scratch: &Path) -> Checked {
    let scenario = Arc::new(Scenario::new(seed, log));
    let run_in = |name: &str| {
        let folder = scratch.join(name);
        if let Err(error) = std::fs::create_dir_all(&folder) {
            return Err(format!("{}: {error}", folder.display()));
        }
        let report = run(&scenario, mutant, false, &folder);
        // What can't be removed now is removed with the folder around it.
        let _ = std::fs::remove_dir_all(&folder);
        Ok(report)
    };
    let (first, second) = match (run_in("first"), run_in("second")) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(error), _) | (_, Err(error)) => {
            return Checked { report: Report::failed(error.clone()), failure: Some(error) };
        }
    };
    let differs = (first.hash, first.events) != (second.hash, second.events);
    let failure = first.failure.clone().or_else(|| {
        differs.then(|| {
            format!(
                "the same seed took two courses: {} events with hash {:016x}, then {} with {:016x}",
                first.events, first.hash, second.events, second.hash
            )
        })
    });
    Checked { report: first, failure }
}

impl Report {
    fn failed(failure: String) -> Self {
        Self {
            hash: 0,
            events: 0,
            elapsed: Duration::ZERO,
            tally: Tally::default(),
            failure: Some(failure),
        }
    }
}
