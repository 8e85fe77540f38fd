//! Finds out from a journal whether a pipeline has kept its promises.
//!
//! It knows sources, sinks and records, and nothing of ledgers, receipts or tasks: what is wrong
//! in those can't be wrong here in the same way.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use tidegate_core::{Generation, Partition, Position};

use crate::journal::{Event, Journal, RecordId};

/// Which order sinks must show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Each partition's records in their order.
    Partition,
    /// Each key's records of a partition in their order; those without a key in any.
    Key,
    /// None.
    Any,
}

/// A commit that told the source to forget something that was not settled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EarlyCommit {
    /// The commit's partition.
    pub partition: Partition,
    /// The committed frontier.
    pub frontier: Position,
    /// The first record before it that was neither written, nor diverted, nor filtered.
    pub unsettled: Position,
}

/// What a [`Checker`] found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Findings {
    /// Records that were neither written by every sink they belong to, nor diverted, nor filtered.
    pub lost: Vec<RecordId>,
    /// Commits past unsettled records.
    pub early_commits: Vec<EarlyCommit>,
    /// Commits below an earlier one of the same generation.
    pub lowered_commits: Vec<(Partition, Position)>,
    /// Records that a sink showed for the first time after a later one, with that one.
    pub out_of_order: Vec<(RecordId, RecordId)>,
    /// Records with two outcomes: written although filtered, diverted as well as written, or
    /// diverted twice in one run of the pipeline.
    pub two_outcomes: Vec<RecordId>,
    /// Records of which nothing was known but which a sink has written.
    pub invented: Vec<RecordId>,
    /// How many records sinks wrote once more. No fault; a number to be known.
    pub duplicates: usize,
}

impl Findings {
    /// Whether every promise was kept. Duplicates don't count.
    pub fn is_clean(&self) -> bool {
        *self == Self { duplicates: self.duplicates, ..Self::default() }
    }

    /// Panics, with everything that was found, unless [`Findings::is_clean`].
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(self.is_clean(), "promises were broken: {self:#?}");
    }
}

type Predicate = Box<dyn Fn(&RecordId) -> bool>;

/// Checks a journal: nothing lost, order kept, no commit past an unsettled record, one outcome
/// each, duplicates counted.
pub struct Checker<'a> {
    journal: &'a Journal,
    is_filtered: Predicate,
    sinks: Vec<(String, Predicate)>,
    order: Order,
    partial_diversion: bool,
}

impl fmt::Debug for Checker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Checker({:?})", self.order)
    }
}

impl<'a> Checker<'a> {
    /// Everything is expected in every sink of the journal, in the partitions' order.
    pub fn new(journal: &'a Journal) -> Self {
        Self {
            journal,
            is_filtered: Box::new(|_| false),
            sinks: Vec::new(),
            order: Order::Partition,
            partial_diversion: false,
        }
    }

    /// Records that the steps leave out.
    #[must_use]
    pub fn filtered(mut self, is_filtered: impl Fn(&RecordId) -> bool + 'static) -> Self {
        self.is_filtered = Box::new(is_filtered);
        self
    }

    /// The records that this sink must get. Once one sink is named, those that are not named are
    /// expected to get nothing in particular.
    #[must_use]
    pub fn sink(mut self, name: &str, gets: impl Fn(&RecordId) -> bool + 'static) -> Self {
        self.sinks.push((name.to_owned(), Box::new(gets)));
        self
    }

    /// Which order sinks must show.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// A record may be diverted by one branch and written by another.
    #[must_use]
    pub fn partial_diversion(mut self) -> Self {
        self.partial_diversion = true;
        self
    }

    /// Reads the whole journal.
    pub fn check(&self) -> Findings {
        let mut findings = Findings::default();
        let mut book = Book::default();
        for entry in self.journal.entries() {
            self.read(entry.event, &mut book, &mut findings);
        }
        for id in book.produced.keys() {
            if !self.is_settled(id, &book) {
                findings.lost.push(id.clone());
            }
            let (filtered, written) = ((self.is_filtered)(id), book.is_written(id));
            let diverted = book.diverted.contains(id);
            if filtered && (written || diverted)
                || written && diverted && !self.partial_diversion
                || book.diverted_twice.contains(id)
            {
                findings.two_outcomes.push(id.clone());
            }
        }
        findings
    }

    fn read(&self, event: Event, book: &mut Book, findings: &mut Findings) {
        match event {
            Event::Produced { id, key } => {
                book.produced.insert(id, key);
            }
            Event::Started => book.diverted_in_run.clear(),
            Event::Diverted(id) => {
                if !book.diverted_in_run.insert(id.clone()) {
                    book.diverted_twice.insert(id.clone());
                }
                book.diverted.insert(id);
            }
            Event::Written { sink, items } => {
                for id in items.into_iter().flatten() {
                    self.written(&sink, id, book, findings);
                }
            }
            Event::Committed { partition, generation, position } => {
                let last = book.commits.insert((partition.clone(), generation), position);
                if last.is_some_and(|last| last > position) {
                    findings.lowered_commits.push((partition.clone(), position));
                }
                let from = RecordId { partition: partition.clone(), position: Position::new(0) };
                let to = RecordId { partition: partition.clone(), position };
                let mut passed = book.produced.range(from..to).map(|(id, _)| id);
                let unsettled = passed.find(|id| !self.is_settled(id, book)).cloned();
                if let Some(RecordId { position: unsettled, .. }) = unsettled {
                    let frontier = position;
                    findings.early_commits.push(EarlyCommit { partition, frontier, unsettled });
                }
            }
            _ => {}
        }
    }

