//! The book of what is in flight in one partition, for one period of ownership.
//!
//! A plain value: no I/O, no clock, no lock. What must hold:
//!
//! - Positions are admitted in rising order, and the frontier only rises (P5).
//! - The frontier passes a position only when every share of it, and of every lower one, has been
//!   answered with an outcome that [is settled](Outcome::is_settled) (P1). `Failed` and
//!   `Abandoned` hold it for good.
//! - A message that several others were made from has several shares and ends with their worst
//!   outcome (P2). A bundle, several messages that travel as one, answers for all of them.
//! - A record is kept until its message is settled, and its batch until all of its are (P36).
//! - Once fenced, nothing changes any more: answers of a past generation count for nothing (P22).
//!
//! Slots are a ring in the order of admission; what has settled at its front is popped, and the
//! frontier is the position behind the last popped one.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::{Outcome, OutcomeCounts, Position, RecordBatch, Slot, StepId};

/// The partition has as many messages in flight as it may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{open} messages in flight, at most {capacity} allowed")]
pub struct LedgerFull {
    /// Messages in flight.
    pub open: usize,
    /// The most there may be when a batch is admitted.
    pub capacity: usize,
}

/// What a settlement changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Completed {
    /// The messages whose last share this was, by their outcome.
    pub counts: OutcomeCounts,
    /// Bytes of record batches that are not kept any more.
    pub freed_bytes: usize,
    /// Whether the frontier is a higher one now.
    pub frontier_moved: bool,
    /// Whether nothing is pending any more, see [`Ledger::pending`].
    pub drained: bool,
}

/// The message that holds the frontier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OldestOpen {
    /// Its position.
    pub position: Position,
    /// The step that took it last, as far as steps say so; see [`Ledger::hold`].
    pub holder: StepId,
    /// The worst answer so far.
    pub outcome: Outcome,
}

/// A message that is to be diverted: where its original record is.
#[derive(Clone, Debug)]
pub struct Diversion {
    /// The batch.
    pub batch: Arc<RecordBatch>,
    /// The record's row in it.
    pub row: usize,
}

/// Slots that an idle ledger keeps room for: a few KiB, where ten thousand partitions that were
/// each busy once would otherwise keep what they needed then.
const IDLE_SLOTS: usize = 2048;

struct SlotState {
    shares: u32,
    holder: StepId,
    outcome: Outcome,
    diverting: bool,
}

struct Run {
    first: u64,
    len: u32,
    open: u32,
    bytes: usize,
    last: Position,
    batch: Option<Arc<RecordBatch>>,
}

impl Run {
    fn sequences(&self) -> Range<u64> {
        self.first..self.first + u64::from(self.len)
    }
}

struct Bundle {
    members: Vec<Slot>,
    shares: u32,
    outcome: Outcome,
}

/// The book of what is in flight in one partition.
pub struct Ledger {
    capacity: usize,
    base: u64,
    slots: VecDeque<SlotState>,
    runs: VecDeque<Run>,
    bundles: Vec<Bundle>,
    free_bundles: Vec<usize>,
    frontier: Option<Position>,
    open: usize,
    stuck: usize,
    bytes: usize,
    fenced: bool,
}

