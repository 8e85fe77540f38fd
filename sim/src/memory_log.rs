//! A log of our own, with a consumer group, that is nastier than a real one.
//!
//! - It takes partitions away without asking, gives deadlines that are too short, hands partitions
//!   out again at once, and expires members that are silent.
//! - Positions have gaps.
//! - A commit counts only for the owner, in its generation.
//!
//! A plain value; [`MemorySource`](crate::memory_source::MemorySource) waits for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tidegate_core::{
    Assignment, Demand, Generation, NewRecord, Partition, PartitionFrontier, Position, RecordBatch,
    Revocation, SourceEvent,
};

use crate::rng::mix;

/// The topic's name, in this log and in the local one.
pub const TOPIC: &str = "t";

/// How long a member may take longer than its deadline.
const GRACE: Duration = Duration::from_millis(700);

#[derive(Debug)]
struct Stored {
    position: u64,
    key: Vec<u8>,
    payload: Vec<u8>,
}

#[derive(Debug, Default)]
struct Part {
    records: Vec<Stored>,
    committed: u64,
    owner: Option<u32>,
    generation: u64,
    /// The next position to hand over.
    next: u64,
    /// The owner was told that it goes.
    going: bool,
    /// When it is taken from an owner that was told.
    taken_at: Option<Duration>,
}

#[derive(Debug)]
struct Member {
    heard_at: Duration,
    inbox: VecDeque<Told>,
    leaving: bool,
    turn: usize,
}

#[derive(Debug)]
enum Told {
    Assigned(u32, u64),
    Revoking(u32, Option<Duration>),
    Lost(u32),
}

/// The log, its group and what the members know.
#[derive(Debug)]
pub struct MemoryLog {
    session: Duration,
    /// The number of records after which the source ends, if it does.
    ends_after: Option<usize>,
    parts: Vec<Part>,
    members: BTreeMap<u32, Member>,
    /// What a member was told it owns, and not that it doesn't any more; also of expired members.
    believes: BTreeMap<u32, BTreeSet<u32>>,
    /// Changes with each reshuffle, and with it who gets what.
    deal: u64,
    within: Option<Duration>,
    /// For the mutant that lets anybody commit.
    pub(crate) accepts_zombies: bool,
}

impl MemoryLog {
    /// An empty log.
    pub fn new(partitions: u32, session: Duration, ends_after: Option<usize>) -> Self {
        Self {
            session,
            ends_after,
            parts: (0..partitions).map(|_| Part::default()).collect(),
            members: BTreeMap::new(),
            believes: BTreeMap::new(),
            deal: 0,
            within: None,
            accepts_zombies: false,
        }
    }

    /// Appends a record; returns its partition and position.
    pub fn append(&mut self, key: u64, payload: Vec<u8>) -> (u32, u64) {
        let number = mix(&[key]) % self.parts.len() as u64;
        let part = &mut self.parts[number as usize];
        let gap = part.records.len() as u64 % 3;
        let position = part.records.last().map_or(0, |last| last.position + 1) + gap;
        part.records.push(Stored { position, key: key.to_le_bytes().to_vec(), payload });
        (number as u32, position)
    }

    /// Who has what changes; owners get this long to drain.
    pub fn reshuffle(&mut self, within: Option<Duration>, now: Duration) {
        self.deal += 1;
        self.within = within;
        self.balance(now);
    }

    /// The partition is taken from its owner, who hears of it afterwards.
    pub fn take(&mut self, partition: u32, now: Duration) {
        self.deal += 1;
        self.take_from_owner(partition);
        self.balance(now);
    }

    /// What the member is told next. Counts as a sign of life.
    pub fn poll(&mut self, id: u32, demand: &Demand, now: Duration) -> Option<SourceEvent> {
        self.expire(now);
        if !self.members.contains_key(&id) {
            // It was expired, or is new.
            let lost: Vec<_> = self.believes.remove(&id).unwrap_or_default().into_iter().collect();
            let (inbox, turn) = (VecDeque::new(), 0);
            self.members.insert(id, Member { heard_at: now, inbox, leaving: false, turn });
            self.balance(now);
            if !lost.is_empty() {
                return Some(SourceEvent::Lost(lost.into_iter().map(partition).collect()));
            }
        }
        let member = self.members.get_mut(&id)?;
        member.heard_at = now;
        match member.inbox.pop_front() {
            Some(told) => Some(self.tell(id, told)),
            None => self.fetch(id, demand).or_else(|| self.conclude(id)),
        }
    }

