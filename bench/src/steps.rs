//! What one more step costs: a pipeline with it against the same pipeline without it.

use std::future::ready;
use std::time::Duration;

use tidegate_core::BoxError;
use tidegate_runtime::{BatchLimits, Concurrency, Flow, Origin, Pipeline, Stream, Threads, Top};

use crate::engine::{run_flow, settings};
use crate::measure::{Case, take_turns};
use crate::memory::{MemorySource, NullSink};
use crate::table::{Table, figure};
use crate::work::Payloads;

const TURNS: usize = 5;
const MESSAGES: u64 = 1_000_000;
/// Calls at a time in the async steps.
const CALLS: usize = 64;

type Numbers = Stream<Top, u64>;

/// Measures each kind of step and prints the table.
pub fn run() {
    let payloads = Payloads::new(100);
    let case = |name: &str, end: fn(Numbers) -> Flow<Top>| {
        let payloads = payloads.clone();
        Case::new(name, MESSAGES, move || drop(run_flow(end(numbers(&payloads)))))
    };
    let mut cases = [
        case("(none: source → map → sink)", sink),
        case("map", |numbers| sink(numbers.map(|number| number + 1))),
        case("try_map", |numbers| sink(numbers.try_map(|number| Ok::<_, BoxError>(number + 1)))),
        case("inspect", |numbers| {
            sink(numbers.inspect(|number| {
                std::hint::black_box(number);
            }))
        }),
        case("filter, keeps all", |numbers| sink(numbers.filter(|number| *number != u64::MAX))),
        case("filter, keeps 9 in 10", |numbers| sink(numbers.filter(|number| number % 10 != 0))),
        case("filter_map", |numbers| sink(numbers.filter_map(|number| Some(number + 1)))),
        case("flat_map, 1 → 1", |numbers| sink(numbers.flat_map(|number| [number]))),
        case("flat_map, 1 → 4", |numbers| sink(numbers.flat_map(|number| [number; 4]))),
        case("batch(1000)", |numbers| {
            numbers.batch(BatchLimits::count(1000)).sink(NullSink::new())
        }),
        case("batch(1000), unbatch", |numbers| {
            sink(numbers.batch(BatchLimits::count(1000)).unbatch())
        }),
        case("throttle, far below its rate", |numbers| {
            sink(numbers.throttle(u32::MAX, Duration::from_secs(1)))
        }),
        case("branch, 2 sinks", |numbers| {
            numbers.branch(|to| to.when(|number| number % 2 == 0, sink).otherwise(sink))
        }),
        case("tee, 2 sinks", |numbers| numbers.tee(|to| to.to(sink).to(sink))),
        case("map_async, unordered", |numbers| {
            asynchronous(numbers, Concurrency::unordered(CALLS))
        }),
        case("map_async, ordered", |numbers| asynchronous(numbers, Concurrency::ordered(CALLS))),
        case("map_async, key_ordered", |numbers| {
            asynchronous(numbers, Concurrency::key_ordered(CALLS, |number| *number % 1000))
        }),
    ];
    take_turns(TURNS, &mut cases);
    let allocations: Vec<f64> = cases.iter_mut().map(Case::allocations).collect();
    let mut table = Table::new(&["step", "ns more", "allocations more"]);
    for (case, allocated) in cases.iter().zip(&allocations) {
        let (more, allocated) = match case.name.starts_with('(') {
            true => (case.median().cpu, *allocated),
            false => (case.beyond(&cases[0]), allocated - allocations[0]),
        };
        table.row(&case.name, [figure(more), format!("{allocated:.3}")]);
    }
    table.print(
        "Steps",
        "CPU time a message that the step adds on one core. `map_async` calls futures that are \
         ready at once, up to 64 at a time; `branch` and `tee` include their second sink.",
    );
}

fn numbers(payloads: &Payloads) -> Numbers {
    let settings = settings(Threads::Current);
    let chunk = settings.limits.chunk_messages;
    Pipeline::new("steps")
        .settings(settings)
        .dead_letters(NullSink::new())
        .source(MemorySource::new(payloads.clone(), MESSAGES, 1, chunk))
        .map(|record| record.position().get())
}

fn sink<O: Origin>(numbers: Stream<O, u64>) -> Flow<O> {
    numbers.sink(NullSink::new())
}

fn asynchronous(numbers: Numbers, concurrency: Concurrency<u64>) -> Flow<Top> {
    sink(numbers.map_async(concurrency, |number| ready(Ok::<_, BoxError>(number + 1))))
}
