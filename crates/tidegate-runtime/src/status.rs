use std::fmt;
use std::time::Duration;

use tidegate_core::{Partition, Position};

/// A partition that has messages in flight and doesn't move.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stall {
    /// The partition.
    pub partition: Partition,
    /// The message that holds its frontier.
    pub position: Position,
    /// The step that has the message, with where it was built.
    pub step: String,
    /// How long the frontier has stood still.
    pub since: Duration,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}@{} has been in step {} for {} s",
            self.partition,
            self.position,
            self.step,
            self.since.as_secs()
        )
    }
}

/// How a running pipeline stands. All counts are since its start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// Records that the source delivered.
    pub read: u64,
    /// Items that sinks have confirmed; more than `read` after a fan-out, fewer after a batch.
    pub written: u64,
    /// Messages of which nothing was left to write.
    pub filtered: u64,
    /// Messages whose original is among the dead letters.
    pub diverted: u64,
    /// Messages that failed and hold their partition's frontier.
    pub failed: u64,
    /// Messages that the source was told to forget.
    pub committed: u64,
    /// Messages read and not settled.
    pub in_flight: u64,
    /// Bytes of the records that are kept for them.
    pub in_flight_bytes: u64,
    /// Messages between the frontiers and the ends of all partitions; `None` if the source
    /// doesn't know its ends. Refreshed once a second.
    pub lag: Option<u64>,
    /// The partitions that don't move; empty in an idle pipeline.
    pub stalls: Vec<Stall>,
}

impl Status {
    /// False only while a partition has work and makes no progress.
    pub fn is_live(&self) -> bool {
        self.stalls.is_empty()
    }
}

/// What a finished pipeline has done.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// The last status.
    pub status: Status,
    /// From the start to the end.
    pub elapsed: Duration,
    /// Whether the end was the source's, rather than a stop.
    pub ended: bool,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = &self.status;
        write!(
            f,
            "read={} written={} filtered={} diverted={} failed={} committed={} elapsed={:.3}s",
            s.read,
            s.written,
            s.filtered,
            s.diverted,
            s.failed,
            s.committed,
            self.elapsed.as_secs_f64()
        )
    }
}
