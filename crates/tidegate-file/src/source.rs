//! The file source.
//!
//! Files are read with plain blocking calls: the runtime gives a source a thread of its own, and
//! a read from a disk takes no longer than handing it to another thread. All state is in `self`
//! and whole between any two awaits, so the future of `next` may be dropped at each of them.

use std::fmt;

use tidegate_core::{
    BoxPositionStore, Commit, CommitReport, Demand, Partition, Position, Source,
    SourceCapabilities, SourceError, SourceEvent,
};

use crate::book::Book;
use crate::bounded::Bounded;
use crate::config::{FileSourceConfig, STANDARD};
use crate::error::ConfigError;
use crate::follow::Follower;
use crate::turn::Turn;

/// Reads lines of files: JSON lines, CSV or plain lines.
///
/// Each file is a partition, named by its path as the pattern gives it, and a record's position
/// is the number of its (first) line. The payload is the line without its line break; the header
/// `file` is the path, and for CSV the header `csv-columns` is a JSON array of the columns' names.
/// [`decode`](crate::decode) makes values of records.
///
/// **Restarts.** With a store, a restart goes on behind what was committed: a plain file is read
/// from the place itself, a compressed one is decompressed up to it. A file that was settled as a
/// whole is not read again, unless something was appended to it. It counts as the same file if it
/// has the same inode and the bytes up to the place that was reached are as they were (their
/// number, the first and the last 1,024 of them, are compared); otherwise it is read from its
/// beginning, with a warning: a copied or restored file is repeated rather than its lines lost.
/// Without a store every run reads everything.
///
/// **Standard input and pipes** are read once: their positions are not saved, and what was read
/// from them and not settled is gone with the process. Only regular files lose nothing.
///
/// **`follow`.** A file that is renamed is read on until nothing was added for 5 seconds; the one
/// that takes its name is another partition, `path#inode`. So is a file that was truncated or
/// written anew. If it was truncated and has grown past the place that was read before anybody
/// looked, that does not show: rotate by renaming. Names are looked at once a second; a log that
/// is rotated more often needs a `path` that matches the rotated names too (`app.log*`, not
/// compressed). A file with several names is read once.
/// After a restart, a file that was rotated meanwhile is searched for in its directory and read
/// to its end. The store keeps a position for every file ever followed.
pub struct FileSource {
    config: FileSourceConfig,
    has_store: bool,
    book: Book,
    work: Work,
}

enum Work {
    New,
    Bounded(Box<Bounded>),
    Follow(Box<Follower>),
    Ended,
}

impl FileSource {
    /// A source with these settings. Files are looked for when the first event is asked for.
    ///
    /// With a store, positions survive restarts; it must be this pipeline's own.
    ///
    /// ```
    /// use tidegate_file::{FileSource, FileSourceConfig};
    /// let source = FileSource::new(FileSourceConfig::new("data/*.jsonl"), None)?;
    /// assert_eq!(format!("{source:?}"), "FileSource(data/*.jsonl)");
    /// assert!(FileSource::new(FileSourceConfig::new(""), None).is_err());
    /// # Ok::<(), tidegate_file::ConfigError>(())
    /// ```
    pub fn new(
        config: FileSourceConfig,
        store: Option<BoxPositionStore>,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let store = store.filter(|_| config.path != STANDARD);
        Ok(Self { config, has_store: store.is_some(), book: Book::new(store), work: Work::New })
    }

    /// Begins. Called again from the start if it is dropped half-way: nothing is opened before
    /// the positions are there.
    async fn start(&mut self) -> Result<Option<SourceEvent>, SourceError> {
        self.book.load().await?;
        if self.config.path == STANDARD {
            let (bounded, assigned) = Bounded::stdin(&self.config, &mut self.book)?;
            self.work = Work::Bounded(Box::new(bounded));
            return Ok(Some(assigned));
        }
        self.work = if self.config.follow {
            Work::Follow(Box::new(Follower::new()))
        } else {
            Work::Bounded(Box::new(Bounded::files(&self.config)?))
        };
        Ok(None)
    }
}

impl fmt::Debug for FileSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileSource({})", self.config.path)
    }
}

impl Source for FileSource {
    fn capabilities(&self) -> SourceCapabilities {
        SourceCapabilities::new().bounded(!self.config.follow).resumes(self.has_store)
    }

    async fn next(&mut self, demand: &Demand) -> Result<SourceEvent, SourceError> {
        loop {
            let turn = match &mut self.work {
                Work::New => match self.start().await? {
                    Some(event) => Turn::Event(event),
                    None => Turn::Again,
                },
                Work::Bounded(bounded) => bounded.turn(&self.config, &mut self.book, demand)?,
                Work::Follow(follower) => follower.turn(&self.config, &mut self.book, demand)?,
                Work::Ended => Turn::Ended,
            };
            match turn {
                Turn::Event(event) => return Ok(event),
                Turn::Again => tokio::task::yield_now().await,
                Turn::NoDemand => std::future::pending().await,
                Turn::NeedsPiece => {
                    if let Work::Bounded(bounded) = &mut self.work {
                        bounded.receive().await;
                    }
                }
                Turn::Until(moment) => tokio::time::sleep_until(moment).await,
                Turn::Ended => {
                    self.work = Work::Ended;
                    return Ok(SourceEvent::Ended);
                }
            }
        }
    }

    async fn commit(&mut self, commit: Commit<'_>) -> Result<CommitReport, SourceError> {
        self.book.commit(commit).await
    }

    async fn release(&mut self, partitions: &[Partition]) -> Result<(), SourceError> {
        self.book.release(partitions).await
    }

    async fn close(&mut self) -> Result<(), SourceError> {
        self.work = Work::Ended;
        Ok(())
    }

    fn end(&mut self, partition: &Partition) -> Option<Position> {
        self.book.end_position(partition)
    }
}
