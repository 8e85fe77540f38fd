use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Chunk, Moment, Outlet, Panicked, Step, Stopped};

/// When a batch is full: at the first of these limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchLimits {
    /// Messages in a batch.
    pub count: usize,
    /// Bytes in a batch, as the step's own measure counts them; the message that reaches the
    /// limit is the batch's last.
    pub bytes: Option<usize>,
    /// The age of a batch's first message. There is always one, so that no message waits for
    /// ever.
    pub every: Duration,
}

impl BatchLimits {
    /// Batches of `count` messages, or of what came within a second.
    pub const fn count(count: usize) -> Self {
        Self { count, bytes: None, every: Duration::from_secs(1) }
    }

    /// Sets the longest time that a message waits for its batch.
    #[must_use]
    pub const fn every(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }

    /// Sets the bytes in a batch.
    #[must_use]
    pub const fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = Some(bytes);
        self
    }
}

/// Says how many bytes a value counts for.
pub(crate) type Measure<T> = Arc<dyn Fn(&T) -> usize + Send + Sync>;

/// What a batch does after it has taken messages.
enum Then {
    /// There is nothing more to take for now.
    Wait,
    /// It is full.
    GiveOut,
    /// The next message can't be measured.
    Reject(Panicked),
}

/// Makes one message of several of the same partition, in order. A batch answers for all of its
/// messages.
pub(crate) struct Batch<T> {
    limits: BatchLimits,
    measure: Option<Measure<T>>,
    gathered: Option<Chunk<T>>,
    bytes: usize,
    due: Moment,
}

impl<T: Send + 'static> Batch<T> {
    pub(crate) fn new(limits: BatchLimits, measure: Option<Measure<T>>) -> Self {
        Self { limits, measure, gathered: None, bytes: 0, due: Moment::default() }
    }

    /// How many messages from the front of `chunk` go into the batch, and what comes then.
    fn fitting(&mut self, chunk: &Chunk<T>) -> (usize, Then) {
        let room = self.limits.count - self.gathered.as_ref().map_or(0, Chunk::len);
        let count = room.min(chunk.len());
        if let (Some(measure), Some(limit)) = (&self.measure, self.limits.bytes) {
            for (index, value) in chunk.values()[..count].iter().enumerate() {
                match catch_unwind(AssertUnwindSafe(|| measure(value))) {
                    Ok(bytes) => self.bytes += bytes,
                    Err(payload) => return (index, Then::Reject(Panicked::from_payload(payload))),
                }
                if self.bytes >= limit {
                    return (index + 1, Then::GiveOut);
                }
            }
        }
        (count, if count == room { Then::GiveOut } else { Then::Wait })
    }

    fn gather(&mut self, part: Chunk<T>, now: Moment) {
        match &mut self.gathered {
            _ if part.is_empty() => {}
            Some(gathered) => gathered.append(part),
            None => {
                self.due = now + self.limits.every;
                self.gathered = Some(part);
            }
        }
    }

    async fn give_out(&mut self, out: &mut Outlet<'_, Vec<T>>) -> Result<(), Stopped> {
        self.bytes = 0;
        match self.gathered.take().and_then(Chunk::bundle) {
            Some(batch) => out.send(batch).await,
            None => Ok(()),
        }
    }
}

impl<T: Send + 'static> Step for Batch<T> {
    type In = T;
    type Out = Vec<T>;

    async fn process(
        &mut self,
        mut chunk: Chunk<T>,
        out: &mut Outlet<'_, Vec<T>>,
    ) -> Result<(), Stopped> {
        while !chunk.is_empty() {
            let (count, then) = self.fitting(&chunk);
            let part = chunk.split_front(count);
            if !matches!(then, Then::GiveOut) {
                part.hold();
            }
            self.gather(part, out.now());
            match then {
                Then::Wait => {}
                Then::GiveOut => self.give_out(out).await?,
                Then::Reject(panic) => {
                    let rejected = chunk.split_front(1).into_messages().next();
                    if let Some(rejected) = rejected.and_then(|m| m.receipt.reject(panic)) {
                        out.fail(rejected).await?;
                    }
                }
            }
        }
        Ok(())
    }

    fn wake_at(&self) -> Option<Moment> {
        self.gathered.as_ref().map(|_| self.due)
    }

    async fn wake(&mut self, out: &mut Outlet<'_, Vec<T>>) -> Result<(), Stopped> {
        self.give_out(out).await
    }

    async fn finish(&mut self, out: &mut Outlet<'_, Vec<T>>) -> Result<(), Stopped> {
        self.give_out(out).await
    }
}
