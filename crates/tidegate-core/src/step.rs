use std::future::{Future, ready};

use crate::{Chunk, Moment, Outlet, Stopped};

/// Transforms messages: zero or more out for each one in.
///
/// Every partition has its own instance, made when its first chunk comes and dropped when the
/// partition goes, so a step may keep what it likes in its fields and needs no lock. (What is
/// shared between partitions or expensive to make belongs into an `Arc` that the factory clones.)
///
/// A chunk is a duty: each of its messages must leave through the [`Outlet`], be settled by one of
/// the chunk's own methods (`filter` settles what it leaves out), or be kept in the step's fields
/// until then. A chunk or message that is dropped is answered with
/// [`Abandoned`](crate::Outcome::Abandoned), and the pipeline stops and names the step.
///
/// A step that keeps messages says when it wants to be woken, and gives everything out in
/// `finish`.
pub trait Step: Send + 'static {
    /// What comes in.
    type In: Send + 'static;
    /// What goes out.
    type Out: Send + 'static;

    /// Handles a chunk: messages of one partition, in order.
    fn process(
        &mut self,
        chunk: Chunk<Self::In>,
        out: &mut Outlet<'_, Self::Out>,
    ) -> impl Future<Output = Result<(), Stopped>> + Send;

    /// When it wants [`Step::wake`], if no chunk comes before.
    fn wake_at(&self) -> Option<Moment> {
        None
    }

    /// The moment has come, or has passed.
    fn wake(
        &mut self,
        _out: &mut Outlet<'_, Self::Out>,
    ) -> impl Future<Output = Result<(), Stopped>> + Send {
        ready(Ok(()))
    }

    /// No chunk will come any more: the partition ends, is given up, or the pipeline stops.
    fn finish(
        &mut self,
        _out: &mut Outlet<'_, Self::Out>,
    ) -> impl Future<Output = Result<(), Stopped>> + Send {
        ready(Ok(()))
    }
}
