//! What goes wrong with a cluster, and what the operator can do about it.
//!
//! [`KafkaError::Unavailable`], [`KafkaError::Undelivered`] and [`KafkaError::CommitDelayed`] can
//! pass by themselves and are tried again. Everything else stops the pipeline: going on would
//! lose, repeat or hide something.

use std::fmt;
use std::time::Duration;

use tidegate_core::{SinkError, SourceError};

/// An error of the Kafka source or sink. Its text names what is concerned, what happened and what
/// to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KafkaError {
    /// Settings that can't work; all of them at once.
    #[error("the settings of the {what} are not usable: {}", join(problems))]
    Config {
        /// Whose settings.
        what: &'static str,
        /// Every problem, by its key.
        problems: Vec<Problem>,
    },
    /// No connection within the time limit.
    #[error("no broker of {brokers} could be used within {waited:?}: {reason}. {advice}")]
    Unreachable {
        /// The brokers in the settings.
        brokers: String,
        /// The time limit.
        waited: Duration,
        /// What the client library reported last.
        reason: String,
        /// What to do about it.
        advice: &'static str,
    },
    /// The brokers were there, and are not now. Tried again.
    #[error(
        "no broker of {brokers} can be reached: {reason}. The client goes on trying; nothing is \
         lost meanwhile"
    )]
    Unavailable {
        /// The brokers in the settings.
        brokers: String,
        /// What the client library reported last.
        reason: String,
    },
    /// A topic that isn't there.
    #[error(
        "topic {topic} does not exist. Check the name; create it with `kafka-topics --create \
         --topic {topic} --partitions N`, or let the source wait for it (on_missing_topic: wait)"
    )]
    NoSuchTopic {
        /// The topic.
        topic: String,
    },
    /// A partition that isn't there.
    #[error("topic {topic} has no partition {partition}: it has {partitions}, from 0")]
    NoSuchPartition {
        /// The topic.
        topic: String,
        /// The partition that was asked for.
        partition: u32,
        /// How many it has.
        partitions: u32,
    },
    /// The cluster doesn't allow it.
    #[error(
        "the cluster does not allow this client to {operation} {resource}. Ask for the permission \
         ({acl}), or check which user the client is (`sasl`, `tls.certificate`)"
    )]
    Forbidden {
        /// What was tried: `read`, `write to`, `join`.
        operation: &'static str,
        /// `topic orders`, `group shop`.
        resource: String,
        /// The access rule that is missing.
        acl: &'static str,
    },
    /// The place to go on at is not in the log (any more).
    #[error(
        "{topic}[{partition}]: group {group} wants to go on at {position}, but the log has only \
         offsets {start} to {end} (exclusive): {}. To go on nevertheless, set on_out_of_range to \
         earliest (goes on at {start}) or latest (goes on at {end})",
        out_of_range_reason(*position, *start)
    )]
    OutOfRange {
        /// The topic.
        topic: String,
        /// The partition's number.
        partition: u32,
        /// The group.
        group: String,
        /// Where the group wants to go on.
        position: u64,
        /// The first offset that the log has.
        start: u64,
        /// The offset behind the last record.
        end: u64,
    },
    /// Another process joined the group under this member's name.
    #[error(
        "another process joined group {group} as member {member} and took this one's place. Give \
         every process its own `member`, or leave it out"
    )]
    MemberReplaced {
        /// The group.
        group: String,
        /// The name that both use.
        member: String,
    },
    /// Partitions were chosen by hand, under the name of a group that has members.
    #[error(
        "group {group} has members that share its partitions, so commits of partitions that were \
         chosen by hand are refused. Use a group of their own for `partitions`"
    )]
    GroupInUse {
        /// The group.
        group: String,
    },
    /// What a partition holds can't be read.
    #[error(
        "{topic}[{partition}] can't be read on from {position}: {reason}. Going on would skip \
         records. Look at the log with `kafka-dump-log`; to skip them on purpose, move the \
         group's commit with `kafka-consumer-groups --reset-offsets`"
    )]
    Unreadable {
        /// The topic.
        topic: String,
        /// The partition's number.
        partition: u32,
        /// Where it stands.
        position: u64,
        /// What the client library says.
        reason: String,
    },
    /// A commit that may go through later. Tried again.
    #[error("the group did not take the commit: {reason}. It is made again")]
    CommitDelayed {
        /// What the group said.
        reason: String,
    },
    /// The group refuses the commit for good.
    #[error("the group did not take the commit of {topic}[{partition}]: {reason}")]
    CommitRefused {
        /// The topic.
        topic: String,
        /// The partition's number.
        partition: u32,
        /// What the group said.
        reason: String,
    },
    /// A commit names a position that was never delivered: a bug of the caller.
    #[error(
        "{topic}[{partition}]: a commit up to {position} was refused, because only records before \
         {delivered} were delivered; please report this as a bug"
    )]
    CommitBeyondDelivered {
        /// The topic.
        topic: String,
        /// The partition's number.
        partition: u32,
        /// What was to be committed.
        position: u64,
        /// The position behind the last record that was delivered.
        delivered: u64,
    },
    /// Records weren't confirmed in time. Tried again.
    #[error(
        "{records} of {of} records were not confirmed: {reason}. The batch is written again, \
         which repeats those that arrived"
    )]
    Undelivered {
        /// How many were not confirmed.
        records: usize,
        /// How many the batch had.
        of: usize,
        /// What the client library says of the first.
        reason: String,
    },
    /// The client has ended, or can't go on.
    #[error("the client stopped: {reason}. Start the pipeline again")]
    Broken {
        /// What the client library says.
        reason: String,
    },
}

