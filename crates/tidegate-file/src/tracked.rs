//! One followed file: whether it has something to read, and how it comes to its end.
//!
//! - A file whose name is gone (deleted, or renamed by a rotation) is still read: its writer may
//!   keep it open for a while. It ends once nothing was added for [`GRACE`].
//! - A file that was rewritten ends at once, with what was read of it. Its new content is read as
//!   another file.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::Failure;
use crate::identity::FileId;
use crate::open_file::{Change, OpenFile};

/// How long the writer of a rotated file has to reopen the new one.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

pub(crate) struct Tracked {
    pub(crate) file: OpenFile,
    id: FileId,
    ready: bool,
    gone_since: Option<Instant>,
    ending: bool,
    rewritten: bool,
}

impl Tracked {
    /// `gone_since`: since when it has had no name that is followed.
    pub(crate) fn new(file: OpenFile, id: FileId, gone_since: Option<Instant>) -> Self {
        Self { file, id, ready: true, gone_since, ending: false, rewritten: false }
    }

    /// Which file it is; `None` if the file has other content now.
    pub(crate) fn id(&self) -> Option<FileId> {
        (!self.rewritten).then_some(self.id)
    }

    /// Whether it may have something to read.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready
    }

    /// Whether it goes before those whose names are still there.
    pub(crate) fn is_leaving(&self) -> bool {
        self.ending || self.gone_since.is_some()
    }

    /// Whether its last record was given out.
    pub(crate) fn is_done(&mut self) -> bool {
        self.ending && self.file.is_done()
    }

    /// Whether one of its names is there.
    pub(crate) fn seen(&mut self, seen: bool, now: Instant) {
        if seen {
            self.gone_since = None;
        } else {
            self.gone_since.get_or_insert(now);
        }
    }

    /// It was read to its end.
    pub(crate) fn rest(&mut self) {
        self.ready = false;
    }

    /// Looks whether there is something new. Returns what became of it.
    pub(crate) fn look(&mut self, now: Instant) -> Result<Change, Failure> {
        if self.ready || self.ending {
            return Ok(Change::None);
        }
        let change = self.file.change()?;
        match change {
            Change::None => {
                let over = |since: Instant| now.saturating_duration_since(since) >= GRACE;
                if self.gone_since.is_some_and(over) {
                    self.file.end();
                    (self.ending, self.ready) = (true, true);
                }
            }
            Change::Grown => {
                self.ready = true;
                self.gone_since = self.gone_since.map(|_| now);
            }
            Change::Rewritten => self.rewritten(),
        }
        Ok(change)
    }

    /// It has other content now: it ends with what was read of it.
    pub(crate) fn rewritten(&mut self) {
        tracing::warn!(
            file = self.file.path(),
            partition = %self.file.partition(),
            line = self.file.last(),
            "the file was truncated or written anew; it is read from its beginning as another \
             partition. Lines that it lost before they were read cannot be recovered"
        );
        self.file.cut();
        (self.ending, self.ready, self.rewritten) = (true, true, true);
    }
}
