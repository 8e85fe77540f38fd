//! What comes of one look at the files.

use tidegate_core::SourceEvent;
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) enum Turn {
    /// This happened.
    Event(SourceEvent),
    /// Work was done that shows no event; others may have their turn.
    Again,
    /// Nothing can happen until the demand changes.
    NoDemand,
    /// The pipe that is being read has to receive a piece.
    NeedsPiece,
    /// Nothing is there to read until then.
    Until(Instant),
    /// Every file is finished.
    Ended,
}
