use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::Timestamp;

use super::properties::Properties;
use super::security::{Sasl, Tls};
use super::{Connection, check_longer, check_topic, rfc3339};
use crate::error::Problem;

const LEAST_FETCH_BUFFER: usize = 1 << 20;

/// What a consumer group reads, and how.
///
/// ```
/// use tidegate_kafka::{KafkaSourceConfig, Start};
/// let config: KafkaSourceConfig = serde_json::from_str(
///     r#"{"brokers": "localhost:9092", "topics": ["orders"], "group": "shop",
///         "start": {"time": "2026-11-01T00:00:00Z"}}"#,
/// )?;
/// assert!(matches!(config.start, Start::Time(_)));
/// assert!(config.problems().is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KafkaSourceConfig {
    /// Some of the cluster's brokers, as `host:port`, separated by commas. The others are found
    /// through them.
    pub brokers: String,
    /// The topics to read. One that begins with `^` is a regular expression over the whole name:
    /// topics that match it and are created later are read too.
    #[serde(default)]
    pub topics: Vec<String>,
    /// The consumer group. Its members share the partitions, and it goes on at its last commit.
    pub group: String,
    /// Read exactly these partitions, by topic, without sharing them: `{orders: [0, 1]}`. Default:
    /// the group assigns them. Stands in place of `topics`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<BTreeMap<String, Vec<u32>>>,
    /// Begin at `start` even where the group has a commit. Default off; only with `partitions`,
    /// because in a group it would begin anew with every rebalance.
    #[serde(default)]
    pub ignore_commits: bool,
    /// Where a partition begins that the group has no commit for: `earliest`, `latest`, `{time:
    /// "2026-11-01T00:00:00Z"}` or `{offsets: {orders: {0: 17}}}`. Default `earliest`: a new
    /// consumer sees everything, rather than missing what came before it.
    #[serde(default)]
    pub start: Start,
    /// Where the run ends: `never`, `end` (where the topics ended when it began), `{time: …}`
    /// (before the first record of that time or later) or `{offsets: …}` (before those). Default
    /// `never`. With an end, `topics` can't be regular expressions.
    #[serde(default)]
    pub stop: Stop,
    /// What to do if the place to go on at is not in the log: `stop`, `earliest` or `latest`.
    /// Default `stop`: going on elsewhere skips or repeats records, which is for the operator to
    /// decide.
    #[serde(default)]
    pub on_out_of_range: OnOutOfRange,
    /// What to do if a topic doesn't exist: `stop` or `wait`. Default `stop`: a name that is spelt
    /// wrongly would wait for ever.
    #[serde(default)]
    pub on_missing_topic: OnMissingTopic,
    /// How partitions move between members: `cooperative`, `eager` or `consumer`. Default
    /// `cooperative`: only what moves is touched. All members of a group need the same.
    #[serde(default)]
    pub rebalance: Rebalance,
    /// A name for this member that stays the same over restarts. A member with a name that comes
    /// back within `session_timeout` gets its partitions back, and nobody else notices. Each
    /// process needs its own. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// How long a member may be silent before the others take its partitions. Default `45s`, as
    /// in Kafka's own client: longer than the restart of a broker. With `rebalance: consumer` the
    /// broker decides, and this is not used.
    #[serde(default = "default_session_timeout", with = "tidegate_core::human_duration")]
    pub session_timeout: Duration,
    /// How long the group waits for a member in a rebalance, at most. It bounds how long revoked
    /// partitions may be drained, and after how long a member leaves whose pipeline hangs. Default
    /// `5m`, as in Kafka's own client. At least `session_timeout`.
    #[serde(default = "default_rebalance_timeout", with = "tidegate_core::human_duration")]
    pub rebalance_timeout: Duration,
    /// Whether records of transactions that are open or were aborted are read: `committed` or
    /// `uncommitted`. Default `committed`: nothing is read that its producer took back.
    #[serde(default)]
    pub isolation: Isolation,
    /// How many bytes of payload the client fetches ahead, over all partitions. Default 64 MiB. A
    /// partition gets its share, but at least 64 KiB, and one fetch or one record may exceed it.
    /// At least 1 MiB.
    #[serde(default = "default_fetch_buffer")]
    pub fetch_buffer: usize,
    /// How long the broker may wait for a first record before it answers a fetch. Default `500ms`.
    /// A record that arrives is sent at once; longer only means fewer empty answers.
    #[serde(default = "default_fetch_wait", with = "tidegate_core::human_duration")]
    pub fetch_wait: Duration,
    /// How long the first connection may take before the pipeline stops with what is wrong.
    /// Default `30s`. Later the client reconnects for as long as the pipeline's retries allow.
    #[serde(default = "default_connect_timeout", with = "tidegate_core::human_duration")]
    pub connect_timeout: Duration,
    /// Encrypts the connections. Default off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Proves who the client is. Default off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sasl: Option<Sasl>,
    /// The client's name in the broker's logs and quotas. Default `tidegate`.
    #[serde(default = "default_client")]
    pub client: String,
    /// Further properties of the client library (librdkafka), by name. Those that would break a
    /// promise of the source are refused.
    #[serde(default)]
    pub properties: Properties,
}

impl KafkaSourceConfig {
    /// One topic, and the default for everything else.
    pub fn new(
        brokers: impl Into<String>,
        topic: impl Into<String>,
        group: impl Into<String>,
    ) -> Self {
        Self {
            brokers: brokers.into(),
            topics: vec![topic.into()],
            group: group.into(),
            partitions: None,
            ignore_commits: false,
            start: Start::default(),
            stop: Stop::default(),
            on_out_of_range: OnOutOfRange::default(),
            on_missing_topic: OnMissingTopic::default(),
            rebalance: Rebalance::default(),
            member: None,
            session_timeout: default_session_timeout(),
            rebalance_timeout: default_rebalance_timeout(),
            isolation: Isolation::default(),
            fetch_buffer: default_fetch_buffer(),
            fetch_wait: default_fetch_wait(),
            connect_timeout: default_connect_timeout(),
            tls: None,
            sasl: None,
            client: default_client(),
            properties: Properties::default(),
        }
    }

