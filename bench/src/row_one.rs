//! The pipeline of the design's first target, in every system.

use tidegate_runtime::Threads;

use crate::measure::{Case, take_turns};
use crate::table::{Table, figure, times};
use crate::work::Payloads;
use crate::{bare, engine};

/// Bytes in a record.
const SIZE: usize = 100;
const TURNS: usize = 9;
/// Messages in one turn: the slower system gets fewer, so that turns take about the same time.
const MESSAGES: u64 = 8_000_000;
#[cfg(feature = "peers")]
const MESSAGES_ARROYO: u64 = 600_000;

const OURS: &str = "Tidegate, one core";
const BARE: &str = "bare loop";
const ARROYO: &str = "sentry_arroyo";

/// What the last line says.
pub struct Figures {
    pub ns_per_message: f64,
    pub allocs_per_message: f64,
    /// Without the feature `peers` there is none.
    pub ratio_sentry_arroyo: Option<f64>,
    pub ratio_bare_loop: f64,
}

/// Measures, prints the table, and returns the figures of the first row.
pub fn run() -> Figures {
    let (good, mixed) = (Payloads::new(SIZE), Payloads::with_failures(SIZE));
    let own = |workers| Threads::Own { workers };
    let mut cases = vec![
        Case::new(OURS, MESSAGES, || engine::run(&good, MESSAGES, Threads::Current)),
        Case::new(BARE, MESSAGES, || bare::run(&good, MESSAGES)),
        Case::new("Tidegate, source and worker threads", MESSAGES, || {
            engine::run(&good, MESSAGES, own(1));
        }),
        Case::new("Tidegate, one core, 1 % dead letters", MESSAGES, || {
            engine::run(&mixed, MESSAGES, Threads::Current);
        }),
    ];
    #[cfg(feature = "peers")]
    cases.extend([
        Case::new(ARROYO, MESSAGES_ARROYO, || crate::arroyo::run(&good, MESSAGES_ARROYO)),
        Case::new("sentry_arroyo, 1 % dead letters", MESSAGES_ARROYO, || {
            crate::arroyo::run(&mixed, MESSAGES_ARROYO);
        }),
    ]);
    take_turns(TURNS, &mut cases);
    let allocations: Vec<f64> = cases.iter_mut().map(Case::allocations).collect();
    let mut table = Table::new(&["", "ns CPU", "ns wall", "allocations", "× Tidegate's CPU"]);
    for (case, allocations) in cases.iter().zip(&allocations) {
        let turn = case.median();
        let ratio = times(case.ratio_to(&cases[0]));
        let figures = [figure(turn.cpu), figure(turn.wall), format!("{allocations:.3}"), ratio];
        table.row(&case.name, figures);
    }
    table.print(
        "The pipeline: try_map → filter → map → batch(1000) → null sink",
        "A message of 100 B, one partition, commits every 100 ms, dead letters configured. CPU is \
         the time of all threads.",
    );
    let case = |name| cases.iter().find(|case: &&Case<'_>| case.name == name);
    Figures {
        ns_per_message: cases[0].median().cpu,
        allocs_per_message: allocations[0],
        ratio_sentry_arroyo: case(ARROYO).map(|arroyo| arroyo.ratio_to(&cases[0])),
        ratio_bare_loop: case(BARE).map_or(f64::NAN, |bare| cases[0].ratio_to(bare)),
    }
}
