//! What arrives in the sinks: each result once in an ownership, in order, and as it was made.

use super::{Account, Violation, broken};
use crate::message::{Message, Part};
use crate::shape::{Order, StepNumber};

/// A result in a sink.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    ownership: u32,
    answer_failed: bool,
}

/// What a write says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Write {
    /// The answer will be that it is done.
    Confirmed,
    /// The answer will be that it failed: it comes again.
    Failed,
}

impl Account {
    /// The message is durable in the sink.
    pub fn arrived(
        &mut self,
        sink: usize,
        message: &Message,
        write: Write,
    ) -> Result<(), Violation> {
        let shape = &self.scenario.shape.sinks[sink];
        let (order, mixed) = (shape.order, shape.mixed);
        for part in &message.parts {
            self.check_content(sink, message.partition, *part)?;
            let repeats = self.check_repeat(sink, message.ownership, *part, write)?;
            let lane = match order {
                Order::Partition => 0,
                Order::Key => self.key_of(part.record),
                Order::Free => continue,
            };
            let kind = if mixed { part.trail } else { 0 };
            let last = self.last.entry((sink, message.ownership, lane, kind));
            let last = last.or_insert((0, 0));
            let result = Self::result(*part);
            if result < *last && !repeats {
                return Err(broken(
                    "P50: order is kept in a partition, or in a key",
                    format!(
                        "sink {sink}: record {} result {} after {last:?}",
                        part.record, part.trail
                    ),
                ));
            }
            *last = result.max(*last);
        }
        Ok(())
    }

    fn key_of(&self, record: u32) -> u64 {
        self.scenario.records[record as usize].key
    }

    /// It is one of the results that the record must have, made by the right steps.
    fn check_content(&self, sink: usize, partition: u32, part: Part) -> Result<(), Violation> {
        let expected = self.records.get(&part.record).and_then(|record| {
            let expected = record
                .expected
                .iter()
                .find(|expected| expected.sink == sink && expected.trail == part.trail);
            expected.filter(|_| record.partition == partition)
        });
        if expected.is_none_or(|expected| expected.digest != part.digest) {
            return Err(broken(
                "P16: every step works on a message once, in order",
                format!("sink {sink} got {part:?} of partition {partition}, expected {expected:?}"),
            ));
        }
        Ok(())
    }

    /// Within an ownership a result is written again only if the answer was that it failed (P13).
    fn check_repeat(
        &mut self,
        sink: usize,
        ownership: u32,
        part: Part,
        write: Write,
    ) -> Result<bool, Violation> {
        let arrivals = self.arrived.entry((sink, Self::result(part))).or_default();
        let earlier = arrivals.iter().filter(|arrival| arrival.ownership == ownership);
        let repeats = earlier.clone().count() > 0;
        if earlier.clone().any(|arrival| !arrival.answer_failed) {
            return Err(broken(
                "P13: nothing is repeated without a reason",
                format!("sink {sink} got {part:?} twice in one ownership"),
            ));
        }
        arrivals.push(Arrival { ownership, answer_failed: write == Write::Failed });
        Ok(repeats)
    }

    /// The record is durable among the dead letters, because of this step.
    pub fn diverted(
        &mut self,
        number: u32,
        step: StepNumber,
        write: Write,
    ) -> Result<(), Violation> {
        let failed = self.troubles.range((number, step, 0)..=(number, step, u32::MAX)).next();
        if failed.is_none() && !self.doomed.contains(&(number, step)) {
            return Err(broken(
                "P43: only what failed is diverted",
                format!("record {number} didn't fail in s{step}"),
            ));
        }
        let Some(record) = self.records.get_mut(&number) else {
            return Err(broken("P46: a dead letter is a record", format!("record {number}")));
        };
        record.letters += 1;
        let repeated = self.lost_letters.entry(number).or_default();
        if record.letters > record.deliveries + *repeated {
            return Err(broken(
                "P13: nothing is repeated without a reason",
                format!("record {number} is diverted twice"),
            ));
        }
        if write == Write::Failed {
            *repeated += 1;
        }
        Ok(())
    }
}
