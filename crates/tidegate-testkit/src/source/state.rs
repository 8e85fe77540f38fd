//! What a scripted source says next, as a value: no waiting here.
//!
//! Lines of the script and records keep their order, partition by partition: a line comes behind
//! the records that were pushed before it, and before those that were pushed later. Only records
//! for which the demand has no room are overtaken, or else a stalled pipeline could never hear of
//! a revocation.

use std::collections::{BTreeSet, VecDeque};

use tidegate_core::{
    Assignment, Demand, Generation, Partition, PartitionFrontier, Revocation, SourceCapabilities,
    SourceEvent,
};
use tokio::time::Instant;

use super::log::{Log, Owner};
use super::script::{Line, Placed};
use crate::journal::{Event, Journal};

#[derive(Debug)]
pub(super) struct State {
    pub(super) capabilities: SourceCapabilities,
    pub(super) logs: Vec<Log>,
    pub(super) script: VecDeque<Placed>,
    /// The source that counts; those made earlier are zombies.
    pub(super) incarnation: u64,
    pub(super) generation: u64,
    pub(super) assigns_itself: bool,
    pub(super) paused_until: Option<Instant>,
    /// The logs whose next commit is refused.
    pub(super) refuse: BTreeSet<usize>,
    pub(super) polls: u64,
    turn: usize,
}

/// What there is to say.
pub(super) enum Next {
    Event(SourceEvent),
    Fail {
        message: String,
        retryable: bool,
    },
    Panic(String),
    Crash,
    /// Nothing until something changes, or until then.
    Nothing(Option<Instant>),
}

impl State {
    pub(super) fn new(partitions: impl IntoIterator<Item = Partition>) -> Self {
        Self {
            capabilities: SourceCapabilities::new().resumes(true).rebalances(true).bounded(true),
            logs: partitions.into_iter().map(Log::new).collect(),
            script: VecDeque::new(),
            incarnation: 0,
            generation: 0,
            assigns_itself: true,
            paused_until: None,
            refuse: BTreeSet::new(),
            polls: 0,
            turn: 0,
        }
    }

    pub(super) fn index(&self, partition: &Partition) -> Option<usize> {
        self.logs.iter().position(|log| log.partition == *partition)
    }

    pub(super) fn place(&mut self, line: Line) {
        let behind = self.logs.iter().map(|log| log.records.len()).collect();
        self.script.push_back(Placed { line, behind });
    }

    /// A new source takes over: whatever the old one had begun is gone.
    pub(super) fn restart(&mut self) -> u64 {
        self.incarnation += 1;
        self.paused_until = None;
        self.logs.iter_mut().for_each(|log| log.owner = Owner::Nobody);
        if self.incarnation > 1 {
            // What an earlier source was to be told isn't for this one, but for the end.
            self.script.retain(|placed| matches!(placed.line, Line::End));
        }
        if self.assigns_itself {
            let line = Line::Assign((0..self.logs.len()).collect());
            self.script.push_front(Placed { line, behind: vec![0; self.logs.len()] });
        }
        self.incarnation
    }

    pub(super) fn next(&mut self, demand: &Demand, now: Instant, journal: &Journal) -> Next {
        if let Some(until) = self.paused_until {
            if until > now {
                return Next::Nothing(Some(until));
            }
            self.paused_until = None;
        }
        let ready = (0..self.script.len()).find(|&at| self.is_ready(at, demand));
        if let Some(placed) = ready.and_then(|at| self.script.remove(at)) {
            return self.say(placed.line, now, journal);
        }
        match self.fetch(demand, journal) {
            Some(event) => Next::Event(event),
            None => Next::Nothing(None),
        }
    }

    /// Whether nothing that has to be said before this line is left.
    fn is_ready(&self, at: usize, demand: &Demand) -> bool {
        let placed = &self.script[at];
        if self.script.iter().take(at).any(|earlier| earlier.overlaps(placed)) {
            return false;
        }
        self.logs.iter().enumerate().filter(|(log, _)| placed.line.is_about(*log)).all(
            |(index, log)| match &placed.line {
                Line::Assign(_) => log.owner == Owner::Nobody,
                line => {
                    let must_be_read = match log.owner {
                        Owner::Reading(_) => line.waits_for_room() || log.is_readable(demand),
                        Owner::Nobody | Owner::Leaving(_) | Owner::Released => false,
                    };
                    !must_be_read || log.read >= placed.behind[index]
                }
            },
        )
    }