    /// Everything that can't work; empty if the settings are usable. Reads the certificates.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        self.connection().check(&mut problems);
        self.check_topics(&mut problems);
        if self.group.is_empty() {
            problems.push(Problem::new("group", "is empty"));
        }
        if self.ignore_commits && self.partitions.is_none() {
            problems.push(Problem::new(
                "ignore_commits",
                "needs `partitions`: in a group every rebalance would begin anew; to move a \
                 group's commits use `kafka-consumer-groups --reset-offsets`",
            ));
        }
        check_longer("session_timeout", self.session_timeout, SECOND, &mut problems);
        check_longer("connect_timeout", self.connect_timeout, SECOND, &mut problems);
        if self.rebalance_timeout < self.session_timeout {
            problems.push(Problem::new("rebalance_timeout", "is shorter than session_timeout"));
        }
        if self.fetch_buffer < LEAST_FETCH_BUFFER {
            problems.push(Problem::new("fetch_buffer", "is less than 1 MiB (1048576)"));
        }
        problems
    }

    fn check_topics(&self, problems: &mut Vec<Problem>) {
        if let Some(partitions) = &self.partitions {
            if !self.topics.is_empty() {
                problems.push(Problem::new("partitions", "stands in place of `topics`"));
            }
            if partitions.values().all(Vec::is_empty) {
                problems.push(Problem::new("partitions", "names no partition"));
            }
            for topic in partitions.keys() {
                check_topic("partitions", topic, problems);
            }
            if self.member.is_some() {
                problems.push(Problem::new("member", "is of no use with `partitions`"));
            }
            return;
        }
        if self.topics.is_empty() {
            problems.push(Problem::new("topics", "is empty"));
        }
        for topic in &self.topics {
            if !topic.starts_with('^') {
                check_topic("topics", topic, problems);
            } else if self.stop != Stop::Never {
                problems.push(Problem::new(
                    "topics",
                    format!("`{topic}` can match topics that come later, so it has no end"),
                ));
            }
        }
    }

    pub(crate) fn connection(&self) -> Connection<'_> {
        Connection {
            brokers: &self.brokers,
            tls: self.tls.as_ref(),
            sasl: self.sasl.as_ref(),
            client: &self.client,
            properties: &self.properties,
        }
    }

    /// The topics that are named, whichever way.
    pub(crate) fn topic_names(&self) -> impl Iterator<Item = &str> {
        let listed = self.topics.iter().map(String::as_str).filter(|name| !name.starts_with('^'));
        let assigned = self.partitions.iter().flat_map(|partitions| partitions.keys());
        listed.chain(assigned.map(String::as_str))
    }
}

/// Positions by topic and partition number.
pub type Offsets = BTreeMap<String, BTreeMap<u32, u64>>;

/// Where a partition begins that the group has no commit for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// At the first record that the log still has.
    #[default]
    Earliest,
    /// Behind the last record at the time the partition is first assigned. The place is committed
    /// at once, so that nothing that comes later is skipped.
    Latest,
    /// At the first record of this time or later, by the records' timestamps; behind the last
    /// record if there is none.
    Time(#[serde(with = "rfc3339")] Timestamp),
    /// At these offsets; partitions that are not named begin at the earliest record.
    Offsets(Offsets),
}

/// Where a run ends.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stop {
    /// Nowhere.
    #[default]
    Never,
    /// Where the topics ended when the source connected.
    End,
    /// Before the first record of this time or later; where the topic ends if there is none.
    Time(#[serde(with = "rfc3339")] Timestamp),
    /// Before these offsets; partitions that are not named end at once.
    Offsets(Offsets),
}

/// What to do if the place to go on at is not in the log: its records were deleted before they
/// were read, or the topic was created anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnOutOfRange {
    /// Stop the pipeline with an error that says what is missing.
    #[default]
    Stop,
    /// Go on at the first record that the log has, with a warning.
    Earliest,
    /// Go on behind the last record, with a warning.
    Latest,
}

/// What a source does if a topic doesn't exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnMissingTopic {
    /// Stop the pipeline.
    #[default]
    Stop,
    /// Wait until it is created.
    Wait,
}

/// How partitions move between the members of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rebalance {
    /// Members keep what stays with them, and give up only what moves
    /// (`cooperative-sticky`).
    #[default]
    Cooperative,
    /// Every member gives up everything, then all is assigned anew (`range`). For groups with
    /// members that can't do better.
    Eager,
    /// The broker assigns (KIP-848, `group.protocol=consumer`, Kafka 4.0 or later). Experimental:
    /// the client library in this version still has stalls there that later ones fixed.
    Consumer,
}

/// Which records of transactions are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// Only those of committed transactions.
    #[default]
    Committed,
    /// All.
    Uncommitted,
}

const SECOND: Duration = Duration::from_secs(1);

fn default_session_timeout() -> Duration {
    Duration::from_secs(45)
}

fn default_rebalance_timeout() -> Duration {
    Duration::from_secs(300)
}

fn default_fetch_buffer() -> usize {
    64 << 20
}

fn default_fetch_wait() -> Duration {
    Duration::from_millis(500)
}

fn default_connect_timeout() -> Duration {
    Duration::from_secs(30)
}

fn default_client() -> String {
    "tidegate".to_owned()
}
