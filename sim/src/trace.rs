//! What happened, as one number: two runs are the same if their traces have the same hash.
//!
//! Every event at the border of a pipeline goes in, with its virtual time.

use std::hash::{Hash, Hasher};
use std::io::Write;
use std::time::Duration;

use crate::fault::Action;
use crate::shape::StepNumber;

/// Something at the border. `incarnation` is one life of one instance.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // the names say it
pub enum Event {
    Produced { record: u32, partition: u32, position: u64 },
    Done(Action),
    Started { incarnation: u32, instance: usize },
    Crashed { incarnation: u32 },
    Stopped { incarnation: u32 },
    Ended { incarnation: u32, outcome: &'static str },

    Assigned { incarnation: u32, partition: u32, generation: u64 },
    Fetched { incarnation: u32, partition: u32, first: u64, last: u64, records: usize },
    Revoking { incarnation: u32, partition: u32, within: Option<Duration> },
    Lost { incarnation: u32, partition: u32 },
    Finished { incarnation: u32, partition: u32 },
    SourceEnded { incarnation: u32 },
    NextFailed { incarnation: u32, fatal: bool },

    Committing { incarnation: u32, partition: u32, generation: u64, position: u64 },
    Committed { incarnation: u32, partition: u32, position: u64 },
    CommitRefused { incarnation: u32, partition: u32, generation: u64 },
    CommitFailed { incarnation: u32, made: bool, fatal: bool },
    Released { incarnation: u32, partition: u32 },
    ReleaseFailed { incarnation: u32 },
    Closed { incarnation: u32 },

    Writing { incarnation: u32, sink: StepNumber, items: usize },
    Wrote { incarnation: u32, sink: StepNumber, parts: Vec<(u32, u32)> },
    WriteAnswered { incarnation: u32, sink: StepNumber, rejected: usize },
    WriteFailed { incarnation: u32, sink: StepNumber, why: &'static str },
    Letter { incarnation: u32, record: u32, step: StepNumber },
    Trouble { incarnation: u32, step: StepNumber, record: u32, panic: bool },
}

/// The events so far.
#[derive(Debug)]
pub struct Trace {
    hash: Fnv,
    events: u64,
    prints: bool,
}

impl Trace {
    /// An empty trace. With `prints`, each event is a line on standard output, at once, so that it
    /// is seen also if the run never ends.
    pub fn new(prints: bool) -> Self {
        Self { hash: Fnv::new(), events: 0, prints }
    }

    /// Notes an event.
    pub fn note(&mut self, at: Duration, event: &Event) {
        (at.as_micros() as u64).hash(&mut self.hash);
        event.hash(&mut self.hash);
        self.events += 1;
        if self.prints {
            // A reader that has gone away is no reason to take another course.
            let _ = writeln!(std::io::stdout(), "{:10.3} {event:?}", at.as_secs_f64());
        }
    }

    /// The hash of all events.
    pub fn hash(&self) -> u64 {
        self.hash.finish()
    }

    /// How many events.
    pub fn events(&self) -> u64 {
        self.events
    }
}

/// Fowler, Noll and Vo's hash (FNV-1a): the same in every version of the standard library.
#[derive(Debug)]
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
