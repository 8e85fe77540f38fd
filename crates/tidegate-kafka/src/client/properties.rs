//! The settings in the client library's own words.

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;

use crate::config::{
    Connection, Isolation, KafkaSinkConfig, KafkaSourceConfig, Rebalance, millis_text,
};

/// How long a partition whose share of the buffer is full is left alone. Short, because shares are
/// small: a partition can take a share in each such period.
const FETCH_BACKOFF_MILLIS: &str = "10";
/// A record that waits in the client costs about so many bytes beside its payload.
const RECORD_OVERHEAD: usize = 512;
/// A member reports to the group so many times in a session.
const HEARTBEATS: u32 = 4;

fn connect(properties: &mut ClientConfig, connection: Connection<'_>) {
    properties.set("bootstrap.servers", connection.brokers);
    properties.set("client.id", connection.client);
    let protocol = match (connection.tls, connection.sasl) {
        (None, None) => "plaintext",
        (Some(_), None) => "ssl",
        (None, Some(_)) => "sasl_plaintext",
        (Some(_), Some(_)) => "sasl_ssl",
    };
    properties.set("security.protocol", protocol);
    if let Some(tls) = connection.tls {
        let files = [
            ("ssl.ca.location", &tls.ca),
            ("ssl.certificate.location", &tls.certificate),
            ("ssl.key.location", &tls.key),
        ];
        for (name, path) in files {
            if let Some(path) = path {
                properties.set(name, path.to_string_lossy());
            }
        }
        if let Some(password) = &tls.key_password {
            properties.set("ssl.key.password", password.reveal());
        }
        let algorithm = if tls.verify_host { "https" } else { "none" };
        properties.set("ssl.endpoint.identification.algorithm", algorithm);
    }
    if let Some(sasl) = connection.sasl {
        properties.set("sasl.mechanism", sasl.mechanism.name());
        if let (Some(username), Some(password)) = (&sasl.username, &sasl.password) {
            properties.set("sasl.username", username);
            properties.set("sasl.password", password.reveal());
        }
    }
    // What `debug` asks for is logged at the level of debugging.
    properties.set_log_level(RDKafkaLogLevel::Info);
    for (name, value) in connection.properties.iter() {
        properties.set(name, value);
        if name == "debug" {
            properties.set_log_level(RDKafkaLogLevel::Debug);
        }
    }
}

/// A client that joins no group: for a first look at the cluster.
pub(super) fn of_probe(to: Connection<'_>) -> ClientConfig {
    let mut properties = ClientConfig::new();
    connect(&mut properties, to);
    properties
}

/// A member of a group. `share` is how many bytes each partition may have in the client.
pub(super) fn of_consumer(config: &KafkaSourceConfig, share: usize) -> ClientConfig {
    let mut properties = ClientConfig::new();
    connect(&mut properties, config.connection());
    properties.set("group.id", &config.group);
    if let Some(member) = &config.member {
        properties.set("group.instance.id", member);
    }
    match config.rebalance {
        Rebalance::Consumer => {
            properties.set("group.protocol", "consumer");
        }
        classic => {
            let eager = classic == Rebalance::Eager;
            let strategy = if eager { "range" } else { "cooperative-sticky" };
            properties.set("partition.assignment.strategy", strategy);
            properties.set("session.timeout.ms", millis_text(config.session_timeout));
            let heartbeat = config.session_timeout / HEARTBEATS;
            properties.set("heartbeat.interval.ms", millis_text(heartbeat));
        }
    }
    properties.set("max.poll.interval.ms", millis_text(config.rebalance_timeout));
    properties.set("enable.auto.commit", "false");
    properties.set("enable.auto.offset.store", "false");
    // Where a partition begins is found out before it is assigned, so this is only about places
    // that are not in the log, which the reader decides upon.
    properties.set("auto.offset.reset", "error");
    // With it, the call that takes many records moves the consumer one record past the end.
    properties.set("enable.partition.eof", "false");
    properties.set("allow.auto.create.topics", "false");
    let isolation = match config.isolation {
        Isolation::Committed => "read_committed",
        Isolation::Uncommitted => "read_uncommitted",
    };
    properties.set("isolation.level", isolation);
    // A fetch may come on top of what is there, so each is half of the share.
    let half = (share / 2).max(1000);
    properties.set("queued.max.messages.kbytes", (half / 1000).to_string());
    properties.set("queued.min.messages", (half / RECORD_OVERHEAD).max(100).to_string());
    if config.properties.iter().all(|(name, _)| !is_fetch_size(name)) {
        properties.set("max.partition.fetch.bytes", half.to_string());
    }
    properties.set("fetch.queue.backoff.ms", FETCH_BACKOFF_MILLIS);
    properties.set("fetch.wait.max.ms", millis_text(config.fetch_wait));
    properties
}

fn is_fetch_size(name: &str) -> bool {
    matches!(name, "max.partition.fetch.bytes" | "fetch.message.max.bytes")
}

/// An idempotent producer.
pub(super) fn of_producer(config: &KafkaSinkConfig) -> ClientConfig {
    let mut properties = ClientConfig::new();
    connect(&mut properties, config.connection());
    properties.set("enable.idempotence", "true");
    properties.set("delivery.timeout.ms", millis_text(config.delivery_timeout));
    properties.set("linger.ms", millis_text(config.linger));
    properties.set("compression.type", config.compression.name());
    properties.set("partitioner", config.partitioner.name());
    // The library counts its own overhead of a batch, too.
    let largest = config.max_record_bytes.saturating_add(10_000).min(1_000_000_000);
    properties.set("message.max.bytes", largest.to_string());
    properties.set("queue.buffering.max.kbytes", (config.buffer / 1024).to_string());
    properties.set("queue.buffering.max.messages", "1000000");
    properties
}