impl Ledger {
    /// An empty ledger that admits while fewer than `capacity` messages are in flight. Messages
    /// that have settled behind an open one count too: they take room until the frontier passes.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            base: 0,
            slots: VecDeque::new(),
            runs: VecDeque::new(),
            bundles: Vec::new(),
            free_bundles: Vec::new(),
            frontier: None,
            open: 0,
            stuck: 0,
            bytes: 0,
            fenced: false,
        }
    }

    /// Takes a batch in: one slot for each record, with one share. Refused only when there is no
    /// room at all, so that a batch is never cut in two. Once fenced, nothing is noted: the slots
    /// count for as little as their answers will.
    pub fn admit(&mut self, batch: &Arc<RecordBatch>) -> Result<Range<u64>, LedgerFull> {
        if !self.has_room() {
            return Err(LedgerFull { open: self.slots.len(), capacity: self.capacity });
        }
        let first = self.base + self.slots.len() as u64;
        let len = batch.len();
        if len == 0 || self.fenced {
            return Ok(first..first + len as u64);
        }
        self.slots.extend((0..len).map(|_| SlotState {
            shares: 1,
            holder: StepId::SOURCE,
            outcome: Outcome::Filtered,
            diverting: false,
        }));
        self.runs.push_back(Run {
            first,
            len: len as u32,
            open: len as u32,
            bytes: batch.bytes(),
            last: batch.row(len - 1).position,
            batch: Some(Arc::clone(batch)),
        });
        self.open += len;
        self.bytes += batch.bytes();
        Ok(first..first + len as u64)
    }

    /// Whether another batch would be admitted.
    pub fn has_room(&self) -> bool {
        self.room() > 0
    }

    /// How many more messages there is room for; a whole batch is admitted even if only one.
    pub fn room(&self) -> usize {
        self.capacity.saturating_sub(self.slots.len())
    }

    /// Adds shares: `more` answers besides the one already owed are needed before the slot settles.
    pub fn share(&mut self, slots: impl IntoIterator<Item = (Slot, u32)>) {
        if self.fenced {
            return;
        }
        for (slot, more) in slots {
            let shares = match slot.as_bundle() {
                Some(index) => &mut self.bundles[index].shares,
                None => &mut self.slot_mut(slot).shares,
            };
            *shares =
                shares.checked_add(more).expect("what holds 2^32 shares has run out of memory");
        }
    }

    /// Makes several slots one: a single answer settles one share of each.
    pub fn bundle(&mut self, members: Vec<Slot>) -> Slot {
        if self.fenced {
            return Slot::bundle(0);
        }
        let bundle = Bundle { members, shares: 1, outcome: Outcome::Filtered };
        if let Some(index) = self.free_bundles.pop() {
            self.bundles[index] = bundle;
            Slot::bundle(index)
        } else {
            self.bundles.push(bundle);
            Slot::bundle(self.bundles.len() - 1)
        }
    }

    /// Notes which step keeps these messages now, for whoever asks why they don't move.
    pub fn hold(&mut self, slots: &[Slot], step: StepId) {
        if self.fenced {
            return;
        }
        let mut last = None;
        for &slot in slots {
            // Everything that was made from one batch has its slot: once is enough for them all.
            if last.replace(slot) == Some(slot) {
                continue;
            }
            match slot.as_bundle() {
                Some(index) => {
                    let members = std::mem::take(&mut self.bundles[index].members);
                    self.hold(&members, step);
                    self.bundles[index].members = members;
                }
                None => self.slot_mut(slot).holder = step,
            }
        }
    }

    /// Answers one share of each slot.
    pub fn settle(&mut self, slots: &[Slot], outcome: Outcome) -> Completed {
        let mut completed = Completed::default();
        if self.fenced {
            return completed;
        }
        self.settle_all(slots, outcome, &mut completed);
        self.after_settling(&mut completed);
        completed
    }

    /// Answers one share of each single slot in the range.
    pub fn settle_range(&mut self, slots: Range<u64>, outcome: Outcome) -> Completed {
        let mut completed = Completed::default();
        if self.fenced {
            return completed;
        }
        self.settle_singles(slots, outcome, &mut completed);
        self.after_settling(&mut completed);
        completed
    }

    /// The original records behind a slot that are not being diverted yet; from now on they are.
    /// A message that fails in two of its shares is one dead letter.
    pub fn begin_diversion(&mut self, slot: Slot) -> Vec<Diversion> {
        let mut diversions = Vec::new();
        if !self.fenced {
            self.collect_diversions(slot, &mut diversions);
        }
        diversions
    }

    /// The positions behind a slot, lowest first, each once; one unless it is a bundle. Empty if
    /// fenced.
    pub fn positions(&self, slot: Slot) -> Vec<Position> {
        if self.fenced {
            return Vec::new();
        }
        match slot.as_bundle() {
            Some(index) => {
                let members = &self.bundles[index].members;
                let mut positions: Vec<_> =
                    members.iter().flat_map(|&member| self.positions(member)).collect();
                positions.sort_unstable();
                positions.dedup();
                positions
            }
            None => self.position(slot.sequence()).into_iter().collect(),
        }
    }

    /// The first position that is not settled, or `None` before the first message has settled.
    pub fn frontier(&self) -> Option<Position> {
        self.frontier
    }

    /// The message that holds the frontier, if any is in flight.
    pub fn oldest(&self) -> Option<OldestOpen> {
        let state = self.slots.front()?;
        Some(OldestOpen {
            position: self.position(self.base)?,
            holder: state.holder,
            outcome: state.outcome,
        })
    }

    /// Messages that were admitted and are not settled.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Messages that somebody still has to answer for: the open ones less those that failed or were
    /// abandoned.
    pub fn pending(&self) -> usize {
        self.open - self.stuck
    }

    /// How many messages the frontier has passed.
    pub fn passed(&self) -> u64 {
        self.base
    }

    /// Bytes of record batches that are kept for messages that are not settled.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Ends the generation: no answer counts any more. Returns the bytes that are let go.
    pub fn fence(&mut self) -> usize {
        self.fenced = true;
        self.slots = VecDeque::new();
        self.runs = VecDeque::new();
        self.bundles = Vec::new();
        self.free_bundles = Vec::new();
        (self.open, self.stuck) = (0, 0);
        std::mem::take(&mut self.bytes)
    }

    /// Whether the generation has ended.
    pub fn is_fenced(&self) -> bool {
        self.fenced
    }

    fn slot_mut(&mut self, slot: Slot) -> &mut SlotState {
        &mut self.slots[(slot.sequence() - self.base) as usize]
    }

    fn settle_all(&mut self, slots: &[Slot], outcome: Outcome, completed: &mut Completed) {
        let is_bundle = |slot: &Slot| slot.as_bundle().is_some();
        for alike in slots.chunk_by(|a, b| is_bundle(a) == is_bundle(b)) {
            if is_bundle(&alike[0]) {
                alike.iter().for_each(|&slot| self.settle_bundle(slot, outcome, completed));
            } else {
                self.settle_singles(alike.iter().map(|slot| slot.sequence()), outcome, completed);
            }
        }
    }

    fn settle_bundle(&mut self, slot: Slot, outcome: Outcome, completed: &mut Completed) {
        let Some(index) = slot.as_bundle() else { return };
        let bundle = &mut self.bundles[index];
        bundle.shares = bundle.shares.checked_sub(1).expect("a share is answered once");
        bundle.outcome = bundle.outcome.max(outcome);
        if bundle.shares == 0 {
            let (members, outcome) = (std::mem::take(&mut bundle.members), bundle.outcome);
            self.free_bundles.push(index);
            self.settle_all(&members, outcome, completed);
        }
    }

    /// The innermost loop: a handful of instructions for each message. Neighbours are mostly of
    /// one run and mostly end alike, so both are counted together.
    fn settle_singles(
        &mut self,
        sequences: impl Iterator<Item = u64>,
        outcome: Outcome,
        completed: &mut Completed,
    ) {
        let (mut run, mut in_run, mut settled) = (0, 0..0, 0);
        let mut alike = 0;
        for sequence in sequences {
            let state = &mut self.slots[(sequence - self.base) as usize];
            state.shares = state.shares.checked_sub(1).expect("a share is answered once");
            state.outcome = state.outcome.max(outcome);
            if state.shares > 0 {
                continue;
            }
            let worst = state.outcome;
            if worst == outcome {
                alike += 1;
            } else {
                completed.counts.add(worst, 1);
            }
            if !worst.is_settled() {
                self.stuck += 1;
                continue;
            }
            if !in_run.contains(&sequence) {
                self.count_settled(run, settled, completed);
                (run, settled) = (self.run_index(sequence), 0);
                in_run = self.runs[run].sequences();
            }
            settled += 1;
        }
        self.count_settled(run, settled, completed);
        completed.counts.add(outcome, alike);
    }

    fn count_settled(&mut self, run: usize, settled: u32, completed: &mut Completed) {
        if settled == 0 {
            return;
        }
        self.open -= settled as usize;
        let run = &mut self.runs[run];
        run.open -= settled;
        if run.open == 0 {
            run.batch = None;
            self.bytes -= run.bytes;
            completed.freed_bytes += run.bytes;
        }
    }

    /// Pops what has settled at the front and moves the frontier behind it.
    fn after_settling(&mut self, completed: &mut Completed) {
        let settled =
            self.slots.iter().take_while(|s| s.shares == 0 && s.outcome.is_settled()).count();
        completed.drained = self.pending() == 0;
        if settled == 0 {
            return;
        }
        let last = self.base + settled as u64 - 1;
        let position = self.position(last).expect("a slot that is popped is in a run");
        self.slots.drain(..settled);
        if self.slots.is_empty() {
            self.slots.shrink_to(IDLE_SLOTS);
        }
        self.base = last + 1;
        while self.runs.front().is_some_and(|run| run.sequences().end <= self.base) {
            self.runs.pop_front();
        }
        // A source that goes back breaks its contract; even then the frontier doesn't follow it.
        completed.frontier_moved = self.frontier < Some(position.next());
        self.frontier = self.frontier.max(Some(position.next()));
    }

    fn collect_diversions(&mut self, slot: Slot, diversions: &mut Vec<Diversion>) {
        if let Some(index) = slot.as_bundle() {
            for position in 0..self.bundles[index].members.len() {
                self.collect_diversions(self.bundles[index].members[position], diversions);
            }
            return;
        }
        if std::mem::replace(&mut self.slot_mut(slot).diverting, true) {
            return;
        }
        let run = &self.runs[self.run_index(slot.sequence())];
        if let Some(batch) = &run.batch {
            let row = (slot.sequence() - run.first) as usize;
            diversions.push(Diversion { batch: Arc::clone(batch), row });
        }
    }

    fn run_index(&self, sequence: u64) -> usize {
        // Messages settle mostly in order, so the first run is the usual answer.
        match self.runs.front() {
            Some(run) if sequence < run.sequences().end => 0,
            _ => self.runs.partition_point(|run| run.sequences().end <= sequence),
        }
    }

    fn position(&self, sequence: u64) -> Option<Position> {
        let run = self.runs.get(self.run_index(sequence))?;
        match &run.batch {
            Some(batch) => Some(batch.row((sequence - run.first) as usize).position),
            // All of the run is settled, so it is popped as a whole and only its end is asked for.
            None => Some(run.last),
        }
    }
}

#[cfg(test)]
mod tests;
