//! What the parts of a running pipeline tell the coordinator: counters, and reasons to look.
//!
//! Everything here is touched at most once a chunk. The coordinator is woken only for what it
//! would otherwise wait for: a partition that has room again, has drained or was left, room in the
//! byte budget, enough settled messages for a commit, a stop or a failure.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::{Completed, LedgerObserver, Outcome, Partition, Position, StepId};
use tokio::sync::Notify;

use crate::error::{PipelineError, PipelineErrorKind};
use crate::plan::Names;
use crate::status::{Stall, Status};

/// How long work that is not concerned by a failure may go on before the pipeline ends.
pub(crate) const DRAIN_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// Identifies one ownership of one partition within this run.
pub(crate) type OwnershipId = u64;

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) read: AtomicU64,
    pub(crate) written: AtomicU64,
    outcomes: [AtomicU64; 5],
    pub(crate) released: AtomicU64,
    pub(crate) committed: AtomicU64,
}

impl Counters {
    fn outcome(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize].load(Relaxed)
    }
}

pub(crate) struct Board {
    pub(crate) names: Arc<Names>,
    pub(crate) counters: Counters,
    wake: Notify,
    stop: AtomicBool,
    failure: Mutex<Option<PipelineError>>,
    bytes: AtomicUsize,
    low_water: usize,
    starved: AtomicBool,
    commit_count: u64,
    settled_since_commit: AtomicU64,
    attention: Mutex<Vec<OwnershipId>>,
    moved: Mutex<Vec<OwnershipId>>,
    lag: Mutex<Option<u64>>,
    stalls: Mutex<Vec<Stall>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Board {
    pub(crate) fn new(names: Arc<Names>, budget: usize, commit_count: Option<u64>) -> Self {
        Self {
            names,
            counters: Counters::default(),
            wake: Notify::new(),
            stop: AtomicBool::new(false),
            failure: Mutex::new(None),
            bytes: AtomicUsize::new(0),
            low_water: budget / 4 * 3,
            starved: AtomicBool::new(false),
            commit_count: commit_count.unwrap_or(u64::MAX),
            settled_since_commit: AtomicU64::new(0),
            attention: Mutex::default(),
            moved: Mutex::default(),
            lag: Mutex::default(),
            stalls: Mutex::default(),
        }
    }

    /// Waits until there is a reason to look. One call remembers one wake-up, so none gets lost
    /// between two waits.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    pub(crate) fn request_stop(&self) {
        self.stop.store(true, SeqCst);
        self.wake.notify_one();
    }

    pub(crate) fn stop_requested(&self) -> bool {
        self.stop.load(SeqCst)
    }

    /// Records why the pipeline stops. The first failure is the one that is reported; those that
    /// follow from it are not. But a message that was dropped by a panic is heard of first, while
    /// the stack unwinds, and the panic's own message joins it.
    ///
    /// Returns whether this is the one.
    pub(crate) fn fail(&self, kind: PipelineErrorKind) -> bool {
        let mut failure = lock(&self.failure);
        let is_first = failure.is_none();
        match (&mut *failure, kind) {
            (None, kind) => *failure = Some(PipelineError::new(&self.names.pipeline, kind)),
            (Some(first), PipelineErrorKind::Panicked { message, .. }) => {
                first.explain_panic(message);
            }
            _ => {}
        }
        drop(failure);
        self.wake.notify_one();
        is_first
    }

    pub(crate) fn has_failed(&self) -> bool {
        lock(&self.failure).is_some()
    }

    /// The time that is left from now on if the pipeline has to end, by a failure or a stop; `drain`
    /// is what a stop leaves.
    pub(crate) fn must_end_within(&self, drain: Duration) -> Option<Duration> {
        if self.has_failed() {
            Some(DRAIN_AFTER_FAILURE.min(drain))
        } else {
            self.stop_requested().then_some(drain)
        }
    }

    pub(crate) fn take_failure(&self) -> Option<PipelineError> {
        lock(&self.failure).take()
    }

