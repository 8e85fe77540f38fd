//! The world's own account of what is durable, and the checkers that read it.
//!
//! It hears of everything that crosses a pipeline's border, and shares no code with the engine. It
//! reads no clock and does no I/O; a rule that is broken is an `Err`.
//!
//! - `ownership`: who may read and commit what, what was delivered, what an end of ownership costs.
//! - `settled`: which records the source may forget.
//! - `arrival`: what arrives in the sinks, in which order, how often.
//! - `author`: which failures the author's code had, and how often it was called.

mod arrival;
mod author;
mod ownership;
mod settled;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::expect::Expected;
use crate::message::Part;
use crate::rules::Verdict;
use crate::scenario::Scenario;
use crate::shape::StepNumber;

pub use arrival::Write;
pub use ownership::{Ended, Ownership};

/// A rule that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The rule.
    pub rule: &'static str,
    /// By what.
    pub what: String,
}

/// Builds the `Err` of a checker.
pub(crate) fn broken(rule: &'static str, what: impl Into<String>) -> Violation {
    Violation { rule, what: what.into() }
}

/// What is known of one record.
#[derive(Debug)]
pub struct Record {
    /// Its partition.
    pub partition: u32,
    /// Its position there.
    pub position: u64,
    expected: Vec<Expected>,
    deliveries: u32,
    letters: u32,
    settled: bool,
}

#[derive(Debug, Default)]
struct PartitionBook {
    /// The records by their position.
    records: BTreeMap<u64, u32>,
    /// What the log was told to forget.
    committed: u64,
    /// The generations in which anybody owned it. An owner may hear of its own late, when somebody
    /// else has a later one already.
    generations: BTreeSet<u64>,
    /// Up to where everything is known to be settled.
    verified: u64,
}

/// Which result of which record.
type Result = (u32, u32);

/// The whole account of one run.
#[derive(Debug)]
pub struct Account {
    scenario: Arc<Scenario>,
    records: BTreeMap<u32, Record>,
    partitions: Vec<PartitionBook>,
    ownerships: Vec<Ownership>,
    /// The ownership that an incarnation has of a partition, or had last.
    current: BTreeMap<(u32, u32), u32>,
    /// By sink and result: how often it was written, in which ownerships.
    arrived: HashMap<(usize, Result), Vec<arrival::Arrival>>,
    /// By sink, ownership, key and, where they are mixed, trail: the last result in order.
    last: HashMap<(usize, u32, u64, u32), Result>,
    /// Failures of the author's code that were injected: record, step, trail.
    troubles: BTreeSet<(u32, StepNumber, u32)>,
    /// The same with the record's delivery, and how.
    verdicts: BTreeMap<(u32, StepNumber, u32, u32), Verdict>,
    /// Records that fail together with another one, because they were put into one message with
    /// it: record, step.
    doomed: BTreeSet<(u32, StepNumber)>,
    /// How often the author's code was called.
    calls: HashMap<(StepNumber, Result), u32>,
    /// Writes of dead letters that were made but whose answer said that they failed.
    lost_letters: HashMap<u32, u32>,
}

impl Account {
    /// Before anything happened.
    pub fn new(scenario: Arc<Scenario>) -> Self {
        let partitions = (0..scenario.partitions).map(|_| PartitionBook::default()).collect();
        Self {
            scenario,
            records: BTreeMap::new(),
            partitions,
            ownerships: Vec::new(),
            current: BTreeMap::new(),
            arrived: HashMap::new(),
            last: HashMap::new(),
            troubles: BTreeSet::new(),
            verdicts: BTreeMap::new(),
            doomed: BTreeSet::new(),
            calls: HashMap::new(),
            lost_letters: HashMap::new(),
        }
    }

    /// A record is in the log.
    pub fn produced(&mut self, record: u32, partition: u32, position: u64) {
        let expected = crate::expect::expected(&self.scenario, record, partition);
        self.partitions[partition as usize].records.insert(position, record);
        self.records.insert(
            record,
            Record { partition, position, expected, deliveries: 0, letters: 0, settled: false },
        );
    }

    /// A record that is in the log.
    pub fn record(&self, record: u32) -> Option<&Record> {
        self.records.get(&record)
    }

    /// How often a record was delivered.
    pub fn deliveries(&self, record: u32) -> u32 {
        self.records.get(&record).map_or(0, |record| record.deliveries)
    }

    /// Whether all records of the scenario are settled and committed.
    pub fn is_complete(&mut self) -> bool {
        self.records.len() == self.scenario.records.len() && self.first_open().is_none()
    }

    /// What is left to do, for the report of a stall.
    pub fn first_open(&mut self) -> Option<String> {
        for (number, book) in self.partitions.iter().enumerate() {
            let last = book.records.last_key_value();
            if let Some((position, record)) = last.filter(|(last, _)| **last >= book.committed) {
                return Some(format!(
                    "partition {number} is committed up to {}, its last record is {record} at \
                     {position}",
                    book.committed
                ));
            }
        }
        None
    }

    /// Whether everything is settled, committed or not.
    pub fn is_settled(&mut self) -> bool {
        let records: Vec<u32> = self.records.keys().copied().collect();
        records.len() == self.scenario.records.len()
            && records.into_iter().all(|record| self.settles(record).is_ok())
    }

    fn result(part: Part) -> Result {
        (part.record, part.trail)
    }
}
