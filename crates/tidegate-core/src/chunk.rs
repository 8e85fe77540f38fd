//! A run of messages that travel together, with one duty for all of them.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{
    BoxError, Message, Outcome, Panicked, Partition, Receipt, Rejected, SharedLedger, Slot, StepId,
};

/// Messages of one partition, in order. Whoever has it must answer for each of them; a chunk that
/// is dropped answers `Abandoned`.
pub struct Chunk<T> {
    ledger: SharedLedger,
    step: StepId,
    slots: Vec<Slot>,
    values: Vec<T>,
}

/// What became of a chunk: the messages that go on, and those that failed.
#[must_use = "both parts have to be answered for"]
#[derive(Debug)]
pub struct Transformed<T> {
    /// What goes on.
    pub chunk: Chunk<T>,
    /// What failed.
    pub rejected: Rejected,
}

impl<T> Chunk<T> {
    pub(crate) fn new(
        ledger: SharedLedger,
        step: StepId,
        slots: Vec<Slot>,
        values: Vec<T>,
    ) -> Self {
        debug_assert_eq!(slots.len(), values.len());
        Self { ledger, step, slots, values }
    }

    /// How many messages.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether it has no message.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The values, in order.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// The partition they came from.
    pub fn partition(&self) -> &Partition {
        self.ledger.partition()
    }

    /// Whether the generation has ended: nobody waits for an answer any more.
    pub fn is_fenced(&self) -> bool {
        self.ledger.is_fenced()
    }

    /// Says which step has the chunk from now on: it is named if the chunk gets lost.
    pub fn enter(&mut self, step: StepId) {
        self.step = step;
    }

    /// Notes in the ledger that the step will keep these messages for a while.
    pub fn hold(&self) {
        self.ledger.hold(&self.slots, self.step);
    }

    /// One value for each. A panic rejects the message it happened at.
    pub fn map<U>(mut self, mut f: impl FnMut(T) -> U) -> Transformed<U> {
        let (mut slots, values) = self.take();
        let mut out = Vec::with_capacity(values.len());
        let mut rejected = Vec::new();
        let mut values = values.into_iter();
        while let Err(payload) = catch_unwind(AssertUnwindSafe(|| {
            for value in values.by_ref() {
                out.push(f(value));
            }
        })) {
            rejected.push((slots.remove(out.len()), Panicked::from_payload(payload).into()));
        }
        Transformed {
            chunk: Chunk::new(self.ledger.clone(), self.step, slots, out),
            rejected: Rejected::new(self.ledger.clone(), self.step, rejected),
        }
    }

    /// `Some` goes on, `None` is settled as filtered, an error or a panic rejects that message.
    pub fn try_filter_map<U>(
        mut self,
        mut f: impl FnMut(T) -> Result<Option<U>, BoxError>,
    ) -> Transformed<U> {
        let (slots, values) = self.take();
        let mut out = Sorter::with_capacity(values.len());
        let Some(mut current) = slots.first().copied() else {
            return out.finish(&self.ledger, self.step);
        };
        let mut messages = slots.into_iter().zip(values);
        while let Err(payload) = catch_unwind(AssertUnwindSafe(|| {
            for (slot, value) in messages.by_ref() {
                current = slot;
                out.sort(slot, f(value));
            }
        })) {
            out.sort(current, Err(Panicked::from_payload(payload).into()));
        }
        out.finish(&self.ledger, self.step)
    }

    /// Zero or more values for each, given out in chunks by `next_chunk(max)`.
    pub fn flat_map<U, E, I, F>(mut self, f: F) -> FlatMapped<T, I::IntoIter, F>
    where
        F: FnMut(T) -> I,
        I: IntoIterator<Item = Result<U, E>>,
        E: Into<BoxError>,
    {
        let (slots, values) = self.take();
        FlatMapped {
            ledger: self.ledger.clone(),
            step: self.step,
            slots: slots.into_iter(),
            values: values.into_iter(),
            current: None,
            f,
        }
    }

