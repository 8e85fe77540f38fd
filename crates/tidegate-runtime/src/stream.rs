//! The builder: one method a step, in reading order.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::{
    BoxError, Guarantee, Panicked, Push, Sink, SinkFacts, Source, Step, StepId, TokenBucket,
};

use crate::error::PipelineError;
use crate::fan_out::{Branches, Ways};
use crate::plan::{Label, PlanHandle};
use crate::running::Running;
use crate::sink_task::sink_task;
use crate::status::Summary;
use crate::steps::{
    Batch, BatchLimits, Concurrency, FlatMap, Map, MapAsync, Measure, Throttle, TryFilterMap,
};
use crate::task::{Head, Make, Node, TaskContext};

/// Results of a step that makes many of one leave in chunks of this many.
const FLAT_MAP_CHUNK: usize = 512;

/// What a stream begins with: the source, or the message of an outer stream.
pub trait Origin: private::Sealed + 'static {
    #[doc(hidden)]
    type Head: ?Sized + 'static;
}

/// The stream begins with the pipeline's source.
#[derive(Debug)]
pub enum Top {}

/// The stream is one way of a [`Stream::branch`] or [`Stream::tee`] of messages of type `T`.
#[derive(Debug)]
pub struct Sub<T>(PhantomData<T>);

impl Origin for Top {
    type Head = dyn Head;
}

impl<T: 'static> Origin for Sub<T> {
    type Head = dyn Push<T>;
}

mod private {
    pub trait Sealed {}
    impl Sealed for super::Top {}
    impl<T> Sealed for super::Sub<T> {}
}

type Link<O, T> = Box<dyn FnOnce(Make<dyn Push<T>>) -> Make<<O as Origin>::Head>>;

/// Messages of type `T` on their way, after the steps so far.
///
/// Closures get values and never see what has to be answered for. A closure is shared by all
/// partitions and threads. If it panics or returns an error, that message goes to the dead
/// letters, or stops the pipeline if there are none; its neighbours go on.
#[must_use = "a stream does nothing until it ends in a sink and the flow is run"]
pub struct Stream<O: Origin, T> {
    plan: PlanHandle,
    last: StepId,
    link: Link<O, T>,
}

