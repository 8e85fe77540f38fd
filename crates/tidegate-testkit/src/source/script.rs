use std::time::Duration;

use tidegate_core::SourceEvent;

/// Something the test wants the source to say or do, beside delivering records.
#[derive(Debug)]
pub(super) enum Line {
    Assign(Vec<usize>),
    Revoke(Vec<usize>, Option<Duration>),
    Lose(Vec<usize>),
    Finish(Vec<usize>),
    End,
    Fail {
        message: String,
        retryable: bool,
    },
    Pause(Duration),
    Panic(String),
    Crash,
    /// Said as it is, without book-keeping.
    Raw(SourceEvent),
}

impl Line {
    /// The partitions it is about; `None` for all of them.
    pub(super) fn about(&self) -> Option<&[usize]> {
        match self {
            Self::Assign(logs) | Self::Revoke(logs, _) | Self::Lose(logs) | Self::Finish(logs) => {
                Some(logs)
            }
            _ => None,
        }
    }

    pub(super) fn is_about(&self, log: usize) -> bool {
        self.about().is_none_or(|logs| logs.contains(&log))
    }

    fn overlaps(&self, other: &Self) -> bool {
        match (self.about(), other.about()) {
            (Some(mine), Some(theirs)) => mine.iter().any(|log| theirs.contains(log)),
            _ => true,
        }
    }

    /// Whether it comes after records that there is no room for. All others overtake those.
    pub(super) fn waits_for_room(&self) -> bool {
        matches!(self, Self::Finish(_) | Self::End)
    }
}

/// A line in its place: behind the records that each partition had when it was written.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) line: Line,
    pub(super) behind: Vec<usize>,
}

impl Placed {
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.line.overlaps(&other.line)
    }
}
