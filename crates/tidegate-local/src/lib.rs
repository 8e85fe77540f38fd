//! A durable log in one SQLite file, with consumer groups: the broker for examples, tests and
//! everything that fits on one machine.
//!
//! - Any number of processes may write and read at once; each write is one transaction that is on
//!   the disk when the call returns.
//! - A topic has a fixed number of partitions. A record's key chooses the partition (Kafka's
//!   murmur2); within a partition records keep the order of their appends, at positions from 0
//!   without a gap.
//! - The members of a group share the partitions. One that joins, leaves or dies moves as few as
//!   possible, each only after its owner let it go (or was expired), with a new generation; a
//!   commit of an older one is refused.
//! - Nothing runs in the background: heartbeats, expiry and retention ride along with the calls.
//!
//! The file must lie on a local disk: SQLite's locks don't work over a network file system.
//!
//! ```
//! use tidegate_core::{Demand, Source, SourceEvent};
//! use tidegate_local::{LocalRecord, LocalSinkConfig, LocalSource, LocalSourceConfig, Producer};
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("q.db");
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! Producer::open(LocalSinkConfig::new(&path, "orders"))?.append(&[LocalRecord::new("hello")])?;
//!
//! let mut source = LocalSource::open(LocalSourceConfig::new(&path, "orders", "shop"))?;
//! let demand = Demand::new(100, 1 << 20);
//! let SourceEvent::Assigned(all) = source.next(&demand).await? else { unreachable!() };
//! assert_eq!(all.len(), 4);
//! let SourceEvent::Fetched(batch) = source.next(&demand).await? else { unreachable!() };
//! assert_eq!(batch.get(0).payload(), b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod config;
mod error;

mod schema;
mod place;
mod client;

mod topic;
mod partitioner;
mod headers;
mod record;
mod encoded;
mod log;
mod retention;

mod assignment;
mod group;
mod range;
mod holdings;
mod bounded;
mod session;
mod pace;

mod source;
mod producer;
mod sink;
mod admin;

pub use admin::{Admin, GroupInfo, GroupPartitionInfo, MemberInfo, PartitionInfo, TopicInfo};
pub use config::{
    Blocking, LocalSinkConfig, LocalSourceConfig, MAX_PARTITIONS, MAX_RECORD_BYTES, OnMissingTopic,
    OnOutOfRange, Retention, Start,
};
pub use error::{LocalError, Problem, RecordTooLarge};
pub use producer::Producer;
pub use record::LocalRecord;
pub use sink::LocalSink;
pub use source::LocalSource;
