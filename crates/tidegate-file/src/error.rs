//! What goes wrong with settings and with files, said so that an operator can act on it.

use std::fmt;
use std::io;

use tidegate_core::{SinkError, SourceError};

/// One thing that is wrong with the settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigProblem {
    /// The setting's path inside this part's settings, for example `csv.delimiter`.
    pub key: String,
    /// What is wrong with it, and what would be right.
    pub message: String,
}

impl ConfigProblem {
    pub(crate) fn new(key: &str, message: impl Into<String>) -> Self {
        Self { key: key.to_owned(), message: message.into() }
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

/// Everything that is wrong with the settings, all at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    problems: Vec<ConfigProblem>,
}

impl ConfigError {
    /// `Err` with the problems, if there are any.
    pub(crate) fn unless_empty(problems: Vec<ConfigProblem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self { problems }) }
    }

    /// The problems; at least one.
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            write!(f, "{}{problem}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// Why a source or a sink can't go on. It is kept, so that it can be said again: an error must
/// not turn into "end of file" when the call is repeated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// `cannot {action} {path}: {why}.` and what to do about it.
    pub(crate) fn io(action: &str, path: &str, error: &io::Error) -> Self {
        Self(format!("cannot {action} {path}: {error}.{}", hint(error)))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Failure> for SourceError {
    fn from(failure: Failure) -> Self {
        Self::stop(failure.0)
    }
}

impl From<Failure> for SinkError {
    fn from(failure: Failure) -> Self {
        Self::stop(failure.0)
    }
}

/// What to do about it, with a leading space; empty if the error says enough.
fn hint(error: &io::Error) -> &'static str {
    const TOO_MANY_OPEN_FILES: i32 = 24;
    match error.kind() {
        io::ErrorKind::NotFound => " Check `path`, and the directory the pipeline was started in",
        io::ErrorKind::PermissionDenied => {
            " Give the pipeline's user the right to it, or run the pipeline as another user"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            " The file system is mounted read-only: choose another `path`, or remount it"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            " The disk is full: free some space, then start the pipeline again"
        }
        io::ErrorKind::FileTooLarge => {
            " The limit on the size of a file is reached (`ulimit -f`, or the file system's): raise \
             it, or move the file away, then start the pipeline again"
        }
        _ if error.raw_os_error() == Some(TOO_MANY_OPEN_FILES) => {
            " Raise the limit (`ulimit -n`), or let `path` match fewer files"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_io_error_says_what_to_do() {
        let cases = [
            (13, "Permission denied (os error 13). Give the pipeline's user the right to it"),
            (24, "Raise the limit (`ulimit -n`)"),
            (27, "The limit on the size of a file is reached (`ulimit -f`"),
            (28, "The disk is full: free some space, then start the pipeline again"),
            (30, "The file system is mounted read-only"),
        ];
        for (code, expected) in cases {
            let failure = Failure::io("open", "data/x", &io::Error::from_raw_os_error(code));
            let text = failure.to_string();
            assert!(text.starts_with("cannot open data/x: "), "{text}");
            assert!(text.contains(expected), "{text}");
        }
    }
}
