//! What goes wrong with a log file, and what the operator can do about it.
//!
//! Only [`LocalError::Locked`] passes by itself. Everything else stops the pipeline: going on
//! would lose, repeat or hide something.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_core::{BoxError, SinkError, SourceError};

/// An error of the local log. Its text names the file, what happened and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// Settings that can't work; all of them at once.
    #[error("the settings of the {what} are not usable: {}", join(problems))]
    Config {
        /// Whose settings.
        what: &'static str,
        /// Every problem, by its key.
        problems: Vec<Problem>,
    },
    /// Another process held the write lock for too long. The only error that is retried.
    #[error(
        "{path} is locked by another process for longer than lock_timeout ({waited:?}). Look for a \
         program that keeps a transaction open on this file, or raise lock_timeout"
    )]
    Locked {
        /// The log file.
        path: PathBuf,
        /// How long it waited for the lock.
        waited: Duration,
        /// The database's own error.
        source: BoxError,
    },
    /// There is no such file, and it was not to be created.
    #[error(
        "{path} does not exist. Check the path; the file is created by the first producer \
         (`tidegate produce`, or a local sink)"
    )]
    NoSuchFile {
        /// The path that was given.
        path: PathBuf,
    },
    /// The file can't be opened: a directory, no permission, a folder that is missing.
    #[error("{path} can't be opened: {reason}")]
    CannotOpen {
        /// The path that was given.
        path: PathBuf,
        /// What is in the way, and what to do.
        reason: String,
    },
    /// The file is something else.
    #[error(
        "{path} is not a SQLite database, so it can't be a log. Give the path of a log that \
         tidegate made, or of a file that doesn't exist yet; the file was left as it is"
    )]
    NotADatabase {
        /// The path that was given.
        path: PathBuf,
        /// The database's own error.
        source: BoxError,
    },
    /// A SQLite database of another program.
    #[error(
        "{path} is a SQLite database, but not a tidegate log. Give the log a file of its own; \
         this one was left as it is"
    )]
    ForeignDatabase {
        /// The path that was given.
        path: PathBuf,
    },
    /// The file was made by a version that lays it out differently.
    #[error(
        "{path} has log format {found}, this version reads format {supported}. Use the version of \
         tidegate that wrote it, or start a new file"
    )]
    SchemaVersion {
        /// The log file.
        path: PathBuf,
        /// The file's format.
        found: i64,
        /// The format of this version.
        supported: i64,
    },
    /// The file or its folder can't be written.
    #[error(
        "{path} is read-only. The log needs to write to the file and to its folder (for the -wal \
         and -shm files beside it): check the permissions and how the file system is mounted"
    )]
    ReadOnly {
        /// The log file.
        path: PathBuf,
        /// The database's own error.
        source: BoxError,
    },
    /// No room; the transaction was rolled back.
    #[error(
        "the disk with {path} is full; nothing of this write was kept. Free some space, or set a \
         retention on the topics, and start again: it goes on where it was"
    )]
    DiskFull {
        /// The log file.
        path: PathBuf,
        /// The database's own error.
        source: BoxError,
    },
    /// The operating system can't read or write the file.
    #[error(
        "{path} can't be read or written: the operating system reports an error. Check the disk, \
         the mount, the limit on the size of files (`ulimit -f`) and the system's log, and start \
         again: it goes on where it was"
    )]
    Io {
        /// The log file.
        path: PathBuf,
        /// The database's own error.
        source: BoxError,
    },
    /// The file was deleted or replaced while it was in use.
    #[error(
        "{path} was deleted or replaced while it was in use, so nothing that is written to it now \
         would be found again. Put the file back or restart to use the new one"
    )]
    Replaced {
        /// The log file.
        path: PathBuf,
    },
    /// The file's content contradicts itself.
    #[error(
        "{path} is damaged: {what}. Check it with `sqlite3 {path} 'PRAGMA integrity_check'` and \
         restore it from a backup"
    )]
    Damaged {
        /// The log file.
        path: PathBuf,
        /// What doesn't fit.
        what: String,
    },
    /// The topic is not in the file.
    #[error(
        "topic {topic} does not exist in {path}; {}. Produce into it first, or let the source wait \
         for it (on_missing_topic: wait)",
        list_topics(existing)
    )]
    NoSuchTopic {
        /// The log file.
        path: PathBuf,
        /// The topic that was asked for.
        topic: String,
        /// The topics that are there.
        existing: Vec<String>,
    },
    /// The topic is there already.
    #[error("topic {topic} exists already, with {partitions} partitions")]
    TopicExists {
        /// The topic.
        topic: String,
        /// Its number of partitions.
        partitions: u32,
    },
    /// The settings ask for another number of partitions than the topic has.
    #[error(
        "topic {topic} has {partitions} partitions, the settings ask for {wanted}. The number is \
         fixed when a topic is created: remove `partitions` from the settings or use a new topic"
    )]
    PartitionsDiffer {
        /// The topic.
        topic: String,
        /// What it has.
        partitions: u32,
        /// What was asked for.
        wanted: u32,
    },
    /// The place to go on at is not in the log (any more).
    #[error(
        "{topic}[{partition}]: group {group} is at position {position}, but the log has only \
         positions {start} to {end} (exclusive): {}. To go on nevertheless, set on_out_of_range to \
         earliest (goes on at {start}) or latest (goes on at {end})",
        out_of_range_reason(*position, *start)
    )]
    OutOfRange {
        /// The topic.
        topic: String,
        /// The partition's number.
        partition: u32,
        /// The group.
        group: String,
        /// Where the group wants to go on.
        position: u64,
        /// The first position that the log has.
        start: u64,
        /// The position behind the last record.
        end: u64,
    },
    /// Another process joined the group under this member's name.
    #[error(
        "another process joined group {group} as member {member} and took this one's place. Give \
         every process its own `member`, or leave it out"
    )]
    MemberReplaced {
        /// The group.
        group: String,
        /// The name that both use.
        member: String,
    },
    /// A commit names a position that was never delivered: a bug of the caller.
    #[error(
        "{topic}[{partition}]: a commit up to {position} was refused, because only records before \
         {delivered} were delivered; please report this as a bug"
    )]
    CommitBeyondDelivered {
        /// The topic.
        topic: String,
        /// The partition's number.
        partition: u32,
        /// What was to be committed.
        position: u64,
        /// The position behind the last record that was delivered.
        delivered: u64,
    },
    /// The file format has no room for more.
    #[error("{path} holds no more than {what}; start a new file")]
    FileFull {
        /// The log file.
        path: PathBuf,
        /// The limit that is reached.
        what: String,
    },
    /// A blocking task of the runtime was lost.
    #[error("the write to {path} did not finish: {reason}")]
    Interrupted {
        /// The log file.
        path: PathBuf,
        /// What the runtime says.
        reason: String,
    },
    /// Anything else that the database reports.
    #[error("{path}: the database failed")]
    Database {
        /// The log file.
        path: PathBuf,
        /// The database's own error.
        source: BoxError,
    },
}

