//! Everything that knows the client library (librdkafka, through `rdkafka`).
//!
//! The reader talks to a [`Consumer`] in this crate's own words, on one thread. Calls that go over
//! the network have a time limit and block; there are few of them, all at an assignment.

mod context;
mod partition_reader;
mod probe;
mod producer;
mod properties;
mod queue;
mod trouble;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _, RebalanceProtocol};
use rdkafka::error::KafkaError as DriverError;
use rdkafka::{Offset, TopicPartitionList};
use tidegate_core::Partition;

use crate::config::KafkaSourceConfig;
use crate::error::{KafkaError, Problem};
use crate::wake::Wake;
use context::Context;
use queue::{Queue, SharedConsumer};

pub(crate) use context::Rebalancing;
pub(crate) use partition_reader::{Limits, PartitionReader, Read, Run};
pub(crate) use probe::{Layout, Probe};
pub(crate) use producer::{Producer, Unsent};
pub(crate) use trouble::{Kind, Trouble};

/// Events that are taken from the library before other work gets its turn.
const MOST_EVENTS: usize = 1000;

/// A member of a group, or a reader of partitions that were chosen by hand.
pub(crate) struct Consumer {
    // Before the consumer, so that they are dropped before it.
    readers: HashMap<Partition, PartitionReader>,
    events: Option<Queue>,
    commits: Queue,
    wake: Arc<Wake>,
    shared: SharedConsumer,
}

/// What the library has said since the last look.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) rebalances: Vec<Rebalancing>,
    pub(crate) troubles: Vec<Trouble>,
}

/// What became of a commit, by partition.
pub(crate) type CommitAnswer = Vec<(Partition, Option<Trouble>)>;

impl Consumer {
    /// A consumer that has joined nothing yet. Each partition may have `share` bytes in it.
    pub(crate) fn new(
        config: &KafkaSourceConfig,
        share: usize,
        wake: &Arc<Wake>,
    ) -> Result<Self, KafkaError> {
        let properties = properties::of_consumer(config, share);
        let mut consumer: BaseConsumer<Context> = properties
            .create_with_context(Context::default())
            .map_err(|error| refused("kafka source", &error))?;
        let waker = Arc::clone(wake);
        consumer.set_nonempty_callback(move || waker.wake());
        let shared = Arc::new(consumer);
        Ok(Self {
            readers: HashMap::new(),
            events: Queue::of_consumer(&shared),
            commits: Queue::new(&shared, wake),
            wake: Arc::clone(wake),
            shared,
        })
    }

    /// Joins the group.
    pub(crate) fn subscribe(&self, topics: &[String]) -> Result<(), Trouble> {
        let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
        self.shared.subscribe(&topics).map_err(trouble)
    }

    /// Leaves the group, after a last rebalance that revokes everything.
    pub(crate) fn unsubscribe(&self) {
        self.shared.unsubscribe();
    }

    /// Serves the library, which counts as a sign of life.
    pub(crate) fn poll(&self) -> Heard {
        let mut heard = Heard::default();
        for _ in 0..MOST_EVENTS {
            match self.shared.poll(Duration::ZERO) {
                Some(Ok(message)) => {
                    use rdkafka::Message as _;
                    let (topic, partition) = (message.topic(), message.partition());
                    let place = format!("{topic}[{partition}]@{}", message.offset());
                    heard.troubles.push(Trouble::fatal(format!(
                        "{place} came on the common queue; please report this as a bug"
                    )));
                }
                Some(Err(DriverError::MessageConsumptionFatal(code))) => {
                    heard.troubles.push(Trouble::of_code(code).made_fatal());
                }
                _ => {}
            }
            if self.events.as_ref().is_none_or(|events| events.len() == 0) {
                break;
            }
        }
        heard.rebalances.extend(self.shared.context().take_rebalances());
        heard.troubles.extend(self.shared.context().take_troubles());
        heard
    }

    /// The group's generation and this member's id.
    pub(crate) fn membership(&self) -> Option<(i32, String)> {
        queue::membership(&self.shared)
    }

    /// Whether the group took all partitions away without asking.
    pub(crate) fn is_lost(&self) -> bool {
        self.shared.assignment_lost()
    }

