//! What the reader's thread and the source share: the only place where they meet.
//!
//! - Each owned partition has a slot for one run of records. The reader fills empty slots, the
//!   source takes from those that the demand allows; a partition without room keeps its slot full
//!   and is not read, others are not concerned. So nothing here grows with time.
//! - What is said about partitions is in one queue, in order, and is taken before any run. When a
//!   partition is given up its run goes at the same time, so none comes after `Revoking` or `Lost`.
//! - A partition whose `Assigned` nobody has heard yet can be taken back without a word.
//! - The lock is held for a few moves of values, never over a call of the client or an await.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::{
    Assignment, CommitReport, Demand, Partition, PartitionFrontier, RecordBatch, Revocation,
    SourceEvent,
};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::client::{Limits, Run};
use crate::error::KafkaError;
use crate::split::split;
use crate::wake::Wake;

/// What the source asks of the reader. The answer may find nobody who waits for it.
pub(crate) enum Request {
    Commit(Vec<PartitionFrontier>, oneshot::Sender<Result<CommitReport, KafkaError>>),
    Release(Vec<Partition>, oneshot::Sender<()>),
    Close(oneshot::Sender<()>),
}

/// Errors that wait for the next call are this many at most; they say the same after all.
const MOST_ERRORS: usize = 4;

#[derive(Default)]
struct State {
    told: VecDeque<SourceEvent>,
    slots: BTreeMap<Partition, Slot>,
    /// The slot that was taken from last, so that each has its turn.
    last: Option<Partition>,
    errors: VecDeque<KafkaError>,
    /// The reader has stopped, for this reason.
    broken: Option<KafkaError>,
    ended: bool,
    limits: Option<Limits>,
    requests: VecDeque<Request>,
    ends: BTreeMap<Partition, u64>,
    /// The source was dropped.
    is_abandoned: bool,
    /// When somebody last asked for something.
    seen: Option<Instant>,
}

#[derive(Default)]
struct Slot {
    run: Option<Run>,
    /// Nothing comes after the run.
    finishes: bool,
}

pub(crate) struct Handover {
    state: Mutex<State>,
    /// Calls of `next` that are waiting.
    listening: AtomicUsize,
    news: Notify,
    wake: Arc<Wake>,
}

