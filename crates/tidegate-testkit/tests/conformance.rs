//! The suites against the kit's own parts, which must pass, and against broken ones, which must
//! not.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use tidegate_core::{
    Commit, CommitReport, Demand, Partition, Position, PositionStore, Report, SavedPosition, Sink,
    SinkCapabilities, SinkError, Source, SourceCapabilities, SourceError, SourceEvent, StoreError,
};
use tidegate_testkit::conformance::{self, SinkHarness, SourceHarness, StoreHarness};
use tidegate_testkit::{Fault, ProbeSink, ScriptedSource, SinkControl, SourceControl};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fail {
    Nowhere,
    IgnoresDemand,
    LosesWhatIsDropped,
    ForgetsCommits,
    SkipsARecord,
}

/// A scripted source, with a fault built in.
struct Faulty {
    source: ScriptedSource,
    fail: Fail,
}

impl Source for Faulty {
    fn capabilities(&self) -> SourceCapabilities {
        self.source.capabilities()
    }

    async fn next(&mut self, demand: &Demand) -> Result<SourceEvent, SourceError> {
        let wide = Demand::new(1000, 1 << 20);
        let demand = if self.fail == Fail::IgnoresDemand { &wide } else { demand };
        let event = self.source.next(demand).await?;
        if self.fail == Fail::LosesWhatIsDropped {
            tokio::task::yield_now().await;
        }
        match event {
            SourceEvent::Fetched(batch) if self.fail == Fail::SkipsARecord && batch.len() > 1 => {
                let mut swapped = tidegate_core::RecordBatch::builder(batch.partition().clone());
                for record in batch.iter().filter(|record| record.position().get() != 1) {
                    let new = tidegate_core::NewRecord {
                        payload: Some(record.payload()),
                        ..Default::default()
                    };
                    swapped.push(record.position(), new).unwrap();
                }
                Ok(SourceEvent::Fetched(swapped.finish()))
            }
            event => Ok(event),
        }
    }

    async fn commit(&mut self, commit: Commit<'_>) -> Result<CommitReport, SourceError> {
        if self.fail == Fail::ForgetsCommits {
            return Ok(CommitReport::default());
        }
        self.source.commit(commit).await
    }

    async fn release(&mut self, partitions: &[Partition]) -> Result<(), SourceError> {
        self.source.release(partitions).await
    }

    async fn close(&mut self) -> Result<(), SourceError> {
        self.source.close().await
    }
}

struct Scripted {
    control: SourceControl,
    capabilities: SourceCapabilities,
    fail: Fail,
}

impl Scripted {
    fn new(capabilities: SourceCapabilities, fail: Fail) -> Self {
        Self { control: SourceControl::new("t", 3), capabilities, fail }
    }
}

impl SourceHarness for Scripted {
    type Source = Faulty;

    async fn reset(&mut self) {
        self.control = SourceControl::new("t", 3).capabilities(self.capabilities);
    }

    fn partitions(&self) -> usize {
        3
    }

    fn partition(&self, index: usize) -> Partition {
        self.control.partition(index)
    }

    async fn produce(&mut self, partition: usize, payloads: &[String]) {
        for payload in payloads {
            self.control.push(partition, payload);
        }
    }

    async fn start(&mut self) -> Faulty {
        if self.capabilities.bounded {
            self.control.end();
        }
        Faulty { source: self.control.source(), fail: self.fail }
    }

    async fn committed(&mut self, partition: usize) -> Option<Position> {
        self.control.committed(partition)
    }
}

const REBALANCES: [&str; 6] = [
    "shares_partitions_between_members",
    "hands_over_at_the_commit_with_a_higher_generation",
    "takes_over_from_a_member_that_left",
    "takes_over_from_a_member_that_died",
    "refuses_the_commits_of_a_zombie",
    "rebalances_while_nothing_is_allowed",
];

#[tokio::test(start_paused = true)]
async fn the_scripted_source_conforms() {
    let unbounded = SourceCapabilities::new().resumes(true);
    let mut harness = Scripted::new(unbounded, Fail::Nowhere);
    let mut skipped = REBALANCES.to_vec();
    skipped.extend(["ends_when_everything_is_read", "ends_when_there_is_nothing"]);
    conformance::source(&mut harness).await.assert_passed_except(&skipped);

    let mut harness = Scripted::new(unbounded.bounded(true), Fail::Nowhere);
    let mut skipped = REBALANCES.to_vec();
    skipped.extend(["delivers_what_comes_later", "waits_when_there_is_nothing"]);
    conformance::source(&mut harness).await.assert_passed_except(&skipped);
}

