//! Calls over the border: how long they take and how they fail.

use std::time::Duration;

use tidegate_core::{Demand, Partition, SinkError, SourceError};

use super::World;
use crate::fault::{Call, Edge};
use crate::memory_log::TOPIC;

/// How long the engine waits for an answer at least, however late it is.
const LAST_WAIT: Duration = Duration::from_millis(500);

/// The process has been killed: what it does has no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dead;

impl From<Dead> for SourceError {
    fn from(_: Dead) -> Self {
        Self::stop("the process was killed")
    }
}

impl From<Dead> for SinkError {
    fn from(_: Dead) -> Self {
        Self::stop("the process was killed")
    }
}

/// A call of the source that the engine may drop unanswered.
#[derive(Debug)]
pub(crate) struct Unanswered {
    world: World,
    incarnation: u32,
    since: Duration,
    answered: bool,
}

impl Unanswered {
    /// It has its answer.
    pub(crate) fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.world.lock().life(self.incarnation).calls -= 1;
        self.world.leaves_alone(self.incarnation);
        self.world.is_busy();
        if !self.answered {
            self.world.dropped(self.incarnation, self.since);
        }
    }
}

/// The engine waits for the source's next event.
#[derive(Debug)]
pub(crate) struct Asking {
    world: World,
    incarnation: u32,
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.world.leaves_alone(self.incarnation);
    }
}

/// How a call of the source goes.
#[derive(Clone, Copy, Debug)]
pub struct CallPlan {
    /// Before it has an effect.
    pub before: Duration,
    /// Between effect and answer.
    pub after: Duration,
    /// If reading fails, how long it waits before.
    pub quiet: Duration,
    /// It fails without an effect.
    pub refused: bool,
    /// It fails although it has had its effect.
    pub reply_lost: bool,
    /// If it fails, it is for good.
    pub fatal: bool,
}

/// How a write goes.
#[derive(Clone, Copy, Debug)]
pub struct WritePlan {
    /// Before anything is written.
    pub before: Duration,
    /// When a part of it is written.
    pub between: Duration,
    /// Between the last item and the answer.
    pub after: Duration,
    /// How many items are written before the pause.
    pub first: usize,
    /// Whether and how it fails.
    pub fault: WriteFault,
}

/// How a write fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteFault {
    /// It doesn't.
    None,
    /// Before anything is written.
    Refused,
    /// When the first part is written.
    Torn,
    /// When all is written.
    ReplyLost,
    /// Before anything is written, for good.
    Fatal,
    /// A panic, when the first part is written.
    Panic,
    /// It answers for too few.
    Short,
}

/// Which calls fail together, for the time limit of their retries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Line {
    Reading,
    Committing,
    Releasing,
    Letters,
    Sink(usize),
}

impl Line {
    fn index(self) -> usize {
        match self {
            Self::Reading => 0,
            Self::Committing => 1,
            Self::Releasing => 2,
            Self::Letters => 3,
            Self::Sink(sink) => 4 + sink,
        }
    }
}

impl World {
    /// A call begins or has had its effect; perhaps the process is killed right here.
    pub fn at_call(&self, incarnation: u32, call: Call, edge: Edge) -> Result<(), Dead> {
        let mut state = self.lock();
        if !state.life(incarnation).alive {
            return Err(Dead);
        }
        if !self.is_troubled() {
            return Ok(());
        }
        let instance = state.life(incarnation).instance;
        let armed = state.armed.iter_mut().position(|armed| {
            if armed.instance != instance || armed.call != call || armed.edge != edge {
                return false;
            }
            armed.left = armed.left.saturating_sub(1);
            armed.left == 0
        });
        if let Some(armed) = armed {
            state.armed.remove(armed);
            drop(state);
            self.crash(incarnation);
            return Err(Dead);
        }
        Ok(())
    }

    /// How long a call's part takes.
    fn latency(&self) -> Duration {
        let faults = &self.scenario().faults;
        let troubled = self.is_troubled();
        let rng = &mut self.lock().rng;
        if troubled && rng.chance(faults.rates.slow) {
            rng.millis(0, faults.slowest.as_millis() as u64)
        } else {
            rng.pick_millis(&[0, 0, 0, 1, 1, 4])
        }
    }

    fn happens(&self, per_mille: u32) -> bool {
        self.is_troubled() && self.lock().rng.chance(per_mille)
    }

    /// How the source's next call goes.
    pub fn plan_call(&self, call: Call) -> CallPlan {
        let rates = &self.scenario().faults.rates;
        let (refused, reply_lost, fatal) = match call {
            Call::Next => (rates.next_refused, 0, rates.next_fatal),
            Call::Commit => (rates.commit_refused, rates.commit_reply_lost, rates.commit_fatal),
            Call::Release => (rates.release_refused, 0, 0),
            Call::Write | Call::Letter => (0, 0, 0),
        };
        let fatal = self.happens(fatal);
        let quiet = self.lock().rng.pick_millis(&[0, 0, 30, 4000]);
        CallPlan {
            before: self.latency(),
            after: self.latency(),
            quiet,
            refused: fatal || self.happens(refused),
            reply_lost: self.happens(reply_lost),
            fatal,
        }
    }

