//! Runs seeds and says which failed.

mod options;
mod watchdog;

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use options::{HELP, Options, Request};
use tidegate_sim::run::{Report, check, run};
use tidegate_sim::scenario::Scenario;
use tidegate_sim::world::Tally;
use tokio::time::Instant;
use watchdog::Watchdog;

/// How often the progress is printed.
const PROGRESS: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let options = match Request::parse(std::env::args().skip(1)) {
        Ok(Request::Run(options)) => options,
        Ok(Request::Help) => return print(HELP),
        Ok(Request::Mutants) => {
            let names = tidegate_sim::mutant::Mutant::ALL.map(|mutant| mutant.name());
            return print(&(names.join("\n") + "\n"));
        }
        Err(problem) => {
            say(&problem);
            return ExitCode::from(2);
        }
    };
    let scratch = match scratch() {
        Ok(scratch) => scratch,
        Err(error) => {
            say(&format!("there is no room for the logs: {error}"));
            return ExitCode::from(2);
        }
    };
    if options.trace {
        return trace(&options, scratch.path());
    }
    name_the_seed_of_a_panic();
    let total = Total::default().run(&options, scratch.path());
    print(&total.to_string());
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// In memory where there is such a place: the logs are written to disk with every commit.
fn scratch() -> std::io::Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix("tidegate-sim-")
        .tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
}

fn trace(options: &Options, scratch: &Path) -> ExitCode {
    let seed = options.seeds.start;
    let scenario = Arc::new(Scenario::new(seed, options.log));
    print(&format!("{scenario:#?}\n"));
    let watchdog = Watchdog::start();
    watchdog.begins(seed, options.command(seed));
    let report = run(&scenario, options.mutant, true, scratch);
    print(&format!("{:?}\n", report.tally));
    match report.failure {
        Some(failure) => {
            say(&format!("seed {seed} failed {failure}"));
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}

/// The seed that runs now.
static SEED: AtomicU64 = AtomicU64::new(0);

/// A panic that is not injected may end the process before its seed is reported. (Injected ones
/// don't come here.)
fn name_the_seed_of_a_panic() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        say(&format!("seed {} failed: a panic", SEED.load(Ordering::Relaxed)));
        default(info);
    }));
}

/// What came of all seeds.
#[derive(Default)]
struct Total {
    passed: u64,
    failed: u64,
    events: u64,
    virtual_time: Duration,
    tally: Tally,
    real_time: Duration,
}

impl Total {
    fn run(mut self, options: &Options, scratch: &Path) -> Self {
        let (start, watchdog) = (Instant::now(), Watchdog::start());
        let mut told_at = start;
        for seed in options.seeds.clone() {
            if options.time.is_some_and(|time| start.elapsed() >= time) {
                break;
            }
            SEED.store(seed, Ordering::Relaxed);
            watchdog.begins(seed, options.command(seed));
            let checked = check(seed, options.log, options.mutant, scratch);
            self.add(&checked.report);
            match checked.failure {
                None => self.passed += 1,
                Some(failure) => {
                    self.failed += 1;
                    say(&format!("seed {seed} failed {failure}\n  {}", options.command(seed)));
                }
            }
            if told_at.elapsed() >= PROGRESS {
                told_at = Instant::now();
                say(&format!("{} passed, {} failed so far", self.passed, self.failed));
            }
        }
        self.real_time = start.elapsed();
        self
    }

    fn add(&mut self, report: &Report) {
        self.events += report.events;
        self.virtual_time += report.elapsed;
        self.tally.add(report.tally);
    }
}

impl std::fmt::Display for Total {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seeds = self.passed + self.failed;
        writeln!(f, "{}", self.tally)?;
        writeln!(
            f,
            "{} events in {} s of virtual time; {:.1} s, {:.0} seeds a second (each runs twice)",
            self.events,
            self.virtual_time.as_secs(),
            self.real_time.as_secs_f64(),
            seeds as f64 / self.real_time.as_secs_f64().max(0.001)
        )?;
        writeln!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// A reader that has gone away is no reason to fail.
fn print(text: &str) -> ExitCode {
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn say(text: &str) {
    let mut stderr = std::io::stderr();
    let _ = writeln!(stderr, "{text}");
    if stderr.is_terminal() {
        let _ = stderr.flush();
    }
}