#[tokio::test(start_paused = true)]
async fn a_source_with_a_fault_is_found_out() {
    for (fail, check) in [
        (Fail::IgnoresDemand, "keeps_to_the_limits_of_a_demand"),
        (Fail::IgnoresDemand, "leaves_closed_partitions_alone"),
        (Fail::IgnoresDemand, "waits_while_nothing_is_allowed"),
        (Fail::LosesWhatIsDropped, "loses_nothing_when_next_is_dropped"),
        (Fail::ForgetsCommits, "goes_on_at_the_commit"),
        (Fail::ForgetsCommits, "goes_on_at_the_commit_after_a_crash"),
        (Fail::SkipsARecord, "delivers_every_record_in_order"),
    ] {
        let mut harness = Scripted::new(SourceCapabilities::new().resumes(true), fail);
        let report = conformance::source(&mut harness).await;
        let found = report.failed.iter().any(|(name, _)| *name == check);
        assert!(found, "{fail:?} was not found by {check}:\n{report}");
    }
}

/// A sink that keeps what it is given back until the next write, if it is told to.
struct Late {
    sink: ProbeSink<u64>,
    is_late: bool,
    kept: Vec<u64>,
}

impl Sink for Late {
    type Item = u64;

    fn capabilities(&self) -> SinkCapabilities {
        self.sink.capabilities()
    }

    async fn write(&mut self, batch: &[u64]) -> Result<Report, SinkError> {
        if self.is_late {
            let kept = std::mem::replace(&mut self.kept, batch.to_vec());
            self.sink.write(&kept).await?;
            return Ok(Report::all_done(batch.len()));
        }
        self.sink.write(batch).await
    }

    async fn close(&mut self) -> Result<(), SinkError> {
        self.sink.write(&self.kept).await?;
        self.sink.close().await
    }
}

#[derive(Default)]
struct Probe {
    control: SinkControl<u64>,
    is_late: bool,
}

impl SinkHarness for Probe {
    type Sink = Late;

    async fn reset(&mut self) {
        self.control = SinkControl::new();
        self.control.refuse_when(|item| (*item == u64::MAX).then(|| "too large".to_owned()));
    }

    async fn make(&mut self) -> Late {
        Late { sink: self.control.sink(), is_late: self.is_late, kept: Vec::new() }
    }

    fn item(&self, number: u64) -> u64 {
        number
    }

    fn bad_item(&self) -> Option<u64> {
        Some(u64::MAX)
    }

    async fn read(&mut self) -> Vec<u64> {
        self.control.items()
    }

    fn keeps_order(&self) -> bool {
        true
    }

    async fn break_down(&mut self) -> bool {
        self.control.write_faults().plan(Fault::lose_reply());
        true
    }
}

#[tokio::test(start_paused = true)]
async fn the_probe_sink_conforms_and_one_that_answers_too_early_does_not() {
    let report = conformance::sink(&mut Probe::default()).await;
    report.assert_passed_except(&["repeats_leave_one"]);
    let report = conformance::sink(&mut Probe { is_late: true, ..Probe::default() }).await;
    let failed: Vec<_> = report.failed.iter().map(|(name, _)| *name).collect();
    for check in
        ["is_durable_when_it_answers", "survives_without_being_closed", "refuses_a_bad_item_alone"]
    {
        assert!(failed.contains(&check), "{report}");
    }
}

#[derive(Clone, Default)]
struct Memory {
    saved: Arc<Mutex<Vec<SavedPosition>>>,
    is_torn: bool,
}

impl PositionStore for Memory {
    async fn load(&mut self) -> Result<Vec<SavedPosition>, StoreError> {
        Ok(self.saved.lock().unwrap().clone())
    }

    async fn save(&mut self, positions: &[SavedPosition]) -> Result<(), StoreError> {
        for (number, new) in positions.iter().enumerate() {
            if self.is_torn && number == 20 {
                tokio::task::yield_now().await;
            }
            let mut saved = self.saved.lock().unwrap();
            saved.retain(|old| old.partition != new.partition);
            saved.push(new.clone());
        }
        Ok(())
    }
}

struct InMemory(Memory);

impl StoreHarness for InMemory {
    type Store = Memory;

    async fn reset(&mut self) {
        self.0.saved = Arc::default();
    }

    async fn open(&mut self) -> Memory {
        self.0.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_in_memory_conforms_and_one_whose_saves_can_be_cut_in_two_does_not() {
    let mut harness = InMemory(Memory::default());
    conformance::store(&mut harness).await.assert_passed_except(&["refuses_damaged_content"]);
    let mut harness = InMemory(Memory { is_torn: true, ..Memory::default() });
    let report = conformance::store(&mut harness).await;
    assert_eq!(report.failed.len(), 1, "{report}");
    assert_eq!(report.failed[0].0, "saves_all_or_nothing_when_it_is_cut_off");
}
