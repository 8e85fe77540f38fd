use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::{DeadLetter, SinkCapabilities};

use super::probe::ProbeSink;
use crate::journal::{Event, Journal, RecordId};
use crate::signal::Signal;
use crate::{FaultPoint, Gate, Process};

type Refusal<T> = Box<dyn Fn(&T) -> Option<String> + Send>;
type Note<T> = Box<dyn Fn(&[T]) + Send + Sync>;

pub(super) struct Shared<T> {
    state: Mutex<State<T>>,
    note: Option<Note<T>>,
    pub(super) changed: Signal,
    pub(super) gate: Gate,
    pub(super) opens: FaultPoint,
    pub(super) writes: FaultPoint,
    pub(super) closes: FaultPoint,
}

pub(super) struct State<T> {
    pub(super) capabilities: SinkCapabilities,
    pub(super) batches: Vec<Vec<T>>,
    pub(super) attempts: u64,
    pub(super) opened: u64,
    pub(super) closed: u64,
    pub(super) answers_fewer: usize,
    refuses: Option<Refusal<T>>,
}

impl<T> Shared<T> {
    pub(super) fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, written: &[T]) {
        if let Some(note) = &self.note {
            note(written);
        }
    }
}

impl<T> State<T> {
    pub(super) fn refusal(&self, item: &T) -> Option<String> {
        self.refuses.as_ref().and_then(|refuses| refuses(item))
    }
}

/// The test's side of [`ProbeSink`]s: what they have written, and how they misbehave. It stands
/// for the database, so it outlives the sinks. Cheap to clone.
pub struct SinkControl<T>(Arc<Shared<T>>);

impl<T> Clone for SinkControl<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for SinkControl<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.lock();
        write!(f, "SinkControl({} batches of {} attempts)", state.batches.len(), state.attempts)
    }
}

impl<T: Clone + Send + Sync + 'static> SinkControl<T> {
    /// Nothing is written yet, and nothing goes wrong.
    pub fn new() -> Self {
        Self::with(None)
    }

    /// The same, noting each write in the journal under this name; `ids` says of which records an
    /// item was made.
    pub fn with_journal(
        name: &str,
        journal: &Journal,
        ids: impl Fn(&T) -> Vec<RecordId> + Send + Sync + 'static,
    ) -> Self {
        let (name, journal) = (name.to_owned(), journal.clone());
        Self::with(Some(Box::new(move |written| {
            let items = written.iter().map(&ids).collect();
            journal.note(Event::Written { sink: name.clone(), items });
        })))
    }

    fn with(note: Option<Note<T>>) -> Self {
        let state = State {
            capabilities: SinkCapabilities::new(),
            batches: Vec::new(),
            attempts: 0,
            opened: 0,
            closed: 0,
            answers_fewer: 0,
            refuses: None,
        };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            note,
            changed: Signal::new(),
            gate: Gate::open(),
            opens: FaultPoint::default(),
            writes: FaultPoint::default(),
            closes: FaultPoint::default(),
        }))
    }

    /// What sinks say that they can do.
    #[must_use]
    pub fn capabilities(self, capabilities: SinkCapabilities) -> Self {
        self.0.lock().capabilities = capabilities;
        self
    }

    /// A sink in a process of its own.
    pub fn sink(&self) -> ProbeSink<T> {
        self.sink_in(&Process::new())
    }

    /// A sink in this process.
    pub fn sink_in(&self, process: &Process) -> ProbeSink<T> {
        ProbeSink::new(Arc::clone(&self.0), process.clone())
    }

    /// Items for which this returns a reason are refused, one by one; the others are written.
    pub fn refuse_when(&self, reason: impl Fn(&T) -> Option<String> + Send + 'static) {
        self.0.lock().refuses = Some(Box::new(reason));
    }

    /// The next write answers for so many items fewer than it was given.
    pub fn answer_for_fewer(&self, items: usize) {
        self.0.lock().answers_fewer = items;
    }

    /// Every write waits at this gate, open at first, before anything else.
    pub fn gate(&self) -> &Gate {
        &self.0.gate
    }

    /// What goes wrong with writes.
    pub fn write_faults(&self) -> &FaultPoint {
        &self.0.writes
    }

    /// What goes wrong when a sink is opened.
    pub fn open_faults(&self) -> &FaultPoint {
        &self.0.opens
    }

    /// What goes wrong when a sink is closed.
    pub fn close_faults(&self) -> &FaultPoint {
        &self.0.closes
    }

    /// Everything written, in order; what was written twice is there twice.
    pub fn items(&self) -> Vec<T> {
        self.0.lock().batches.concat()
    }

    /// What each write has written.
    pub fn batches(&self) -> Vec<Vec<T>> {
        self.0.lock().batches.clone()
    }

    /// How many writes have begun, whatever became of them.
    pub fn attempts(&self) -> u64 {
        self.0.lock().attempts
    }

    /// How many sinks were opened.
    pub fn opened(&self) -> u64 {
        self.0.lock().opened
    }

    /// How many sinks were closed.
    pub fn closed(&self) -> u64 {
        self.0.lock().closed
    }

    /// Waits until so many items are written.
    ///
    /// Panics if that takes more than two minutes.
    pub async fn wait_for_items(&self, count: usize) {
        let written = || self.0.lock().batches.iter().map(Vec::len).sum::<usize>();
        let reached = || (written() >= count).then_some(());
        self.0.changed.wait_for(reached, || format!("{} of {count} written", written())).await;
    }

    /// Waits until so many writes have begun, since the control was made.
    ///
    /// Panics if that takes more than two minutes.
    pub async fn wait_for_attempts(&self, count: u64) {
        let reached = || (self.attempts() >= count).then_some(());
        self.0.changed.wait_for(reached, || format!("{} of {count}", self.attempts())).await;
    }
}

impl SinkControl<DeadLetter> {
    /// For dead letters, noting them in the journal as such.
    pub fn dead_letters(journal: &Journal) -> Self {
        let journal = journal.clone();
        Self::with(Some(Box::new(move |letters: &[DeadLetter]| {
            for letter in letters {
                journal.note(Event::Diverted(RecordId::of_dead_letter(letter)));
            }
        })))
    }
}

impl<T: Clone + Send + Sync + 'static> Default for SinkControl<T> {
    fn default() -> Self {
        Self::new()
    }
}