    /// How a write of so many items goes. Dead letters have no index.
    pub fn plan_write(&self, sink: Option<usize>, items: usize) -> WritePlan {
        let rates = &self.scenario().faults.rates;
        let faults = [
            (rates.write_refused, WriteFault::Refused),
            (rates.write_torn, WriteFault::Torn),
            (rates.write_reply_lost, WriteFault::ReplyLost),
            (rates.write_fatal, WriteFault::Fatal),
            (rates.write_panic, WriteFault::Panic),
            (rates.write_short, WriteFault::Short),
        ];
        let fault = faults.into_iter().find(|(rate, _)| self.happens(*rate));
        let first = self.lock().rng.below(items + 1);
        let now = self.now();
        let stalled =
            sink.map_or(Duration::ZERO, |sink| self.lock().stalled_until[sink].saturating_sub(now));
        WritePlan {
            before: stalled + self.latency(),
            between: self.latency(),
            after: self.latency(),
            first,
            fault: fault.map_or(WriteFault::None, |(_, fault)| fault),
        }
    }

    /// Whether opening a sink fails this time.
    pub fn open_fails(&self) -> bool {
        self.happens(self.scenario().faults.rates.open_refused)
    }

    /// A call answers that it failed, and may be repeated. If this has gone on for too long the
    /// pipeline may give up. It has not gone on if for as long nothing failed.
    pub(crate) fn failed(&self, incarnation: u32, line: Line) {
        let now = self.now();
        let [_, longest, limit] = self.scenario().settings.retry;
        let mut state = self.lock();
        state.tally.failed_calls += 1;
        let life = state.life(incarnation);
        let (since, last) = life.failing[line.index()].unwrap_or((now, now));
        let since = if now - last > limit + longest { now } else { since };
        life.failing[line.index()] = Some((since, now));
        // A millisecond is what virtual time may be off by.
        if now - since + Duration::from_millis(1) >= limit {
            match line {
                Line::Reading | Line::Committing | Line::Releasing => life.fatal.source = true,
                Line::Letters | Line::Sink(_) => life.fatal.sink = true,
            }
        }
    }

    /// A call answers that it succeeded.
    pub(crate) fn succeeded(&self, incarnation: u32, line: Line) {
        self.lock().life(incarnation).failing[line.index()] = None;
    }

    /// A call answers that it failed for good.
    pub(crate) fn failed_for_good(&self, incarnation: u32, line: Line) {
        let mut state = self.lock();
        state.tally.failed_calls += 1;
        let fatal = &mut state.life(incarnation).fatal;
        fatal.certain = true;
        match line {
            Line::Reading | Line::Committing | Line::Releasing => fatal.source = true,
            Line::Letters | Line::Sink(_) => fatal.sink = true,
        }
    }

    /// A sink is about to panic.
    pub(crate) fn panics(&self, incarnation: u32) {
        let mut state = self.lock();
        let fatal = &mut state.life(incarnation).fatal;
        (fatal.panic, fatal.certain) = (true, true);
    }

    /// A sink answers for too few.
    pub(crate) fn answers_short(&self, incarnation: u32) {
        let mut state = self.lock();
        let fatal = &mut state.life(incarnation).fatal;
        (fatal.short, fatal.certain) = (true, true);
    }

    /// A call of the source begins.
    pub(crate) fn begins(&self, incarnation: u32) -> Unanswered {
        let calls = {
            let mut state = self.lock();
            let life = state.life(incarnation);
            life.calls += 1;
            life.calls
        };
        if calls > 1 {
            self.violated("source: it is called one call after another", format!("{calls} calls"));
        }
        Unanswered { world: self.clone(), incarnation, since: self.now(), answered: false }
    }

    /// The engine doesn't wait for the answer any more. It may if it has to end, and has waited.
    fn dropped(&self, incarnation: u32, since: Duration) {
        let waited = self.now() - since;
        let mut state = self.lock();
        let life = state.life(incarnation);
        if !life.alive {
            return;
        }
        let must_end = life.stopped_at.is_some() || life.fatal.any();
        life.fatal.source = true;
        drop(state);
        if !must_end || waited < LAST_WAIT {
            self.violated("P27: a call of the source is waited for", format!("{waited:?}"));
        }
    }

    /// The source is asked for the next event. Who is to stop, or has to give a partition up, reads
    /// no more (P14), but for one time if the stop came while it committed. Nothing that the engine
    /// does beside keeps it from asking (P23). Too many questions are a loop that doesn't wait.
    pub(crate) fn asked(&self, incarnation: u32, demand: &Demand) -> Asking {
        let now = self.now();
        let [_, longest_pause, _] = self.scenario().settings.retry;
        let mut state = self.lock();
        state.next_calls += 1;
        let spins = state.next_calls > 2_000_000;
        let life = state.life(incarnation);
        let reads_on = life.alive && life.stopped_at.is_some() && !demand.is_none();
        life.asked_since_stop += u32::from(reads_on);
        let stopped = life.asked_since_stop > 1;
        let revoked = life.revoked.iter().map(|(partition, _, _)| *partition);
        let revoked = revoked.map(|partition| Partition::new(TOPIC, partition));
        let reads = life.alive && revoked.into_iter().any(|partition| demand.allows(&partition));
        // A millisecond is what virtual time may be off by.
        let alone = now - life.left_alone_at.unwrap_or(now);
        let neglected = life.alive && alone > longest_pause + Duration::from_millis(1);
        drop(state);
        if spins {
            let what = "the source was asked 2,000,000 times";
            self.violated("P38: back-pressure doesn't spin", what);
        }
        if stopped || reads {
            let what = format!("incarnation {incarnation} asks with {demand:?}");
            self.violated("P14: who drains reads no more", what);
        }
        if neglected {
            let what = format!("the source of incarnation {incarnation} was alone for {alone:?}");
            self.violated("P23: the source is asked all the time", what);
        }
        Asking { world: self.clone(), incarnation }
    }

    fn leaves_alone(&self, incarnation: u32) {
        let now = self.now();
        self.lock().life(incarnation).left_alone_at = Some(now);
    }
}
