//! The sink: writes to topics.
//!
//! A write answers once every record of the batch is confirmed by all in-sync replicas, or refused.
//! The producer is idempotent: what the client sends again for itself repeats nothing. A write that
//! failed as a whole is made again by the pipeline, which repeats what had arrived.

use std::time::Duration;

use tidegate_core::{ItemError, Report, Sink, SinkCapabilities, SinkError};
use tokio::time::Instant;

use crate::client::{Kind, Probe, Producer, Trouble, Unsent};
use crate::config::KafkaSinkConfig;
use crate::connect::{self, Reasons};
use crate::error::{KafkaError, RecordRefused};
use crate::record::KafkaRecord;

/// How long one attempt to reach the cluster may take.
const ATTEMPT: Duration = Duration::from_secs(1);

/// Writes to topics; also the dead letters' sink, see `KafkaRecord::from`.
///
/// A record that is too large, or whose own topic doesn't exist, is refused alone. A repeated write
/// shows twice.
pub struct KafkaSink {
    config: KafkaSinkConfig,
    producer: Option<Producer>,
}

impl std::fmt::Debug for KafkaSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaSink").field("config", &self.config).finish_non_exhaustive()
    }
}

impl KafkaSink {
    /// A sink with these settings, which are checked. It connects before the first message is
    /// read.
    pub fn new(config: KafkaSinkConfig) -> Result<Self, KafkaError> {
        let problems = config.problems();
        if !problems.is_empty() {
            return Err(KafkaError::Config { what: "kafka sink", problems });
        }
        Probe::new("kafka sink", config.connection())?;
        Ok(Self { config, producer: None })
    }

    /// Sends all records of the batch and waits for the answers.
    async fn write_all(&mut self, batch: &[KafkaRecord]) -> Result<Report, KafkaError> {
        let producer = match self.producer.take() {
            Some(producer) => producer,
            None => Producer::new(&self.config)?,
        };
        let producer = self.producer.insert(producer);
        let mut refused = Vec::new();
        let mut failed: Option<Trouble> = None;
        producer.begin(batch.len());
        for (index, record) in batch.iter().enumerate() {
            let topic = record.topic.as_ref().or(self.config.topic.as_ref());
            let reason = match topic {
                None => RecordRefused::NoTopic,
                Some(_) if record.bytes() > self.config.max_record_bytes => {
                    let (bytes, limit) = (record.bytes(), "max_record_bytes");
                    RecordRefused::TooLarge { bytes, limit }
                }
                Some(topic) => match send(producer, index, topic, record).await {
                    Ok(()) => continue,
                    Err(trouble) => match refusal(&trouble, record, topic) {
                        Some(refusal) => refusal,
                        None => {
                            producer.leave_out();
                            failed.get_or_insert(trouble);
                            continue;
                        }
                    },
                },
            };
            producer.leave_out();
            refused.push((index, reason));
        }
        let answers = producer.answers().await;
        let mut records = usize::from(failed.is_some());
        for (index, trouble) in answers {
            let record = &batch[index];
            let topic = record.topic.as_ref().or(self.config.topic.as_ref());
            match refusal(&trouble, record, topic.map_or("", String::as_str)) {
                Some(refusal) => refused.push((index, refusal)),
                None => {
                    records += 1;
                    failed.get_or_insert(trouble);
                }
            }
        }
        match failed {
            Some(trouble) => Err(self.failure(trouble, records, batch.len())),
            None => Ok(report(batch.len(), refused)),
        }
    }

    /// What it means that a record was neither confirmed nor refused.
    fn failure(&mut self, trouble: Trouble, records: usize, of: usize) -> KafkaError {
        let reason = trouble.reason;
        match trouble.kind {
            Kind::TopicForbidden => {
                let topic = self.config.topic.as_deref().unwrap_or("that the record names");
                may_not_write(topic)
            }
            Kind::ClusterForbidden => KafkaError::Forbidden {
                operation: "write idempotently to",
                resource: "the cluster".to_owned(),
                acl: "IdempotentWrite on the cluster",
            },
            Kind::Missing => {
                KafkaError::NoSuchTopic { topic: self.config.topic.clone().unwrap_or_default() }
            }
            Kind::Fatal => {
                // The client takes nothing any more; the next write has a new one.
                self.producer = None;
                KafkaError::Undelivered { records, of, reason }
            }
            Kind::Passing | Kind::Connection | Kind::AllDown | Kind::Identity => {
                KafkaError::Undelivered { records, of, reason }
            }
            _ => {
                self.producer = None;
                KafkaError::Undelivered { records, of, reason }
            }
        }
    }

