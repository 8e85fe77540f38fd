//! What the client library tells while it is polled: rebalances, errors, log lines.
//!
//! A rebalance is only noted here. The library waits for the answer (assign, unassign) until the
//! reader gives it, and goes on with its heartbeats meanwhile; so revoked partitions can be drained
//! while the client is served. Once the consumer is closing, every rebalance is answered at once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::ClientContext;
use rdkafka::TopicPartitionList;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::KafkaError as DriverError;
use rdkafka::types::RDKafkaRespErr;
use tidegate_core::Partition;

use super::trouble::{Kind, Trouble};

/// Errors that nobody has looked at yet; what comes on top replaces the oldest.
const MOST_TROUBLES: usize = 64;

/// What the group wants of this member.
#[derive(Debug)]
pub(crate) enum Rebalancing {
    /// To take these partitions, beside those it has.
    Assign(Vec<Partition>),
    /// To give these up.
    Revoke(Vec<Partition>),
}

#[derive(Default)]
pub(super) struct Context {
    rebalances: Mutex<VecDeque<Rebalancing>>,
    troubles: Mutex<VecDeque<Trouble>>,
    closing: AtomicBool,
}

impl Context {
    pub(super) fn take_rebalances(&self) -> VecDeque<Rebalancing> {
        std::mem::take(&mut lock(&self.rebalances))
    }

    pub(super) fn take_troubles(&self) -> VecDeque<Trouble> {
        std::mem::take(&mut lock(&self.troubles))
    }

    fn note(&self, trouble: Trouble) {
        let mut troubles = lock(&self.troubles);
        if troubles.len() == MOST_TROUBLES {
            troubles.pop_front();
        }
        troubles.push_back(trouble);
    }

    /// From now on rebalances are answered here.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        forward_log(level, facility, message);
        // That a broker closed a connection is told here only.
        if facility == "FAIL" {
            let reason = message.split_once("]: ").map_or(message, |(_, reason)| reason);
            self.note(Trouble { kind: Kind::Connection, reason: reason.to_owned() });
        }
    }

    fn error(&self, error: DriverError, reason: &str) {
        self.note(Trouble::new(error.rdkafka_error_code(), reason));
    }
}

impl ConsumerContext for Context {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        kind: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        let is_assign = kind == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        if self.closing.load(Ordering::Acquire) {
            answer(consumer, is_assign, list);
            return;
        }
        let partitions = partitions_of(list);
        lock(&self.rebalances).push_back(if is_assign {
            Rebalancing::Assign(partitions)
        } else {
            Rebalancing::Revoke(partitions)
        });
    }
}

/// Does as the group says. While the consumer closes, an assignment is taken as none.
fn answer(consumer: &BaseConsumer<Context>, is_assign: bool, list: &TopicPartitionList) {
    let incremental = matches!(consumer.rebalance_protocol(), RebalanceProtocol::Cooperative);
    let done = match (incremental, is_assign) {
        (true, true) => consumer.incremental_assign(list),
        (true, false) => consumer.incremental_unassign(list),
        (false, true) => consumer.assign(list),
        (false, false) => consumer.unassign(),
    };
    if let Err(error) = done {
        tracing::debug!(%error, "a rebalance was not answered while the consumer closed");
    }
}

pub(super) fn partitions_of(list: &TopicPartitionList) -> Vec<Partition> {
    let elements = list.elements();
    let partition = |topic: &str, number: i32| Some(Partition::new(topic, number.try_into().ok()?));
    elements.iter().filter_map(|e| partition(e.topic(), e.partition())).collect()
}

/// The library's lines, at a level below its own: what matters is reported by this crate.
pub(super) fn forward_log(level: RDKafkaLogLevel, facility: &str, message: &str) {
    match level {
        RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
            tracing::warn!(target: "librdkafka", facility, "{message}");
        }
        RDKafkaLogLevel::Error | RDKafkaLogLevel::Warning => {
            tracing::info!(target: "librdkafka", facility, "{message}");
        }
        _ => tracing::debug!(target: "librdkafka", facility, "{message}"),
    }
}

/// What is kept under these locks is whole after every statement, so a panic can't have left it
/// half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
