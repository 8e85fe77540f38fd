use std::marker::PhantomData;
use std::sync::Arc;

use tidegate_core::{BoxError, Chunk, Outlet, Step, Stopped};

/// Zero or more messages for each, given out in chunks of at most `max`: a message that becomes a
/// million is never in memory as a whole.
pub(crate) struct FlatMap<F, T, I> {
    f: Arc<F>,
    max: usize,
    types: PhantomData<fn(T) -> I>,
}

impl<F, T, I> FlatMap<F, T, I> {
    pub(crate) fn new(f: Arc<F>, max: usize) -> Self {
        Self { f, max, types: PhantomData }
    }
}

impl<F, T, U, E, I> Step for FlatMap<F, T, I>
where
    F: Fn(T) -> I + Send + Sync + 'static,
    T: Send + 'static,
    U: Send + 'static,
    E: Into<BoxError> + 'static,
    I: IntoIterator<Item = Result<U, E>, IntoIter: Send> + 'static,
{
    type In = T;
    type Out = U;

    async fn process(&mut self, chunk: Chunk<T>, out: &mut Outlet<'_, U>) -> Result<(), Stopped> {
        let f = &*self.f;
        let mut results = chunk.flat_map(f);
        while let Some(part) = results.next_chunk(self.max) {
            out.send(part.chunk).await?;
            out.fail(part.rejected).await?;
        }
        Ok(())
    }
}