    /// Looks whether the cluster and the topic are there.
    async fn connect(&self) -> Result<(), KafkaError> {
        let config = self.config.clone();
        let look = tokio::task::spawn_blocking(move || {
            let probe = Probe::new("kafka sink", config.connection())?;
            let deadline = Instant::now() + config.connect_timeout;
            let mut reasons = Reasons::default();
            loop {
                let found = match &config.topic {
                    Some(topic) => probe.topics([topic.as_str()], ATTEMPT),
                    None => probe.all_topics(ATTEMPT),
                };
                match found {
                    Ok(layout) => {
                        return match &config.topic {
                            Some(topic) if !layout.topics.contains_key(topic) => {
                                Err(KafkaError::NoSuchTopic { topic: topic.clone() })
                            }
                            _ => Ok(()),
                        };
                    }
                    Err(trouble) if trouble.kind == Kind::TopicForbidden => {
                        return Err(may_not_write(config.topic.as_deref().unwrap_or_default()));
                    }
                    Err(trouble) => {
                        connect::judge(&trouble)?;
                        reasons.returned(trouble);
                        reasons.note_all(probe.take_troubles());
                        if Instant::now() >= deadline {
                            let waited = config.connect_timeout;
                            return Err(reasons.unreachable(config.connection(), waited));
                        }
                    }
                }
            }
        });
        look.await.unwrap_or_else(|error| Err(KafkaError::Broken { reason: error.to_string() }))
    }
}

async fn send(
    producer: &Producer,
    index: usize,
    topic: &str,
    record: &KafkaRecord,
) -> Result<(), Trouble> {
    loop {
        match producer.send(index, topic, record) {
            Ok(()) => return Ok(()),
            Err(Unsent::Full) => producer.room().await,
            Err(Unsent::Trouble(trouble)) => return Err(trouble),
        }
    }
}

/// Why this record alone is at fault, if it is.
fn refusal(trouble: &Trouble, record: &KafkaRecord, topic: &str) -> Option<RecordRefused> {
    match trouble.kind {
        Kind::TooLarge => {
            Some(RecordRefused::TooLarge { bytes: record.bytes(), limit: "the broker" })
        }
        Kind::Invalid => Some(RecordRefused::Invalid {
            target: topic.to_owned(),
            reason: trouble.reason.clone(),
        }),
        Kind::Missing if record.partition.is_some() || record.topic.is_some() => {
            let target = match record.partition {
                Some(partition) => format!("{topic}[{partition}]"),
                None => format!("topic {topic}"),
            };
            Some(RecordRefused::NoSuchTarget { target })
        }
        _ => None,
    }
}

fn report(records: usize, refused: Vec<(usize, RecordRefused)>) -> Report {
    if refused.is_empty() {
        return Report::all_done(records);
    }
    let mut answers: Vec<Result<(), ItemError>> = (0..records).map(|_| Ok(())).collect();
    for (index, reason) in refused {
        answers[index] = Err(ItemError::new(reason));
    }
    Report::each(answers)
}

fn may_not_write(topic: &str) -> KafkaError {
    let resource = format!("topic {topic}");
    KafkaError::Forbidden { operation: "write to", resource, acl: "Write on the topic" }
}

impl Sink for KafkaSink {
    type Item = KafkaRecord;

    fn capabilities(&self) -> SinkCapabilities {
        SinkCapabilities::new()
    }

    async fn open(&mut self) -> Result<(), SinkError> {
        self.connect().await?;
        self.producer = Some(Producer::new(&self.config)?);
        Ok(())
    }

    async fn write(&mut self, batch: &[KafkaRecord]) -> Result<Report, SinkError> {
        Ok(self.write_all(batch).await?)
    }

    async fn close(&mut self) -> Result<(), SinkError> {
        if let Some(producer) = self.producer.take() {
            // Everything is confirmed; the end of its threads may take a moment.
            let _ = tokio::task::spawn_blocking(move || producer.close()).await;
        }
        Ok(())
    }
}