    pub(crate) fn add_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, SeqCst);
    }

    pub(crate) fn free_bytes(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let before = self.bytes.fetch_sub(bytes, SeqCst);
        if before - bytes <= self.low_water && self.starved.swap(false, SeqCst) {
            self.wake.notify_one();
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(SeqCst)
    }

    /// Asks to be woken when there is room in the budget again. Returns false if there is already.
    pub(crate) fn starve(&self) -> bool {
        self.starved.store(true, SeqCst);
        if self.bytes() <= self.low_water {
            self.starved.store(false, SeqCst);
            return false;
        }
        true
    }

    pub(crate) fn commit_is_due(&self) -> bool {
        self.settled_since_commit.load(Relaxed) >= self.commit_count
    }

    /// The partitions whose frontier has moved since the last call.
    pub(crate) fn take_moved(&self) -> Vec<OwnershipId> {
        self.settled_since_commit.store(0, Relaxed);
        let mut moved = std::mem::take(&mut *lock(&self.moved));
        // One that was committed on its own, at the end of a drain, is still on the list.
        moved.sort_unstable();
        moved.dedup();
        moved
    }

    /// The partitions that have something to look at.
    pub(crate) fn take_attention(&self) -> Vec<OwnershipId> {
        std::mem::take(&mut *lock(&self.attention))
    }

    fn ask_for_attention(&self, id: OwnershipId) {
        lock(&self.attention).push(id);
        self.wake.notify_one();
    }

    pub(crate) fn set_lag(&self, lag: Option<u64>) {
        *lock(&self.lag) = lag;
    }

    pub(crate) fn set_stalls(&self, stalls: Vec<Stall>) {
        *lock(&self.stalls) = stalls;
    }

    pub(crate) fn status(&self) -> Status {
        let counters = &self.counters;
        // Read after the outcomes, so that a message is never counted as ended before it began.
        let outcomes = HashMap::from(
            [
                Outcome::Filtered,
                Outcome::Done,
                Outcome::Diverted,
                Outcome::Failed,
                Outcome::Abandoned,
            ]
            .map(|outcome| (outcome, counters.outcome(outcome))),
        );
        let ended: u64 = outcomes.values().sum::<u64>() + counters.released.load(Relaxed);
        let read = counters.read.load(Relaxed);
        Status {
            read,
            written: counters.written.load(Relaxed),
            filtered: outcomes[&Outcome::Filtered],
            diverted: outcomes[&Outcome::Diverted],
            failed: outcomes[&Outcome::Failed] + outcomes[&Outcome::Abandoned],
            committed: counters.committed.load(Relaxed),
            in_flight: read.saturating_sub(ended),
            in_flight_bytes: self.bytes() as u64,
            lag: *lock(&self.lag),
            stalls: lock(&self.stalls).clone(),
        }
    }
}

/// Hears of one partition's settlements, for as long as it is owned.
pub(crate) struct Watch {
    id: OwnershipId,
    partition: Partition,
    board: Arc<Board>,
    moved: AtomicBool,
    waiting: AtomicBool,
    draining: AtomicBool,
    task_running: AtomicBool,
    /// What was abandoned last is why the pipeline stops, and isn't counted yet.
    is_cause: AtomicBool,
}

impl Watch {
    pub(crate) fn new(id: OwnershipId, partition: Partition, board: Arc<Board>) -> Self {
        Self {
            id,
            partition,
            board,
            moved: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            task_running: AtomicBool::new(false),
            is_cause: AtomicBool::new(false),
        }
    }

    pub(crate) fn task_started(&self) {
        self.task_running.store(true, SeqCst);
    }

    pub(crate) fn task_is_running(&self) -> bool {
        self.task_running.load(SeqCst)
    }

    /// Asks for attention the next time the partition gets room. Look once more afterwards: the
    /// room may have come just before.
    pub(crate) fn wait_for_room(&self) {
        self.waiting.store(true, SeqCst);
    }

    /// Asks for attention when nothing is pending any more. Look once more afterwards.
    pub(crate) fn wait_for_drain(&self) {
        self.draining.store(true, SeqCst);
    }

    /// The task took a delivery out of its queue, or something settled.
    pub(crate) fn room_was_made(&self) {
        if self.waiting.load(SeqCst) && self.waiting.swap(false, SeqCst) {
            self.board.ask_for_attention(self.id);
        }
    }

    /// The partition's task has ended.
    pub(crate) fn task_ended(&self) {
        self.task_running.store(false, SeqCst);
        self.board.ask_for_attention(self.id);
    }

    /// Puts the partition on the next commit's list.
    pub(crate) fn frontier_moved(&self) {
        if !self.moved.swap(true, SeqCst) {
            lock(&self.board.moved).push(self.id);
        }
    }

    /// Called before the frontier is read for a commit, so that a later move is listed anew.
    pub(crate) fn frontier_taken(&self) {
        self.moved.store(false, SeqCst);
    }
}

impl LedgerObserver for Watch {
    fn settled(&self, completed: &Completed) {
        let counters = &self.board.counters;
        for outcome in [
            Outcome::Filtered,
            Outcome::Done,
            Outcome::Diverted,
            Outcome::Failed,
            Outcome::Abandoned,
        ] {
            let count = completed.counts.get(outcome);
            if count == 0 {
                continue;
            }
            if outcome == Outcome::Abandoned && !self.is_cause.swap(false, SeqCst) {
                // Dropped because the pipeline stops, not the other way round: released (P47).
                counters.released.fetch_add(count, Relaxed);
            } else {
                counters.outcomes[outcome as usize].fetch_add(count, Relaxed);
            }
        }
        self.board.free_bytes(completed.freed_bytes);
        if completed.frontier_moved {
            self.frontier_moved();
            let total = completed.counts.total();
            let before = self.board.settled_since_commit.fetch_add(total, Relaxed);
            let count = self.board.commit_count;
            if before < count && before + total >= count {
                self.board.wake.notify_one();
            }
        }
        self.room_was_made();
        if completed.drained && self.draining.load(SeqCst) {
            self.board.ask_for_attention(self.id);
        }
    }

    fn abandoned(&self, step: StepId, position: Option<Position>) {
        let is_cause = self.board.fail(PipelineErrorKind::Unanswered {
            step: self.board.names.describe(step),
            partition: self.partition.clone(),
            position,
            panic: std::thread::panicking().then(String::new),
        });
        self.is_cause.fetch_or(is_cause, SeqCst);
    }
}
