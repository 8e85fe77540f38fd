//! Owns the source: the one loop in which everything about partitions happens.
//!
//! It waits for the source, for time, or for a reason to look that somebody put on the
//! [`Board`](crate::board::Board); never for a step or a sink. While partitions drain, or the byte
//! budget is spent, the source is asked as always, with a [`Demand`] that allows less.
//!
//! | state | leads to |
//! |---|---|
//! | reading | draining of some partitions, by `Revoking` or `Finished`; they are released one by one |
//! | reading | draining of all, by a stop, a failure or `Ended` |
//! | draining all | the end, when the last partition is released |

mod commit;
mod credit;
mod drain;
mod owned;
mod watch;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tidegate_core::{
    Assignment, BoxSource, Demand, Moment, Partition, RecordBatch, Source, SourceError, SourceEvent,
};

use crate::backoff::Backoff;
use crate::board::{Board, OwnershipId};
use crate::ending::Ending;
use crate::error::PipelineErrorKind;
use crate::log_limit::LogLimit;
use crate::settings::Settings;
use crate::task::{Head, Make, TaskContext};
use owned::Owned;

/// Everything that can happen to the coordinator.
enum Event {
    /// Somebody put a reason to look on the board.
    Woken,
    /// A point in time has come: a commit, a deadline, a pause that ends.
    Time,
    /// The source said something.
    Source(Result<SourceEvent, SourceError>),
}

pub(crate) struct Coordinator {
    source: BoxSource,
    source_ended: bool,
    /// The source failed and is left alone until then.
    paused_until: Option<Moment>,
    source_backoff: Backoff,
    log: LogLimit,
    stall_log: LogLimit,

    make: Make<dyn Head>,
    context: TaskContext,
    settings: Settings,
    board: Arc<Board>,

    owned: BTreeMap<OwnershipId, Owned>,
    ids: HashMap<Partition, OwnershipId>,
    next_id: OwnershipId,
    draining: BTreeSet<OwnershipId>,
    /// Partitions to let go that aren't owned (any more).
    unowned: Vec<Partition>,
    demand: Demand,

    commit_at: Moment,
    commit_backoff: Backoff,
    /// The source can't commit any more; nothing waits for it.
    commit_failed: bool,
    release_backoff: Backoff,
    /// Drained partitions are released no earlier: the last attempt failed.
    release_at: Option<Moment>,
    watch_at: Moment,
    /// Everything is to be drained by then; `Some(None)` has no limit.
    stopping: Option<Option<Moment>>,
}

impl Coordinator {
    pub(crate) fn new(
        source: BoxSource,
        make: Make<dyn Head>,
        context: TaskContext,
        settings: Settings,
        board: Arc<Board>,
    ) -> Self {
        let now = context.timer.now();
        Self {
            source,
            source_ended: false,
            paused_until: None,
            source_backoff: Backoff::new(settings.retry),
            log: LogLimit::new(Duration::from_secs(10)),
            stall_log: LogLimit::new(Duration::from_secs(60)),
            make,
            context,
            board,
            owned: BTreeMap::new(),
            ids: HashMap::new(),
            next_id: 0,
            draining: BTreeSet::new(),
            unowned: Vec::new(),
            demand: Demand::new(settings.limits.chunk_messages, settings.limits.chunk_bytes),
            commit_at: now + settings.commit.every,
            commit_backoff: Backoff::new(settings.retry),
            commit_failed: false,
            release_backoff: Backoff::new(settings.retry),
            release_at: None,
            watch_at: now + watch::INTERVAL,
            stopping: None,
            settings,
        }
    }

    /// Runs until everything is drained, committed and released. Returns the source, still open,
    /// whether it came to its own end, and by when the rest must be done.
    pub(crate) async fn run(mut self) -> (BoxSource, bool, Option<Moment>) {
        loop {
            let now = self.now();
            self.look_at_stop(now);
            self.look_at_attention();
            // A commit that failed is not made again any sooner because there is more to commit.
            let counted = self.board.commit_is_due() && !self.commit_backoff.is_failing();
            if counted || now >= self.commit_at {
                self.commit_moved(now).await;
            }
            self.release_drained(now).await;
            if now >= self.watch_at {
                self.watch(now);
            }
            if self.stopping.is_some() && self.owned.is_empty() && self.unowned.is_empty() {
                let ended = self.source_ended && !self.board.stop_requested();
                return (self.source, ended, self.stopping.flatten());
            }
            self.refresh_demand();
            match self.next_event().await {
                Event::Woken | Event::Time => {}
                Event::Source(Ok(event)) => {
                    self.source_backoff.succeeded();
                    self.handle(event);
                    // Lets the partitions' tasks run where there is one thread for all.
                    tokio::task::yield_now().await;
                }
                Event::Source(Err(error)) => self.source_failed("reading", error),
            }
        }
    }

