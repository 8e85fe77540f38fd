//! What the tests share: the broker, and a client of its own to look at it from outside.
#![allow(dead_code, reason = "each test binary uses a part")]

pub(crate) mod copy;
pub(crate) mod proxy;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tidegate_core::{
    Assignment, Commit, CommitReport, Demand, Generation, Partition, PartitionFrontier, Position,
    Source, SourceError, SourceEvent,
};
use tidegate_kafka::{KafkaRecord, KafkaSinkConfig, KafkaSource, KafkaSourceConfig, Stop};

/// Longer than anything that works takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A broker that runs, see `scripts/services`.
#[derive(Clone)]
pub(crate) struct Broker {
    pub(crate) bootstrap: String,
    replicas: i32,
}

impl Broker {
    /// The one broker of `scripts/services up kafka`.
    pub(crate) fn single() -> Self {
        Self { bootstrap: "127.0.0.1:19092".to_owned(), replicas: 1 }
    }

    /// The three of `scripts/services up kafka3`.
    pub(crate) fn cluster() -> Self {
        let bootstrap = "127.0.0.1:19192,127.0.0.1:19292,127.0.0.1:19392".to_owned();
        Self { bootstrap, replicas: 3 }
    }

    pub(crate) fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap);
        config
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.client().create().unwrap()
    }

    /// A new topic with a name that was never used.
    pub(crate) async fn topic(&self, partitions: u32) -> String {
        self.topic_with(partitions, &[]).await
    }

    pub(crate) async fn topic_with(&self, partitions: u32, settings: &[(&str, &str)]) -> String {
        self.create(&unique("topic"), partitions, settings).await
    }

    pub(crate) async fn named_topic(&self, name: &str, partitions: u32) -> String {
        self.create(name, partitions, &[]).await
    }

    async fn create(&self, name: &str, partitions: u32, settings: &[(&str, &str)]) -> String {
        let replication = TopicReplication::Fixed(self.replicas);
        let mut topic = NewTopic::new(name, partitions as i32, replication);
        for (key, value) in settings {
            topic = topic.set(key, value);
        }
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
        let created = self.admin().create_topics([&topic], &options).await;
        let created = created.expect("no broker: run `scripts/services up kafka` first");
        created[0].as_ref().unwrap();
        name.to_owned()
    }

    pub(crate) async fn add_partitions(&self, topic: &str, total: usize) {
        let more = NewPartitions::new(topic, total);
        let added = self.admin().create_partitions([&more], &AdminOptions::new()).await.unwrap();
        added[0].as_ref().unwrap();
    }

    pub(crate) async fn delete_records(&self, topic: &str, partition: u32, before: u64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition as i32, Offset::Offset(before as i64)).unwrap();
        self.admin().delete_records(&list, &AdminOptions::new()).await.unwrap();
    }

    pub(crate) fn producer(&self) -> FutureProducer {
        self.client().set("linger.ms", "0").create().unwrap()
    }

    /// Waits until every partition has so many replicas that are in sync.
    pub(crate) async fn in_sync(&self, topic: &str, replicas: usize) {
        let (config, topic) = (self.client(), topic.to_owned());
        let wait = move || {
            let consumer: BaseConsumer = config.create().unwrap();
            let deadline = tokio::time::Instant::now() + PATIENCE * 2;
            loop {
                if let Ok(metadata) = consumer.fetch_metadata(Some(&topic), PATIENCE) {
                    let partitions = metadata.topics()[0].partitions();
                    if partitions.iter().all(|partition| partition.isr().len() == replicas) {
                        return;
                    }
                }
                assert!(tokio::time::Instant::now() < deadline, "the replicas don't catch up");
                std::thread::park_timeout(Duration::from_millis(200));
            }
        };
        tokio::task::spawn_blocking(wait).await.unwrap();
    }

    /// Appends records to one partition, in order.
    pub(crate) async fn produce(&self, topic: &str, partition: u32, payloads: &[String]) {
        let producer = self.producer();
        let sent: Vec<_> = payloads
            .iter()
            .map(|payload| {
                let record =
                    FutureRecord::<(), _>::to(topic).partition(partition as i32).payload(payload);
                producer.send_result(record).map_err(|(error, _)| error).unwrap()
            })
            .collect();
        for delivery in sent {
            delivery.await.unwrap().map_err(|(error, _)| error).unwrap();
        }
    }

    /// What a group has committed of a partition.
    pub(crate) async fn committed(&self, group: &str, topic: &str, partition: u32) -> Option<u64> {
        let all = self.all_committed(group, topic, partition + 1).await;
        all.get(&partition).copied()
    }

    /// Commits for a group that has no members.
    pub(crate) async fn commit(&self, group: &str, topic: &str, partition: u32, at: u64) {
        let mut config = self.client();
        config.set("group.id", group);
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition as i32, Offset::Offset(at as i64)).unwrap();
        let commit = move || {
            let consumer: BaseConsumer = config.create().unwrap();
            consumer.commit(&list, CommitMode::Sync).unwrap();
        };
        tokio::task::spawn_blocking(commit).await.unwrap();
    }

    pub(crate) async fn all_committed(
        &self,
        group: &str,
        topic: &str,
        partitions: u32,
    ) -> HashMap<u32, u64> {
        let mut config = self.client();
        config.set("group.id", group);
        let mut list = TopicPartitionList::new();
        list.add_partition_range(topic, 0, partitions as i32 - 1);
        let look = move || {
            let consumer: BaseConsumer = config.create().unwrap();
            let deadline = tokio::time::Instant::now() + PATIENCE;
            // A broker that has just started doesn't know at once which groups are its own.
            let list = loop {
                match consumer.committed_offsets(list.clone(), PATIENCE) {
                    Ok(found) => break found,
                    Err(error) if tokio::time::Instant::now() >= deadline => panic!("{error}"),
                    Err(_) => std::thread::park_timeout(Duration::from_millis(100)),
                }
            };
            let offset = |offset| match offset {
                Offset::Offset(offset) => Some(offset as u64),
                _ => None,
            };
            list.elements()
                .iter()
                .filter_map(|e| Some((e.partition() as u32, offset(e.offset())?)))
                .collect()
        };
        tokio::task::spawn_blocking(look).await.unwrap()
    }

    /// The position behind the last record of a partition.
    pub(crate) async fn end(&self, topic: &str, partition: u32) -> u64 {
        let (config, topic) = (self.client(), topic.to_owned());
        let look = move || {
            let consumer: BaseConsumer = config.create().unwrap();
            consumer.fetch_watermarks(&topic, partition as i32, PATIENCE).unwrap().1 as u64
        };
        tokio::task::spawn_blocking(look).await.unwrap()
    }

    /// A source's settings with times that suit a test.
    pub(crate) fn source(&self, topic: &str, group: &str) -> KafkaSourceConfig {
        KafkaSourceConfig {
            session_timeout: Duration::from_secs(3),
            rebalance_timeout: Duration::from_secs(6),
            connect_timeout: PATIENCE,
            ..KafkaSourceConfig::new(&self.bootstrap, topic, group)
        }
    }

    pub(crate) fn sink(&self, topic: &str) -> KafkaSinkConfig {
        KafkaSinkConfig::new(&self.bootstrap, topic)
    }
}

