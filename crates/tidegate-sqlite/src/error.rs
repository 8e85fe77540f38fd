//! What a fault of the database means for the pipeline, in words for whoever is called at night.

use std::path::Path;

use tidegate_core::{SinkError, StoreError};

use crate::client::{Failure, Fault};

/// The sink's error for a failed call on the file `path`.
pub(crate) fn sink_error(path: &Path, failure: Failure) -> SinkError {
    let message = explain(path, &failure);
    let error = match failure.fault {
        Fault::Busy => SinkError::retry(message),
        _ => SinkError::stop(message),
    };
    error.with_source(failure)
}

/// The store's error for a failed call on the file `path`.
pub(crate) fn store_error(path: &Path, failure: Failure) -> StoreError {
    let message = explain(path, &failure);
    let error = match failure.fault {
        Fault::Busy => StoreError::retry(message),
        _ => StoreError::stop(message),
    };
    error.with_source(failure)
}

fn explain(path: &Path, failure: &Failure) -> String {
    let (what, advice) = match failure.fault {
        Fault::Busy => (
            "is locked by another connection for longer than busy_timeout",
            "find the process that holds it in a long transaction, or raise busy_timeout",
        ),
        Fault::Full => (
            "can't grow: the disk, its quota or the database's max_page_count is full",
            "free some space, then start again (what was not written comes again)",
        ),
        Fault::Io => (
            "can't be read or written: the operating system reports an error",
            "check the disk, the mount, the limit on the size of files (`ulimit -f`) and the system's \
             log, then start again",
        ),
        Fault::ReadOnly => (
            "is read-only",
            "give this user write permission on the file and on its folder, or name another path",
        ),
        Fault::NotADatabase => (
            "is not a SQLite database",
            "name another path, or move the file away to have a new one made",
        ),
        Fault::Corrupt => (
            "is damaged",
            "restore it from a backup, or save what is left with `sqlite3 FILE .recover`",
        ),
        Fault::CannotOpen => (
            "can't be opened",
            "check the path and the permissions of the file and of its folder; \
             a folder that is missing has to be made first",
        ),
        Fault::Row | Fault::Other => {
            ("refuses a statement", "if the table was altered while the pipeline ran, start again")
        }
        Fault::Explained => {
            return format!("SQLite database {}: {}", path.display(), failure.message);
        }
    };
    format!("SQLite database {} {what}; {advice}", path.display())
}
