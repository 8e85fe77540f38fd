//! `tidegate-bench engine [part…]` measures the engine in memory; parts are `row`, `steps`,
//! `ledger` and `growth`, all of them by default. The last line is for scripts.
//! `tidegate-bench profile` runs the first row's pipeline for some seconds, for a profiler.

mod alloc;
#[cfg(feature = "peers")]
mod arroyo;
mod bare;
mod engine;
mod growth;
mod ledger;
mod measure;
mod memory;
mod row_one;
mod steps;
mod table;
mod work;

use std::process::ExitCode;

use tidegate_runtime::Threads;

const USAGE: &str = "usage: tidegate-bench engine [row|steps|ledger|growth]… | profile";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["profile"] => engine::run(&work::Payloads::new(100), 300_000_000, Threads::Current),
        ["engine", parts @ ..] if parts.iter().all(|part| PARTS.contains(part)) => measure(parts),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

const PARTS: [&str; 4] = ["row", "steps", "ledger", "growth"];

fn measure(parts: &[&str]) {
    let wants = |part| parts.is_empty() || parts.contains(&part);
    let figures = wants("row").then(row_one::run);
    if wants("steps") {
        steps::run();
    }
    if wants("ledger") {
        ledger::run();
    }
    if wants("growth") {
        growth::run();
    }
    if let Some(figures) = figures {
        println!(
            "\nengine ns_per_message={:.1} allocs_per_message={:.3} ratio_sentry_arroyo={} \
             ratio_bare_loop={:.2}",
            figures.ns_per_message,
            figures.allocs_per_message,
            figures.ratio_sentry_arroyo.map_or("none".to_owned(), |ratio| format!("{ratio:.1}")),
            figures.ratio_bare_loop
        );
    }
}
