//! Where positions are kept for sources that have no broker to keep them.

use std::future::Future;

use crate::{Partition, Position, StoreError};

/// A committed frontier, with what the source needs beside it to find the place again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SavedPosition {
    /// The partition.
    pub partition: Partition,
    /// Everything before it is settled.
    pub frontier: Position,
    /// The source's own note (for a file: which file it was, and a byte offset), any bytes up to
    /// 4 KiB. It comes back as it was, and the source checks it like any other outside data.
    pub note: Vec<u8>,
}

/// Keeps positions of sources under a pipeline's name, durably.
///
/// A store belongs to one pipeline: what two pipelines save must not mix.
pub trait PositionStore: Send + 'static {
    /// All positions that were saved, in no particular order. Damaged content is an error,
    /// never a guess.
    fn load(&mut self) -> impl Future<Output = Result<Vec<SavedPosition>, StoreError>> + Send;

    /// Saves these positions in one atomic write, over the older ones of the same partitions, and
    /// returns when they are durable.
    fn save(
        &mut self,
        positions: &[SavedPosition],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}
