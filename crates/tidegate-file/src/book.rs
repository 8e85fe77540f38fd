//! Which partitions are owned, how far each is settled, and what earlier runs left.
//!
//! The store is read once, before the first file is opened, and everything in it is checked then.
//! It is written only from commits (P8), so what it says was settled, always.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;

use tidegate_core::{
    Assignment, BoxPositionStore, Commit, CommitReport, Generation, Partition, Position,
    PositionStore, SavedPosition, SourceError, StoreError,
};

use crate::error::Failure;
use crate::identity::fingerprint;
use crate::note::{Checkpoint, Kind, Note};
use crate::progress::Progress;
use crate::records::Mark;
use crate::splitter::Place;

/// A position that an earlier run saved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Saved {
    pub(crate) frontier: Position,
    pub(crate) note: Note,
}

/// Where reading of a file begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begin {
    /// Records before it are settled.
    pub(crate) frontier: Position,
    pub(crate) checkpoint: Checkpoint,
}

impl Begin {
    /// The beginning of the file.
    pub(crate) fn fresh() -> Self {
        let mark = Mark { after: 0, place: Place { line: 1, offset: 0 }, tail: 0 };
        let checkpoint = Checkpoint { mark, raw_length: 0, fingerprint: EMPTY_FINGERPRINT };
        Self { frontier: Position::new(1), checkpoint }
    }

    /// Where an earlier run stopped, in a file that now has `length` bytes. If its last line had
    /// no line break then and the file has grown, the line was incomplete: it comes again, whole.
    pub(crate) fn resumed(saved: &Saved, length: u64) -> Self {
        let Saved { mut frontier, note: Note { mut checkpoint, .. } } = *saved;
        let mark = &mut checkpoint.mark;
        if mark.tail > 0 && length > checkpoint.raw_length {
            frontier = Position::new(mark.after);
            mark.place = Place { line: mark.after, offset: mark.place.offset - mark.tail };
            mark.after -= 1;
            mark.tail = 0;
        }
        Self { frontier, checkpoint }
    }
}

/// The CRC-32 of nothing.
const EMPTY_FINGERPRINT: u32 = 0;

#[derive(Debug)]
pub(crate) struct Book {
    store: Option<BoxPositionStore>,
    saved: BTreeMap<Partition, Saved>,
    owned: HashMap<Partition, Progress>,
    generations: u64,
}

impl Book {
    pub(crate) fn new(store: Option<BoxPositionStore>) -> Self {
        Self { store, saved: BTreeMap::new(), owned: HashMap::new(), generations: 0 }
    }

    /// Whether positions are saved at all.
    pub(crate) fn keeps_positions(&self) -> bool {
        self.store.is_some()
    }

    /// Reads what earlier runs left. May be dropped half-way and called again.
    pub(crate) async fn load(&mut self) -> Result<(), SourceError> {
        let Some(store) = &mut self.store else { return Ok(()) };
        let positions = store
            .load()
            .await
            .map_err(|error| store_failure(error, "cannot load the positions of earlier runs"))?;
        let mut saved = BTreeMap::new();
        for position in positions {
            let note = Note::decode(&position)?;
            saved.insert(position.partition, Saved { frontier: position.frontier, note });
        }
        self.saved = saved;
        Ok(())
    }

    /// Positions of earlier runs whose files weren't looked at in this one.
    pub(crate) fn saved(&self) -> impl Iterator<Item = (&Partition, &Saved)> {
        self.saved.iter()
    }

    /// Takes out the position that an earlier run saved for this file under this path, or under
    /// a name that was [derived](derived_name) from it.
    pub(crate) fn recognise_by_path(
        &mut self,
        path: &str,
        file: &File,
        kind: Kind,
    ) -> Result<Option<(Partition, Saved)>, Failure> {
        let plain = Partition::whole(path);
        let prefix = format!("{path}#");
        let derived = self
            .saved
            .range(Partition::whole(prefix.as_str())..)
            .take_while(|(partition, _)| partition.stream().starts_with(&prefix));
        let mut candidates: Vec<Partition> = derived.map(|(name, _)| name.clone()).collect();
        candidates.push(plain.clone());
        let found = self.first_same(candidates, path, file, kind)?;
        if found.is_none()
            && let Some(old) = self.saved.remove(&plain)
        {
            tracing::warn!(
                file = path,
                settled_before_line = old.frontier.get(),
                "this is another file than the one an earlier run read under this name, or it was \
                 changed since; it is read from its beginning"
            );
        }
        Ok(found)
    }

