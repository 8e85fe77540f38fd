//! Appends batches to a topic.

use tidegate_core::Clock;

use crate::client::{Access, Client};
use crate::config::LocalSinkConfig;
use crate::encoded::EncodedBatch;
use crate::error::{LocalError, RecordTooLarge};
use crate::log;
use crate::partitioner::Partitioner;
use crate::record::LocalRecord;
use crate::retention;
use crate::topic::{self, Topic};

/// The partitions of a topic that is created without saying how many.
const DEFAULT_PARTITIONS: u32 = 4;
/// How many records retention may delete from a partition with each append, beside twice as many
/// as were appended: it gains on any producer.
const RETENTION_BUDGET: usize = 100;

/// Appends batches to one topic, each in one durable transaction.
///
/// Any number of producers, in any number of processes, may append to the same topic.
///
/// ```
/// use tidegate_local::{LocalRecord, LocalSinkConfig, Producer};
/// # let folder = tempfile::tempdir()?;
/// let config = LocalSinkConfig::new(folder.path().join("q.db"), "orders");
/// let mut producer = Producer::open(config)?;
/// let refused = producer.append(&[LocalRecord::new("one").with_key("k"), LocalRecord::new("two")])?;
/// assert!(refused.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Producer {
    config: LocalSinkConfig,
    clock: Clock,
    client: Client,
    topic: Topic,
    partitioner: Partitioner,
}

impl Producer {
    /// Opens the file and the topic, and creates them if the settings say so.
    pub fn open(config: LocalSinkConfig) -> Result<Self, LocalError> {
        Self::open_with_clock(config, Clock::system())
    }

    /// The same on another clock: it gives records without a timestamp theirs.
    pub fn open_with_clock(config: LocalSinkConfig, clock: Clock) -> Result<Self, LocalError> {
        let problems = config.problems();
        if !problems.is_empty() {
            return Err(LocalError::Config { what: "local sink", problems });
        }
        let mut client = Client::open(&config.path, Access::Create, config.lock_timeout)?;
        let (topic, written) = client.write(|tx| {
            let topic = match topic::find(tx, &config.topic)? {
                Some(topic) => topic,
                None if config.create => {
                    let partitions = config.partitions.unwrap_or(DEFAULT_PARTITIONS);
                    topic::create(tx, &config.topic, partitions, &config.retention, clock.now())?
                }
                None => topic::expect(tx, &config.topic)?,
            };
            let bounds = topic::bounds(tx, &topic)?;
            Ok((topic, bounds.iter().fold(0_u64, |sum, bounds| sum.wrapping_add(bounds.end))))
        })?;
        let partitions = topic.partitions();
        if let Some(wanted) = config.partitions.filter(|wanted| *wanted != partitions) {
            let topic = config.topic;
            return Err(LocalError::PartitionsDiffer { topic, partitions, wanted });
        }
        let partitioner = Partitioner::new(partitions, written);
        Ok(Self { config, clock, client, topic, partitioner })
    }

    /// Appends all of these records but those that are too large, which are returned with their
    /// index; the others are durable when it returns. An error means that none was appended,
    /// unless the error came after the disk had it all: then appending again repeats them.
    pub fn append(
        &mut self,
        records: &[LocalRecord],
    ) -> Result<Vec<(usize, RecordTooLarge)>, LocalError> {
        let batch = self.encode(records);
        self.append_encoded(&batch)?;
        Ok(batch.into_refused())
    }

    /// Makes the batch ready to be written, elsewhere if need be.
    pub(crate) fn encode(&mut self, records: &[LocalRecord]) -> EncodedBatch {
        EncodedBatch::new(records, &mut self.partitioner, self.config.max_record_bytes)
    }

    pub(crate) fn append_encoded(&mut self, batch: &EncodedBatch) -> Result<(), LocalError> {
        if batch.len() == 0 {
            return Ok(());
        }
        let (topic, now) = (&self.topic, self.clock.now());
        let budget = batch.len().saturating_mul(2) + RETENTION_BUDGET;
        self.client.write(|tx| {
            let touched = log::append(tx, topic, batch, now)?;
            retention::step(tx, topic, touched, now, budget)?;
            Ok(())
        })
    }
}