    fn say(&mut self, line: Line, now: Instant, journal: &Journal) -> Next {
        Next::Event(match line {
            Line::Assign(logs) => {
                self.generation += 1;
                let generation = Generation::new(self.generation);
                let assign = |log: &usize| {
                    let log = &mut self.logs[*log];
                    log.assign(generation);
                    journal.note(Event::Assigned(log.partition.clone(), generation));
                    Assignment { partition: log.partition.clone(), generation }
                };
                SourceEvent::Assigned(logs.iter().map(assign).collect())
            }
            Line::Revoke(logs, within) => {
                let partitions = self.leave(&logs, journal, Event::Revoking);
                SourceEvent::Revoking(Revocation { partitions, within })
            }
            Line::Finish(logs) => {
                SourceEvent::Finished(self.leave(&logs, journal, Event::Finished))
            }
            Line::Lose(logs) => {
                let partitions = self.leave(&logs, journal, Event::Lost);
                logs.iter().for_each(|log| self.logs[*log].owner = Owner::Nobody);
                SourceEvent::Lost(partitions)
            }
            Line::End => {
                self.logs.iter_mut().for_each(Log::leave);
                journal.note(Event::Ended);
                SourceEvent::Ended
            }
            Line::Raw(event) => event,
            Line::Fail { message, retryable } => return Next::Fail { message, retryable },
            Line::Panic(message) => return Next::Panic(message),
            Line::Crash => return Next::Crash,
            Line::Pause(time) => {
                self.paused_until = Some(now + time);
                return Next::Nothing(self.paused_until);
            }
        })
    }

    fn leave(
        &mut self,
        logs: &[usize],
        journal: &Journal,
        event: impl Fn(Partition) -> Event,
    ) -> Vec<Partition> {
        logs.iter()
            .map(|&log| {
                let log = &mut self.logs[log];
                log.leave();
                journal.note(event(log.partition.clone()));
                log.partition.clone()
            })
            .collect()
    }

    /// Records of the next partition that has some, each in its turn.
    fn fetch(&mut self, demand: &Demand, journal: &Journal) -> Option<SourceEvent> {
        let count = self.logs.len();
        for index in (0..count).map(|offset| (self.turn + offset) % count) {
            let line = self.script.iter().find(|placed| placed.line.is_about(index));
            let until = line.map_or(usize::MAX, |placed| placed.behind[index]);
            let log = &mut self.logs[index];
            if !log.is_readable(demand) {
                continue;
            }
            if let Some(batch) = log.fetch(until, demand) {
                self.turn = index + 1;
                let (partition, records) = (log.partition.clone(), batch.len());
                let first = batch.get(0).position();
                journal.note(Event::Fetched { partition, first, records });
                return Some(SourceEvent::Fetched(batch));
            }
        }
        None
    }

    /// Commits one frontier; false if it is refused.
    pub(super) fn commit(
        &mut self,
        incarnation: u64,
        frontier: &PartitionFrontier,
        journal: &Journal,
    ) -> bool {
        let PartitionFrontier { partition, generation, position } = frontier.clone();
        let index = self.index(&partition);
        let index = index.filter(|_| self.incarnation == incarnation);
        let owned = index.filter(|&index| self.logs[index].is_owned_in(generation));
        match owned.filter(|index| !self.refuse.remove(index)) {
            Some(index) => {
                self.logs[index].committed = Some(position);
                journal.note(Event::Committed { partition, generation, position });
                true
            }
            None => {
                if let Some(index) = owned {
                    // Refused because it was taken away just now.
                    self.logs[index].owner = Owner::Released;
                }
                journal.note(Event::Refused { partition, generation, position });
                false
            }
        }
    }

    /// Lets partitions go. They can be assigned once the owner [has heard](Self::heard) of it.
    pub(super) fn release(
        &mut self,
        incarnation: u64,
        partitions: &[Partition],
        journal: &Journal,
    ) {
        for partition in partitions {
            if let Some(index) = self.index(partition).filter(|_| self.incarnation == incarnation)
                && self.logs[index].owner != Owner::Nobody
            {
                self.logs[index].owner = Owner::Released;
                journal.note(Event::Released(partition.clone()));
            }
        }
    }

    /// The owner has heard that these were let go.
    pub(super) fn heard(&mut self, partitions: &[Partition]) {
        let logs = self.logs.iter_mut().filter(|log| log.owner == Owner::Released);
        logs.filter(|log| partitions.contains(&log.partition))
            .for_each(|log| log.owner = Owner::Nobody);
    }
}
