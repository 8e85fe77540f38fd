//! How cost and memory grow with the size of things.

use std::time::Duration;

use tidegate_core::BoxError;
use tidegate_runtime::{Concurrency, Pipeline, Threads};

use crate::bare;
use crate::engine::{run_flow, run_from, settings};
use crate::measure::{Case, take_turns};
use crate::memory::{MemorySource, NullSink};
use crate::table::{Table, bytes, figure};
use crate::work::{BATCH, Payloads};

const TURNS: usize = 3;

/// Measures all of them and prints their tables.
pub fn run() {
    partitions();
    steps();
    calls_in_flight();
    message_size();
}

fn partitions() {
    const MESSAGES: u64 = 5_000_000;
    const CHUNK: usize = 100;
    let payloads = Payloads::new(100);
    let sizes = [1, 10, 100, 1000, 10_000];
    let mut cases = sizes.map(|partitions| {
        let payloads = payloads.clone();
        Case::new(format!("{partitions}"), MESSAGES, move || {
            let source = MemorySource::new(payloads.clone(), MESSAGES, partitions, CHUNK);
            run_from(source, &payloads, MESSAGES, Threads::Current, None);
        })
    });
    take_turns(TURNS, &mut cases);
    let columns = ["partitions", "ns CPU", "ns wall", "memory", "memory a partition"];
    let mut table = Table::new(&columns);
    for (case, count) in cases.iter_mut().zip(sizes) {
        let (turn, memory) = (case.median(), case.peak_bytes());
        let each = bytes(memory / f64::from(count));
        table.row(&case.name, [figure(turn.cpu), figure(turn.wall), bytes(memory), each]);
    }
    table.print(
        "Partitions",
        "The pipeline above without its batch, in chunks of 100, all partitions active at once, 5 M \
         messages in all. Memory is the peak of what is allocated, records in flight included.",
    );
}

fn steps() {
    const MESSAGES: u64 = 1_000_000;
    let payloads = Payloads::new(100);
    let mut cases = [1, 2, 4, 8, 16, 32, 64].map(|steps| {
        let payloads = payloads.clone();
        Case::new(format!("{steps}"), MESSAGES, move || {
            let settings = settings(Threads::Current);
            let chunk = settings.limits.chunk_messages;
            let source = MemorySource::new(payloads.clone(), MESSAGES, 1, chunk);
            let mut stream = Pipeline::new("steps")
                .settings(settings)
                .source(source)
                .map(|r| r.position().get());
            for _ in 1..steps {
                stream = stream.map(|number| number.wrapping_mul(3));
            }
            run_flow(stream.sink(NullSink::new()));
        })
    });
    take_turns(TURNS, &mut cases);
    let mut table = Table::new(&["steps", "ns CPU"]);
    for case in &cases {
        table.row(&case.name, [figure(case.median().cpu)]);
    }
    table.print("Steps in a row", "source → `map` so many times → null sink.");
}

fn calls_in_flight() {
    let payloads = Payloads::new(100);
    let sizes = [1, 10, 100, 1000, 10_000];
    let mut cases = sizes.map(|calls: usize| {
        let payloads = payloads.clone();
        // One call takes 1 ms, so this is about a quarter of a second, if not for the CPU.
        let messages = (calls as u64 * 200).min(400_000);
        Case::new(format!("{calls}"), messages, move || {
            let settings = settings(Threads::Current);
            let chunk = settings.limits.chunk_messages;
            let source = MemorySource::new(payloads.clone(), messages, 1, chunk);
            let flow = Pipeline::new("calls")
                .settings(settings)
                .source(source)
                .map(|record| record.position().get())
                .map_async(Concurrency::unordered(calls), |number| async move {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    Ok::<_, BoxError>(number)
                })
                .sink(NullSink::new());
            run_flow(flow);
        })
    });
    take_turns(TURNS, &mut cases);
    let mut table = Table::new(&["calls at a time", "ns CPU", "ns wall", "memory"]);
    for case in &mut cases {
        let (turn, memory) = (case.median(), case.peak_bytes());
        table.row(&case.name, [figure(turn.cpu), figure(turn.wall), bytes(memory)]);
    }
    table.print(
        "Async messages in flight",
        "source → map → `map_async`, unordered, each call waits for a timer of 1 ms → null sink. \
         The timer's own cost is in it.",
    );
}

fn message_size() {
    let sizes = [100, 1 << 10, 10 << 10, 100 << 10, 1 << 20];
    let messages = |size: usize| ((1 << 29) / size as u64).min(2_000_000);
    let all = sizes.map(Payloads::new);
    let mut cases: Vec<Case<'_>> = Vec::new();
    for payloads in &all {
        let (size, messages) = (payloads.size(), messages(payloads.size()));
        cases.push(Case::new(bytes(size as f64), messages, move || {
            let chunk = settings(Threads::Current).limits.chunk_messages;
            let source = MemorySource::new(payloads.clone(), messages, 1, chunk);
            let batch = BATCH.min((16 << 20) / size);
            run_from(source, payloads, messages, Threads::Current, Some(batch));
        }));
        cases.push(Case::new("bare loop", messages, move || bare::run(payloads, messages)));
    }
    take_turns(TURNS, &mut cases);
    let columns = ["message", "ns CPU", "ns CPU, bare loop", "GB/s", "memory"];
    let mut table = Table::new(&columns);
    for (pair, payloads) in cases.chunks_exact_mut(2).zip(&all) {
        let (cpu, bare) = (pair[0].median().cpu, pair[1].median().cpu);
        let (rate, memory) = (payloads.size() as f64 / cpu, pair[0].peak_bytes());
        table.row(&pair[0].name, [figure(cpu), figure(bare), format!("{rate:.1}"), bytes(memory)]);
    }
    table.print(
        "Message size",
        "The pipeline above, which copies each payload once. A batch keeps the records it was made \
         from until it is written, so it has 16 MiB of them at most here: the budget is 64 MiB.",
    );
}