impl Handover {
    pub(crate) fn new(wake: Arc<Wake>) -> Self {
        Self { state: Mutex::default(), listening: AtomicUsize::new(0), news: Notify::new(), wake }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whole after every statement, so a panic can't have left it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // --- the source's side ---

    /// What happens next. Safe to be dropped: what it returns is taken in the same moment.
    pub(crate) async fn next(&self, demand: &Demand) -> Result<SourceEvent, KafkaError> {
        let _listening = Listening::new(self);
        loop {
            let news = self.news.notified();
            if let Some(event) = self.take(demand)? {
                return Ok(event);
            }
            news.await;
        }
    }

    fn take(&self, demand: &Demand) -> Result<Option<SourceEvent>, KafkaError> {
        let mut state = self.lock();
        state.seen = Some(Instant::now());
        if !demand.is_none() {
            let limits = Limits { records: demand.max_records(), bytes: demand.max_bytes() };
            state.limits = Some(limits);
        }
        if let Some(event) = state.told.pop_front() {
            return Ok(Some(event));
        }
        if let Some(error) = state.errors.pop_front().or_else(|| state.broken.clone()) {
            return Err(error);
        }
        if let Some(batch) = state.take_run(demand) {
            drop(state);
            // The slot can be filled again.
            self.wake.wake();
            return Ok(Some(SourceEvent::Fetched(batch)));
        }
        let is_through = state.ended && state.slots.values().all(|slot| slot.run.is_none());
        Ok(is_through.then_some(SourceEvent::Ended))
    }

    /// Asks the reader for something. If it has stopped, the request is dropped, and with it the
    /// place where the answer would have come.
    pub(crate) fn request(&self, request: Request) {
        let mut state = self.lock();
        state.seen = Some(Instant::now());
        if state.broken.is_none() {
            state.requests.push_back(request);
        }
        drop(state);
        self.wake.wake();
    }

    /// The source is gone without having closed.
    pub(crate) fn abandon(&self) {
        self.lock().is_abandoned = true;
        self.wake.wake();
    }

    /// Why the reader has stopped.
    pub(crate) fn broken(&self) -> Option<KafkaError> {
        self.lock().broken.clone()
    }

    pub(crate) fn end(&self, partition: &Partition) -> Option<u64> {
        self.lock().ends.get(partition).copied()
    }

    // --- the reader's side ---

    pub(crate) fn is_abandoned(&self) -> bool {
        self.lock().is_abandoned
    }

    pub(crate) fn take_requests(&self) -> VecDeque<Request> {
        std::mem::take(&mut self.lock().requests)
    }

    /// For how long nobody has called or waited; zero if somebody waits now.
    pub(crate) fn silent_for(&self, now: Instant) -> Duration {
        if self.listening.load(Ordering::Acquire) > 0 {
            return Duration::ZERO;
        }
        let mut state = self.lock();
        let seen = *state.seen.get_or_insert(now);
        now.saturating_duration_since(seen)
    }

    /// What one run may have, as far as is known.
    pub(crate) fn limits(&self) -> Option<Limits> {
        self.lock().limits
    }

    /// The partitions whose slots are empty, and that have more to come.
    pub(crate) fn empty_slots(&self, into: &mut Vec<Partition>) {
        let state = self.lock();
        let empty = state.slots.iter().filter(|(_, slot)| slot.run.is_none() && !slot.finishes);
        into.extend(empty.map(|(partition, _)| partition.clone()));
    }

    pub(crate) fn is_empty(&self, partition: &Partition) -> bool {
        self.lock().slots.get(partition).is_none_or(|slot| slot.run.is_none())
    }

    pub(crate) fn assigned(&self, assignments: Vec<Assignment>) {
        let mut state = self.lock();
        for assignment in &assignments {
            state.slots.insert(assignment.partition.clone(), Slot::default());
        }
        state.told.push_back(SourceEvent::Assigned(assignments));
        self.news.notify_one();
    }

    /// Puts a run into its partition's empty slot.
    pub(crate) fn fill(&self, partition: &Partition, run: Run) {
        let mut state = self.lock();
        if let Some(slot) = state.slots.get_mut(partition) {
            slot.run = Some(run);
            self.news.notify_one();
        }
    }

    /// Nothing more comes of the partition, after what is in its slot.
    pub(crate) fn finish(&self, partition: &Partition) {
        let mut state = self.lock();
        let Some(slot) = state.slots.get_mut(partition) else { return };
        slot.finishes = true;
        if slot.run.is_none() {
            state.slots.remove(partition);
            state.told.push_back(SourceEvent::Finished(vec![partition.clone()]));
        }
        self.news.notify_one();
    }

    /// These partitions are to be drained. Returns those that the source has heard of: the others
    /// are gone at once.
    pub(crate) fn revoking(&self, partitions: Vec<Partition>, within: Duration) -> Vec<Partition> {
        let mut state = self.lock();
        let known = state.withdraw(partitions);
        if !known.is_empty() {
            let revocation = Revocation { partitions: known.clone(), within: Some(within) };
            state.told.push_back(SourceEvent::Revoking(revocation));
            self.news.notify_one();
        }
        known
    }

    /// These partitions are gone.
    pub(crate) fn lost(&self, partitions: Vec<Partition>) {
        let mut state = self.lock();
        let known = state.withdraw(partitions);
        if !known.is_empty() {
            state.told.push_back(SourceEvent::Lost(known));
            self.news.notify_one();
        }
    }

    /// The source has let these go: it needn't hear anything of them any more. Returns those that
    /// it has: one that was lost and has come back, unheard of, belongs to a later ownership.
    pub(crate) fn released(&self, partitions: &[Partition]) -> Vec<Partition> {
        let mut state = self.lock();
        let known: Vec<_> =
            partitions.iter().filter(|partition| !state.is_unheard(partition)).cloned().collect();
        for partition in &known {
            state.slots.remove(partition);
            state.ends.remove(partition);
        }
        state.forget_told(&known);
        known
    }

    /// Nothing will come of any partition.
    pub(crate) fn ended(&self) {
        self.lock().ended = true;
        self.news.notify_one();
    }

    /// An error that passes by itself.
    pub(crate) fn failed(&self, error: KafkaError) {
        let mut state = self.lock();
        if state.errors.len() < MOST_ERRORS && !state.errors.contains(&error) {
            state.errors.push_back(error);
        }
        self.news.notify_one();
    }

    /// What failed works again: nobody needs to hear of it any more.
    pub(crate) fn recovered(&self) {
        self.lock().errors.clear();
    }

    /// The reader stops. Everything that is asked of it from now on fails.
    pub(crate) fn stop(&self, error: KafkaError) {
        let mut state = self.lock();
        state.broken.get_or_insert(error);
        state.requests.clear();
        drop(state);
        self.news.notify_one();
    }

    pub(crate) fn set_ends(&self, ends: BTreeMap<Partition, u64>) {
        self.lock().ends = ends;
    }
}

impl State {
    /// A run whose partition the demand allows, in turn.
    fn take_run(&mut self, demand: &Demand) -> Option<RecordBatch> {
        if demand.is_none() {
            return None;
        }
        let is_ready = |(partition, slot): &(&Partition, &Slot)| {
            slot.run.is_some() && demand.allows(partition)
        };
        let behind = self.last.as_ref().and_then(|last| {
            let behind = (std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded);
            self.slots.range(behind).find(is_ready)
        });
        let (partition, _) = behind.or_else(|| self.slots.iter().find(is_ready))?;
        let partition = partition.clone();
        let slot = self.slots.get_mut(&partition)?;
        let run = slot.run.take()?;
        let (first, rest) = split(run, demand.max_records(), demand.max_bytes());
        slot.run = rest;
        if slot.run.is_none() && slot.finishes {
            self.slots.remove(&partition);
            self.told.push_back(SourceEvent::Finished(vec![partition.clone()]));
        }
        self.last = Some(partition);
        Some(first.batch)
    }

