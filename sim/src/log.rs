//! The log of a run, of either kind: who writes to it, and how an instance becomes a member.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_core::{Demand, Source, SourceEvent};
use tidegate_local::{
    Admin, Blocking, LocalRecord, LocalSink, LocalSinkConfig, LocalSource, LocalSourceConfig,
    Producer,
};

use crate::fault::Action;
use crate::memory_log::{MemoryLog, TOPIC};
use crate::memory_source::SharedLog;
use crate::message::encode;
use crate::mutant::Mutant;
use crate::scenario::{LogKind, RecordPlan};
use crate::source::LogSource;
use crate::trace::Event;
use crate::world::World;

/// How often a member of the local log's group looks at the file when nothing happens.
const POLL: Duration = Duration::from_millis(250);

/// Any error of a log; it ends the run.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The log of one run.
#[derive(Debug)]
pub enum Log {
    /// The memory log.
    Memory(SharedLog),
    /// The local log.
    Local(Box<LocalLog>),
}

/// A file, its producer, and in which partition a key is.
#[derive(Debug)]
pub struct LocalLog {
    path: PathBuf,
    producer: Producer,
    admin: Admin,
    ends: Vec<u64>,
    homes: BTreeMap<u64, u32>,
}

impl Log {
    /// An empty log of the scenario's kind, in this folder if it needs one.
    pub fn open(world: &World, folder: &Path) -> Result<Self, Error> {
        let scenario = world.scenario();
        if scenario.log == LogKind::Memory {
            let ends_after = scenario.bounded.then_some(scenario.records.len());
            let mut log = MemoryLog::new(scenario.partitions, scenario.session, ends_after);
            log.accepts_zombies = world.has(Mutant::AcceptZombies);
            return Ok(Self::Memory(SharedLog::new(log)));
        }
        let path = folder.join("log.db");
        let config = LocalSinkConfig {
            partitions: Some(scenario.partitions),
            ..LocalSinkConfig::new(&path, TOPIC)
        };
        let producer = Producer::open_with_clock(config, world.clock())?;
        let admin = Admin::open(&path)?.with_clock(world.clock());
        let ends = vec![0; scenario.partitions as usize];
        Ok(Self::Local(Box::new(LocalLog { path, producer, admin, ends, homes: BTreeMap::new() })))
    }

    /// Writes the record with this number.
    pub fn append(&mut self, world: &World, record: u32, plan: RecordPlan) -> Result<(), Error> {
        let payload = encode(record, plan.size);
        let (partition, position) = match self {
            Self::Memory(log) => log.change(|log, _| log.append(plan.key, payload)),
            Self::Local(log) => log.append(plan.key, payload)?,
        };
        world.note(&Event::Produced { record, partition, position });
        world.ask(|account| account.produced(record, partition, position));
        Ok(())
    }

    /// What an incarnation reads with.
    pub fn source(
        &self,
        world: &World,
        incarnation: u32,
        instance: usize,
    ) -> Result<LogSource, Error> {
        let scenario = world.scenario();
        match self {
            Self::Memory(log) => Ok(LogSource::Memory(log.source(incarnation, scenario.bounded))),
            Self::Local(log) => {
                let member = match scenario.instances[instance].keeps_name {
                    true => format!("instance-{instance}"),
                    false => format!("incarnation-{incarnation}"),
                };
                let config = LocalSourceConfig {
                    until_end: scenario.bounded,
                    session_timeout: scenario.session,
                    poll_interval: POLL,
                    member: Some(member),
                    ..LocalSourceConfig::new(&log.path, TOPIC, "g")
                };
                let source = LocalSource::open_with_clock(config, world.clock())?;
                Ok(LogSource::Local(Box::new(source)))
            }
        }
    }

    /// What a sink writes with, if it writes to the local log.
    pub fn sink(&self, world: &World, sink: usize) -> Result<Option<LocalSink>, Error> {
        let Self::Local(log) = self else { return Ok(None) };
        if !world.scenario().writes_to_log(sink) {
            return Ok(None);
        }
        let config = LocalSinkConfig {
            blocking: Blocking::Inline,
            partitions: Some(1),
            ..LocalSinkConfig::new(&log.path, out_topic(sink))
        };
        Ok(Some(LocalSink::with_clock(config, world.clock())?))
    }

    /// Everything that a sink has written to the local log, read from its beginning.
    pub async fn written(&self, world: &World, sink: usize) -> Result<Vec<Vec<u8>>, Error> {
        let Self::Local(log) = self else { return Ok(Vec::new()) };
        let topics = Admin::open(&log.path)?.topics()?;
        if topics.iter().all(|topic| topic.name != out_topic(sink)) {
            return Ok(Vec::new());
        }
        let config = LocalSourceConfig {
            until_end: true,
            ..LocalSourceConfig::new(&log.path, out_topic(sink), "reader")
        };
        let mut source = LocalSource::open_with_clock(config, world.clock())?;
        let demand = Demand::new(100, 1 << 20);
        let mut written = Vec::new();
        loop {
            match source.next(&demand).await? {
                SourceEvent::Fetched(batch) => {
                    written.extend(batch.iter().map(|record| record.payload().to_vec()));
                }
                SourceEvent::Finished(_) | SourceEvent::Ended => return Ok(written),
                _ => {}
            }
        }
    }

    /// Does what only the memory log can.
    pub fn act(&self, action: Action) {
        let Self::Memory(log) = self else { return };
        match action {
            Action::Reshuffle(within) => log.change(|log, now| log.reshuffle(within, now)),
            Action::Take(partition) => log.change(|log, now| log.take(partition, now)),
            _ => {}
        }
    }
}

fn out_topic(sink: usize) -> String {
    format!("out-{sink}")
}

impl LocalLog {
    fn append(&mut self, key: u64, payload: Vec<u8>) -> Result<(u32, u64), Error> {
        let record = LocalRecord::new(payload).with_key(key.to_le_bytes());
        self.producer.append(&[record])?;
        let home = match self.homes.get(&key) {
            Some(home) => *home,
            None => {
                let home = self.grown()?;
                self.homes.insert(key, home);
                home
            }
        };
        let end = &mut self.ends[home as usize];
        *end += 1;
        Ok((home, *end - 1))
    }

    /// The partition that is longer than this log remembers: the log itself says where it put a
    /// key, the first time.
    fn grown(&mut self) -> Result<u32, Error> {
        let topics = self.admin.topics()?;
        let topic = topics.iter().find(|topic| topic.name == TOPIC);
        let partitions = topic.map(|topic| topic.partitions.as_slice());
        let grown = partitions.unwrap_or_default().iter().find(|partition| {
            self.ends.get(partition.partition as usize).is_some_and(|end| partition.end > *end)
        });
        Ok(grown.ok_or("the log has not grown by what was appended")?.partition)
    }
}
