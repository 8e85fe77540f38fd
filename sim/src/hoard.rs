//! A step of our own, written against the public trait: it keeps chunks for a while and gives them
//! out in two parts.

use std::time::Duration;

use tidegate_core::{Chunk, Moment, Outlet, Step, Stopped};

/// Keeps up to so many chunks, up to so long.
#[derive(Debug)]
pub struct Hoard<T> {
    chunks: usize,
    every: Duration,
    drops: bool,
    held: Option<Chunk<T>>,
    count: usize,
    due: Moment,
}

impl<T> Hoard<T> {
    /// A step for one partition. With `drops` it loses a message, as a wrong step would.
    pub fn new(chunks: usize, every: Duration, drops: bool) -> Self {
        Self { chunks, every, drops, held: None, count: 0, due: Moment::default() }
    }

    async fn give_out(&mut self, out: &mut Outlet<'_, T>) -> Result<(), Stopped>
    where
        T: Send,
    {
        self.count = 0;
        let Some(mut chunk) = self.held.take() else { return Ok(()) };
        let first = chunk.split_front(chunk.len() / 2);
        out.send(first).await?;
        if self.drops {
            drop(chunk.split_front(1));
        }
        out.send(chunk).await
    }
}

impl<T: Send + 'static> Step for Hoard<T> {
    type In = T;
    type Out = T;

    async fn process(&mut self, chunk: Chunk<T>, out: &mut Outlet<'_, T>) -> Result<(), Stopped> {
        chunk.hold();
        match &mut self.held {
            Some(held) => held.append(chunk),
            None => {
                self.due = out.now() + self.every;
                self.held = Some(chunk);
            }
        }
        self.count += 1;
        if self.count >= self.chunks { self.give_out(out).await } else { Ok(()) }
    }

    fn wake_at(&self) -> Option<Moment> {
        self.held.as_ref().map(|_| self.due)
    }

    async fn wake(&mut self, out: &mut Outlet<'_, T>) -> Result<(), Stopped> {
        self.give_out(out).await
    }

    async fn finish(&mut self, out: &mut Outlet<'_, T>) -> Result<(), Stopped> {
        self.give_out(out).await
    }
}
