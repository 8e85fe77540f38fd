//! Row one: try_map, filter, map, batch, null sink, with commits and dead letters.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tidegate_runtime::{
    BatchLimits, CommitPolicy, Flow, Pipeline, Settings, Summary, Threads, Top,
};

use crate::memory::{MemorySource, NullSink};
use crate::work::{BATCH, Payloads, convert, keep, parse};

/// Commits come ten times as often as by default, so that a short run has some too.
pub const COMMIT_EVERY: Duration = Duration::from_millis(100);

/// The settings of all benchmarks but for where they run.
pub fn settings(threads: Threads) -> Settings {
    let commit = CommitPolicy { every: COMMIT_EVERY, ..CommitPolicy::default() };
    Settings { threads, commit, ..Settings::default() }
}

/// Handles so many messages of one partition, and checks that all are accounted for.
pub fn run(payloads: &Payloads, messages: u64, threads: Threads) {
    let chunk = settings(threads).limits.chunk_messages;
    let source = MemorySource::new(payloads.clone(), messages, 1, chunk);
    run_from(source, payloads, messages, threads, Some(BATCH));
}

/// The same from this source, in batches of `batch`, or one by one.
pub fn run_from(
    source: MemorySource,
    payloads: &Payloads,
    messages: u64,
    threads: Threads,
    batch: Option<usize>,
) {
    let (letters, committed) = (NullSink::new(), source.committed());
    let (batches, singles) = (NullSink::new(), NullSink::new());
    let (kept, diverted) = ([batches.counter(), singles.counter()], letters.counter());
    let numbers = Pipeline::new("engine")
        .settings(settings(threads))
        .dead_letters(letters)
        .source(source)
        .try_map(|record| parse(record.payload()))
        .filter(keep)
        .map(convert);
    let status = run_flow(match batch {
        Some(count) => numbers.batch(BatchLimits::count(count)).sink(batches),
        None => numbers.sink(singles),
    })
    .status;
    let kept: u64 = kept.iter().map(|count| count.load(Relaxed)).sum();
    let expected = payloads.expected(messages);
    assert_eq!(status.committed, messages, "{status:?}");
    assert!(committed.load(Relaxed) > 0, "no commit came");
    assert_eq!(kept, expected.kept, "what the sink got");
    assert_eq!(diverted.load(Relaxed), expected.diverted, "the dead letters");
}

/// Runs the flow to its end. With `Threads::Current` that is one thread.
pub fn run_flow(flow: Flow<Top>) -> Summary {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime without I/O needs nothing that can fail");
    match runtime.block_on(flow.run()) {
        Ok(summary) => summary,
        Err(error) => panic!("the benchmark's pipeline failed: {error}"),
    }
}
