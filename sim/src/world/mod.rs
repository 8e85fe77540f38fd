//! The world outside of the pipelines: it decides what happens to them and knows what is durable.
//!
//! - Everything that a pipeline does to the world goes through here, under the number of its
//!   **incarnation**, one life of one instance. What a crashed incarnation does has no effect: its
//!   tasks may go on for a while in the shared runtime, but they can't reach anything.
//! - Nothing is awaited under the lock.
//! - All randomness is drawn in the order of events at the border, which is the same in every run.

mod author;
mod call;
mod drain;
mod ending;
mod incarnation;
mod tally;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::{Clock, Timestamp};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::account::{Account, Violation, broken};
use crate::fault::{Action, Call, Edge};
use crate::mutant::Mutant;
use crate::rng::Rng;
use crate::scenario::Scenario;
use crate::trace::{Event, Trace};

pub(crate) use call::Line;
pub use call::{CallPlan, Dead, WriteFault, WritePlan};
pub use ending::Outcome;
pub use incarnation::Incarnation;
pub use tally::Tally;

/// 2024-01-01, the wall clock's time at the start of every run.
const EPOCH: i64 = 1_704_067_200_000;

/// How many worlds there were, for the mutant that depends on it.
static WORLDS: AtomicU64 = AtomicU64::new(0);

/// The world; clones are the same one.
#[derive(Clone)]
pub struct World(Arc<Inner>);

struct Inner {
    start: Instant,
    scenario: Arc<Scenario>,
    mutant: Option<Mutant>,
    state: Mutex<State>,
    progress: Notify,
}

struct State {
    rng: Rng,
    trace: Trace,
    account: Account,
    incarnations: Vec<Incarnation>,
    armed: Vec<Armed>,
    stalled_until: Vec<Duration>,
    next_calls: u64,
    /// When something last happened beside commits.
    busy_at: Duration,
    retired: bool,
    /// What was written to the local log, by sink and content: how often.
    written: BTreeMap<(usize, Vec<u8>), usize>,
    tally: Tally,
    violation: Option<(Duration, Violation)>,
}

/// A crash that waits for a call.
struct Armed {
    instance: usize,
    call: Call,
    left: u32,
    edge: Edge,
}

impl World {
    /// The world before anything happened. Its time begins now.
    pub fn new(scenario: Arc<Scenario>, mutant: Option<Mutant>, print_trace: bool) -> Self {
        let seed = match mutant {
            Some(Mutant::Unseeded) => WORLDS.fetch_add(1, Ordering::Relaxed),
            _ => scenario.seed,
        };
        let mut rng = Rng::new(seed);
        let state = State {
            rng: rng.fork(),
            trace: Trace::new(print_trace),
            account: Account::new(Arc::clone(&scenario)),
            incarnations: Vec::new(),
            armed: Vec::new(),
            stalled_until: vec![Duration::ZERO; scenario.shape.sinks.len()],
            next_calls: 0,
            busy_at: Duration::ZERO,
            retired: false,
            written: BTreeMap::new(),
            tally: Tally::default(),
            violation: None,
        };
        Self(Arc::new(Inner {
            start: Instant::now(),
            scenario,
            mutant,
            state: Mutex::new(state),
            progress: Notify::new(),
        }))
    }

    /// What was decided before.
    pub fn scenario(&self) -> &Arc<Scenario> {
        &self.0.scenario
    }

    /// Whether the world is broken in this way.
    pub fn has(&self, mutant: Mutant) -> bool {
        self.0.mutant == Some(mutant)
    }

    /// The time since the start.
    pub fn now(&self) -> Duration {
        self.0.start.elapsed()
    }

    /// The wall clock of this world.
    pub fn clock(&self) -> Clock {
        let start = self.0.start;
        Clock::from_fn(move || Timestamp::from_millis(EPOCH + start.elapsed().as_millis() as i64))
    }

    /// Waits until the time has come.
    pub async fn sleep_until(&self, at: Duration) {
        if at > self.now() {
            tokio::time::sleep_until(self.0.start + at).await;
        }
    }

    /// Whether faults may still happen.
    pub fn is_troubled(&self) -> bool {
        self.now() < self.0.scenario.faults.calm_at
    }