    /// All messages as one, which answers for all of them. `None` if there are none.
    pub fn bundle(mut self) -> Option<Chunk<Vec<T>>> {
        let (slots, values) = self.take();
        if values.is_empty() {
            return None;
        }
        let slot = self.ledger.bundle(slots);
        Some(Chunk::new(self.ledger.clone(), self.step, vec![slot], vec![values]))
    }

    /// Puts the other chunk's messages behind these. Panics if they are of another partition or
    /// generation.
    pub fn append(&mut self, mut other: Self) {
        assert!(self.ledger.is_same(&other.ledger), "chunks of two partitions don't mix");
        let (slots, values) = other.take();
        self.slots.extend(slots);
        self.values.extend(values);
    }

    /// Takes the first `count` messages off, or all if there are fewer.
    pub fn split_front(&mut self, count: usize) -> Self {
        let count = count.min(self.values.len());
        let (later_slots, later_values) =
            (self.slots.split_off(count), self.values.split_off(count));
        let slots = std::mem::replace(&mut self.slots, later_slots);
        let values = std::mem::replace(&mut self.values, later_values);
        Self::new(self.ledger.clone(), self.step, slots, values)
    }

    /// The messages that `choose` gives to each of `ways` parts, in order. A choice past the end
    /// settles the message as filtered; a panic rejects it.
    pub fn partition_by(
        mut self,
        ways: usize,
        mut choose: impl FnMut(&T) -> Option<usize>,
    ) -> (Vec<Self>, Rejected) {
        let (slots, values) = self.take();
        let mut parts: Vec<(Vec<Slot>, Vec<T>)> = (0..ways).map(|_| Default::default()).collect();
        let (mut filtered, mut rejected) = (Vec::new(), Vec::new());
        for (slot, value) in slots.into_iter().zip(values) {
            match catch_unwind(AssertUnwindSafe(|| choose(&value))) {
                Ok(choice) => match choice.and_then(|way| parts.get_mut(way)) {
                    Some((slots, values)) => {
                        slots.push(slot);
                        values.push(value);
                    }
                    None => filtered.push(slot),
                },
                Err(payload) => rejected.push((slot, Panicked::from_payload(payload).into())),
            }
        }
        self.ledger.settle(&filtered, Outcome::Filtered);
        let parts = parts
            .into_iter()
            .map(|(slots, values)| Self::new(self.ledger.clone(), self.step, slots, values))
            .collect();
        (parts, Rejected::new(self.ledger.clone(), self.step, rejected))
    }

    /// The same messages `count` times (at least 1); each then needs that many answers.
    pub fn duplicate(self, count: usize) -> Vec<Self>
    where
        T: Clone,
    {
        let more = count.saturating_sub(1);
        // Cloning is the author's code: no share may be owed yet for a copy that it fails to make.
        let clones: Vec<_> = (0..more).map(|_| self.values.clone()).collect();
        self.ledger.share(self.slots.iter().map(|&slot| (slot, more as u32)));
        let mut copies: Vec<_> = clones
            .into_iter()
            .map(|values| Self::new(self.ledger.clone(), self.step, self.slots.clone(), values))
            .collect();
        copies.push(self);
        copies
    }

    /// The messages one by one, each with its own receipt.
    pub fn into_messages(mut self) -> Messages<T> {
        let (slots, values) = self.take();
        Messages {
            ledger: self.ledger.clone(),
            step: self.step,
            slots: slots.into_iter(),
            values: values.into_iter(),
        }
    }

    /// Messages of one partition as a chunk; `None` if there are none. Panics if they are of
    /// several partitions or generations.
    pub fn from_messages(messages: impl IntoIterator<Item = Message<T>>) -> Option<Self> {
        let mut chunk: Option<Self> = None;
        for Message { value, receipt } in messages {
            if let Some(chunk) = &chunk {
                // Checked while each still has its own duty, so that both can be abandoned.
                assert!(receipt.is_of(&chunk.ledger), "messages of two partitions don't mix");
            }
            let Some((ledger, slot, step)) = receipt.into_parts() else { continue };
            match &mut chunk {
                None => chunk = Some(Self::new(ledger, step, vec![slot], vec![value])),
                Some(chunk) => {
                    chunk.slots.push(slot);
                    chunk.values.push(value);
                }
            }
        }
        chunk
    }

