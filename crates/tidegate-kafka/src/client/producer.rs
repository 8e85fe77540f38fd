//! An idempotent producer that answers for batches.
//!
//! - There is one batch at a time. Each record carries the batch's number and its own, so an answer
//!   that comes for a batch nobody waits for any more is told apart, and counts for nothing.
//! - An answer is given on the library's thread; it counts down, and keeps only failures.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError as DriverError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{
    BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer,
};
use rdkafka::types::RDKafkaErrorCode;
use tokio::sync::Notify;

use super::context::{forward_log, lock};
use super::trouble::Trouble;
use super::{properties, refused};
use crate::config::KafkaSinkConfig;
use crate::error::KafkaError;
use crate::record::KafkaRecord;

/// How long the library may take to end once nothing is in flight.
const END_WITHIN: Duration = Duration::from_secs(1);

/// How long to wait for news before looking for room again.
const LOOK_FOR_ROOM: Duration = Duration::from_millis(10);

/// Why a record was not taken.
#[derive(Debug)]
pub(crate) enum Unsent {
    /// The client holds as much as it may: send it again once there is room.
    Full,
    /// It won't be taken.
    Trouble(Trouble),
}

pub(crate) struct Producer {
    producer: ThreadedProducer<Deliveries>,
}

impl Producer {
    pub(crate) fn new(config: &KafkaSinkConfig) -> Result<Self, KafkaError> {
        let producer = properties::of_producer(config)
            .create_with_context(Deliveries(Arc::default()))
            .map_err(|error| refused("kafka sink", &error))?;
        Ok(Self { producer })
    }

    fn tally(&self) -> &Tally {
        &self.producer.context().0
    }

    /// Begins a batch of so many records. Each is then sent or left out, once.
    pub(crate) fn begin(&self, records: usize) {
        let tally = self.tally();
        // First the number: an answer for the batch before this one must not count.
        tally.batch.fetch_add(1, Ordering::AcqRel);
        lock(&tally.failures).clear();
        tally.missing.store(records, Ordering::Release);
    }

    /// Sends a record of the batch.
    pub(crate) fn send(
        &self,
        index: usize,
        topic: &str,
        record: &KafkaRecord,
    ) -> Result<(), Unsent> {
        let batch = self.tally().batch.load(Ordering::Acquire);
        let mut message =
            BaseRecord::<[u8], [u8], usize>::with_opaque_to(topic, opaque(batch, index));
        message.key = record.key.as_deref();
        message.payload = record.payload.as_deref();
        message.partition = record.partition.and_then(|number| i32::try_from(number).ok());
        message.timestamp = record.timestamp.map(tidegate_core::Timestamp::as_millis);
        if !record.headers.is_empty() {
            let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
            for header in &record.headers {
                headers = headers.insert(Header { key: &header.name, value: Some(&*header.value) });
            }
            message.headers = Some(headers);
        }
        match self.producer.send(message) {
            Ok(()) => Ok(()),
            Err((DriverError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {
                Err(Unsent::Full)
            }
            Err((error, _)) => Err(Unsent::Trouble(super::trouble(error))),
        }
    }

    /// A record of the batch is not sent.
    pub(crate) fn leave_out(&self) {
        self.tally().count();
    }

    /// Waits until the client may have room again. The library frees the room a little after it
    /// has told of it, so this also returns after a moment without news.
    pub(crate) async fn room(&self) {
        let tally = self.tally();
        tally.crowded.store(true, Ordering::Release);
        let _ = tokio::time::timeout(LOOK_FOR_ROOM, tally.progress.notified()).await;
    }

    /// Waits until every record of the batch is answered for, and returns those that failed.
    pub(crate) async fn answers(&self) -> Vec<(usize, Trouble)> {
        let tally = self.tally();
        while tally.missing.load(Ordering::Acquire) > 0 {
            tally.progress.notified().await;
        }
        std::mem::take(&mut lock(&tally.failures))
    }

    /// Ends the client. Blocks.
    pub(crate) fn close(self) {
        if let Err(error) = self.producer.flush(END_WITHIN) {
            tracing::debug!(%error, "the producer ended with records in flight");
        }
    }
}

/// The state of the one batch that is waited for.
#[derive(Default)]
struct Tally {
    batch: AtomicU32,
    missing: AtomicUsize,
    failures: Mutex<Vec<(usize, Trouble)>>,
    crowded: AtomicBool,
    progress: Notify,
}

impl Tally {
    fn count(&self) {
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.progress.notify_one();
        }
    }
}

struct Deliveries(Arc<Tally>);

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        forward_log(level, facility, message);
    }

    fn error(&self, error: DriverError, reason: &str) {
        // What it means for a record comes with the record.
        tracing::info!(%error, reason, "the producer's client reports");
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, opaque: usize) {
        let tally = &self.0;
        if tally.crowded.swap(false, Ordering::AcqRel) {
            tally.progress.notify_one();
        }
        let (batch, index) = split(opaque);
        if batch != tally.batch.load(Ordering::Acquire) {
            return;
        }
        if let Err((error, _)) = result {
            let trouble = Trouble::new(error.rdkafka_error_code(), "");
            lock(&tally.failures).push((index, trouble));
        }
        tally.count();
    }
}

fn opaque(batch: u32, index: usize) -> usize {
    (batch as usize) << 32 | (index & 0xffff_ffff)
}

fn split(opaque: usize) -> (u32, usize) {
    ((opaque >> 32) as u32, opaque & 0xffff_ffff)
}

/// Two numbers are packed into one word.
const _: () = assert!(usize::BITS >= 64, "the Kafka sink needs a 64-bit machine");
