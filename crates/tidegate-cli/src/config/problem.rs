use std::fmt;

/// One thing that is wrong with a pipeline file, where, and what to write instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Problem {
    line: u64,
    path: String,
    message: String,
}

impl Problem {
    /// A problem of the setting at `path` (empty for the file as a whole), on this line.
    pub(crate) fn new(line: u64, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { line, path: path.into(), message: message.into() }
    }

    /// The line, from 1.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// The setting's path; empty for the file as a whole.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// What is wrong.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }
}

/// `12: steps[1].jq: ...`; put the file's name and a colon before it.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.line)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// Everything that is wrong with a pipeline file, in the order of its lines.
#[derive(Debug, Default)]
pub(crate) struct Problems(Vec<Problem>);

impl Problems {
    /// These problems, sorted by their lines.
    pub(crate) fn new(mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| problem.line);
        Self(problems)
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The problems, each ready to be shown behind the file's name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }
}