    fn written(&self, sink: &str, id: RecordId, book: &mut Book, findings: &mut Findings) {
        let Some(key) = book.produced.get(&id) else {
            findings.invented.push(id);
            return;
        };
        let written = book.written.entry(sink.to_owned()).or_default();
        if !written.insert(id.clone()) {
            findings.duplicates += 1;
            return;
        }
        let lane = match self.order {
            Order::Partition => Some(None),
            Order::Key => key.clone().map(Some),
            Order::Any => None,
        };
        let Some(lane) = lane else { return };
        let lane = (sink.to_owned(), id.partition.clone(), lane);
        let newest = book.newest.entry(lane).or_insert(id.position);
        if *newest > id.position {
            let later = RecordId { partition: id.partition.clone(), position: *newest };
            findings.out_of_order.push((id, later));
        } else {
            *newest = id.position;
        }
    }

    fn is_settled(&self, id: &RecordId, book: &Book) -> bool {
        if (self.is_filtered)(id) || book.diverted.contains(id) {
            return true;
        }
        if self.sinks.is_empty() {
            return !book.written.is_empty() && book.written.values().all(|ids| ids.contains(id));
        }
        self.sinks
            .iter()
            .filter(|(_, gets)| gets(id))
            .all(|(name, _)| book.written.get(name).is_some_and(|ids| ids.contains(id)))
    }
}

/// What the journal has said so far.
#[derive(Default)]
struct Book {
    produced: BTreeMap<RecordId, Option<Vec<u8>>>,
    written: BTreeMap<String, BTreeSet<RecordId>>,
    diverted: BTreeSet<RecordId>,
    diverted_in_run: BTreeSet<RecordId>,
    diverted_twice: BTreeSet<RecordId>,
    commits: HashMap<(Partition, Generation), Position>,
    /// The newest record that a sink has shown of a partition, or of a key in it.
    newest: HashMap<(String, Partition, Option<Vec<u8>>), Position>,
}

impl Book {
    fn is_written(&self, id: &RecordId) -> bool {
        self.written.values().any(|ids| ids.contains(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(position: u64) -> RecordId {
        RecordId { partition: Partition::new("t", 0), position: Position::new(position) }
    }

    fn journal(produced: u64) -> Journal {
        let journal = Journal::new();
        for position in 0..produced {
            let key = Some(vec![(position % 2) as u8]);
            journal.note(Event::Produced { id: id(position), key });
        }
        journal
    }

    fn write(journal: &Journal, positions: &[u64]) {
        let items = positions.iter().map(|&position| vec![id(position)]).collect();
        journal.note(Event::Written { sink: "s".to_owned(), items });
    }

    fn commit(journal: &Journal, position: u64) {
        journal.note(Event::Committed {
            partition: Partition::new("t", 0),
            generation: Generation::new(1),
            position: Position::new(position),
        });
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_without_fault_is_clean_and_its_repeats_are_counted() {
        let journal = journal(4);
        write(&journal, &[0, 2]);
        journal.note(Event::Diverted(id(1)));
        commit(&journal, 3);
        journal.note(Event::Started);
        write(&journal, &[2, 3]);
        commit(&journal, 4);
        let findings = Checker::new(&journal).check();
        findings.assert_clean();
        assert_eq!(findings.duplicates, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_lost_or_committed_too_early_is_found() {
        let journal = journal(3);
        write(&journal, &[0, 2]);
        commit(&journal, 3);
        commit(&journal, 1);
        let findings = Checker::new(&journal).check();
        assert_eq!(findings.lost, [id(1)]);
        let early = EarlyCommit {
            partition: Partition::new("t", 0),
            frontier: Position::new(3),
            unsettled: Position::new(1),
        };
        assert_eq!(findings.early_commits, [early]);
        assert_eq!(findings.lowered_commits.len(), 1);
        assert!(Checker::new(&journal).filtered(|r| *r == id(1)).check().lost.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn disorder_and_second_outcomes_are_found() {
        let journal = journal(4);
        write(&journal, &[1, 0, 3, 2, 9]);
        journal.note(Event::Diverted(id(3)));
        let findings = Checker::new(&journal).check();
        assert_eq!(findings.out_of_order, [(id(0), id(1)), (id(2), id(3))]);
        assert_eq!((findings.two_outcomes, findings.invented), (vec![id(3)], vec![id(9)]));
        let by_key = Checker::new(&journal).order(Order::Key).check();
        assert!(by_key.out_of_order.is_empty(), "odd and even ones are two keys");
    }
}