    /// Commits what the member owns; returns what it doesn't.
    pub fn commit(
        &mut self,
        id: u32,
        frontiers: &[PartitionFrontier],
        now: Duration,
    ) -> Vec<Partition> {
        self.expire(now);
        if let Some(member) = self.members.get_mut(&id) {
            member.heard_at = now;
        }
        let mut refused = Vec::new();
        for frontier in frontiers {
            let number = frontier.partition.index().unwrap_or_default();
            let part = &mut self.parts[number as usize];
            let owns = part.owner == Some(id) && part.generation == frontier.generation.get();
            if owns || self.accepts_zombies {
                part.committed = frontier.position.get();
            } else {
                refused.push(frontier.partition.clone());
                self.forget(id, number);
            }
        }
        refused
    }

    /// The member lets these go.
    pub fn release(&mut self, id: u32, partitions: &[Partition], now: Duration) {
        for released in partitions {
            let number = released.index().unwrap_or_default();
            self.forget(id, number);
            let end = self.end_of(number);
            // It may have got the partition again without having heard of it yet.
            let again = self.members.get(&id).is_some_and(|member| {
                member.inbox.iter().any(|told| matches!(told, Told::Assigned(n, _) if *n == number))
            });
            let part = &mut self.parts[number as usize];
            if part.owner != Some(id) || again {
                continue;
            }
            (part.owner, part.taken_at) = (None, None);
            let finished = end.is_some_and(|end| part.committed >= end);
            if !std::mem::take(&mut part.going)
                && !finished
                && let Some(member) = self.members.get_mut(&id)
            {
                // Nobody asked for it: the member is about to leave.
                member.leaving = true;
            }
        }
        self.balance(now);
    }

    /// The member is gone.
    pub fn leave(&mut self, id: u32, now: Duration) {
        self.remove(id);
        self.believes.remove(&id);
        self.balance(now);
    }

    /// The position behind the partition's last record.
    pub fn end(&self, number: u32) -> u64 {
        self.parts[number as usize].records.last().map_or(0, |last| last.position + 1)
    }

    fn tell(&mut self, id: u32, told: Told) -> SourceEvent {
        let believes = self.believes.entry(id).or_default();
        match told {
            Told::Assigned(number, generation) => {
                believes.insert(number);
                let generation = Generation::new(generation);
                SourceEvent::Assigned(vec![Assignment { partition: partition(number), generation }])
            }
            Told::Revoking(number, within) => {
                let partitions = vec![partition(number)];
                SourceEvent::Revoking(Revocation { partitions, within })
            }
            Told::Lost(number) => {
                believes.remove(&number);
                SourceEvent::Lost(vec![partition(number)])
            }
        }
    }

    fn fetch(&mut self, id: u32, demand: &Demand) -> Option<SourceEvent> {
        let count = self.parts.len();
        let member = self.members.get_mut(&id)?;
        let number = (0..count).map(|step| (member.turn + step) % count).find(|number| {
            let part = &self.parts[*number];
            part.owner == Some(id)
                && !part.going
                && part.records.last().is_some_and(|last| last.position >= part.next)
                && demand.allows(&partition(*number as u32))
        })?;
        member.turn = number + 1;
        let part = &mut self.parts[number];
        let first = part.records.partition_point(|record| record.position < part.next);
        let mut bytes = 0;
        let fits = part.records[first..].iter().take(demand.max_records()).take_while(|record| {
            let before = bytes;
            bytes += record.key.len() + record.payload.len();
            before == 0 || bytes <= demand.max_bytes()
        });
        let records: Vec<&Stored> = fits.collect();
        let size = records.iter().map(|record| record.key.len() + record.payload.len()).sum();
        let mut builder =
            RecordBatch::builder(partition(number as u32)).with_capacity(records.len(), size);
        for record in records {
            let (key, payload) = (Some(&record.key[..]), Some(&record.payload[..]));
            let new = NewRecord { key, payload, ..NewRecord::default() };
            builder.push(Position::new(record.position), new).ok()?;
            part.next = record.position + 1;
        }
        Some(SourceEvent::Fetched(builder.finish()))
    }