/// A name that no earlier run has used.
pub(crate) fn unique(what: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let now = tidegate_core::Clock::system().now().as_millis();
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{what}-{now}-{}-{number}", std::process::id())
}

/// What came of each partition: offsets and records.
pub(crate) type Came = BTreeMap<u32, Vec<(u64, KafkaRecord)>>;

/// A source that is driven by hand.
pub(crate) struct Member {
    pub(crate) source: KafkaSource,
    pub(crate) owned: BTreeMap<Partition, Generation>,
    pub(crate) revoking: BTreeSet<Partition>,
    pub(crate) came: Came,
    /// Each assignment since the start, with the partitions' numbers.
    pub(crate) assigned: Vec<Vec<u32>>,
    pub(crate) lost: Vec<u32>,
}

impl Member {
    pub(crate) fn new(config: KafkaSourceConfig) -> Self {
        Self {
            source: KafkaSource::new(config).unwrap(),
            owned: BTreeMap::new(),
            revoking: BTreeSet::new(),
            came: Came::new(),
            assigned: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// The next event, taken in; `None` if nothing happens for so long.
    pub(crate) async fn hear(
        &mut self,
        within: Duration,
    ) -> Result<Option<SourceEvent>, SourceError> {
        let demand = Demand::new(1000, 1 << 20);
        let Ok(event) = tokio::time::timeout(within, self.source.next(&demand)).await else {
            return Ok(None);
        };
        let event = event?;
        match &event {
            SourceEvent::Assigned(assignments) => {
                self.assigned.push(assignments.iter().map(|a| number(&a.partition)).collect());
                for Assignment { partition, generation } in assignments {
                    let before = self.owned.insert(partition.clone(), *generation);
                    assert_eq!(before, None, "{partition} was assigned twice");
                }
            }
            SourceEvent::Fetched(batch) => {
                let partition = batch.partition();
                assert!(self.owned.contains_key(partition) && !self.revoking.contains(partition));
                let came = self.came.entry(number(partition)).or_default();
                came.extend(batch.iter().map(|record| (record.position().get(), record.into())));
            }
            SourceEvent::Revoking(revocation) => {
                self.revoking.extend(revocation.partitions.iter().cloned());
            }
            SourceEvent::Lost(partitions) => {
                for partition in partitions {
                    self.owned.remove(partition).expect("only what is owned is lost");
                    self.revoking.remove(partition);
                    self.lost.push(number(partition));
                }
            }
            SourceEvent::Finished(_) | SourceEvent::Ended => {}
        }
        Ok(Some(event))
    }

    /// Hears what comes until `done`.
    pub(crate) async fn until(&mut self, mut done: impl FnMut(&Self) -> bool) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !done(self) {
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            let heard = self.hear(left).await.unwrap();
            assert!(heard.is_some(), "waited in vain; came: {:?}", self.counts());
        }
    }

    /// Hears what comes until the error that ends it.
    pub(crate) async fn error(&mut self) -> SourceError {
        loop {
            match self.hear(PATIENCE).await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("no error came; {:?}", self.counts()),
                Err(error) => return error,
            }
        }
    }

