//! Random histories of a group, checked against what must hold in all of them:
//!
//! - no commit passes a position that nobody has handled (P1), and none goes back (P5);
//! - commits of a partition pass from owner to owner in rising generations (P22);
//! - an owner reads on without a gap from where its predecessor has committed;
//! - once the group is left in peace, everything is handled and committed (P24);
//! - the same history gives the same events.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use common::*;
use proptest::prelude::*;
use tidegate_core::{Demand, Source, SourceEvent};
use tidegate_local::{LocalRecord, LocalSource, Producer};

const PARTITIONS: u32 = 5;
const PROCESSES: usize = 3;

/// What happens next; the number says to which process.
#[derive(Clone, Debug)]
enum Action {
    Produce(u8),
    Pass(u16),
    Next(usize),
    NextWithoutRoom(usize),
    Handle(usize),
    Commit(usize),
    Release(usize),
    ReleaseAll(usize),
    Crash(usize),
    Close(usize),
}

fn action() -> impl Strategy<Value = Action> {
    let process = || 0..PROCESSES;
    prop_oneof![
        2 => (1..20_u8).prop_map(Action::Produce),
        4 => (0..6_000_u16).prop_map(Action::Pass),
        8 => process().prop_map(Action::Next),
        2 => process().prop_map(Action::NextWithoutRoom),
        6 => process().prop_map(Action::Handle),
        4 => process().prop_map(Action::Commit),
        3 => process().prop_map(Action::Release),
        1 => process().prop_map(Action::ReleaseAll),
        1 => process().prop_map(Action::Crash),
        1 => process().prop_map(Action::Close),
    ]
}

/// A partition as its owner sees it.
#[derive(Default)]
struct Work {
    generation: u64,
    /// Delivered and not handled.
    waiting: VecDeque<u64>,
    /// Behind the last one that was delivered.
    delivered: u64,
    /// Everything before it is handled.
    frontier: u64,
    is_going: bool,
}

#[derive(Default)]
struct Process {
    source: Option<LocalSource>,
    work: BTreeMap<u32, Work>,
}

struct World {
    log: Log,
    producer: Producer,
    processes: Vec<Process>,
    handled: BTreeMap<u32, BTreeSet<u64>>,
    /// The generation and position of each partition's last commit.
    committed: BTreeMap<u32, (u64, u64)>,
    trace: Vec<String>,
}

impl World {
    fn new() -> Self {
        let log = Log::new(PARTITIONS);
        Self {
            producer: log.producer(),
            processes: (0..PROCESSES).map(|_| Process::default()).collect(),
            log,
            handled: BTreeMap::new(),
            committed: BTreeMap::new(),
            trace: Vec::new(),
        }
    }

    async fn act(&mut self, action: &Action) {
        match *action {
            Action::Produce(records) => {
                let records: Vec<_> = (0..records).map(|n| LocalRecord::new([n])).collect();
                self.producer.append(&records).unwrap();
            }
            Action::Pass(millis) => {
                tokio::time::advance(Duration::from_millis(millis.into())).await;
            }
            Action::Next(process) => self.next(process, &Demand::new(3, 1000)).await,
            Action::NextWithoutRoom(process) => self.next(process, &closed()).await,
            Action::Handle(process) => self.handle(process),
            Action::Commit(process) => self.commit(process).await,
            Action::Release(process) => self.release(process, false).await,
            Action::ReleaseAll(process) => self.release(process, true).await,
            Action::Crash(process) => self.processes[process] = Process::default(),
            Action::Close(process) => {
                if let Some(mut source) = std::mem::take(&mut self.processes[process]).source {
                    source.close().await.unwrap();
                }
            }
        }
    }

