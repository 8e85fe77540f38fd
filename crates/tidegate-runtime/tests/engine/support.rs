//! A source, a sink and dead letters that write one journal, and a checker for it.

use std::time::Duration;

use tidegate_core::{BoxError, DeadLetter, Record};
use tidegate_runtime::{
    CommitPolicy, Pipeline, PipelineError, RecordStream, Settings, Stream, Top,
};
use tidegate_testkit::{
    Checker, Journal, RecordId, SinkControl, SourceControl, text, virtual_settings,
};

/// A number that was read, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Item {
    pub(crate) id: RecordId,
    pub(crate) n: u64,
}

impl Item {
    pub(crate) fn parse(record: Record<'_>) -> Result<Self, BoxError> {
        Ok(Self { id: RecordId::of(record), n: text(record).parse()? })
    }

    pub(crate) fn ids(items: &[Self]) -> Vec<RecordId> {
        items.iter().map(|item| item.id.clone()).collect()
    }
}

/// What surrounds a pipeline.
pub(crate) struct World {
    pub(crate) journal: Journal,
    pub(crate) source: SourceControl,
    pub(crate) sink: SinkControl<Item>,
    pub(crate) dead: SinkControl<DeadLetter>,
}

impl World {
    /// `t[0]` to `t[partitions - 1]`, empty.
    pub(crate) fn new(partitions: u32) -> Self {
        let journal = Journal::new();
        let source = SourceControl::with_journal("t", partitions, &journal);
        let dead = SinkControl::dead_letters(&journal);
        let sink = named_sink(&journal, "sink");
        Self { journal, source, sink, dead }
    }

    /// With the numbers from 0 in each partition, and their end.
    pub(crate) fn with_numbers(partitions: u32, each: u64) -> Self {
        let world = Self::new(partitions);
        for partition in 0..partitions as usize {
            world.source.push_numbers(partition, 0..each);
        }
        world.source.end();
        world
    }

    /// Another sink that writes the same journal.
    pub(crate) fn another_sink(&self, name: &str) -> SinkControl<Item> {
        named_sink(&self.journal, name)
    }

    /// A sink for batches that writes the same journal.
    pub(crate) fn batch_sink(&self, name: &str) -> SinkControl<Vec<Item>> {
        SinkControl::with_journal(name, &self.journal, |items: &Vec<Item>| Item::ids(items))
    }

    /// The records, with dead letters and these settings.
    pub(crate) fn records_with(&self, settings: Settings) -> RecordStream {
        Pipeline::new("shop")
            .settings(settings)
            .dead_letters(self.dead.sink())
            .source(self.source.source())
    }

    pub(crate) fn items_with(&self, settings: Settings) -> Stream<Top, Item> {
        self.records_with(settings).try_map(Item::parse).named("parse")
    }

    /// The numbers; what is none goes to the dead letters.
    pub(crate) fn items(&self) -> Stream<Top, Item> {
        self.items_with(virtual_settings())
    }

    /// The numbers, without dead letters.
    pub(crate) fn items_or_stop(&self) -> Stream<Top, Item> {
        let source = self.source.source();
        let pipeline = Pipeline::new("shop").settings(virtual_settings());
        pipeline.source(source).try_map(Item::parse).named("parse")
    }

    pub(crate) fn committed(&self, partition: usize) -> u64 {
        self.source.committed(partition).map_or(0, |position| position.get())
    }

    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.sink.items().iter().map(|item| item.n).collect()
    }

    pub(crate) fn checker(&self) -> Checker<'_> {
        Checker::new(&self.journal)
    }
}

fn named_sink(journal: &Journal, name: &str) -> SinkControl<Item> {
    SinkControl::with_journal(name, journal, |item: &Item| vec![item.id.clone()])
}

/// Settings that commit so often.
pub(crate) fn commit_every(every: Duration) -> Settings {
    Settings { commit: CommitPolicy { every, count: None }, ..virtual_settings() }
}

pub(crate) const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// The text of the error that a pipeline must have ended with.
#[track_caller]
pub(crate) fn error_of<T: std::fmt::Debug>(outcome: Result<T, PipelineError>) -> String {
    outcome.expect_err("the pipeline must stop with an error").to_string()
}

#[track_caller]
pub(crate) fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}
