//! The sinks and the dead letters as the engine sees them.
//!
//! What is written is durable at once, item by item; a crash, a failure or a lost answer can come
//! at any place in between.

use tidegate_core::{DeadLetter, ItemError, Report, Sink, SinkCapabilities, SinkError};
use tidegate_local::{LocalRecord, LocalSink};

use crate::account::Write;
use crate::fault::{Call, Edge};
use crate::memory_log::TOPIC;
use crate::message::{Message, decode};
use crate::mutant::Mutant;
use crate::rules::Verdict;
use crate::shape::{SinkShape, StepNumber};
use crate::trace::Event;
use crate::world::{Line, World, WriteFault};

/// Where items are written to: a sink or the dead letters.
pub struct BorderSink<T> {
    world: World,
    incarnation: u32,
    target: Target,
    /// Where items are written to beside the world's account.
    log: Option<LocalSink>,
    /// What was answered for and not written, by the mutant that does so.
    owed: Vec<T>,
}

/// Which one of them.
#[derive(Clone, Debug)]
enum Target {
    Sink(usize, SinkShape),
    Letters,
}

/// What can be written.
pub trait Item: Clone + Send + Sync + 'static {
    /// Notes that it is durable.
    fn write(&self, world: &World, incarnation: u32, sink: Option<usize>, write: Write);
    /// What the local log gets of it.
    fn to_record(&self) -> LocalRecord;
    /// Whether the sink refuses it.
    fn is_refused(&self, world: &World, incarnation: u32, sink: Option<&SinkShape>) -> bool;
}

impl BorderSink<Message> {
    /// A sink of the pipeline.
    pub fn sink(world: World, incarnation: u32, sink: usize, log: Option<LocalSink>) -> Self {
        let shape = world.scenario().shape.sinks[sink].clone();
        Self { world, incarnation, target: Target::Sink(sink, shape), log, owed: Vec::new() }
    }
}

impl BorderSink<DeadLetter> {
    /// The dead letters.
    pub fn letters(world: World, incarnation: u32) -> Self {
        Self { world, incarnation, target: Target::Letters, log: None, owed: Vec::new() }
    }
}

impl<T: Item> BorderSink<T> {
    fn sink_index(&self) -> Option<usize> {
        match &self.target {
            Target::Sink(sink, _) => Some(*sink),
            Target::Letters => None,
        }
    }

    fn shape(&self) -> Option<&SinkShape> {
        match &self.target {
            Target::Sink(_, shape) => Some(shape),
            Target::Letters => None,
        }
    }

    fn number(&self) -> StepNumber {
        self.shape().map_or(StepNumber::MAX, |shape| shape.number)
    }

    fn call(&self) -> Call {
        if self.shape().is_some() { Call::Write } else { Call::Letter }
    }

    fn line(&self) -> Line {
        self.sink_index().map_or(Line::Letters, Line::Sink)
    }

    fn failure(&self, why: &'static str, fatal: bool) -> SinkError {
        let (incarnation, sink) = (self.incarnation, self.number());
        self.world.note(&Event::WriteFailed { incarnation, sink, why });
        if fatal {
            self.world.failed_for_good(incarnation, self.line());
            SinkError::stop(format!("injected: {why}"))
        } else {
            self.world.failed(incarnation, self.line());
            SinkError::retry(format!("injected: {why}"))
        }
    }

    async fn write_all(&mut self, items: Vec<&T>, write: Write) -> Result<(), SinkError> {
        if let Some(log) = &mut self.log
            && !items.is_empty()
        {
            let records: Vec<_> = items.iter().map(|item| item.to_record()).collect();
            let report = log.write(&records).await?;
            if report.len() != records.len() || !report.into_rejections().is_empty() {
                self.world.violated("P6: the local log takes every item", format!("{records:?}"));
            }
        }
        let has = |mutant| self.world.has(mutant);
        let put = |item: &T| item.write(&self.world, self.incarnation, self.sink_index(), write);
        if has(Mutant::LoseLetter) && self.shape().is_none() {
            return Ok(());
        }
        if has(Mutant::WriteBackwards) {
            items.into_iter().rev().for_each(put);
            return Ok(());
        }
        for (index, item) in items.into_iter().enumerate() {
            let unlucky = index % 5 == 4;
            if !(unlucky && has(Mutant::LoseItem)) {
                put(item);
            }
            if unlucky && has(Mutant::WriteTwice) {
                put(item);
            }
        }
        Ok(())
    }
}

impl<T: Item> Sink for BorderSink<T> {
    type Item = T;

    fn capabilities(&self) -> SinkCapabilities {
        let max_items = self.shape().map_or(5, |shape| shape.max_items);
        SinkCapabilities::new().max_items(max_items)
    }

    async fn open(&mut self) -> Result<(), SinkError> {
        self.world.gate(self.incarnation).await?;
        if self.world.open_fails() {
            return Err(self.failure("can't be opened", false));
        }
        if let Some(log) = &mut self.log {
            log.open().await?;
        }
        self.world.succeeded(self.incarnation, self.line());
        Ok(())
    }

