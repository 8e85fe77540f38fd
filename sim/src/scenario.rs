//! Everything that is decided before a run begins: topic, records, pipeline, settings, faults.
//!
//! The seed alone decides it. What is decided while the run goes on (how long a call takes, which
//! one fails) is drawn from a sequence that the seed begins, too.

use std::time::Duration;

use crate::fault::Faults;
use crate::rng::Rng;
use crate::shape::Shape;

/// Where the records lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogKind {
    /// In a log of our own, which can do things that the local one doesn't: take a partition away
    /// without asking, give a short deadline, hand it out again at once.
    Memory,
    /// In Tidegate's local log.
    Local,
}

/// A record to be written.
#[derive(Clone, Copy, Debug)]
pub struct RecordPlan {
    /// When, since the start.
    pub at: Duration,
    /// Its key; records of one key are in one partition.
    pub key: u64,
    /// Bytes of payload beside what tells the record.
    pub size: usize,
}

/// What the pipeline's settings say.
#[derive(Clone, Copy, Debug)]
pub struct SettingsPlan {
    /// The commit policy's interval.
    pub commit_every: Duration,
    /// The commit policy's count.
    pub commit_count: Option<u64>,
    /// The byte budget.
    pub bytes: usize,
    /// Messages in a partition.
    pub messages: usize,
    /// Messages in a chunk.
    pub chunk_messages: usize,
    /// Bytes in a chunk.
    pub chunk_bytes: usize,
    /// The drain's time.
    pub drain: Duration,
    /// When a partition counts as stalled.
    pub stall_after: Duration,
    /// The first pause after a failure, the longest, and when to give up.
    pub retry: [Duration; 3],
}

/// One instance of the pipeline.
#[derive(Clone, Copy, Debug)]
pub struct InstancePlan {
    /// When it starts first.
    pub at: Duration,
    /// Whether it has the same name in the group after a restart, so that it takes its own place.
    pub keeps_name: bool,
}

/// A whole run, before it begins.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Where it comes from.
    pub seed: u64,
    /// Where the records lie.
    pub log: LogKind,
    /// The topic's partitions.
    pub partitions: u32,
    /// The records, by their number, in the order in which they are written.
    pub records: Vec<RecordPlan>,
    /// Whether the source ends behind the last of them.
    pub bounded: bool,
    /// How long a member of the group may be silent.
    pub session: Duration,
    /// The instances of the pipeline.
    pub instances: Vec<InstancePlan>,
    /// The pipeline.
    pub shape: Shape,
    /// Its settings.
    pub settings: SettingsPlan,
    /// Whether every other sink writes to the local log, if the records come from there.
    pub log_sinks: bool,
    /// Whether it has dead letters.
    pub dead_letters: bool,
    /// What goes wrong.
    pub faults: Faults,
}

impl Scenario {
    /// The scenario of a seed, on one kind of log or, without, on the one that the seed chooses.
    pub fn new(seed: u64, log: Option<LogKind>) -> Self {
        let mut rng = Rng::new(seed);
        let chosen = rng.pick(&[LogKind::Memory, LogKind::Local]);
        let calm_at = rng.millis(1000, 8000);
        let partitions = rng.between(1, 8) as u32;
        let bounded = rng.chance(300);
        let instances = instances(&mut rng, calm_at);
        let troubled = rng.chance(600);
        let faults = Faults::random(&mut rng, calm_at, instances.len(), partitions);
        Self {
            seed,
            log: log.unwrap_or(chosen),
            partitions,
            records: records(&mut rng, calm_at, bounded),
            bounded,
            session: rng.pick_millis(&[1000, 3000]),
            instances,
            shape: Shape::random(&mut rng, troubled),
            settings: SettingsPlan::random(&mut rng),
            log_sinks: rng.chance(300),
            dead_letters: rng.chance(700),
            faults,
        }
    }
}

impl Scenario {
    /// Whether this sink's items go to the local log.
    pub fn writes_to_log(&self, sink: usize) -> bool {
        self.log == LogKind::Local && self.log_sinks && sink.is_multiple_of(2)
    }
}

fn records(rng: &mut Rng, calm_at: Duration, bounded: bool) -> Vec<RecordPlan> {
    let count = rng.pick(&[0, 1, 20, 60, 150, 250]);
    let keys = rng.pick(&[1, 3, 12]);
    let largest = rng.pick(&[0, 40, 400]);
    let at_once = bounded || rng.chance(300);
    let end = calm_at.as_millis() as u64 * 9 / 10;
    let mut times: Vec<_> =
        (0..count).map(|_| if at_once { 0 } else { rng.between(0, end) / 50 * 50 }).collect();
    times.sort_unstable();
    times
        .into_iter()
        .map(|at| RecordPlan {
            at: Duration::from_millis(at),
            key: rng.between(0, keys - 1),
            size: rng.between(0, largest) as usize,
        })
        .collect()
}

fn instances(rng: &mut Rng, calm_at: Duration) -> Vec<InstancePlan> {
    let count = rng.pick(&[1, 1, 2, 2, 3]);
    let latest = calm_at.as_millis() as u64 / 2;
    (0..count)
        .map(|index| InstancePlan {
            at: if index == 0 || rng.chance(500) { Duration::ZERO } else { rng.millis(1, latest) },
            keeps_name: rng.chance(400),
        })
        .collect()
}

impl SettingsPlan {
    fn random(rng: &mut Rng) -> Self {
        Self {
            commit_every: rng.pick_millis(&[20, 200, 1000]),
            commit_count: rng.pick(&[None, Some(1), Some(10)]),
            bytes: rng.pick(&[1, 600, 3000, 64 << 20]),
            messages: rng.pick(&[1, 4, 30, 100_000]),
            chunk_messages: rng.pick(&[1, 3, 16, 512]),
            chunk_bytes: rng.pick(&[1, 300, 1 << 20]),
            drain: rng.pick_millis(&[0, 150, 2000, 30_000]),
            stall_after: rng.pick_millis(&[500, 60_000]),
            retry: [
                rng.pick_millis(&[5, 100]),
                rng.pick_millis(&[100, 1000]),
                rng.pick_millis(&[500, 60_000]),
            ],
        }
    }
}
