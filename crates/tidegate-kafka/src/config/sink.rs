use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::properties::Properties;
use super::security::{Sasl, Tls};
use super::{Connection, check_longer, check_topic};
use crate::error::Problem;

/// The broker's own default for the largest batch is 1,048,588 bytes.
const DEFAULT_MAX_RECORD_BYTES: usize = 1_000_000;
const MOST_RECORD_BYTES: usize = 1_000_000_000;
const LEAST_BUFFER: usize = 1 << 20;

/// Where and how records are written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KafkaSinkConfig {
    /// Some of the cluster's brokers, as `host:port`, separated by commas. The others are found
    /// through them.
    pub brokers: String,
    /// The topic to write to. Default none: then every record has to name its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// How records are compressed: `none`, `gzip`, `snappy`, `lz4` or `zstd`. Default `none`.
    #[serde(default)]
    pub compression: Compression,
    /// Which partition a record goes to that names none: `murmur2`, `crc32`, `fnv1a` or `random`.
    /// Default `murmur2`, as in Kafka's own client: all producers of a topic should agree, so that
    /// a key stays in one partition.
    #[serde(default)]
    pub partitioner: Partitioner,
    /// How long a record waits for others to travel with. Default `1ms`: the sink is handed whole
    /// batches, so that there is little to wait for.
    #[serde(default = "default_linger", with = "tidegate_core::human_duration")]
    pub linger: Duration,
    /// How long a record may take until the broker has confirmed it, retries of the client
    /// included. Default `2m`, as in Kafka's own client. After that the write fails, and the
    /// pipeline makes it again, which can repeat records; so rather long than short.
    #[serde(default = "default_delivery_timeout", with = "tidegate_core::human_duration")]
    pub delivery_timeout: Duration,
    /// The largest record, in bytes of key, payload and headers. Larger ones are refused one by
    /// one. Default 1,000,000, a little below the broker's default (`message.max.bytes`). At most
    /// 1,000,000,000.
    #[serde(default = "default_max_record_bytes")]
    pub max_record_bytes: usize,
    /// How many bytes of records the client holds that are not confirmed yet. Default 64 MiB; a
    /// write waits while it is full. At least 1 MiB and `max_record_bytes`.
    #[serde(default = "default_buffer")]
    pub buffer: usize,
    /// How long the first connection may take before the pipeline stops with what is wrong.
    /// Default `30s`.
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
    /// promise of the sink are refused.
    #[serde(default)]
    pub properties: Properties,
}

impl KafkaSinkConfig {
    /// These two, and the default for everything else.
    pub fn new(brokers: impl Into<String>, topic: impl Into<String>) -> Self {
        Self {
            brokers: brokers.into(),
            topic: Some(topic.into()),
            compression: Compression::default(),
            partitioner: Partitioner::default(),
            linger: default_linger(),
            delivery_timeout: default_delivery_timeout(),
            max_record_bytes: default_max_record_bytes(),
            buffer: default_buffer(),
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
        if let Some(topic) = &self.topic {
            check_topic("topic", topic, &mut problems);
        }
        check_longer("connect_timeout", self.connect_timeout, SECOND, &mut problems);
        check_longer("delivery_timeout", self.delivery_timeout, SECOND, &mut problems);
        if self.linger >= self.delivery_timeout {
            problems.push(Problem::new("linger", "is not shorter than delivery_timeout"));
        }
        if !(1..=MOST_RECORD_BYTES).contains(&self.max_record_bytes) {
            problems.push(Problem::new(
                "max_record_bytes",
                format!("is not between 1 and {MOST_RECORD_BYTES}"),
            ));
        }
        if self.buffer < LEAST_BUFFER.max(self.max_record_bytes) {
            problems.push(Problem::new(
                "buffer",
                "is less than 1 MiB (1048576), or less than max_record_bytes",
            ));
        }
        problems
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
}

/// How batches of records are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// gzip: small, slow.
    Gzip,
    /// Snappy: fast.
    Snappy,
    /// LZ4: fast.
    Lz4,
    /// Zstandard: small, and faster than gzip.
    Zstd,
}

impl Compression {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// Which partition a record goes to that names none. Records without a key go anywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Partitioner {
    /// By the key's murmur2 hash, as Kafka's own client does.
    #[default]
    Murmur2,
    /// By the key's CRC-32, as other clients of librdkafka do by default.
    Crc32,
    /// By the key's FNV-1a hash, as Sarama does by default.
    Fnv1a,
    /// Anywhere, whatever the key is. A key's records lose their order.
    Random,
}

impl Partitioner {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Murmur2 => "murmur2_random",
            Self::Crc32 => "consistent_random",
            Self::Fnv1a => "fnv1a_random",
            Self::Random => "random",
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);

fn default_linger() -> Duration {
    Duration::from_millis(1)
}

fn default_delivery_timeout() -> Duration {
    Duration::from_secs(120)
}

fn default_max_record_bytes() -> usize {
    DEFAULT_MAX_RECORD_BYTES
}

fn default_buffer() -> usize {
    64 << 20
}

fn default_connect_timeout() -> Duration {
    Duration::from_secs(30)
}

fn default_client() -> String {
    "tidegate".to_owned()
}
