//! How far one partition was read and settled.
//!
//! - Of the places to return to, the best is the last one before the frontier: every record up to
//!   it is settled.
//! - They are bounded: when there are too many, every second one goes, and of those to come only
//!   so many are kept. That costs reading a little more again, never a record. The newest is
//!   always known.
//! - The frontier only rises (P5).

use std::collections::VecDeque;

use tidegate_core::{Generation, Partition, Position, SavedPosition};

use crate::note::{Checkpoint, Kind, Note};

/// The most places that are kept for one partition.
const MAX_CHECKPOINTS: usize = 256;

#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) generation: Generation,
    kind: Option<Kind>,
    /// Places to return to, at least one; the first is before the frontier.
    checkpoints: VecDeque<Checkpoint>,
    newest: Checkpoint,
    /// Of how many places one is kept, and how many were not kept since.
    stride: usize,
    passed_over: usize,
    frontier: Position,
    last: u64,
    ended: bool,
    /// Whether all that is there was delivered, for now.
    resting: bool,
    saved_as_done: bool,
}

impl Progress {
    /// Begins where everything before `frontier` is settled and `checkpoint` is the place to
    /// return to. Without a kind, positions mean nothing after a restart and are not saved.
    pub(crate) fn new(
        generation: Generation,
        kind: Option<Kind>,
        frontier: Position,
        checkpoint: Checkpoint,
    ) -> Self {
        Self {
            generation,
            kind,
            checkpoints: VecDeque::from([checkpoint]),
            newest: checkpoint,
            stride: 1,
            passed_over: 0,
            frontier,
            last: checkpoint.mark.after,
            ended: false,
            resting: false,
            saved_as_done: false,
        }
    }

    /// Records up to `last` were delivered; `checkpoint` is behind them, if there is one.
    pub(crate) fn delivered(&mut self, last: u64, checkpoint: Option<Checkpoint>) {
        self.last = last;
        self.resting = false;
        let Some(checkpoint) = checkpoint.filter(|_| self.kind.is_some()) else { return };
        self.newest = checkpoint;
        self.passed_over += 1;
        if self.passed_over < self.stride {
            return;
        }
        self.passed_over = 0;
        self.checkpoints.push_back(checkpoint);
        if self.checkpoints.len() > MAX_CHECKPOINTS {
            let mut index = 0;
            self.checkpoints.retain(|_| {
                index += 1;
                // The first stays: it may be the only one before the frontier.
                index % 2 == 1
            });
            self.stride *= 2;
        }
    }

    /// No record comes any more.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// All that is there was delivered; more may come.
    pub(crate) fn rest(&mut self) {
        self.resting = true;
    }

    /// The position behind the last record, if that is known.
    pub(crate) fn end_position(&self) -> Option<Position> {
        (self.ended || self.resting).then(|| Position::new(self.last).next())
    }

    /// Everything before the frontier is settled. Returns what is to be saved.
    pub(crate) fn settle(
        &mut self,
        partition: &Partition,
        frontier: Position,
    ) -> Option<SavedPosition> {
        self.frontier = self.frontier.max(frontier);
        self.position_to_save(partition)
    }

    /// What is to be saved when the partition goes: that it is done, if that is not saved yet.
    pub(crate) fn last_words(&mut self, partition: &Partition) -> Option<SavedPosition> {
        if self.is_done() && !self.saved_as_done { self.position_to_save(partition) } else { None }
    }

    /// What was to be saved is durable.
    pub(crate) fn saved(&mut self) {
        self.saved_as_done = self.is_done();
    }

    fn is_done(&self) -> bool {
        self.ended && self.frontier.get() > self.last
    }

    fn position_to_save(&mut self, partition: &Partition) -> Option<SavedPosition> {
        let kind = self.kind?;
        let settled = |checkpoint: &Checkpoint| checkpoint.mark.after < self.frontier.get();
        while self.checkpoints.get(1).is_some_and(settled) {
            self.checkpoints.pop_front();
        }
        if settled(&self.newest) {
            self.checkpoints = VecDeque::from([self.newest]);
            self.stride = 1;
        }
        let checkpoint = *self.checkpoints.front().expect("the first one is never dropped");
        let note = Note { kind, checkpoint, done: self.is_done() };
        Some(SavedPosition {
            partition: partition.clone(),
            frontier: self.frontier,
            note: note.encode(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::Encoding;
    use crate::config::FileFormat;
    use crate::records::Mark;
    use crate::splitter::Place;

    fn checkpoint(after: u64) -> Checkpoint {
        let place = Place { line: after + 1, offset: after * 10 };
        let mark = Mark { after, place, tail: 0 };
        Checkpoint { mark, raw_length: after * 10, fingerprint: 0 }
    }

    fn progress() -> Progress {
        let kind = Kind { inode: 1, encoding: Encoding::Plain, format: FileFormat::Lines };
        Progress::new(Generation::new(1), Some(kind), Position::new(1), checkpoint(0))
    }

    fn saved_after(progress: &mut Progress, frontier: u64) -> (u64, u64, bool) {
        let partition = Partition::whole("x");
        let saved = progress.settle(&partition, Position::new(frontier)).unwrap();
        let note = Note::decode(&saved).unwrap();
        (saved.frontier.get(), note.checkpoint.mark.after, note.done)
    }

    #[test]
    fn the_place_to_return_to_is_the_last_one_before_the_frontier() {
        let mut progress = progress();
        for last in [10, 20, 30] {
            progress.delivered(last, Some(checkpoint(last)));
        }
        assert_eq!(saved_after(&mut progress, 5), (5, 0, false));
        assert_eq!(saved_after(&mut progress, 20), (20, 10, false));
        assert_eq!(saved_after(&mut progress, 21), (21, 20, false));
        assert_eq!(saved_after(&mut progress, 11), (21, 20, false), "P5: it never goes back");
        progress.end();
        assert_eq!(saved_after(&mut progress, 30), (30, 20, false));
        assert_eq!(saved_after(&mut progress, 31), (31, 30, true));
    }

    #[test]
    fn that_it_is_done_is_saved_once_at_the_latest_when_it_goes() {
        let mut progress = progress();
        progress.delivered(10, Some(checkpoint(10)));
        saved_after(&mut progress, 11);
        progress.saved();
        assert_eq!(progress.last_words(&Partition::whole("x")), None, "the file goes on");
        progress.end();
        let words = progress.last_words(&Partition::whole("x")).unwrap();
        assert!(Note::decode(&words).unwrap().done);
        progress.saved();
        assert_eq!(progress.last_words(&Partition::whole("x")), None);
    }

    #[test]
    fn places_to_return_to_are_bounded_and_still_right() {
        let mut progress = progress();
        for last in 1..=10_000 {
            progress.delivered(last, Some(checkpoint(last)));
            assert!(progress.checkpoints.len() <= MAX_CHECKPOINTS);
        }
        let (frontier, after, _) = saved_after(&mut progress, 5_000);
        assert_eq!(frontier, 5_000);
        assert!(after < 5_000 && after > 4_900, "{after}");
    }
}
