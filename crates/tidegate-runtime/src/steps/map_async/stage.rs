//! The task behind an async step.
//!
//! One loop. What it holds is bounded: calls by the step's limit, messages that wait for a call
//! and results that wait for their turn by [`window`](Stage::window). While results are given to
//! the next step the calls are polled on, but none is started.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tidegate_core::{
    BoxError, Chunk, FailureHandler, Message, Panicked, Push, Receipt, StepId, Stopped,
};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::coop::has_budget_remaining;

use super::Key;
use super::concurrency::{Mode, Order};
use super::order::{Results, Ticket, Waiting};
use crate::timer::Timer;

pub(crate) struct Stage<T, U, F> {
    pub(crate) f: Arc<F>,
    pub(crate) mode: Mode<T>,
    pub(crate) next: Box<dyn Push<U>>,
    pub(crate) step: StepId,
    pub(crate) failures: Arc<dyn FailureHandler>,
    pub(crate) timer: Timer,
}

/// A call's result, with the duty to answer for its message.
type Out<U> = Result<Message<U>, (Receipt, BoxError)>;

/// A call that has ended.
struct Ended<U> {
    ticket: Ticket,
    key: Key,
    result: Out<U>,
}

/// What the stage has accepted and not given out yet, but for the calls under way.
struct Held<T, U> {
    next_ticket: Ticket,
    waiting: Waiting<(Ticket, Message<T>)>,
    results: Results<Out<U>>,
}

impl<T, U> Held<T, U> {
    fn new(order: &Order<T>) -> Self {
        let (waiting, results) = match order {
            Order::Ordered => (Waiting::any(), Results::in_order()),
            Order::KeyOrdered(_) => (Waiting::by_key(), Results::as_they_come()),
            Order::Unordered => (Waiting::any(), Results::as_they_come()),
        };
        Self { next_ticket: 0, waiting, results }
    }

    fn len(&self) -> usize {
        self.waiting.len() + self.results.len()
    }

    fn accept(&mut self, chunk: Chunk<T>, order: &Order<T>) {
        for message in chunk.into_messages() {
            let ticket = self.next_ticket;
            self.next_ticket += 1;
            let key = match order {
                Order::KeyOrdered(key) => catch_unwind(AssertUnwindSafe(|| key(&message.value))),
                Order::Ordered | Order::Unordered => Ok(0),
            };
            match key {
                Ok(key) => self.waiting.push(key, (ticket, message)),
                Err(payload) => {
                    let error = Panicked::from_payload(payload).into();
                    self.results.push(ticket, Err((message.receipt, error)));
                }
            }
        }
    }

    fn ended(&mut self, ended: Ended<U>) {
        self.waiting.called(ended.key);
        self.results.push(ended.ticket, ended.result);
    }
}

pub(crate) async fn run<T, U, E, F, Fut>(
    mut stage: Stage<T, U, F>,
    mut chunks: mpsc::Receiver<Chunk<T>>,
) -> Result<(), Stopped>
where
    F: Fn(T) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<U, E>> + Send + 'static,
    T: Send + 'static,
    U: Send + 'static,
    E: Into<BoxError> + Send + 'static,
{
    let window = stage.window();
    let mut calls = FuturesUnordered::new();
    let mut held = Held::new(&stage.mode.order);
    let mut open = true;
    loop {
        if held.results.has_ready() {
            let ready = held.results.take();
            alongside(stage.give_out(ready), &mut calls, &mut held).await?;
            continue;
        }
        if stage.mode.permits.is_none() {
            while calls.len() < stage.mode.calls
                && let Some((key, (ticket, message))) = held.waiting.pop()
            {
                calls.push(call(Arc::clone(&stage.f), key, ticket, message, None));
            }
        }
        let may_call = held.waiting.has_ready() && calls.len() < stage.mode.calls;
        let accepts = open && held.len() + calls.len() < window;
        let wake_at = stage.next.wake_at();
        if !open && held.waiting.len() == 0 && calls.is_empty() {
            return stage.next.finish(stage.timer.now()).await;
        }
        tokio::select! {
            biased;
            permit = permit(&stage.mode), if may_call => {
                if let Some((key, (ticket, message))) = held.waiting.pop() {
                    calls.push(call(Arc::clone(&stage.f), key, ticket, message, permit));
                }
            }
            Some(ended) = calls.next(), if !calls.is_empty() => {
                held.ended(ended);
                // Whatever else has ended leaves in the same chunk.
                while let Some(Some(ended)) = calls.next().now_or_never() {
                    held.ended(ended);
                }
            }
            () = stage.timer.sleep_until_some(wake_at) => {
                let now = stage.timer.now();
                alongside(stage.next.wake(now), &mut calls, &mut held).await?;
            }
            chunk = chunks.recv(), if accepts => match chunk {
                Some(chunk) => held.accept(chunk, &stage.mode.order),
                None => open = false,
            }
        }
    }
}

