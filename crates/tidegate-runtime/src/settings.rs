use std::time::Duration;

use tidegate_core::Clock;

/// When frontiers are committed. Both limits hold; the end of a run, a partition or a drain
/// commits at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommitPolicy {
    /// The longest time from a settled message to its commit. Default 1 s.
    pub every: Duration,
    /// Commit as soon as this many messages have settled since the last one. Default none.
    pub count: Option<u64>,
}

impl Default for CommitPolicy {
    fn default() -> Self {
        Self { every: Duration::from_secs(1), count: None }
    }
}

/// How calls of sources and sinks that may succeed later are repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetryPolicy {
    /// The pause after the first failure; it doubles up to `longest`. Default 100 ms.
    pub first: Duration,
    /// The longest pause. Default 5 s.
    pub longest: Duration,
    /// The pipeline stops when a call has kept failing for so long. Default 5 min.
    pub give_up_after: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            longest: Duration::from_secs(5),
            give_up_after: Duration::from_secs(300),
        }
    }
}

/// What bounds the work in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of records from the fetch to their settlement, over all partitions. One fetch may
    /// overshoot it by `chunk_bytes`, or by one record if that is larger. Values that steps make of
    /// the records come on top, unmeasured: while a sink stalls, they are about as many bytes again
    /// if they are as large as the records. Default 64 MiB.
    pub bytes: usize,
    /// Messages of one partition between its frontier and its newest one. Default 100,000.
    pub messages_per_partition: usize,
    /// Messages in one chunk. Larger chunks cost less a message until they leave the processor's
    /// cache. Default 1,024.
    pub chunk_messages: usize,
    /// Bytes in one chunk. Default 1 MiB.
    pub chunk_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 64 << 20,
            messages_per_partition: 100_000,
            chunk_messages: 1024,
            chunk_bytes: 1 << 20,
        }
    }
}

/// Where the pipeline runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threads {
    /// The source on a thread of its own, steps and sinks on `workers` others. User code that
    /// blocks can't keep the source from its heartbeats.
    Own {
        /// Threads for steps and sinks, at least 1.
        workers: usize,
    },
    /// Everything on the caller's tokio runtime. For tests with virtual time: a step that blocks
    /// there blocks the source too.
    Current,
}

impl Default for Threads {
    fn default() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        Self::Own { workers }
    }
}

/// A pipeline's settings. The defaults are right for most.
#[derive(Clone, Debug)]
pub struct Settings {
    /// When frontiers are committed.
    pub commit: CommitPolicy,
    /// What bounds the work in flight.
    pub limits: Limits,
    /// How failed calls are repeated.
    pub retry: RetryPolicy,
    /// How long a stop or a revocation waits for what is in flight. One deadline for all of it;
    /// what isn't done by then is released and handled again. Default 30 s.
    pub drain: Duration,
    /// A partition that has messages in flight and whose frontier hasn't moved for so long counts
    /// as stalled. Default 60 s.
    pub stall_after: Duration,
    /// Where the pipeline runs.
    pub threads: Threads,
    /// Where wall-clock time comes from, for dead letters.
    pub clock: Clock,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            commit: CommitPolicy::default(),
            limits: Limits::default(),
            retry: RetryPolicy::default(),
            drain: Duration::from_secs(30),
            stall_after: Duration::from_secs(60),
            threads: Threads::default(),
            clock: Clock::system(),
        }
    }
}

impl Settings {
    /// Every setting that makes no sense, each with its name and what it has to be.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut require = |ok: bool, problem: &str| {
            if !ok {
                problems.push(problem.to_owned());
            }
        };
        require(!self.commit.every.is_zero(), "commit.every must be more than 0");
        require(self.commit.count != Some(0), "commit.count must be more than 0");
        require(self.limits.bytes > 0, "limits.bytes must be more than 0");
        require(
            self.limits.messages_per_partition > 0,
            "limits.messages_per_partition must be more than 0",
        );
        require(self.limits.chunk_messages > 0, "limits.chunk_messages must be more than 0");
        require(self.limits.chunk_bytes > 0, "limits.chunk_bytes must be more than 0");
        require(!self.retry.first.is_zero(), "retry.first must be more than 0");
        require(!self.stall_after.is_zero(), "stall_after must be more than 0");
        require(
            self.threads != Threads::Own { workers: 0 },
            "threads: at least one worker is needed",
        );
        problems
    }
}