    async fn next_event(&mut self) -> Event {
        let timer = self.context.timer;
        // Asked anew: a commit may have taken long, and a pause of the source ended meanwhile. One
        // time for both: what isn't asked now must be what wakes it later.
        let now = timer.now();
        let wake_at = self.next_moment(now);
        let asks = !self.source_ended && self.paused_until.is_none_or(|until| until <= now);
        tokio::select! {
            // The source first: where commits are slow, there is always another reason to look by
            // the time one is done, and the source's client still has to be served. What else is
            // due is looked at before each event.
            biased;
            event = self.source.next(&self.demand), if asks => Event::Source(event),
            () = self.board.woken() => Event::Woken,
            () = timer.sleep_until(wake_at) => Event::Time,
        }
    }

    fn handle(&mut self, event: SourceEvent) {
        let now = self.now();
        match event {
            SourceEvent::Assigned(assignments) => {
                assignments.into_iter().for_each(|assignment| self.assigned(assignment, now));
            }
            SourceEvent::Fetched(batch) => self.fetched(batch),
            SourceEvent::Revoking(revocation) => {
                let within = revocation.within.unwrap_or(Duration::MAX).min(self.settings.drain);
                for partition in revocation.partitions {
                    match self.ids.get(&partition) {
                        Some(&id) => self.begin_drain(id, Some(now + within)),
                        None => self.unowned.push(partition),
                    }
                }
            }
            SourceEvent::Finished(partitions) => {
                for partition in partitions {
                    if let Some(&id) = self.ids.get(&partition) {
                        self.begin_drain(id, None);
                    }
                }
            }
            SourceEvent::Lost(partitions) => {
                for partition in partitions {
                    if let Some(&id) = self.ids.get(&partition) {
                        self.forget(id);
                    }
                }
            }
            SourceEvent::Ended => {
                self.source_ended = true;
                self.stop_by(None);
            }
        }
    }

    fn assigned(&mut self, assignment: Assignment, now: Moment) {
        if self.ids.contains_key(&assignment.partition) {
            let what = format!("the source assigned {} twice", assignment.partition);
            self.board.fail(PipelineErrorKind::Contract { what });
            return;
        }
        let id = self.next_id;
        self.next_id += 1;
        let capacity = self.settings.limits.messages_per_partition;
        let owned = Owned::new(id, assignment, capacity, &self.board, now);
        self.ids.insert(owned.partition().clone(), id);
        self.demand.set_open(owned.partition(), true);
        self.owned.insert(id, owned);
        if let Some(deadline) = self.stopping {
            self.begin_drain(id, deadline);
        }
    }

    fn fetched(&mut self, batch: RecordBatch) {
        let id = self.ids.get(batch.partition()).copied();
        let Some((id, owned)) = id.and_then(|id| Some((id, self.owned.get_mut(&id)?))) else {
            let what = format!("the source delivered {batch:?}, which isn't assigned");
            self.board.fail(PipelineErrorKind::Contract { what });
            return;
        };
        if owned.is_draining() || batch.is_empty() {
            // Taken from the client before the drain began. It was not admitted, so it isn't
            // committed, and comes again.
            return;
        }
        let (bytes, records) = (batch.bytes(), batch.len() as u64);
        self.board.add_bytes(bytes);
        self.board.counters.read.fetch_add(records, Relaxed);
        if let Err(what) = owned.deliver(batch, &self.make, &self.context) {
            self.board.free_bytes(bytes);
            self.board.fail(PipelineErrorKind::Contract { what });
            return;
        }
        self.refresh_credit(id);
    }

    /// A call of the source failed: it is left alone for a while, or the pipeline stops.
    fn source_failed(&mut self, during: &'static str, error: SourceError) {
        let now = self.now();
        let pause = if error.is_retryable() { self.source_backoff.failed(now) } else { None };
        match pause {
            Some(pause) => {
                self.paused_until = Some(now + pause);
                self.warn(during, error);
            }
            None => {
                // It isn't asked again; what it delivered before is drained and committed.
                self.source_ended = true;
                self.board.fail(PipelineErrorKind::Source { during, error });
            }
        }
    }

    fn warn(&mut self, during: &'static str, error: SourceError) {
        if let Some(suppressed) = self.log.allow(self.now()) {
            let error = tidegate_core::error_chain(&error.into());
            tracing::warn!(
                pipeline = self.board.names.pipeline,
                during,
                error,
                suppressed,
                "the source failed and will be tried again"
            );
        }
    }

    /// By when partitions that drain must be let go.
    fn deadlines(&self) -> impl Iterator<Item = Moment> {
        self.draining.iter().filter_map(|id| self.owned.get(id)?.deadline())
    }

    /// The next moment at which something is due.
    fn next_moment(&self, now: Moment) -> Moment {
        // Between two attempts to release, a deadline that has passed can't be acted upon.
        let release = self.release_at.or_else(|| self.deadlines().min());
        let pause = self.paused_until.filter(|&until| until > now);
        let due = [release, pause].into_iter().flatten();
        due.chain([self.commit_at, self.watch_at]).min().unwrap_or(self.watch_at)
    }

    /// What bounds a call of the source while a stop or a failure waits for it.
    fn ending(&self) -> Ending {
        Ending {
            board: Arc::clone(&self.board),
            timer: self.context.timer,
            drain: self.settings.drain,
            deadline: self.stopping.flatten(),
        }
    }

    fn now(&self) -> Moment {
        self.context.timer.now()
    }
}