impl KafkaError {
    /// Whether the same call can succeed later without anyone doing anything.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. } | Self::Undelivered { .. } | Self::CommitDelayed { .. }
        )
    }
}

impl From<KafkaError> for SourceError {
    fn from(error: KafkaError) -> Self {
        let message = error.to_string();
        let retryable = error.is_retryable();
        if retryable { Self::retry(message) } else { Self::stop(message) }.with_source(error)
    }
}

impl From<KafkaError> for SinkError {
    fn from(error: KafkaError) -> Self {
        let message = error.to_string();
        let retryable = error.is_retryable();
        if retryable { Self::retry(message) } else { Self::stop(message) }.with_source(error)
    }
}

/// One record that was refused; the others of its batch are not concerned.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordRefused {
    /// Larger than the settings or the broker allow.
    #[error(
        "the record has {bytes} bytes, more than {limit} allows. Write less, or raise it: \
         max_record_bytes here, and max.message.bytes of the topic"
    )]
    TooLarge {
        /// Key, payload and headers.
        bytes: usize,
        /// Whose limit it is: `max_record_bytes`, `the broker`.
        limit: &'static str,
    },
    /// It names no topic, and the sink has none.
    #[error("the record names no topic, and the sink has none")]
    NoTopic,
    /// The topic or the partition that it names doesn't exist.
    #[error("{target} does not exist")]
    NoSuchTarget {
        /// `topic orders`, or `orders[7]`.
        target: String,
    },
    /// The broker refuses it.
    #[error("the broker refuses the record for {target}: {reason}")]
    Invalid {
        /// The topic.
        target: String,
        /// What the broker says.
        reason: String,
    },
}

/// One setting that can't work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The setting's key, as in the file: `tls.ca`.
    pub key: &'static str,
    /// What is wrong with it, and what would be right.
    pub message: String,
}

impl Problem {
    pub(crate) fn new(key: &'static str, message: impl Into<String>) -> Self {
        Self { key, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

fn join(problems: &[Problem]) -> String {
    let all: Vec<_> = problems.iter().map(Problem::to_string).collect();
    all.join("; ")
}

fn out_of_range_reason(position: u64, start: u64) -> &'static str {
    if position < start {
        "retention deleted records before they were read"
    } else {
        "the topic was created anew, or records were lost with a broker"
    }
}