    fn is_incremental(&self) -> bool {
        matches!(self.shared.rebalance_protocol(), RebalanceProtocol::Cooperative)
    }

    /// Begins to read these partitions, at these places, and answers an assignment by the group.
    /// Without a protocol that can add to an assignment, `all` must be everything that is
    /// assigned, these included.
    pub(crate) fn assign(
        &mut self,
        added: &[(Partition, u64)],
        all: impl FnOnce() -> Vec<(Partition, u64)>,
    ) -> Result<(), Trouble> {
        for (partition, _) in added {
            self.open(partition)?;
        }
        if self.is_incremental() {
            return self.shared.incremental_assign(&list_at(added)).map_err(trouble);
        }
        self.shared.assign(&list_at(&all())).map_err(trouble)
    }

    fn open(&mut self, partition: &Partition) -> Result<(), Trouble> {
        let (topic, number) = name(partition);
        let reader = PartitionReader::new(&self.shared, topic, number, &self.wake)
            .ok_or_else(|| Trouble::fatal(format!("{partition} has no queue")))?;
        self.readers.insert(partition.clone(), reader);
        Ok(())
    }

    /// Gives up these partitions, and answers a revocation by the group. Without a protocol that
    /// can do so, gives up everything.
    pub(crate) fn unassign(&mut self, removed: &[Partition]) -> Result<(), Trouble> {
        for partition in removed {
            self.readers.remove(partition);
        }
        if self.is_incremental() {
            return self.shared.incremental_unassign(&list(removed)).map_err(trouble);
        }
        self.readers.clear();
        self.shared.unassign().map_err(trouble)
    }

    /// Reads nothing more of this partition, which stays assigned. It isn't paused: the library
    /// remembers that over an assignment, so it would stay paused when it comes back. What is
    /// fetched of it stays within its share.
    pub(crate) fn silence(&mut self, partition: &Partition) {
        self.readers.remove(partition);
    }

    /// Moves an assigned partition, and drops what was fetched of it.
    pub(crate) fn seek(&mut self, partition: &Partition, to: u64) -> Result<(), Trouble> {
        if let Some(reader) = self.readers.get_mut(partition) {
            reader.clear();
        }
        let list = list_at(&[(partition.clone(), to)]);
        self.shared.seek_partitions(list, Duration::ZERO).map(drop).map_err(trouble)
    }

    /// What is there of this partition; see [`PartitionReader::read`].
    pub(crate) fn read(
        &mut self,
        partition: &Partition,
        from: u64,
        until: Option<u64>,
        limits: Limits,
    ) -> Read {
        match self.readers.get_mut(partition) {
            Some(reader) => reader.read(partition, from, until, limits),
            None => Read::Nothing,
        }
    }

    /// The position up to which nothing is left to read of what was fetched: behind the last
    /// record that was returned, and behind the gaps after it that are known.
    pub(crate) fn passed(&self, partition: &Partition) -> Option<u64> {
        let (topic, number) = name(partition);
        self.readers.get(partition).filter(|reader| reader.is_empty())?;
        queue::passed(&self.shared, topic, number)
    }

    /// Where the partition ends, as far as is known. Asks nobody.
    pub(crate) fn known_end(&self, partition: &Partition) -> Option<u64> {
        let (topic, number) = name(partition);
        queue::known_end(&self.shared, topic, number)
    }

    /// What the group has committed. Goes over the network.
    pub(crate) fn committed(
        &self,
        partitions: &[Partition],
        within: Duration,
    ) -> Result<HashMap<Partition, u64>, Trouble> {
        if partitions.is_empty() {
            return Ok(HashMap::new());
        }
        let found = self.shared.committed_offsets(list(partitions), within).map_err(trouble)?;
        offsets(&found)
    }

    /// The first offsets whose records have this time or later; none where there is no such
    /// record. Goes over the network.
    pub(crate) fn at_time(
        &self,
        partitions: &[Partition],
        millis: i64,
        within: Duration,
    ) -> Result<HashMap<Partition, u64>, Trouble> {
        self.list_offsets(partitions, Offset::Offset(millis), within)
    }