    /// Notes an event.
    pub fn note(&self, event: &Event) {
        let now = self.now();
        let mut state = self.lock();
        state.trace.note(now, event);
        if !matches!(event, Event::Committing { .. } | Event::Committed { .. }) {
            state.busy_at = state.busy_at.max(now);
        }
    }

    /// Something happens inside of a pipeline.
    fn is_busy(&self) {
        let now = self.now();
        let mut state = self.lock();
        state.busy_at = state.busy_at.max(now);
    }

    /// Asks the account, which may find a rule broken.
    pub fn check<T>(&self, ask: impl FnOnce(&mut Account) -> Result<T, Violation>) -> Option<T> {
        let result = ask(&mut self.lock().account);
        self.0.progress.notify_waiters();
        result.map_err(|violation| self.violate(violation)).ok()
    }

    /// Asks the account.
    pub fn ask<T>(&self, ask: impl FnOnce(&mut Account) -> T) -> T {
        ask(&mut self.lock().account)
    }

    /// A rule is broken. The first one counts.
    pub fn violate(&self, violation: Violation) {
        let now = self.now();
        self.lock().violation.get_or_insert((now, violation));
        self.0.progress.notify_waiters();
    }

    /// A rule is broken.
    pub fn violated(&self, rule: &'static str, what: impl Into<String>) {
        self.violate(broken(rule, what));
    }

    /// The rule that was broken, and when.
    pub fn violation(&self) -> Option<(Duration, Violation)> {
        self.lock().violation.clone()
    }

    /// Waits until a condition holds, or a rule is broken.
    pub async fn wait_for(&self, condition: impl Fn(&Self) -> bool) {
        loop {
            let progress = self.0.progress.notified();
            if self.violation().is_some() || condition(self) {
                return;
            }
            progress.await;
        }
    }

    /// An item is durable in a sink. If that writes to the local log, it must be found there.
    pub fn wrote_to_log(&self, sink: usize, content: impl FnOnce() -> Vec<u8>) {
        if self.scenario().writes_to_log(sink) {
            *self.lock().written.entry((sink, content())).or_default() += 1;
        }
    }

    /// The run is over, and this was found in the local log: exactly what was written to it.
    pub fn found_in_log(&self, sink: usize, found: Vec<Vec<u8>>) {
        let mut counted: BTreeMap<(usize, Vec<u8>), usize> = BTreeMap::new();
        for content in found {
            *counted.entry((sink, content)).or_default() += 1;
        }
        let mut state = self.lock();
        state.written.retain(|(of, content), times| {
            *of != sink || counted.remove(&(sink, content.clone())) != Some(*times)
        });
        let missing = state.written.keys().filter(|(of, _)| *of == sink).count();
        drop(state);
        if missing > 0 || !counted.is_empty() {
            self.violated(
                "P6: what was confirmed is in the log",
                format!("sink {sink}: {missing} items are missing, {} are strange", counted.len()),
            );
        }
    }

    /// Counts something.
    pub fn count(&self, count: impl FnOnce(&mut Tally)) {
        count(&mut self.lock().tally);
    }

    /// The trace's hash, its length, and what was counted.
    pub fn report(&self) -> (u64, u64, Tally) {
        let state = self.lock();
        (state.trace.hash(), state.trace.events(), state.tally)
    }

    /// Does what only needs the world itself.
    pub fn act(&self, action: Action) {
        self.note(&Event::Done(action));
        let now = self.now();
        let mut state = self.lock();
        match action {
            Action::CrashIn { instance, call, nth, edge } => {
                state.armed.push(Armed { instance, call, left: nth, edge });
            }
            Action::Stall(sink, time) => {
                let sinks = state.stalled_until.len();
                state.stalled_until[sink % sinks] = now + time;
            }
            Action::Crash(instance) => {
                let alive = state.living(instance);
                drop(state);
                alive.into_iter().for_each(|incarnation| self.crash(incarnation));
            }
            Action::Pause(instance, time) => {
                let alive = state.living(instance);
                drop(state);
                alive.into_iter().for_each(|incarnation| self.pause(incarnation, now + time));
            }
            Action::Stop(instance) => {
                let alive = state.living(instance);
                drop(state);
                alive.into_iter().for_each(|incarnation| self.stop(incarnation));
            }
            // Those are for the log.
            Action::Reshuffle(_) | Action::Take(_) => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "World(seed {})", self.0.scenario.seed)
    }
}