    /// For a source that ends: what has come to its end.
    fn conclude(&mut self, id: u32) -> Option<SourceEvent> {
        let ends: Vec<Option<u64>> = (0..self.parts.len() as u32).map(|n| self.end_of(n)).collect();
        let mut finished = Vec::new();
        for (number, (part, end)) in (0..).zip(self.parts.iter_mut().zip(&ends)) {
            let delivered = end.is_some_and(|end| part.next >= end);
            if part.owner == Some(id) && !part.going && delivered {
                part.going = true;
                finished.push(partition(number));
            }
        }
        if !finished.is_empty() {
            return Some(SourceEvent::Finished(finished));
        }
        let all = self.parts.iter().zip(&ends);
        let ended = all.into_iter().all(|(part, end)| end.is_some_and(|end| part.committed >= end));
        ended.then_some(SourceEvent::Ended)
    }

    /// Where the partition ends, if nothing more is written to it.
    fn end_of(&self, number: u32) -> Option<u64> {
        let written: usize = self.parts.iter().map(|part| part.records.len()).sum();
        (self.ends_after == Some(written)).then(|| self.end(number))
    }

    /// Members that were silent for too long are gone; so is what owners kept for longer than they
    /// were given.
    fn expire(&mut self, now: Duration) {
        let silent = self.members.iter().filter(|(_, m)| m.heard_at + self.session < now);
        let silent: Vec<u32> = silent.map(|(id, _)| *id).collect();
        let late: Vec<u32> = (0..self.parts.len() as u32)
            .filter(|number| self.parts[*number as usize].taken_at.is_some_and(|at| at < now))
            .collect();
        if silent.is_empty() && late.is_empty() {
            return;
        }
        silent.into_iter().for_each(|id| self.remove(id));
        late.into_iter().for_each(|number| self.take_from_owner(number));
        self.balance(now);
    }

    fn remove(&mut self, id: u32) {
        self.members.remove(&id);
        for part in self.parts.iter_mut().filter(|part| part.owner == Some(id)) {
            (part.owner, part.going, part.taken_at) = (None, false, None);
        }
    }

    fn take_from_owner(&mut self, number: u32) {
        let part = &mut self.parts[number as usize];
        (part.going, part.taken_at) = (false, None);
        let Some(owner) = part.owner.take() else { return };
        self.tell_later(owner, Told::Lost(number));
    }

    /// Whatever the member has not heard yet of the partition is out of date.
    fn forget(&mut self, id: u32, number: u32) {
        if let Some(believes) = self.believes.get_mut(&id) {
            believes.remove(&number);
        }
        if let Some(member) = self.members.get_mut(&id) {
            // What follows a new assignment belongs to that one.
            let mut again = false;
            member.inbox.retain(|told| match told {
                Told::Assigned(n, _) => {
                    again |= *n == number;
                    true
                }
                Told::Lost(n) | Told::Revoking(n, _) => again || *n != number,
            });
        }
    }

    fn tell_later(&mut self, id: u32, told: Told) {
        if let Some(member) = self.members.get_mut(&id) {
            member.inbox.push_back(told);
        }
    }

    /// Gives free partitions to whom they are meant for, and asks for the others.
    fn balance(&mut self, now: Duration) {
        let staying = self.members.iter().filter(|(_, member)| !member.leaving);
        let staying: Vec<u32> = staying.map(|(id, _)| *id).collect();
        if staying.is_empty() {
            return;
        }
        for number in 0..self.parts.len() as u32 {
            let turn = mix(&[self.deal, u64::from(number) / 2]) + u64::from(number);
            let meant = staying[(turn % staying.len() as u64) as usize];
            let end = self.end_of(number);
            let part = &mut self.parts[number as usize];
            if end.is_some_and(|end| part.committed >= end) {
                continue;
            }
            match part.owner {
                None => {
                    part.owner = Some(meant);
                    part.generation += 1;
                    part.next = part.committed;
                    let generation = part.generation;
                    self.tell_later(meant, Told::Assigned(number, generation));
                }
                Some(owner) if owner != meant && !part.going => {
                    part.going = true;
                    part.taken_at = self.within.map(|within| now + within + GRACE);
                    self.tell_later(owner, Told::Revoking(number, self.within));
                }
                Some(_) => {}
            }
        }
    }
}

fn partition(number: u32) -> Partition {
    Partition::new(TOPIC, number)
}
