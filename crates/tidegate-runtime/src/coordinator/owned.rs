use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use futures_util::FutureExt;
use tidegate_core::{
    Assignment, Delivery, LedgerObserver, Moment, Panicked, Partition, PartitionFrontier, Position,
    RecordBatch, SharedLedger, StepId, Stopped,
};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::board::{Board, OwnershipId, Watch};
use crate::error::PipelineErrorKind;
use crate::task::{CurrentStep, Head, Make, TaskContext, run_task};

/// Deliveries that wait for a partition's task.
const QUEUE: usize = 16;

/// A partition, from its assignment to its release. Its task begins with its first delivery.
pub(crate) struct Owned {
    ledger: SharedLedger,
    watch: Arc<Watch>,
    board: Arc<Board>,
    queue: Option<mpsc::Sender<Delivery>>,
    task: Option<AbortHandle>,
    current: CurrentStep,
    /// `Some` from the beginning of the drain, with its deadline.
    draining: Option<Option<Moment>>,
    first: Option<Position>,
    last: Option<Position>,
    committed: Option<Position>,
    passed: u64,
    /// What the watchdog saw last: the frontier, since when, and whether there was work.
    pub(super) seen: (Option<Position>, Moment, bool),
}

impl Owned {
    pub(super) fn new(
        id: OwnershipId,
        assignment: Assignment,
        capacity: usize,
        board: &Arc<Board>,
        now: Moment,
    ) -> Self {
        let Assignment { partition, generation } = assignment;
        let watch = Arc::new(Watch::new(id, partition.clone(), Arc::clone(board)));
        let observer = Arc::clone(&watch) as Arc<dyn LedgerObserver>;
        Self {
            ledger: SharedLedger::new(partition, generation, capacity, observer),
            watch,
            board: Arc::clone(board),
            queue: None,
            task: None,
            current: CurrentStep::default(),
            draining: None,
            first: None,
            last: None,
            committed: None,
            passed: 0,
            seen: (None, now, false),
        }
    }

    pub(super) fn partition(&self) -> &Partition {
        self.ledger.partition()
    }

    pub(super) fn ledger(&self) -> &SharedLedger {
        &self.ledger
    }

    /// The step that the task is in, or the source if it is in none.
    pub(super) fn current_step(&self) -> StepId {
        self.current.get()
    }

    pub(super) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Admits the batch and gives it to the partition's task. The error says what the source did
    /// wrong.
    pub(super) fn deliver(
        &mut self,
        batch: RecordBatch,
        make: &Make<dyn Head>,
        context: &TaskContext,
    ) -> Result<(), String> {
        let first = batch.iter().next().map(|record| record.position());
        let last = batch.iter().next_back().map(|record| record.position());
        if self.last.is_some() && first <= self.last {
            return Err(format!(
                "the source went back to {batch:?} after it had delivered {:?}",
                self.last
            ));
        }
        // Before it is admitted: what is in the ledger has to be answered for.
        if self.queue.as_ref().is_some_and(|queue| queue.capacity() == 0) {
            return Err(self.without_credit(first, "the task's queue is full"));
        }
        let delivery = self.ledger.admit(batch).map_err(|full| self.without_credit(first, full))?;
        (self.first, self.last) = (self.first.or(first), last);
        if self.queue.is_none() {
            self.start_task(make, context);
        }
        if let Some(queue) = &self.queue {
            // It fails only if the task has ended by a failure, which is what stops the pipeline.
            let _ = queue.try_send(delivery);
        }
        Ok(())
    }

    fn without_credit(&self, first: Option<Position>, why: impl std::fmt::Display) -> String {
        let (partition, first) = (self.partition(), first.map_or(0, Position::get));
        format!("the source delivered {partition}@{first} and more without credit: {why}")
    }