    /// Takes out the position that an earlier run saved for this file, whatever it was called.
    pub(crate) fn recognise_by_inode(
        &mut self,
        path: &str,
        file: &File,
        kind: Kind,
    ) -> Result<Option<(Partition, Saved)>, Failure> {
        let same_inode = self.saved.iter().filter(|(_, saved)| saved.note.kind.inode == kind.inode);
        let candidates = same_inode.map(|(partition, _)| partition.clone()).collect();
        self.first_same(candidates, path, file, kind)
    }

    fn first_same(
        &mut self,
        candidates: Vec<Partition>,
        path: &str,
        file: &File,
        kind: Kind,
    ) -> Result<Option<(Partition, Saved)>, Failure> {
        for partition in candidates {
            let Some(saved) = self.saved.get(&partition) else { continue };
            let Checkpoint { raw_length, fingerprint: expected, .. } = saved.note.checkpoint;
            if saved.note.kind == kind
                && fingerprint(file, raw_length).map_err(|e| Failure::io("read", path, &e))?
                    == Some(expected)
            {
                return Ok(self.saved.remove_entry(&partition));
            }
        }
        Ok(None)
    }

    /// Whether an earlier run or this one used the name.
    pub(crate) fn knows(&self, partition: &Partition) -> bool {
        self.saved.contains_key(partition) || self.owned.contains_key(partition)
    }

    /// Owns a partition from now on. Without a kind its positions are not saved.
    pub(crate) fn assign(
        &mut self,
        partition: Partition,
        kind: Option<Kind>,
        begin: Begin,
    ) -> Assignment {
        self.generations += 1;
        let generation = Generation::new(self.generations);
        let kind = kind.filter(|_| self.store.is_some());
        let progress = Progress::new(generation, kind, begin.frontier, begin.checkpoint);
        self.owned.insert(partition.clone(), progress);
        Assignment { partition, generation }
    }

    /// Records up to `last` of an owned partition are being delivered.
    pub(crate) fn delivered(
        &mut self,
        partition: &Partition,
        last: u64,
        checkpoint: Option<Checkpoint>,
    ) {
        if let Some(progress) = self.owned.get_mut(partition) {
            progress.delivered(last, checkpoint);
        }
    }

    /// An owned partition has no more records.
    pub(crate) fn ended(&mut self, partition: &Partition) {
        if let Some(progress) = self.owned.get_mut(partition) {
            progress.end();
        }
    }

    /// All that an owned partition has for now was delivered.
    pub(crate) fn rests(&mut self, partition: &Partition) {
        if let Some(progress) = self.owned.get_mut(partition) {
            progress.rest();
        }
    }

    /// The position behind the partition's last record, if it was reached.
    pub(crate) fn end_position(&self, partition: &Partition) -> Option<Position> {
        self.owned.get(partition)?.end_position()
    }

    /// Saves the frontiers. Those of partitions, or periods, that are not owned are refused.
    pub(crate) async fn commit(&mut self, commit: Commit<'_>) -> Result<CommitReport, SourceError> {
        let mut report = CommitReport::default();
        let mut positions = Vec::new();
        let frontiers = match commit {
            Commit::Through(frontiers) => frontiers,
            other => {
                return Err(SourceError::stop(format!(
                    "the file source commits frontiers only, and was asked for {other:?}. Update \
                     tidegate-file to the version of the runtime"
                )));
            }
        };
        for frontier in frontiers {
            match self.owned.get_mut(&frontier.partition) {
                Some(progress) if progress.generation == frontier.generation => {
                    positions.extend(progress.settle(&frontier.partition, frontier.position));
                }
                _ => report.refused.push(frontier.partition.clone()),
            }
        }
        self.save(&positions).await?;
        Ok(report)
    }

    /// Lets partitions go. That one is done is saved now, if the last commit came too early to
    /// know.
    pub(crate) async fn release(&mut self, partitions: &[Partition]) -> Result<(), SourceError> {
        let mut positions = Vec::new();
        for partition in partitions {
            if let Some(progress) = self.owned.get_mut(partition) {
                positions.extend(progress.last_words(partition));
            }
        }
        self.save(&positions).await?;
        for partition in partitions {
            self.owned.remove(partition);
        }
        Ok(())
    }

    async fn save(&mut self, positions: &[SavedPosition]) -> Result<(), SourceError> {
        let Some(store) = &mut self.store else { return Ok(()) };
        if positions.is_empty() {
            return Ok(());
        }
        store
            .save(positions)
            .await
            .map_err(|error| store_failure(error, "cannot save how far the files are settled"))?;
        for position in positions {
            if let Some(progress) = self.owned.get_mut(&position.partition) {
                progress.saved();
            }
        }
        Ok(())
    }
}

fn store_failure(error: StoreError, what: &str) -> SourceError {
    let message = format!("{what}: {error}");
    let failure =
        if error.is_retryable() { SourceError::retry(message) } else { SourceError::stop(message) };
    failure.with_source(error)
}