    /// Where the logs of these partitions begin. Goes over the network.
    pub(crate) fn beginnings(
        &self,
        partitions: &[Partition],
        within: Duration,
    ) -> Result<HashMap<Partition, u64>, Trouble> {
        self.list_offsets(partitions, Offset::Beginning, within)
    }

    /// The positions behind the last records that may be read. Goes over the network.
    pub(crate) fn ends(
        &self,
        partitions: &[Partition],
        within: Duration,
    ) -> Result<HashMap<Partition, u64>, Trouble> {
        self.list_offsets(partitions, Offset::End, within)
    }

    fn list_offsets(
        &self,
        partitions: &[Partition],
        of: Offset,
        within: Duration,
    ) -> Result<HashMap<Partition, u64>, Trouble> {
        if partitions.is_empty() {
            return Ok(HashMap::new());
        }
        let mut wanted = list(partitions);
        wanted.set_all_offsets(of).map_err(trouble)?;
        offsets(&self.shared.offsets_for_times(wanted, within).map_err(trouble)?)
    }

    /// Asks for a commit. The answer comes by [`commit_answer`](Self::commit_answer); there may
    /// be only one commit at a time.
    pub(crate) fn commit(&self, positions: &[(Partition, u64)]) -> Result<(), Trouble> {
        self.commits.commit(&list_at(positions)).map_err(Trouble::of_code)
    }

    /// What became of the commit, once it is known.
    pub(crate) fn commit_answer(&self) -> Option<CommitAnswer> {
        let answer = self.commits.commit_answer()?;
        let partition =
            |topic: String, number: i32| Some(Partition::new(topic, u32::try_from(number).ok()?));
        Some(
            answer
                .partitions
                .into_iter()
                .filter_map(|(topic, number, error)| {
                    let error = error.or(answer.error).map(Trouble::of_code);
                    Some((partition(topic, number)?, error))
                })
                .collect(),
        )
    }

    /// Leaves the group and ends the client. Blocks until the library has done so.
    pub(crate) fn close(mut self) {
        self.shared.context().close();
        self.readers.clear();
    }
}

/// Settings that the library refuses when a client is made.
fn refused(what: &'static str, error: &DriverError) -> KafkaError {
    let problem = match error {
        DriverError::ClientConfig(_, reason, name, value) => {
            let shown = if name.contains("password") { "***" } else { value };
            Problem::new("properties", format!("`{name}: {shown}`: {reason}"))
        }
        DriverError::ClientCreation(reason) => {
            Problem::new("properties", format!("the client can't be made: {reason}"))
        }
        other => Problem::new("properties", format!("the client can't be made: {other}")),
    };
    KafkaError::Config { what, problems: vec![problem] }
}

fn trouble(error: DriverError) -> Trouble {
    match error.rdkafka_error_code() {
        Some(code) => Trouble::of_code(code),
        None => Trouble::new(None, &error.to_string()),
    }
}

fn name(partition: &Partition) -> (&str, i32) {
    let number = partition.index().and_then(|index| i32::try_from(index).ok()).unwrap_or(0);
    (partition.stream(), number)
}

fn list(partitions: &[Partition]) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(partitions.len());
    for partition in partitions {
        let (topic, number) = name(partition);
        list.add_partition(topic, number);
    }
    list
}

fn list_at(positions: &[(Partition, u64)]) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(positions.len());
    for (partition, position) in positions {
        let (topic, number) = name(partition);
        let offset = Offset::Offset(i64::try_from(*position).unwrap_or(i64::MAX));
        let set = list.add_partition(topic, number).set_offset(offset);
        set.expect("an offset that is not negative can be set");
    }
    list
}

/// The offsets in an answer. An error of one partition is an error of all.
fn offsets(list: &TopicPartitionList) -> Result<HashMap<Partition, u64>, Trouble> {
    let mut found = HashMap::new();
    for element in list.elements() {
        element.error().map_err(trouble)?;
        if let (Offset::Offset(offset), Ok(number)) =
            (element.offset(), u32::try_from(element.partition()))
            && let Ok(offset) = u64::try_from(offset)
        {
            found.insert(Partition::new(element.topic(), number), offset);
        }
    }
    Ok(found)
}