impl<O: Origin, T: Send + 'static> Stream<O, T> {
    pub(crate) fn new(
        plan: PlanHandle,
        last: StepId,
        link: impl FnOnce(Make<dyn Push<T>>) -> Make<O::Head> + 'static,
    ) -> Self {
        Self { plan, last, link: Box::new(link) }
    }

    /// Names the step before. Errors, logs and dead letters use it; without it they use the kind
    /// of step, and where it was built.
    pub fn named(self, label: impl Into<Label>) -> Self {
        self.plan.name_step(self.last, label.into());
        self
    }

    /// One message for each.
    #[track_caller]
    pub fn map<U: Send + 'static>(
        self,
        f: impl Fn(T) -> U + Send + Sync + 'static,
    ) -> Stream<O, U> {
        let f = Arc::new(f);
        self.add("map", move || Map::new(Arc::clone(&f)))
    }

    /// One message for each, or an error: then it goes to the dead letters.
    #[track_caller]
    pub fn try_map<U: Send + 'static, E: Into<BoxError>>(
        self,
        f: impl Fn(T) -> Result<U, E> + Send + Sync + 'static,
    ) -> Stream<O, U> {
        self.each("try_map", move |value| f(value).map(Some).map_err(Into::into))
    }

    /// Leaves out the messages that `keep` doesn't want. They settle at once.
    #[track_caller]
    pub fn filter(self, keep: impl Fn(&T) -> bool + Send + Sync + 'static) -> Self {
        self.each("filter", move |value| Ok(keep(&value).then_some(value)))
    }

    /// One message for some; the others are filtered.
    #[track_caller]
    pub fn filter_map<U: Send + 'static>(
        self,
        f: impl Fn(T) -> Option<U> + Send + Sync + 'static,
    ) -> Stream<O, U> {
        self.each("filter_map", move |value| Ok(f(value)))
    }

    /// Looks at each message.
    #[track_caller]
    pub fn inspect(self, look: impl Fn(&T) + Send + Sync + 'static) -> Self {
        let f = Arc::new(move |value| {
            look(&value);
            value
        });
        self.add("inspect", move || Map::new(Arc::clone(&f)))
    }

    /// Zero or more messages for each, in order, taken from the iterator as there is room for
    /// them. The original settles when all of them have.
    #[track_caller]
    pub fn flat_map<U, I>(self, f: impl Fn(T) -> I + Send + Sync + 'static) -> Stream<O, U>
    where
        U: Send + 'static,
        I: IntoIterator<Item = U, IntoIter: Send> + 'static,
    {
        let f = Arc::new(move |value| {
            f(value).into_iter().map(Ok::<U, BoxError> as fn(U) -> Result<U, BoxError>)
        });
        self.add("flat_map", move || FlatMap::new(Arc::clone(&f), FLAT_MAP_CHUNK))
    }

    /// Like [`Stream::flat_map`], but any of them can be an error: then the original goes to the
    /// dead letters. What the iterator gave out before the error has left already.
    #[track_caller]
    pub fn try_flat_map<U, E, I>(self, f: impl Fn(T) -> I + Send + Sync + 'static) -> Stream<O, U>
    where
        U: Send + 'static,
        E: Into<BoxError> + 'static,
        I: IntoIterator<Item = Result<U, E>, IntoIter: Send> + 'static,
    {
        let f = Arc::new(f);
        self.add("try_flat_map", move || FlatMap::new(Arc::clone(&f), FLAT_MAP_CHUNK))
    }

    /// An async call for each message, several at a time. The calls of one partition share a
    /// task, so they should wait rather than compute.
    #[track_caller]
    pub fn map_async<U, E, Fut>(
        self,
        concurrency: Concurrency<T>,
        f: impl Fn(T) -> Fut + Send + Sync + 'static,
    ) -> Stream<O, U>
    where
        U: Send + 'static,
        E: Into<BoxError> + Send + 'static,
        Fut: Future<Output = Result<U, E>> + Send + 'static,
    {
        self.add_async("map_async", concurrency, f)
    }

    /// A blocking or long-computing call for each message, on threads for such work.
    #[track_caller]
    pub fn map_blocking<U, E>(
        self,
        concurrency: Concurrency<T>,
        f: impl Fn(T) -> Result<U, E> + Send + Sync + 'static,
    ) -> Stream<O, U>
    where
        U: Send + 'static,
        E: Into<BoxError> + Send + 'static,
    {
        let f = Arc::new(f);
        self.add_async("map_blocking", concurrency, move |value| {
            let f = Arc::clone(&f);
            async move {
                let call = tokio::task::spawn_blocking(move || f(value).map_err(Into::into));
                match call.await {
                    Ok(result) => result,
                    Err(ended) => Err(match ended.try_into_panic() {
                        Ok(panic) => Panicked::from_payload(panic).into(),
                        Err(_) => BoxError::from("the call was cancelled by the shutdown"),
                    }),
                }
            }
        })
    }

    /// Makes one message of several of the same partition. A byte limit needs
    /// [`Stream::batch_by_bytes`].
    #[track_caller]
    pub fn batch(self, limits: BatchLimits) -> Stream<O, Vec<T>> {
        if limits.bytes.is_some() {
            self.problem("batch: a byte limit needs a measure; use batch_by_bytes");
        }
        self.add_batch(limits, None)
    }

    /// Like [`Stream::batch`], where `measure` says how many bytes a message counts for.
    #[track_caller]
    pub fn batch_by_bytes(
        self,
        limits: BatchLimits,
        measure: impl Fn(&T) -> usize + Send + Sync + 'static,
    ) -> Stream<O, Vec<T>> {
        self.add_batch(limits, Some(Arc::new(measure)))
    }

    /// Lets through at most `messages` in every `per`, over all partitions of this instance.
    #[track_caller]
    pub fn throttle(self, messages: u32, per: Duration) -> Self {
        if messages == 0 || per.is_zero() {
            self.problem("throttle: the rate must be more than 0");
        }
        let bucket = Arc::new(Mutex::new(TokenBucket::new(messages, per)));
        let step = self.plan.add_step("throttle", Location::caller());
        let rate = (messages.max(1), per);
        self.link(step, move |next, context| {
            Box::new(Throttle::new(step, Arc::clone(&bucket), rate, context.timer, next))
        })
    }

    /// A step of your own; `make` is called once for each partition.
    #[track_caller]
    pub fn step<S: Step<In = T>>(
        self,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> Stream<O, S::Out> {
        self.add("step", make)
    }

    /// Gives each message to the first branch that wants it; each has its own steps and sink.
    #[track_caller]
    pub fn branch(self, branches: impl FnOnce(Branches<T>) -> Branches<T>) -> Flow<O> {
        let step = self.plan.add_step("branch", Location::caller());
        let make = branches(Branches::new(self.plan.clone(), step)).into_make();
        self.end(step, make)
    }

    /// Gives each message to every way; each has its own steps and sink. The message settles when
    /// it has in all of them.
    #[track_caller]
    pub fn tee(self, ways: impl FnOnce(Ways<T>) -> Ways<T>) -> Flow<O>
    where
        T: Clone,
    {
        let step = self.plan.add_step("tee", Location::caller());
        let make = ways(Ways::new(self.plan.clone(), step)).into_make();
        self.end(step, make)
    }

    /// Where the messages go.
    #[track_caller]
    pub fn sink<S: Sink<Item = T>>(self, sink: S) -> Flow<O>
    where
        T: Sync,
    {
        let step = self.plan.add_step("sink", Location::caller());
        let capabilities = sink.capabilities();
        let (port, runner) = sink_task(sink, step);
        let mut plan = self.plan.lock();
        plan.sinks.push(runner);
        plan.sink_capabilities.push((step, capabilities));
        drop(plan);
        self.end(step, Arc::new(move |_| Box::new(port.clone())))
    }

    #[track_caller]
    fn each<U: Send + 'static>(
        self,
        kind: &str,
        f: impl Fn(T) -> Result<Option<U>, BoxError> + Send + Sync + 'static,
    ) -> Stream<O, U> {
        let f = Arc::new(f);
        self.add(kind, move || TryFilterMap::new(Arc::clone(&f)))
    }

    #[track_caller]
    fn add_batch(self, limits: BatchLimits, measure: Option<Measure<T>>) -> Stream<O, Vec<T>> {
        if limits.count == 0 || limits.bytes == Some(0) || limits.every.is_zero() {
            self.problem("batch: count, bytes and time must be more than 0");
        }
        let limits = BatchLimits { count: limits.count.max(1), ..limits };
        self.add("batch", move || Batch::new(limits, measure.clone()))
    }

    #[track_caller]
    fn add_async<U, E, Fut>(
        self,
        kind: &str,
        concurrency: Concurrency<T>,
        f: impl Fn(T) -> Fut + Send + Sync + 'static,
    ) -> Stream<O, U>
    where
        U: Send + 'static,
        E: Into<BoxError> + Send + 'static,
        Fut: Future<Output = Result<U, E>> + Send + 'static,
    {
        if let Some(problem) = concurrency.problem() {
            self.problem(problem);
        }
        let (f, mode) = (Arc::new(f), concurrency.into_mode());
        let step = self.plan.add_step(kind, Location::caller());
        let before = self.link;
        Stream::new(self.plan, step, move |next: Make<dyn Push<U>>| {
            before(Arc::new(move |context| {
                let next = next(&context.for_another_task());
                Box::new(MapAsync::start(step, Arc::clone(&f), mode.clone(), next, context))
            }))
        })
    }

    #[track_caller]
    fn add<S: Step<In = T>>(
        self,
        kind: &str,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> Stream<O, S::Out> {
        let id = self.plan.add_step(kind, Location::caller());
        self.link(id, move |next, context| {
            let (failures, current) = (Arc::clone(&context.failures), context.current.clone());
            Box::new(Node { step: make(), id, next, failures, current })
        })
    }

    /// Puts a part behind those so far: `make` makes it for a partition, from the part behind it.
    fn link<U: Send + 'static>(
        self,
        last: StepId,
        make: impl Fn(Box<dyn Push<U>>, &TaskContext) -> Box<dyn Push<T>> + Send + Sync + 'static,
    ) -> Stream<O, U> {
        let before = self.link;
        Stream::new(self.plan, last, move |next: Make<dyn Push<U>>| {
            before(Arc::new(move |context| make(next(context), context)))
        })
    }

    fn end(self, last: StepId, make: Make<dyn Push<T>>) -> Flow<O> {
        Flow { make: (self.link)(make), plan: self.plan, last }
    }

    fn problem(&self, problem: &str) {
        self.plan.lock().problems.push(problem.to_owned());
    }
}

impl<O: Origin, T: Send + 'static> Stream<O, Vec<T>> {
    /// The members of each batch again. The batch settles when all of them have, with the worst of
    /// their outcomes: if one fails, the originals of all go to the dead letters.
    #[track_caller]
    pub fn unbatch(self) -> Stream<O, T> {
        let f = Arc::new(|batch: Vec<T>| batch.into_iter().map(Ok::<T, BoxError>));
        self.add("unbatch", move || FlatMap::new(Arc::clone(&f), FLAT_MAP_CHUNK))
    }
}

