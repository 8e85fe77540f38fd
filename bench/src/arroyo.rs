//! The same pipeline on the crate `sentry_arroyo`, fed from memory.
//!
//! Put together as its documentation does: `RunTask` for the steps, `Reduce` for the batch,
//! `CommitOffsets` at the end, its own `StreamProcessor` around it, payloads of its own type
//! `KafkaPayload`. Commits are on, and so is its dead-letter policy, with the producer that it
//! brings for throwing dead letters away. Two parts are ours, because it has none that are as
//! cheap: a consumer (its local broker locks and copies more), and a filter (the Rust crate has
//! none; this one does what its Python `FilterStep` does).

use std::collections::{HashMap, HashSet};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use chrono::{DateTime, Utc};
use sentry_arroyo::backends::kafka::types::KafkaPayload;
use sentry_arroyo::backends::{
    AssignmentCallbacks, CommitOffsets as Commits, Consumer, ConsumerError,
};
use sentry_arroyo::processing::dlq::{DlqLimit, DlqPolicy, NoopDlqProducer};
use sentry_arroyo::processing::strategies::commit_offsets::CommitOffsets;
use sentry_arroyo::processing::strategies::reduce::Reduce;
use sentry_arroyo::processing::strategies::run_task::RunTask;
use sentry_arroyo::processing::strategies::{
    CommitRequest, InvalidMessage, ProcessingStrategy, ProcessingStrategyFactory, StrategyError,
    SubmitError,
};
use sentry_arroyo::processing::{Callbacks, ConsumerState, StreamProcessor};
use sentry_arroyo::types::{BrokerMessage, InnerMessage, Message, Partition, Topic};

use crate::engine::COMMIT_EVERY;
use crate::work::{BATCH, Payloads, convert, keep, parse};

/// How long a batch waits to be full, as in the other pipeline.
const BATCH_TIME: Duration = Duration::from_secs(1);

/// Handles so many messages of one partition, and checks that all are accounted for.
pub fn run(payloads: &Payloads, messages: u64) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .expect("a runtime without I/O needs nothing that can fail");
    let (kept, committed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let dead_letters = DlqPolicy::new(
        runtime.handle().clone(),
        Box::new(NoopDlqProducer),
        DlqLimit::default(),
        None,
    );
    let steps = Steps { kept: Arc::clone(&kept) };
    let state = ConsumerState::new(Box::new(steps), Some(dead_letters));
    let consumer = MemoryConsumer {
        payloads: payloads.clone(),
        partition: Partition::new(Topic::new("memory"), 0),
        next: 0,
        end: messages,
        assigned: false,
        callbacks: Callbacks(state.clone()),
        committed: Arc::clone(&committed),
    };
    let mut processor = StreamProcessor::new(Box::new(consumer), state);
    for _ in 0..messages {
        if let Err(error) = processor.run_once() {
            panic!("the arroyo pipeline failed: {error}");
        }
    }
    // Dropping the consumer revokes the partition: what is in flight is joined and committed.
    drop(processor);
    assert_eq!(kept.load(Relaxed), payloads.expected(messages).kept, "what the sink got");
    // A filtered or failed tail isn't committed.
    let committed = committed.load(Relaxed);
    assert!(committed + 1000 > messages && committed <= messages, "committed {committed}");
}

struct Steps {
    kept: Arc<AtomicU64>,
}

impl ProcessingStrategyFactory<KafkaPayload> for Steps {
    fn create(&self) -> Box<dyn ProcessingStrategy<KafkaPayload>> {
        let kept = Arc::clone(&self.kept);
        let sink = RunTask::new(
            move |batch: Message<Vec<u64>>| {
                kept.fetch_add(black_box(batch.payload()).len() as u64, Relaxed);
                Ok(batch)
            },
            CommitOffsets::new(COMMIT_EVERY),
        );
        let batch = Reduce::new(
            sink,
            Arc::new(|mut batch: Vec<u64>, message: Message<u64>| {
                batch.push(message.into_payload());
                Ok(batch)
            }),
            Arc::new(|| Vec::with_capacity(BATCH)),
            BATCH,
            BATCH_TIME,
            |_| 1,
        );
        let map = RunTask::new(
            |message: Message<u64>| {
                let number = convert(*message.payload());
                Ok(message.replace(number))
            },
            batch,
        );
        Box::new(RunTask::new(try_map, Filter { next: map }))
    }
}