/// Does the work, and polls the calls meanwhile. They can end; none is started.
async fn alongside<T, U, C: Future<Output = Ended<U>>>(
    work: impl Future<Output = Result<(), Stopped>>,
    calls: &mut FuturesUnordered<C>,
    held: &mut Held<T, U>,
) -> Result<(), Stopped> {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            result = &mut work => return result,
            Some(ended) = calls.next(), if !calls.is_empty() => held.ended(ended),
        }
    }
}

async fn call<T, U, E, F, Fut>(
    f: Arc<F>,
    key: Key,
    ticket: Ticket,
    message: Message<T>,
    permit: Option<OwnedSemaphorePermit>,
) -> Ended<U>
where
    F: Fn(T) -> Fut,
    Fut: Future<Output = Result<U, E>>,
    E: Into<BoxError>,
{
    let Message { value, receipt } = message;
    let result = AssertUnwindSafe(async { in_turn(f(value)).await }).catch_unwind().await;
    drop(permit);
    let result = match result {
        Ok(Ok(value)) => Ok(Message { value, receipt }),
        Ok(Err(error)) => Err((receipt, error.into())),
        Err(payload) => Err((receipt, Panicked::from_payload(payload).into())),
    };
    Ended { ticket, key, result }
}

/// Polls the call only while the task has budget left (tokio's cooperative scheduling). Timers and
/// sockets have nothing to give then; asking thousands of them all the same, in every turn, would
/// cost more than the calls themselves. `FuturesUnordered` ends its turn when calls put
/// themselves off like this.
async fn in_turn<F: Future>(call: F) -> F::Output {
    let mut call = pin!(call);
    poll_fn(|cx| {
        if has_budget_remaining() {
            return call.as_mut().poll(cx);
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

async fn permit<T>(mode: &Mode<T>) -> Option<OwnedSemaphorePermit> {
    match &mode.permits {
        // The semaphore is never closed.
        Some(permits) => Arc::clone(permits).acquire_owned().await.ok(),
        None => None,
    }
}

impl<T, U: Send, F> Stage<T, U, F> {
    /// Messages that the stage accepts before earlier ones have left it.
    fn window(&self) -> usize {
        self.mode.calls.saturating_mul(4).max(1024)
    }

    async fn give_out(&mut self, ready: Vec<Out<U>>) -> Result<(), Stopped> {
        let mut messages = Vec::with_capacity(ready.len());
        let mut failed = Vec::new();
        for result in ready {
            match result {
                Ok(message) => messages.push(message),
                Err(failure) => failed.push(failure),
            }
        }
        if let Some(chunk) = Chunk::from_messages(messages) {
            self.next.push(chunk, self.timer.now()).await?;
        }
        for (receipt, error) in failed {
            if let Some(rejected) = receipt.reject(error) {
                self.failures.fail(self.step, rejected).await?;
            }
        }
        Ok(())
    }
}
