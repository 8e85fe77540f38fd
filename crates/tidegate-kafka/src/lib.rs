//! Apache Kafka: a consumer group as a source, an idempotent producer as a sink.
//!
//! - The client is served on a thread of its own, whatever the pipeline does; heartbeats never wait
//!   for user code.
//! - A rebalance touches only the partitions that move. Revoked ones are drained and committed
//!   while the group waits; what isn't done by then is fenced and comes again at the next owner.
//! - Nothing is committed that the pipeline has not settled, and a commit of a former owner is
//!   refused.
//! - What is fetched ahead is bounded, and so is what waits to be confirmed.
//!
//! Brokers from Apache Kafka 2.4 on are supported, `rebalance: consumer` needs 4.0.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod config;
mod error;
mod record;

mod wake;
mod client;
mod split;
mod handover;
mod holding;
mod connect;
mod reader;

mod source;
mod sink;

pub use config::{
    Compression, Isolation, KafkaSinkConfig, KafkaSourceConfig, Mechanism, Offsets, OnMissingTopic,
    OnOutOfRange, Partitioner, Properties, Rebalance, Sasl, Secret, Start, Stop, Tls,
};
pub use error::{KafkaError, Problem, RecordRefused};
pub use record::KafkaRecord;
pub use sink::KafkaSink;
pub use source::KafkaSource;
