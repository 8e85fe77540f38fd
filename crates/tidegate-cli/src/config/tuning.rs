//! When to commit, how much may be in flight, and how long to wait.

use tidegate_runtime::{CommitPolicy, Limits, RetryPolicy, Settings};

use super::field::{Field, Table};

/// The settings that have good defaults.
pub(super) struct Tuning {
    pub(super) settings: Settings,
    pub(super) jq_outputs: usize,
}

/// How many times a record's own bytes it takes while it is in flight: beside it there are the value
/// that steps make of it, up to ten times its text for an object of many small fields, and the
/// line or row that a sink makes of that.
const BYTES_PER_BYTE: usize = 12;

/// A chunk is decoded as a whole, so it is small beside what may be in flight. Next to what jq
/// costs, more of them cost nothing.
const CHUNK_MESSAGES: usize = 256;
const CHUNK_BYTES: usize = 64 << 10;

/// The most outputs of one record: far more than a step means to make, and few enough to hold.
const JQ_OUTPUTS: usize = 100_000;

pub(super) fn read(table: &Table<'_>) -> Option<Tuning> {
    let defaults = Settings::default();
    let commit = table.get_or("commit", defaults.commit, |field| commit(field, defaults.commit));
    let limits = table
        .get_or("limits", (sized(defaults.limits), JQ_OUTPUTS), |f| limits(f, defaults.limits));
    let retry_for = table.get_or("retry_for", defaults.retry.give_up_after, Field::time_or_zero);
    let drain = table.get_or("drain", defaults.drain, Field::time_or_zero);
    let stall_after = table.get_or("stall_after", defaults.stall_after, Field::duration);
    let (limits, jq_outputs) = limits?;
    let settings = Settings {
        commit: commit?,
        limits,
        retry: RetryPolicy { give_up_after: retry_for?, ..defaults.retry },
        drain: drain?,
        stall_after: stall_after?,
        ..defaults
    };
    Some(Tuning { settings, jq_outputs })
}

fn commit(field: &Field<'_>, defaults: CommitPolicy) -> Option<CommitPolicy> {
    let table = field.table(&["every", "count"])?;
    let every = table.get_or("every", defaults.every, Field::duration);
    let count = table.get_or("count", defaults.count, |field| field.count().map(Some));
    Some(CommitPolicy { every: every?, count: count? })
}

fn limits(field: &Field<'_>, defaults: Limits) -> Option<(Limits, usize)> {
    let table = field.table(&["in_flight", "messages_per_partition", "jq_outputs"])?;
    let bytes = table.get_or("in_flight", defaults.bytes, Field::bytes);
    let messages = table.get_or(
        "messages_per_partition",
        defaults.messages_per_partition,
        Field::count_in_memory,
    );
    let outputs = table.get_or("jq_outputs", JQ_OUTPUTS, Field::count_in_memory);
    let limits = Limits { bytes: bytes?, messages_per_partition: messages?, ..defaults };
    Some((sized(limits), outputs?))
}

/// Makes of limits for all that is in flight those for the records alone.
fn sized(limits: Limits) -> Limits {
    let bytes = limits.bytes.div_ceil(BYTES_PER_BYTE);
    // A fetch may overshoot the budget by a chunk, so a small budget needs small chunks.
    let chunk_bytes = CHUNK_BYTES.min(bytes);
    Limits { bytes, chunk_messages: CHUNK_MESSAGES, chunk_bytes, ..limits }
}