    async fn write(&mut self, batch: &[T]) -> Result<Report, SinkError> {
        let (world, incarnation, sink) = (self.world.clone(), self.incarnation, self.number());
        world.gate(incarnation).await?;
        world.note(&Event::Writing { incarnation, sink, items: batch.len() });
        let plan = world.plan_write(self.sink_index(), batch.len());
        world.at_call(incarnation, self.call(), Edge::Before)?;
        if world.has(Mutant::NeverAnswer) {
            std::future::pending::<()>().await;
        }
        if world.has(Mutant::AnswerBeforeWrite) {
            let owed = std::mem::replace(&mut self.owed, batch.to_vec());
            self.write_all(owed.iter().collect(), Write::Confirmed).await?;
            return Ok(Report::all_done(batch.len()));
        }
        world.sleep_until(world.now() + plan.before).await;
        world.gate(incarnation).await?;
        match plan.fault {
            WriteFault::Refused => return Err(self.failure("refused", false)),
            WriteFault::Fatal => return Err(self.failure("refused for good", true)),
            _ => {}
        }
        let refused: Vec<bool> =
            batch.iter().map(|item| item.is_refused(&world, incarnation, self.shape())).collect();
        let taken = batch.iter().zip(&refused).filter(|(_, refused)| !**refused);
        let mut taken: Vec<&T> = taken.map(|(item, _)| item).collect();
        let rest = taken.split_off(plan.first.min(taken.len()));
        let confirmed = plan.fault == WriteFault::None;
        let write = if confirmed { Write::Confirmed } else { Write::Failed };
        self.write_all(taken, write).await?;
        world.sleep_until(world.now() + plan.between).await;
        world.gate(incarnation).await?;
        match plan.fault {
            WriteFault::Torn => return Err(self.failure("torn", false)),
            WriteFault::Panic => {
                world.note(&Event::WriteFailed { incarnation, sink, why: "panic" });
                world.panics(incarnation);
                std::panic::resume_unwind(Box::new("injected panic".to_owned()));
            }
            _ => {}
        }
        self.write_all(rest, write).await?;
        world.at_call(incarnation, self.call(), Edge::After)?;
        world.sleep_until(world.now() + plan.after).await;
        world.gate(incarnation).await?;
        if plan.fault == WriteFault::ReplyLost {
            return Err(self.failure("reply lost", false));
        }
        world.succeeded(incarnation, self.line());
        let rejected = refused.iter().filter(|refused| **refused).count();
        world.note(&Event::WriteAnswered { incarnation, sink, rejected });
        let mut answers: Vec<Result<(), ItemError>> = refused
            .into_iter()
            .map(|refused| if refused { Err(ItemError::new("injected: refused")) } else { Ok(()) })
            .collect();
        if rejected > 0 {
            world.cannot_go_on(incarnation);
        }
        if plan.fault == WriteFault::Short {
            world.answers_short(incarnation);
            answers.pop();
            return Ok(Report::each(answers));
        }
        if self.shape().is_some() {
            world.confirmed(incarnation, batch.len() - rejected);
        }
        if rejected == 0 {
            return Ok(Report::all_done(batch.len()));
        }
        Ok(Report::each(answers))
    }
}

impl Item for Message {
    fn write(&self, world: &World, incarnation: u32, sink: Option<usize>, write: Write) {
        let Some(sink) = sink else { return };
        let number = world.scenario().shape.sinks[sink].number;
        let parts = self.parts.iter().map(|part| (part.record, part.trail)).collect();
        world.note(&Event::Wrote { incarnation, sink: number, parts });
        world.check(|account| account.arrived(sink, self, write));
        world.wrote_to_log(sink, || self.to_bytes());
    }

    fn to_record(&self) -> LocalRecord {
        LocalRecord::new(self.to_bytes())
    }

    fn is_refused(&self, world: &World, incarnation: u32, sink: Option<&SinkShape>) -> bool {
        let Some(sink) = sink else { return false };
        let verdict = world.judge(incarnation, sink.number, self, sink.trouble);
        verdict != Verdict::Pass
    }
}

impl Item for DeadLetter {
    fn write(&self, world: &World, incarnation: u32, _: Option<usize>, write: Write) {
        let step = self.step.strip_prefix('s').and_then(|number| number.parse().ok());
        let record = self.payload.as_deref().and_then(decode);
        let (Some(step), Some(record)) = (step, record) else {
            world.violated("P46: a dead letter holds the original", format!("{self:?}"));
            return;
        };
        world.note(&Event::Letter { incarnation, record, step });
        world.count(|tally| tally.letters += 1);
        let origin = world.ask(|account| {
            account.record(record).map(|record| (record.partition, record.position))
        });
        let plan = world.scenario().records[record as usize];
        let is_original = origin == self.partition.map(|number| (number, self.position.get()))
            && self.stream == TOPIC
            && self.key == Some(plan.key.to_le_bytes().to_vec())
            && self.error.contains("injected");
        if !is_original {
            world.violated("P46: a dead letter holds the original", format!("{self:?}"));
        }
        world.check(|account| account.diverted(record, step, write));
    }

    fn to_record(&self) -> LocalRecord {
        LocalRecord::from(self.clone())
    }

    fn is_refused(&self, _: &World, _: u32, _: Option<&SinkShape>) -> bool {
        false
    }
}

impl<T> std::fmt::Debug for BorderSink<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BorderSink({:?})", self.target)
    }
}