/// A stream that ends in its sinks.
#[must_use = "a flow does nothing until it is run"]
pub struct Flow<O: Origin> {
    plan: PlanHandle,
    last: StepId,
    pub(crate) make: Make<O::Head>,
}

impl<O: Origin> Flow<O> {
    /// Names the end: the sink, branch or tee.
    pub fn named(self, label: impl Into<Label>) -> Self {
        self.plan.name_step(self.last, label.into());
        self
    }
}

impl Flow<Top> {
    /// What the pipeline promises, before it starts.
    pub fn guarantee(&self) -> Guarantee {
        let plan = self.plan.lock();
        let source = plan.source.as_ref().map(Source::capabilities).unwrap_or_default();
        let names = plan.names();
        let sinks: Vec<_> = plan
            .sink_capabilities
            .iter()
            .map(|&(step, capabilities)| SinkFacts {
                name: names.name(step).to_owned(),
                capabilities,
            })
            .collect();
        Guarantee::of(source, &sinks, plan.dead_letters.is_some())
    }

    /// Opens the sinks and starts. Returns an error if it can't run as it is built; what goes
    /// wrong later, [`Running::wait`] tells.
    pub fn start(self) -> Result<Running, PipelineError> {
        Running::start(self.plan.take(), self.make)
    }

    /// Runs until the source ends or something fails.
    pub async fn run(self) -> Result<Summary, PipelineError> {
        self.start()?.wait().await
    }
}

impl<O: Origin> fmt::Debug for Flow<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flow({})", self.plan.lock().pipeline)
    }
}
