//! A job whose result can be checked: it copies one topic to another, and each copy says where its
//! original was.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rdkafka::producer::FutureRecord;
use tidegate_core::{OwnedRecord, Record};
use tidegate_kafka::{KafkaRecord, KafkaSink, KafkaSource, KafkaSourceConfig};
use tidegate_runtime::{BatchLimits, CommitPolicy, Concurrency, Flow, Pipeline, Settings, Top};

use super::{Broker, read_to_end, unique};

/// The settings of such a job: it commits often, and drains in a few seconds.
pub(crate) fn settings() -> Settings {
    Settings {
        commit: CommitPolicy { every: Duration::from_millis(200), count: None },
        drain: Duration::from_secs(4),
        ..Settings::default()
    }
}

pub(crate) fn copy(record: Record<'_>) -> KafkaRecord {
    let partition = record.partition().index().unwrap();
    KafkaRecord::new(format!("{partition}:{}", record.position())).with_key(partition.to_string())
}

/// Copies from topic to topic.
pub(crate) fn pipeline(broker: &Broker, config: KafkaSourceConfig, out: &str) -> Flow<Top> {
    Pipeline::new("copy")
        .settings(settings())
        .source(KafkaSource::new(config).unwrap())
        .map(copy)
        .sink(KafkaSink::new(broker.sink(out)).unwrap())
}

/// The same, with a pause in each step that makes a batch take about so long.
pub(crate) fn slow_pipeline(
    broker: &Broker,
    config: KafkaSourceConfig,
    out: &str,
    pause: Duration,
) -> Flow<Top> {
    Pipeline::new("slow copy")
        .settings(settings())
        .source(KafkaSource::new(config).unwrap())
        .records()
        .batch(BatchLimits { every: Duration::from_millis(50), ..BatchLimits::count(50) })
        .map_async(Concurrency::ordered(4), move |batch: Vec<OwnedRecord>| async move {
            tokio::time::sleep(pause).await;
            let copies: Vec<_> = batch.iter().map(|record| copy(record.get())).collect();
            Ok::<_, std::convert::Infallible>(copies)
        })
        .unbatch()
        .sink(KafkaSink::new(broker.sink(out)).unwrap())
}

/// Appends to all partitions in turn, until it is told to stop.
pub(crate) struct Feed {
    stop: Arc<AtomicBool>,
    produced: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Feed {
    /// About so many records a second.
    pub(crate) fn start(broker: &Broker, topic: &str, partitions: u32, rate: u64) -> Self {
        let (stop, produced) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (is_over, count) = (Arc::clone(&stop), Arc::clone(&produced));
        let (producer, topic) = (broker.producer(), topic.to_owned());
        let task = tokio::spawn(async move {
            let mut beat = tokio::time::interval(Duration::from_millis(20));
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                beat.tick().await;
                let mut sent = Vec::new();
                for _ in 0..(rate / 50).max(1) {
                    let payload = number.to_string();
                    let partition = (number % u64::from(partitions)) as i32;
                    let record =
                        FutureRecord::<(), _>::to(&topic).partition(partition).payload(&payload);
                    sent.push(producer.send_result(record).map_err(|(e, _)| e).unwrap());
                    number += 1;
                }
                for delivery in sent {
                    delivery.await.unwrap().map_err(|(error, _)| error).unwrap();
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Self { stop, produced, task }
    }

    pub(crate) fn produced(&self) -> u64 {
        self.produced.load(Ordering::Relaxed)
    }

    /// Waits until so many more were produced.
    pub(crate) async fn produce_more(&self, records: u64) {
        let enough = self.produced() + records;
        while self.produced() < enough {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
        self.produced.load(Ordering::Relaxed)
    }
}

/// Waits until the group has committed everything that is in the topic.
pub(crate) async fn caught_up(broker: &Broker, topic: &str, group: &str, partitions: u32) {
    let mut ends = BTreeMap::new();
    for partition in 0..partitions {
        ends.insert(partition, broker.end(topic, partition).await);
    }
    let waiting = async {
        loop {
            let committed = broker.all_committed(group, topic, partitions).await;
            if ends.iter().all(|(p, end)| committed.get(p).copied().unwrap_or(0) >= *end) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(60), waiting).await.is_err() {
        let committed = broker.all_committed(group, topic, partitions).await;
        panic!("not caught up within a minute: {committed:?} of {ends:?}");
    }
}

/// What the copies say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    pub(crate) lost: u64,
    pub(crate) repeated: u64,
    pub(crate) disordered: u64,
    pub(crate) copied: u64,
}

/// Counts what is missing among the copies, what came again, and what came first after something
/// later.
pub(crate) async fn check(broker: &Broker, topic: &str, out: &str, partitions: u32) -> Findings {
    let mut findings = Findings::default();
    let mut seen: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for records in read_to_end(broker.source(out, &unique("checker"))).await.into_values() {
        for (_, record) in records {
            let payload = String::from_utf8(record.payload.unwrap()).unwrap();
            let (partition, position) = payload.split_once(':').unwrap();
            seen.entry(partition.parse().unwrap()).or_default().push(position.parse().unwrap());
        }
    }
    for partition in 0..partitions {
        let copies = seen.remove(&partition).unwrap_or_default();
        let end = broker.end(topic, partition).await;
        let mut first = vec![false; end as usize];
        let mut highest = None;
        for position in copies {
            findings.copied += 1;
            if std::mem::replace(&mut first[position as usize], true) {
                findings.repeated += 1;
            } else if highest > Some(position) {
                findings.disordered += 1;
            }
            highest = highest.max(Some(position));
        }
        findings.lost += first.iter().filter(|seen| !**seen).count() as u64;
    }
    findings
}
