//! The lives of the instances.

use std::sync::Arc;
use std::time::Duration;

use tidegate_runtime::Handle;
use tokio::sync::Notify;

use super::call::Dead;
use super::{State, World};
use crate::trace::Event;

/// One life of one instance, from its start to its end or its crash.
#[derive(Debug)]
pub struct Incarnation {
    pub(super) instance: usize,
    pub(super) alive: bool,
    pub(super) paused_until: Duration,
    pub(super) stopped_at: Option<Duration>,
    /// How often it asked for records since.
    pub(super) asked_since_stop: u32,
    pub(super) changed: Arc<Notify>,
    pub(super) handle: Option<Handle>,
    /// Why it may end with an error: what was done to it.
    pub(super) fatal: Fatal,
    /// Since when calls of each line have been failing, and when they last did.
    pub(super) failing: Vec<Option<(Duration, Duration)>>,
    /// Commits and releases under way: at most one, if the engine keeps to the rules.
    pub(super) calls: u32,
    /// When the engine last left its source alone; `None` before it first asked.
    pub(super) left_alone_at: Option<Duration>,
    /// Items that its sinks have confirmed.
    pub(super) written: u64,
    /// When the source was told to give a partition up, and how long it could wait.
    pub(super) revoked: Vec<(u32, Duration, Option<Duration>)>,
}

/// What was done to an incarnation that it can't survive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Fatal {
    /// The source failed for good, or for too long.
    pub(super) source: bool,
    /// A sink or the dead letters failed for good, or for too long.
    pub(super) sink: bool,
    /// A sink panicked.
    pub(super) panic: bool,
    /// A sink answered for too few.
    pub(super) short: bool,
    /// A message failed, and there are no dead letters.
    pub(super) message: bool,
    /// One of these was certain, not only a matter of time limits.
    pub(super) certain: bool,
}

impl Fatal {
    pub(super) fn any(self) -> bool {
        self.source || self.sink || self.panic || self.short || self.message
    }
}

impl State {
    pub(super) fn living(&self, instance: usize) -> Option<u32> {
        let last = self.incarnations.iter().rposition(|life| life.instance == instance)?;
        self.incarnations[last].alive.then_some(last as u32)
    }

    pub(super) fn life(&mut self, incarnation: u32) -> &mut Incarnation {
        &mut self.incarnations[incarnation as usize]
    }
}

impl World {
    /// An instance begins a life.
    pub fn start(&self, instance: usize) -> u32 {
        let mut state = self.lock();
        let incarnation = state.incarnations.len() as u32;
        state.incarnations.push(Incarnation {
            instance,
            alive: true,
            paused_until: Duration::ZERO,
            stopped_at: None,
            asked_since_stop: 0,
            changed: Arc::new(Notify::new()),
            handle: None,
            fatal: Fatal::default(),
            failing: vec![None; self.scenario().shape.sinks.len() + 4],
            calls: 0,
            left_alone_at: None,
            written: 0,
            revoked: Vec::new(),
        });
        drop(state);
        self.note(&Event::Started { incarnation, instance });
        incarnation
    }

    /// The pipeline of this life runs.
    pub fn runs(&self, incarnation: u32, handle: Handle) {
        let mut state = self.lock();
        let life = state.life(incarnation);
        if life.stopped_at.is_some() {
            handle.stop();
        }
        life.handle = Some(handle);
    }

    /// The process is killed: nothing that it does from now on has an effect.
    pub fn crash(&self, incarnation: u32) {
        let mut state = self.lock();
        if !std::mem::take(&mut state.life(incarnation).alive) {
            return;
        }
        state.account.crashed(incarnation);
        state.tally.crashes += 1;
        let changed = Arc::clone(&state.life(incarnation).changed);
        drop(state);
        changed.notify_waiters();
        self.note(&Event::Crashed { incarnation });
    }

    /// The process stands still until then.
    pub fn pause(&self, incarnation: u32, until: Duration) {
        let mut state = self.lock();
        let life = state.life(incarnation);
        life.paused_until = life.paused_until.max(until);
        life.changed.notify_waiters();
        state.busy_at = state.busy_at.max(until);
    }

    /// The pipeline is asked to stop.
    pub fn stop(&self, incarnation: u32) {
        let now = self.now();
        let mut state = self.lock();
        let life = state.life(incarnation);
        if !life.alive || life.stopped_at.is_some() {
            return;
        }
        life.stopped_at = Some(now);
        life.changed.notify_waiters();
        if let Some(handle) = life.handle.clone() {
            drop(state);
            handle.stop();
        }
        self.note(&Event::Stopped { incarnation });
    }

    /// Asks all that live to stop.
    pub fn stop_all(&self) {
        let lives = self.lock().incarnations.len() as u32;
        (0..lives).for_each(|incarnation| self.stop(incarnation));
    }

    /// Whether the process has not been killed.
    pub fn is_alive(&self, incarnation: u32) -> bool {
        self.lock().life(incarnation).alive
    }

    /// Waits until the process is killed.
    pub async fn crashed(&self, incarnation: u32) {
        self.changes(incarnation, |life, _| !life.alive).await;
    }

    /// Waits until the process is killed or stands still.
    pub async fn interrupted(&self, incarnation: u32) {
        self.changes(incarnation, |life, now| !life.alive || life.paused_until > now).await;
    }

    /// Waits until the pipeline was asked to stop; returns when.
    pub async fn stopped(&self, incarnation: u32) -> Duration {
        self.changes(incarnation, |life, _| life.stopped_at.is_some()).await;
        self.lock().life(incarnation).stopped_at.unwrap_or_default()
    }

    async fn changes(&self, incarnation: u32, holds: impl Fn(&Incarnation, Duration) -> bool) {
        let changed = Arc::clone(&self.lock().life(incarnation).changed);
        loop {
            let notified = changed.notified();
            if holds(self.lock().life(incarnation), self.now()) {
                return;
            }
            notified.await;
        }
    }

    /// Waits while the process stands still. `Err` once it is killed.
    pub async fn gate(&self, incarnation: u32) -> Result<(), Dead> {
        loop {
            let (alive, until) = {
                let mut state = self.lock();
                let life = state.life(incarnation);
                (life.alive, life.paused_until)
            };
            if !alive {
                return Err(Dead);
            }
            if until <= self.now() {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = self.crashed(incarnation) => return Err(Dead),
                () = self.sleep_until(until) => {}
            }
        }
    }

    /// What is in flight must be within the budget, but for one chunk (P35).
    pub fn check_budget(&self, incarnation: u32) {
        let settings = &self.scenario().settings;
        let Some(handle) = self.lock().life(incarnation).handle.clone() else { return };
        let bytes = handle.status().in_flight_bytes;
        if bytes > settings.bytes as u64 {
            let what = format!("{bytes} bytes in flight before a fetch, of {}", settings.bytes);
            self.violated("P35: what is in flight is within the budget", what);
        }
    }

    /// A sink has confirmed so many items.
    pub fn confirmed(&self, incarnation: u32, items: usize) {
        self.lock().life(incarnation).written += items as u64;
    }
}