fn try_map(message: Message<KafkaPayload>) -> Result<Message<u64>, SubmitError<KafkaPayload>> {
    let InnerMessage::BrokerMessage(message) = message.inner_message else {
        unreachable!("the first step gets messages as the consumer made them");
    };
    match message.payload.payload().map(|payload| parse(payload)) {
        Some(Ok(number)) => Ok(message.replace(number).into()),
        _ => Err(SubmitError::InvalidMessage(InvalidMessage::from(&message))),
    }
}

/// Leaves out what `keep` doesn't want.
struct Filter<N> {
    next: N,
}

impl<N: ProcessingStrategy<u64>> ProcessingStrategy<u64> for Filter<N> {
    fn poll(&mut self) -> Result<Option<CommitRequest>, StrategyError> {
        self.next.poll()
    }

    fn submit(&mut self, message: Message<u64>) -> Result<(), SubmitError<u64>> {
        if keep(message.payload()) { self.next.submit(message) } else { Ok(()) }
    }

    fn terminate(&mut self) {
        self.next.terminate();
    }

    fn join(&mut self, timeout: Option<Duration>) -> Result<Option<CommitRequest>, StrategyError> {
        self.next.join(timeout)
    }
}

/// Makes messages from the payloads, each copied as the Kafka consumer copies them.
struct MemoryConsumer {
    payloads: Payloads,
    partition: Partition,
    next: u64,
    end: u64,
    assigned: bool,
    callbacks: Callbacks<KafkaPayload>,
    committed: Arc<AtomicU64>,
}

impl Consumer<KafkaPayload, Callbacks<KafkaPayload>> for MemoryConsumer {
    fn poll(
        &mut self,
        _timeout: Option<Duration>,
    ) -> Result<Option<BrokerMessage<KafkaPayload>>, ConsumerError> {
        if !self.assigned {
            self.assigned = true;
            self.callbacks.on_assign(HashMap::from([(self.partition, 0)]));
        }
        if self.next == self.end {
            return Ok(None);
        }
        let payload = self.payloads.get(self.next).to_vec();
        let message = BrokerMessage::new(
            KafkaPayload::new(None, None, Some(payload)),
            self.partition,
            self.next,
            DateTime::<Utc>::UNIX_EPOCH,
        );
        self.next += 1;
        Ok(Some(message))
    }

    fn pause(&mut self, _partitions: HashSet<Partition>) -> Result<(), ConsumerError> {
        Ok(())
    }

    fn resume(&mut self, _partitions: HashSet<Partition>) -> Result<(), ConsumerError> {
        Ok(())
    }

    fn paused(&self) -> Result<HashSet<Partition>, ConsumerError> {
        Ok(HashSet::new())
    }

    fn tell(&self) -> Result<HashMap<Partition, u64>, ConsumerError> {
        Ok(HashMap::from([(self.partition, self.next)]))
    }

    fn seek(&self, _offsets: HashMap<Partition, u64>) -> Result<(), ConsumerError> {
        Ok(())
    }

    fn commit_offsets(&mut self, positions: HashMap<Partition, u64>) -> Result<(), ConsumerError> {
        Committer(&self.committed).commit(positions)
    }
}

impl Drop for MemoryConsumer {
    fn drop(&mut self) {
        self.callbacks.on_revoke(Committer(&self.committed), vec![self.partition]);
    }
}

struct Committer<'a>(&'a AtomicU64);

impl Commits for Committer<'_> {
    fn commit(self, offsets: HashMap<Partition, u64>) -> Result<(), ConsumerError> {
        offsets.values().for_each(|&offset| self.0.store(offset, Relaxed));
        Ok(())
    }
}
