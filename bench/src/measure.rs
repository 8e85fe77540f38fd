//! Times cases against each other on a machine that others use too.
//!
//! The cases take turns, so that a slow moment of the machine hits all of them, and ratios are
//! taken within a turn. Processor time is measured beside wall time: it doesn't count the moments
//! in which others had the processor.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::alloc::counted;

/// One turn of one case.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Wall time a message, in ns.
    pub wall: f64,
    /// Processor time a message, of all threads together, in ns.
    pub cpu: f64,
}

/// Something to be timed; `run` handles `messages` messages.
pub struct Case<'a> {
    pub name: String,
    messages: u64,
    run: Box<dyn FnMut() + 'a>,
    turns: Vec<Turn>,
}

impl<'a> Case<'a> {
    pub fn new(name: impl Into<String>, messages: u64, run: impl FnMut() + 'a) -> Self {
        Self { name: name.into(), messages, run: Box::new(run), turns: Vec::new() }
    }

    /// The median turn, each time for itself.
    pub fn median(&self) -> Turn {
        Turn { wall: self.median_of(|turn| turn.wall), cpu: self.median_of(|turn| turn.cpu) }
    }

    /// Allocations a message, from a turn of its own.
    pub fn allocations(&mut self) -> f64 {
        counted(&mut self.run).allocations as f64 / self.messages as f64
    }

    /// The most memory that was in use at once, in bytes, from a turn of its own.
    pub fn peak_bytes(&mut self) -> f64 {
        counted(&mut self.run).peak_bytes as f64
    }

    fn median_of(&self, part: impl Fn(&Turn) -> f64) -> f64 {
        median(self.turns.iter().map(part).collect())
    }

    /// How many times this case's processor time `other`'s is; the median over the turns.
    pub fn ratio_to(&self, other: &Self) -> f64 {
        self.compared(other, |mine, other| mine / other)
    }

    /// How much more processor time than `other` this case needs a message, in ns; the median over
    /// the turns.
    pub fn beyond(&self, other: &Self) -> f64 {
        self.compared(other, |mine, other| mine - other)
    }

    fn compared(&self, other: &Self, compare: impl Fn(f64, f64) -> f64) -> f64 {
        let turns = self.turns.iter().zip(&other.turns);
        median(turns.map(|(mine, other)| compare(mine.cpu, other.cpu)).collect())
    }

    fn turn(&mut self) -> Turn {
        let (wall, cpu) = (now(ClockId::Monotonic), now(ClockId::ProcessCPUTime));
        (self.run)();
        let per_message = |start: Duration, end: Duration| {
            end.saturating_sub(start).as_nanos() as f64 / self.messages as f64
        };
        Turn {
            wall: per_message(wall, now(ClockId::Monotonic)),
            cpu: per_message(cpu, now(ClockId::ProcessCPUTime)),
        }
    }
}

/// Lets the cases take turns: one that doesn't count, then `turns`.
pub fn take_turns(turns: usize, cases: &mut [Case<'_>]) {
    for case in cases.iter_mut() {
        case.turn();
    }
    for _ in 0..turns {
        for case in cases.iter_mut() {
            let turn = case.turn();
            case.turns.push(turn);
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => values[len / 2],
        len => (values[len / 2 - 1] + values[len / 2]) / 2.0,
    }
}

fn now(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