    async fn next(&mut self, index: usize, demand: &Demand) {
        let process = &mut self.processes[index];
        let log = &self.log;
        let source = process.source.get_or_insert_with(|| log.source(&format!("process {index}")));
        let Ok(event) = tokio::time::timeout(Duration::from_millis(20), source.next(demand)).await
        else {
            return;
        };
        let event = event.unwrap();
        self.trace.push(format!("{index} {}", brief(&event)));
        let number = |partition: &tidegate_core::Partition| partition.index().unwrap();
        match event {
            SourceEvent::Assigned(assignments) => {
                for assignment in assignments {
                    let number = number(&assignment.partition);
                    let start = self.committed.get(&number).map_or(0, |(_, position)| *position);
                    let work = Work {
                        generation: assignment.generation.get(),
                        delivered: start,
                        frontier: start,
                        ..Work::default()
                    };
                    assert!(process.work.insert(number, work).is_none(), "assigned twice");
                }
            }
            SourceEvent::Fetched(batch) => {
                let work = process.work.get_mut(&number(batch.partition())).unwrap();
                assert!(!work.is_going, "delivered after it was revoked");
                for record in batch.iter() {
                    assert_eq!(record.position().get(), work.delivered, "a gap");
                    work.waiting.push_back(work.delivered);
                    work.delivered += 1;
                }
            }
            SourceEvent::Revoking(revocation) => {
                for partition in revocation.partitions {
                    let work = process.work.get_mut(&number(&partition)).unwrap();
                    assert!(!std::mem::replace(&mut work.is_going, true), "revoked twice");
                }
            }
            SourceEvent::Lost(partitions) => {
                for partition in partitions {
                    process.work.remove(&number(&partition)).unwrap();
                }
            }
            SourceEvent::Finished(_) | SourceEvent::Ended => panic!("this source has no end"),
        }
    }

    /// Handles half of what waits in each partition.
    fn handle(&mut self, index: usize) {
        for (number, work) in &mut self.processes[index].work {
            for _ in 0..work.waiting.len().div_ceil(2) {
                let position = work.waiting.pop_front().unwrap();
                self.handled.entry(*number).or_default().insert(position);
                work.frontier = position + 1;
            }
        }
    }

    async fn commit(&mut self, index: usize) {
        let process = &mut self.processes[index];
        let Some(source) = &mut process.source else { return };
        let frontiers: Vec<_> = process
            .work
            .iter()
            .map(|(number, work)| frontier(*number, work.generation, work.frontier))
            .collect();
        let report = commit(source, &frontiers).await;
        for frontier in frontiers {
            let number = frontier.partition.index().unwrap();
            if report.refused.contains(&frontier.partition) {
                self.trace.push(format!("{index} refused {number}"));
                process.work.remove(&number);
                continue;
            }
            let (generation, position) = (frontier.generation.get(), frontier.position.get());
            let before = self.committed.insert(number, (generation, position));
            let (last_generation, last_position) = before.unwrap_or_default();
            assert!(generation >= last_generation, "an older generation has committed");
            assert!(position >= last_position, "a commit went back");
            let handled = self.handled.entry(number).or_default();
            let first_open = (0..).find(|position| !handled.contains(position)).unwrap();
            assert!(position <= first_open, "p{number}: {position} committed, {first_open} open");
        }
    }

    /// Lets everything go that was asked for, or everything, drained or not.
    async fn release(&mut self, index: usize, all: bool) {
        let process = &mut self.processes[index];
        let Some(source) = &mut process.source else { return };
        let going: Vec<_> =
            process.work.iter().filter(|(_, w)| all || w.is_going).map(|(n, _)| *n).collect();
        let partitions: Vec<_> = going.iter().map(|number| partition(*number)).collect();
        source.release(&partitions).await.unwrap();
        for number in going {
            process.work.remove(&number);
        }
    }

    /// All processes live and work until everything is committed.
    async fn settle(&mut self) {
        let ends: Vec<u64> = {
            let topics = self.log.admin().topics().unwrap();
            topics[0].partitions.iter().map(|partition| partition.end).collect()
        };
        let start = tokio::time::Instant::now();
        loop {
            for index in 0..PROCESSES {
                self.next(index, &open()).await;
                self.handle(index);
                self.commit(index).await;
                if self.processes[index].work.values().all(|work| work.waiting.is_empty()) {
                    self.release(index, false).await;
                }
            }
            let committed = self.log.committed();
            if committed.iter().zip(&ends).all(|(c, end)| c.unwrap_or(0) == *end) {
                return;
            }
            let time = start.elapsed();
            assert!(time < Duration::from_secs(25), "stuck at {committed:?} of {ends:?}");
        }
    }
}

fn play(actions: &[Action]) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut world = World::new();
        for action in actions {
            world.act(action).await;
        }
        world.settle().await;
        world.trace
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn whatever_happens_nothing_is_lost_or_stuck(
        actions in prop::collection::vec(action(), 1..120)
    ) {
        let trace = play(&actions);
        prop_assert_eq!(trace, play(&actions), "the same history gives the same events");
    }
}