    /// Takes away the slots of these partitions. Those whose assignment wasn't heard yet are taken
    /// out of it; the others are returned.
    fn withdraw(&mut self, partitions: Vec<Partition>) -> Vec<Partition> {
        for partition in &partitions {
            self.slots.remove(partition);
            self.ends.remove(partition);
        }
        let mut known = partitions;
        for event in &mut self.told {
            if let SourceEvent::Assigned(assignments) = event {
                assignments.retain(|assignment| {
                    let at = known.iter().position(|known| *known == assignment.partition);
                    at.map(|at| known.swap_remove(at)).is_none()
                });
            }
        }
        self.drop_empty();
        known
    }

    /// Whether the source has not heard yet that the partition was assigned.
    fn is_unheard(&self, partition: &Partition) -> bool {
        self.told.iter().any(|event| match event {
            SourceEvent::Assigned(assignments) => {
                assignments.iter().any(|assignment| assignment.partition == *partition)
            }
            _ => false,
        })
    }

    /// Takes these partitions out of what was not heard yet.
    fn forget_told(&mut self, gone: &[Partition]) {
        for event in &mut self.told {
            match event {
                SourceEvent::Revoking(Revocation { partitions, .. })
                | SourceEvent::Lost(partitions)
                | SourceEvent::Finished(partitions) => {
                    partitions.retain(|partition| !gone.contains(partition));
                }
                _ => {}
            }
        }
        self.drop_empty();
    }

    fn drop_empty(&mut self) {
        self.told.retain(|event| match event {
            SourceEvent::Assigned(assignments) => !assignments.is_empty(),
            SourceEvent::Revoking(Revocation { partitions, .. })
            | SourceEvent::Lost(partitions)
            | SourceEvent::Finished(partitions) => !partitions.is_empty(),
            _ => true,
        });
    }
}

/// A call of `next` that waits: a sign that the source is alive.
struct Listening<'a>(&'a Handover);

impl<'a> Listening<'a> {
    fn new(handover: &'a Handover) -> Self {
        handover.listening.fetch_add(1, Ordering::AcqRel);
        Self(handover)
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.0.lock().seen = Some(Instant::now());
        self.0.listening.fetch_sub(1, Ordering::AcqRel);
    }
}
