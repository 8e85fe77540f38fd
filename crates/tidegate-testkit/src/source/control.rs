use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::{Partition, Position, SourceCapabilities, SourceEvent};

use super::script::Line;
use super::scripted::ScriptedSource;
use super::state::State;
use crate::journal::{Event, Journal, RecordId};
use crate::signal::Signal;
use crate::{FaultPoint, Process};

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) changed: Signal,
    pub(super) journal: Journal,
    pub(super) commits: FaultPoint,
    pub(super) releases: FaultPoint,
    pub(super) closes: FaultPoint,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The test's side of a [`ScriptedSource`]: several partitions with records in them, and a script
/// of what else happens. Cheap to clone.
///
/// It stands for the broker, so it outlives the source: [`SourceControl::source`] makes another
/// one, which goes on at what was committed, and from then on the earlier one is a zombie, whose
/// commits are refused.
///
/// Partitions are numbered from 0. What the script says keeps its place among the records: it
/// comes behind those that were pushed before, unless the pipeline has no room for them (the end
/// of a partition waits even then).
#[derive(Clone, Debug)]
pub struct SourceControl(Arc<Shared>);

impl SourceControl {
    /// Partitions `stream[0]` to `stream[partitions - 1]`, all assigned to each source that is
    /// made, before anything else.
    pub fn new(stream: &str, partitions: u32) -> Self {
        Self::with_journal(stream, partitions, &Journal::new())
    }

    /// The same, noting what happens in a journal that others write to as well.
    pub fn with_journal(stream: &str, partitions: u32, journal: &Journal) -> Self {
        let partitions = (0..partitions).map(|index| Partition::new(stream, index));
        Self(Arc::new(Shared {
            state: Mutex::new(State::new(partitions)),
            changed: Signal::new(),
            journal: journal.clone(),
            commits: FaultPoint::default(),
            releases: FaultPoint::default(),
            closes: FaultPoint::default(),
        }))
    }

    /// Assigns nothing by itself; the script does.
    #[must_use]
    pub fn unassigned(self) -> Self {
        self.0.lock().assigns_itself = false;
        self
    }

    /// What sources say that they can do. By default everything.
    #[must_use]
    pub fn capabilities(self, capabilities: SourceCapabilities) -> Self {
        self.0.lock().capabilities = capabilities;
        self
    }

    /// A source in a process of its own, in the place of those made before.
    pub fn source(&self) -> ScriptedSource {
        self.source_in(&Process::new())
    }

    /// A source in this process, in the place of those made before.
    pub fn source_in(&self, process: &Process) -> ScriptedSource {
        self.0.journal.note(Event::Started);
        let incarnation = self.0.lock().restart();
        self.0.changed.changed();
        ScriptedSource::new(Arc::clone(&self.0), process.clone(), incarnation)
    }

    /// Appends a record without a key, and returns its position.
    pub fn push(&self, partition: usize, payload: impl AsRef<[u8]>) -> Position {
        self.append(partition, None, None, payload.as_ref())
    }

    /// Appends a record with a key, and returns its position.
    pub fn push_keyed(
        &self,
        partition: usize,
        key: impl AsRef<[u8]>,
        payload: impl AsRef<[u8]>,
    ) -> Position {
        self.append(partition, None, Some(key.as_ref()), payload.as_ref())
    }

    /// Appends a record at a position that is not the next one. Panics if it is behind the end.
    pub fn push_at(&self, partition: usize, position: Position, payload: impl AsRef<[u8]>) {
        self.append(partition, Some(position), None, payload.as_ref());
    }