    pub(crate) fn counts(&self) -> BTreeMap<u32, usize> {
        self.came.iter().map(|(partition, came)| (*partition, came.len())).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.came.values().map(Vec::len).sum()
    }

    /// The payloads that came of a partition, as text.
    pub(crate) fn texts(&self, partition: u32) -> Vec<String> {
        let came = self.came.get(&partition).into_iter().flatten();
        let text = |record: &KafkaRecord| record.payload.clone().unwrap_or_default();
        came.map(|(_, record)| String::from_utf8(text(record)).unwrap()).collect()
    }

    /// Commits everything that came of these partitions.
    pub(crate) async fn commit(&mut self, partitions: &[Partition]) -> CommitReport {
        self.try_commit(partitions).await.unwrap()
    }

    pub(crate) async fn try_commit(
        &mut self,
        partitions: &[Partition],
    ) -> Result<CommitReport, SourceError> {
        let frontier = |partition: &Partition| {
            let (last, _) = self.came.get(&number(partition))?.last()?;
            Some(PartitionFrontier {
                partition: partition.clone(),
                generation: self.owned.get(partition).copied().unwrap_or_default(),
                position: Position::new(last + 1),
            })
        };
        let frontiers: Vec<_> = partitions.iter().filter_map(frontier).collect();
        self.source.commit(Commit::Through(&frontiers)).await
    }

    /// Lets go what is revoked, committed as far as it came.
    pub(crate) async fn let_go(&mut self) {
        let going: Vec<_> = std::mem::take(&mut self.revoking).into_iter().collect();
        if !going.is_empty() {
            self.commit(&going).await;
            self.source.release(&going).await.unwrap();
            self.owned.retain(|partition, _| !going.contains(partition));
        }
    }

    /// The same, but only if the commit goes through.
    pub(crate) async fn let_go_if_committed(&mut self) {
        let going: Vec<_> = self.revoking.iter().cloned().collect();
        if !going.is_empty() && self.try_commit(&going).await.is_ok() {
            self.source.release(&going).await.unwrap();
            self.owned.retain(|partition, _| !going.contains(partition));
            self.revoking.clear();
        }
    }

    pub(crate) async fn close(mut self) -> Came {
        let partitions: Vec<_> = self.owned.keys().cloned().collect();
        self.source.release(&partitions).await.unwrap();
        self.source.close().await.unwrap();
        self.came
    }
}

fn number(partition: &Partition) -> u32 {
    partition.index().unwrap()
}

/// Reads a topic to its end and commits everything.
pub(crate) async fn read_to_end(config: KafkaSourceConfig) -> Came {
    let mut member = Member::new(KafkaSourceConfig { stop: Stop::End, ..config });
    loop {
        match member.hear(PATIENCE).await.unwrap().expect("it ends") {
            SourceEvent::Finished(partitions) => {
                member.commit(&partitions).await;
                member.source.release(&partitions).await.unwrap();
                member.owned.retain(|partition, _| !partitions.contains(partition));
            }
            SourceEvent::Ended => return member.close().await,
            _ => {}
        }
    }
}

/// Listens to all members in turn until `done`; what is revoked is committed and let go.
pub(crate) async fn drive(members: &mut [Member], mut done: impl FnMut(&[Member]) -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !done(members) {
        assert!(
            tokio::time::Instant::now() < deadline,
            "waited in vain; owned: {:?}",
            members.iter().map(|m| m.owned.keys().collect()).collect::<Vec<Vec<_>>>()
        );
        for member in &mut *members {
            member.hear(Duration::from_millis(30)).await.unwrap();
            member.let_go().await;
        }
    }
}

/// Whether the members own all these partitions, each one at least one, and none twice.
pub(crate) fn share(members: &[Member], partitions: usize) -> bool {
    let owned: Vec<_> = members.iter().flat_map(|member| member.owned.keys()).collect();
    members.iter().all(|member| !member.owned.is_empty())
        && owned.len() == partitions
        && owned.iter().collect::<BTreeSet<_>>().len() == partitions
}

/// The processor time that this process has used so far.
pub(crate) fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2).map(|n| n.parse::<u64>().unwrap());
    // A hundredth of a second each, on every Linux there is.
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

/// Logs to standard error as `RUST_LOG` says.
pub(crate) fn log() {
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    let _ =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
}