impl LocalError {
    /// Whether the same call can succeed later without anyone doing anything.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Locked { .. })
    }
}

impl From<LocalError> for SourceError {
    fn from(error: LocalError) -> Self {
        let message = error.to_string();
        let retryable = error.is_retryable();
        if retryable { Self::retry(message) } else { Self::stop(message) }.with_source(error)
    }
}

impl From<LocalError> for SinkError {
    fn from(error: LocalError) -> Self {
        let message = error.to_string();
        let retryable = error.is_retryable();
        if retryable { Self::retry(message) } else { Self::stop(message) }.with_source(error)
    }
}

/// One setting that can't work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The setting's key, as in the file: `retention.max_age`.
    pub key: &'static str,
    /// What is wrong with it, and what would be right.
    pub message: String,
}

impl Problem {
    pub(crate) fn new(key: &'static str, message: impl Into<String>) -> Self {
        Self { key, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

/// A record that can't be stored, whatever happens; its neighbours are not concerned.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a record of {bytes} bytes is larger than max_record_bytes ({limit}); raise the setting or \
     make the record smaller"
)]
pub struct RecordTooLarge {
    /// What it carries: key, payload and headers.
    pub bytes: usize,
    /// The sink's setting.
    pub limit: usize,
}

fn join(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; ")
}

fn list_topics(existing: &[String]) -> String {
    if existing.is_empty() {
        "it has no topic yet".to_owned()
    } else {
        format!("it has: {}", existing.join(", "))
    }
}

fn out_of_range_reason(position: u64, start: u64) -> &'static str {
    if position < start {
        "retention deleted records before the group had read them"
    } else {
        "the file was perhaps replaced by an older copy"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_locked_file_is_retried() {
        let path = PathBuf::from("q.db");
        let source = || BoxError::from("busy");
        let locked =
            LocalError::Locked { path: path.clone(), waited: Duration::ZERO, source: source() };
        assert!(SourceError::from(locked).is_retryable());
        let full = LocalError::DiskFull { path: path.clone(), source: source() };
        assert!(!SinkError::from(full).is_retryable());
        assert!(!SourceError::from(LocalError::Replaced { path }).is_retryable());
    }

    /// P30
    #[test]
    fn an_out_of_range_position_says_why_and_what_to_do() {
        let error = |position| {
            let error = LocalError::OutOfRange {
                topic: "t".into(),
                partition: 1,
                group: "g".into(),
                position,
                start: 10,
                end: 20,
            };
            error.to_string()
        };
        assert!(error(5).contains("retention deleted records"));
        assert!(error(25).contains("replaced by an older copy"));
        assert!(error(5).contains("on_out_of_range to earliest (goes on at 10)"));
    }

    #[test]
    fn all_problems_of_the_settings_are_told_at_once() {
        let problems = vec![Problem::new("topic", "is empty"), Problem::new("group", "is empty")];
        let error = LocalError::Config { what: "local source", problems };
        assert!(error.to_string().ends_with("topic: is empty; group: is empty"));
    }
}