    /// Answers for all of them.
    pub fn settle(mut self, outcome: Outcome) {
        // The values go after the answer: what their destructors do can't swallow it.
        let slots = std::mem::take(&mut self.slots);
        self.ledger.settle(&slots, outcome);
    }

    /// Moves the values out to `values` and keeps the duty. For sinks that write several chunks
    /// at once.
    pub fn unload(mut self, values: &mut Vec<T>) -> Chunk<()> {
        let (slots, mut own) = self.take();
        values.append(&mut own);
        let empty = vec![(); slots.len()];
        Chunk::new(self.ledger.clone(), self.step, slots, empty)
    }

    fn take(&mut self) -> (Vec<Slot>, Vec<T>) {
        (std::mem::take(&mut self.slots), std::mem::take(&mut self.values))
    }
}

impl Chunk<()> {
    /// Answers `Done` for all but those in `rejections` (by index, the first reason counts), which
    /// are handed back. Panics on an index past the end, and then answers `Done` for none.
    pub fn settle_except(mut self, mut rejections: Vec<(usize, BoxError)>) -> Rejected {
        if rejections.is_empty() {
            let none = Rejected::new(self.ledger.clone(), self.step, Vec::new());
            self.settle(Outcome::Done);
            return none;
        }
        rejections.sort_by_key(|(index, _)| *index);
        rejections.dedup_by_key(|(index, _)| *index);
        if let Some((index, _)) = rejections.last() {
            assert!(*index < self.len(), "item {index} of {} was rejected", self.len());
        }
        let (slots, _) = self.take();
        let mut rejected = Vec::with_capacity(rejections.len());
        let mut rejections = rejections.into_iter().peekable();
        let mut done = Vec::with_capacity(slots.len());
        for (index, slot) in slots.into_iter().enumerate() {
            match rejections.next_if(|(rejected, _)| *rejected == index) {
                Some((_, error)) => rejected.push((slot, error)),
                None => done.push(slot),
            }
        }
        self.ledger.settle(&done, Outcome::Done);
        Rejected::new(self.ledger.clone(), self.step, rejected)
    }
}

impl<T> Drop for Chunk<T> {
    fn drop(&mut self) {
        if !self.slots.is_empty() {
            self.ledger.abandon(&self.slots, self.step);
        }
    }
}

impl<T> fmt::Debug for Chunk<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chunk({} of {:?})", self.slots.len(), self.ledger)
    }
}

/// A chunk's messages one by one. What isn't taken out answers `Abandoned`.
#[derive(Debug)]
pub struct Messages<T> {
    ledger: SharedLedger,
    step: StepId,
    slots: std::vec::IntoIter<Slot>,
    values: std::vec::IntoIter<T>,
}

impl<T> Iterator for Messages<T> {
    type Item = Message<T>;