    fn start_task(&mut self, make: &Make<dyn Head>, context: &TaskContext) {
        let (queue, deliveries) = mpsc::channel(QUEUE);
        let (watch, board) = (Arc::clone(&self.watch), Arc::clone(&self.board));
        let partition = self.partition().clone();
        let (make, own_context) = (Arc::clone(make), context.for_another_task());
        self.current = own_context.current.clone();
        watch.task_started();
        let task = context.workers.spawn(async move {
            // What makes the steps is the author's code too, so it runs here.
            let made = catch_unwind(AssertUnwindSafe(|| make(&own_context)));
            let task = async {
                match made {
                    Ok(head) => {
                        run_task(head, deliveries, Arc::clone(&watch), own_context.timer).await
                    }
                    Err(payload) => {
                        let part = "what makes the steps".to_owned();
                        let message = Panicked::from_payload(payload).0;
                        board.fail(PipelineErrorKind::Panicked { part, message });
                        Err(Stopped)
                    }
                }
            };
            // A task that stops for a failure has reported it already. The panic of a custom step
            // ends here too: what it held was abandoned while it unwound.
            if let Err(payload) = AssertUnwindSafe(task).catch_unwind().await {
                let part = format!("the task of {partition}");
                let message = Panicked::from_payload(payload).0;
                board.fail(PipelineErrorKind::Panicked { part, message });
            }
            watch.task_ended();
        });
        self.queue = Some(queue);
        self.task = Some(task.abort_handle());
    }

    /// Whether the task takes another delivery, with something to spare if `spare`.
    pub(super) fn has_room(&self, capacity: usize, spare: bool) -> bool {
        let queue = self.queue.as_ref().map_or(QUEUE, mpsc::Sender::capacity);
        if spare {
            queue >= QUEUE / 2 && self.ledger.room() >= capacity.div_ceil(4)
        } else {
            queue > 0 && self.ledger.room() > 0
        }
    }

    /// Closes the task's queue: it handles what is in it, gives out what the steps hold, and ends.
    pub(super) fn begin_drain(&mut self, deadline: Option<Moment>) {
        self.queue = None;
        self.draining = Some(match self.draining {
            Some(Some(earlier)) => Some(deadline.map_or(earlier, |later| earlier.min(later))),
            Some(None) | None => deadline,
        });
        self.watch.wait_for_drain();
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.is_some()
    }

    pub(super) fn deadline(&self) -> Option<Moment> {
        self.draining.flatten()
    }

    /// Whether the task has ended and nobody owes an answer.
    pub(super) fn is_drained(&self) -> bool {
        self.is_draining() && !self.watch.task_is_running() && self.ledger.pending() == 0
    }

    /// The frontier, if it is higher than the committed one, and how many messages it has passed.
    pub(super) fn to_commit(&self) -> Option<(PartitionFrontier, u64)> {
        self.watch.frontier_taken();
        let (position, passed) = self.ledger.progress()?;
        (self.committed != Some(position)).then(|| {
            let (partition, generation) = (self.partition().clone(), self.ledger.generation());
            (PartitionFrontier { partition, generation, position }, passed)
        })
    }

    /// The source has committed this position.
    pub(super) fn committed(&mut self, position: Position, passed: u64) {
        self.committed = Some(position);
        let newly = passed - self.passed;
        self.passed = passed;
        self.board.counters.committed.fetch_add(newly, Relaxed);
    }

    /// Where the partition stands, for the lag: the frontier, or the first position it delivered.
    pub(super) fn standing(&self) -> Option<Position> {
        self.ledger.frontier().or(self.first)
    }

    /// Ends the generation: what is in flight is released, not answered.
    pub(super) fn fence(&mut self) -> usize {
        // Those that failed have been counted as such.
        let released = self.ledger.pending();
        self.board.free_bytes(self.ledger.fence());
        self.board.counters.released.fetch_add(released as u64, Relaxed);
        self.queue = None;
        if let Some(task) = self.task.take() {
            task.abort();
        }
        released
    }
}
