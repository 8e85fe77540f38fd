//! A source and sinks that cost as little as any can: what is left is the engine.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate_core::{
    Assignment, Commit, CommitReport, DeadLetter, Demand, Generation, NewRecord, Partition,
    Position, RecordBatch, Report, Sink, SinkError, Source, SourceCapabilities, SourceError,
    SourceEvent,
};

use crate::work::Payloads;

/// Delivers so many records, copied from the payloads as a client copies them from its socket.
/// Partitions take turns, chunk by chunk.
pub struct MemorySource {
    payloads: Payloads,
    chunk: usize,
    delivered: u64,
    end: u64,
    partitions: Vec<(Partition, u64)>,
    turn: usize,
    assigned: bool,
    committed: Arc<AtomicU64>,
}

impl MemorySource {
    /// `messages` records in all, from `partitions` partitions, in chunks of at most `chunk`.
    pub fn new(payloads: Payloads, messages: u64, partitions: u32, chunk: usize) -> Self {
        let partition = |index| (Partition::new("memory", index), 0);
        Self {
            payloads,
            chunk,
            delivered: 0,
            end: messages,
            partitions: (0..partitions).map(partition).collect(),
            turn: 0,
            assigned: false,
            committed: Arc::default(),
        }
    }

    /// The last committed position; of one partition it is the number of messages.
    pub fn committed(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.committed)
    }

    fn fetch(&mut self, demand: &Demand) -> Option<RecordBatch> {
        let partitions = self.partitions.len();
        let open = (0..partitions)
            .map(|ahead| (self.turn + ahead) % partitions)
            .find(|&index| demand.allows(&self.partitions[index].0))?;
        self.turn = open + 1;
        let (partition, next) = &mut self.partitions[open];
        let fit = (demand.max_bytes() / self.payloads.size()).max(1);
        let count =
            self.chunk.min(demand.max_records()).min(fit).min((self.end - self.delivered) as usize);
        let mut builder = RecordBatch::builder(partition.clone())
            .with_capacity(count, count * self.payloads.size());
        for payload in self.payloads.from(self.delivered).take(count) {
            let record = NewRecord { payload: Some(payload), ..NewRecord::default() };
            builder.push(Position::new(*next), record).expect("positions rise, chunks are small");
            *next += 1;
        }
        self.delivered += count as u64;
        Some(builder.finish())
    }
}

impl Source for MemorySource {
    fn capabilities(&self) -> SourceCapabilities {
        SourceCapabilities::new().bounded(true).resumes(true)
    }

    async fn next(&mut self, demand: &Demand) -> Result<SourceEvent, SourceError> {
        if !self.assigned {
            self.assigned = true;
            let assign = |(partition, _): &(Partition, u64)| Assignment {
                partition: partition.clone(),
                generation: Generation::new(1),
            };
            return Ok(SourceEvent::Assigned(self.partitions.iter().map(assign).collect()));
        }
        if self.delivered == self.end {
            return Ok(SourceEvent::Ended);
        }
        match self.fetch(demand) {
            Some(batch) => Ok(SourceEvent::Fetched(batch)),
            // Another demand comes with another call.
            None => std::future::pending().await,
        }
    }

    async fn commit(&mut self, commit: Commit<'_>) -> Result<CommitReport, SourceError> {
        if let Commit::Through(frontiers) = commit
            && let Some(last) = frontiers.last()
        {
            self.committed.store(last.position.get(), Relaxed);
        }
        Ok(CommitReport::default())
    }

    async fn release(&mut self, _partitions: &[Partition]) -> Result<(), SourceError> {
        Ok(())
    }

    async fn close(&mut self) -> Result<(), SourceError> {
        Ok(())
    }
}

/// Something whose members are counted when it is thrown away.
pub trait Count: Send + Sync + 'static {
    /// How many messages it is.
    fn count(&self) -> usize;
}

impl Count for u64 {
    fn count(&self) -> usize {
        1
    }
}

impl<T: Send + Sync + 'static> Count for Vec<T> {
    fn count(&self) -> usize {
        self.len()
    }
}

impl Count for DeadLetter {
    fn count(&self) -> usize {
        1
    }
}

/// Counts what it gets and throws it away.
pub struct NullSink<T> {
    counted: Arc<AtomicU64>,
    types: std::marker::PhantomData<fn(T)>,
}

impl<T> NullSink<T> {
    pub fn new() -> Self {
        Self { counted: Arc::default(), types: std::marker::PhantomData }
    }

    /// How many messages came so far.
    pub fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.counted)
    }
}

impl<T: Count> Sink for NullSink<T> {
    type Item = T;

    async fn write(&mut self, batch: &[T]) -> Result<Report, SinkError> {
        let count: usize = black_box(batch).iter().map(Count::count).sum();
        self.counted.fetch_add(count as u64, Relaxed);
        Ok(Report::all_done(batch.len()))
    }
}