    fn next(&mut self) -> Option<Message<T>> {
        let (slot, value) = (self.slots.next()?, self.values.next()?);
        Some(Message { value, receipt: Receipt::new(self.ledger.clone(), slot, self.step) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.slots.size_hint()
    }
}

impl<T> Drop for Messages<T> {
    fn drop(&mut self) {
        self.ledger.abandon(self.slots.as_slice(), self.step);
    }
}

/// The results of [`Chunk::flat_map`], made while they are asked for. What isn't asked for answers
/// `Abandoned`.
pub struct FlatMapped<T, I, F> {
    ledger: SharedLedger,
    step: StepId,
    slots: std::vec::IntoIter<Slot>,
    values: std::vec::IntoIter<T>,
    current: Option<(Slot, I)>,
    f: F,
}

impl<T, I, F> FlatMapped<T, I, F> {
    /// At most `max` results (at least 1); `None` when there are no more. An error or a panic
    /// rejects the message; what it gave out before stays out.
    pub fn next_chunk<U, E, N>(&mut self, max: usize) -> Option<Transformed<U>>
    where
        F: FnMut(T) -> N,
        N: IntoIterator<Item = Result<U, E>, IntoIter = I>,
        I: Iterator<Item = Result<U, E>>,
        E: Into<BoxError>,
    {
        if self.current.is_none() && self.slots.len() == 0 {
            return None;
        }
        let max = max.max(1);
        let mut out = Sorter::with_capacity(max.min(self.slots.len() + 1));
        let mut extra: Vec<(Slot, u32)> = Vec::new();
        while out.values.len() < max {
            if self.current.is_none() {
                let (Some(slot), Some(value)) = (self.slots.next(), self.values.next()) else {
                    break;
                };
                match catch_unwind(AssertUnwindSafe(|| (self.f)(value).into_iter())) {
                    Ok(results) => self.current = Some((slot, results)),
                    Err(payload) => {
                        out.sort(slot, Err(Panicked::from_payload(payload).into()));
                        continue;
                    }
                }
            }
            let Some((slot, results)) = &mut self.current else { break };
            let slot = *slot;
            let before = out.values.len();
            let mut end = catch_unwind(AssertUnwindSafe(|| {
                while out.values.len() < max {
                    match results.next() {
                        Some(Ok(value)) => out.sort(slot, Ok(Some(value))),
                        Some(Err(error)) => return End::Failed(error.into()),
                        None => return End::Exhausted,
                    }
                }
                End::ChunkFull
            }))
            .unwrap_or_else(|payload| End::Failed(Panicked::from_payload(payload).into()));
            if !matches!(end, End::ChunkFull)
                && let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.current = None))
            {
                end = End::Failed(Panicked::from_payload(payload).into());
            }
            // Every result needs an answer of its own. The message's own share goes to the last
            // result if it ends here with one, and stays with the rejection or the rest otherwise.
            let given = (out.values.len() - before) as u32;
            let more = match end {
                End::ChunkFull => given,
                End::Exhausted => {
                    if given == 0 {
                        out.sort(slot, Ok(None));
                    }
                    given.saturating_sub(1)
                }
                End::Failed(error) => {
                    out.sort(slot, Err(error));
                    given
                }
            };
            if more > 0 {
                extra.push((slot, more));
            }
        }
        self.ledger.share(extra);
        Some(out.finish(&self.ledger, self.step))
    }
}

enum End {
    ChunkFull,
    Exhausted,
    Failed(BoxError),
}

impl<T, I, F> Drop for FlatMapped<T, I, F> {
    fn drop(&mut self) {
        let current = self.current.as_ref().map(|(slot, _)| *slot);
        let open: Vec<_> = current.into_iter().chain(self.slots.by_ref()).collect();
        self.ledger.abandon(&open, self.step);
    }
}

/// Sorts the results of a loop over messages by what becomes of them, and answers for the
/// filtered ones in one go.
pub(crate) struct Sorter<U> {
    slots: Vec<Slot>,
    values: Vec<U>,
    filtered: Vec<Slot>,
    rejected: Vec<(Slot, BoxError)>,
}

impl<U> Sorter<U> {
    pub(crate) fn with_capacity(messages: usize) -> Self {
        Self {
            slots: Vec::with_capacity(messages),
            values: Vec::with_capacity(messages),
            filtered: Vec::new(),
            rejected: Vec::new(),
        }
    }

    #[inline(always)] // a call for each message would cost more than what it does
    pub(crate) fn sort(&mut self, slot: Slot, result: Result<Option<U>, BoxError>) {
        match result {
            Ok(Some(value)) => {
                self.slots.push(slot);
                self.values.push(value);
            }
            Ok(None) => self.filtered.push(slot),
            Err(error) => self.reject(slot, error),
        }
    }

    #[cold]
    fn reject(&mut self, slot: Slot, error: BoxError) {
        self.rejected.push((slot, error));
    }

    pub(crate) fn finish(self, ledger: &SharedLedger, step: StepId) -> Transformed<U> {
        ledger.settle(&self.filtered, Outcome::Filtered);
        Transformed {
            chunk: Chunk::new(ledger.clone(), step, self.slots, self.values),
            rejected: Rejected::new(ledger.clone(), step, self.rejected),
        }
    }
}