    /// Appends the numbers of the range as text.
    pub fn push_numbers(&self, partition: usize, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            self.push(partition, number.to_string());
        }
    }

    fn append(
        &self,
        partition: usize,
        at: Option<Position>,
        key: Option<&[u8]>,
        payload: &[u8],
    ) -> Position {
        let mut state = self.0.lock();
        let log = &mut state.logs[partition];
        log.append(at, key, payload);
        let position = log.end().get() - 1;
        let id = RecordId { partition: log.partition.clone(), position: Position::new(position) };
        self.0.journal.note(Event::Produced { id, key: key.map(<[u8]>::to_vec) });
        drop(state);
        self.0.changed.changed();
        Position::new(position)
    }

    /// Assigns partitions, as soon as they have been let go.
    pub fn assign(&self, partitions: impl IntoIterator<Item = usize>) {
        self.place(Line::Assign(partitions.into_iter().collect()));
    }

    /// Asks for partitions back, within a time if there is one.
    pub fn revoke(&self, partitions: impl IntoIterator<Item = usize>, within: Option<Duration>) {
        self.place(Line::Revoke(partitions.into_iter().collect(), within));
    }

    /// Takes partitions away.
    pub fn lose(&self, partitions: impl IntoIterator<Item = usize>) {
        self.place(Line::Lose(partitions.into_iter().collect()));
    }

    /// Ends partitions.
    pub fn finish(&self, partitions: impl IntoIterator<Item = usize>) {
        self.place(Line::Finish(partitions.into_iter().collect()));
    }

    /// Ends all of them. A source that is made later ends there too.
    pub fn end(&self) {
        self.place(Line::End);
    }

    /// The source returns an error that may pass.
    pub fn fail(&self, message: &str) {
        self.place(Line::Fail { message: message.to_owned(), retryable: true });
    }

    /// The source returns an error that will not pass.
    pub fn fail_for_good(&self, message: &str) {
        self.place(Line::Fail { message: message.to_owned(), retryable: false });
    }

    /// The source says nothing for so long.
    pub fn pause(&self, time: Duration) {
        self.place(Line::Pause(time));
    }

    /// The source panics.
    pub fn panic(&self, message: &str) {
        self.place(Line::Panic(message.to_owned()));
    }

    /// The source's process crashes.
    pub fn crash(&self) {
        self.place(Line::Crash);
    }

    /// The source says this, allowed or not: nothing of it is noted or checked here.
    pub fn say(&self, event: SourceEvent) {
        self.place(Line::Raw(event));
    }

    fn place(&self, line: Line) {
        self.0.lock().place(line);
        self.0.changed.changed();
    }

    /// The next commit of this partition is refused, as if it had been taken away just before.
    pub fn refuse_commit(&self, partition: usize) {
        self.0.lock().refuse.insert(partition);
    }

    /// What goes wrong with commits.
    pub fn commit_faults(&self) -> &FaultPoint {
        &self.0.commits
    }

    /// What goes wrong with releases.
    pub fn release_faults(&self) -> &FaultPoint {
        &self.0.releases
    }

    /// What goes wrong when the source is closed.
    pub fn close_faults(&self) -> &FaultPoint {
        &self.0.closes
    }

    /// The partition with this number.
    pub fn partition(&self, partition: usize) -> Partition {
        self.0.lock().logs[partition].partition.clone()
    }

    /// What is committed; `None` before the first commit.
    pub fn committed(&self, partition: usize) -> Option<Position> {
        self.0.lock().logs[partition].committed
    }

    /// How many records the present owner has read of the partition, from its beginning.
    pub fn read(&self, partition: usize) -> usize {
        self.0.lock().logs[partition].read
    }

    /// How often any source of this control was asked for its next event.
    pub fn polls(&self) -> u64 {
        self.0.lock().polls
    }

    /// Where everything is noted.
    pub fn journal(&self) -> &Journal {
        &self.0.journal
    }

    /// Waits until everything before this position is committed.
    ///
    /// Panics if that takes more than two minutes.
    pub async fn wait_for_commit(&self, partition: usize, position: u64) {
        let reached = || {
            let committed = self.committed(partition)?;
            (committed >= Position::new(position)).then_some(())
        };
        let describe = || {
            let (name, committed) = (self.partition(partition), self.committed(partition));
            format!("{name} is committed to {committed:?}, not to @{position}")
        };
        self.0.changed.wait_for(reached, describe).await;
    }

    /// Waits until so many of the source's events so far are of this kind.
    ///
    /// Panics if that takes more than two minutes.
    pub async fn wait_for_events(&self, count: usize, is_one: impl Fn(&Event) -> bool) {
        let seen = || self.0.journal.collect(|entry| is_one(&entry.event).then_some(())).len();
        let reached = || (seen() >= count).then_some(());
        let describe =
            || format!("{} of {count} events in {:#?}", seen(), self.0.journal.entries());
        self.0.changed.wait_for(reached, describe).await;
    }

    /// Waits until the present owner has read so many records of the partition.
    ///
    /// Panics if that takes more than two minutes.
    pub async fn wait_for_read(&self, partition: usize, records: usize) {
        let reached = || (self.read(partition) >= records).then_some(());
        let describe = || {
            format!("{} of {records} read of {}", self.read(partition), self.partition(partition))
        };
        self.0.changed.wait_for(reached, describe).await;
    }

    /// Waits until sources of this control were asked `more` times more.
    ///
    /// Panics if that takes more than two minutes.
    pub async fn wait_for_polls(&self, more: u64) {
        let goal = self.polls() + more;
        let reached = || (self.polls() >= goal).then_some(());
        self.0.changed.wait_for(reached, || format!("{} of {goal} polls", self.polls())).await;
    }
}
