//! Steps that make at most one message of each.

use std::marker::PhantomData;
use std::sync::Arc;

use tidegate_core::{BoxError, Chunk, Outlet, Step, Stopped};

/// One message for each.
pub(crate) struct Map<F, T, U> {
    f: Arc<F>,
    types: PhantomData<fn(T) -> U>,
}

impl<F, T, U> Map<F, T, U> {
    pub(crate) fn new(f: Arc<F>) -> Self {
        Self { f, types: PhantomData }
    }
}

impl<F, T, U> Step for Map<F, T, U>
where
    F: Fn(T) -> U + Send + Sync + 'static,
    T: Send + 'static,
    U: Send + 'static,
{
    type In = T;
    type Out = U;

    async fn process(&mut self, chunk: Chunk<T>, out: &mut Outlet<'_, U>) -> Result<(), Stopped> {
        let mapped = chunk.map(&*self.f);
        out.send(mapped.chunk).await?;
        out.fail(mapped.rejected).await
    }
}

/// One message, none, or a failure for each.
pub(crate) struct TryFilterMap<F, T, U> {
    f: Arc<F>,
    types: PhantomData<fn(T) -> U>,
}

impl<F, T, U> TryFilterMap<F, T, U> {
    pub(crate) fn new(f: Arc<F>) -> Self {
        Self { f, types: PhantomData }
    }
}

impl<F, T, U> Step for TryFilterMap<F, T, U>
where
    F: Fn(T) -> Result<Option<U>, BoxError> + Send + Sync + 'static,
    T: Send + 'static,
    U: Send + 'static,
{
    type In = T;
    type Out = U;

    async fn process(&mut self, chunk: Chunk<T>, out: &mut Outlet<'_, U>) -> Result<(), Stopped> {
        let mapped = chunk.try_filter_map(&*self.f);
        out.send(mapped.chunk).await?;
        out.fail(mapped.rejected).await
    }
}
