use std::marker::PhantomData;

use tidegate_core::{Report, Sink, SinkCapabilities, SinkError};

/// Keeps nothing: a message is done when it gets here.
pub(super) struct NullSink<T>(PhantomData<fn(T)>);

impl<T> NullSink<T> {
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: Send + Sync + 'static> Sink for NullSink<T> {
    type Item = T;

    /// Nothing written twice is the same as nothing.
    fn capabilities(&self) -> SinkCapabilities {
        SinkCapabilities::new().idempotent(true)
    }

    async fn write(&mut self, batch: &[T]) -> Result<Report, SinkError> {
        Ok(Report::all_done(batch.len()))
    }
}
