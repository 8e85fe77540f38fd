//! Where a group goes on in a partition, as a pure decision.

use crate::config::OnOutOfRange;
use crate::topic::Bounds;

/// The place to go on at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) position: u64,
    /// It is not where the group was; what lies between is skipped or repeated.
    pub(crate) moved_from: Option<u64>,
}

/// The position is not in the log, and the policy is to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NotInLog {
    pub(crate) position: u64,
}

/// A group that never committed begins at the first record. A position between `first` and `end`
/// (which is where the next record will be) is in the log; for every other one the policy decides.
pub(crate) fn place(
    position: Option<u64>,
    bounds: Bounds,
    policy: OnOutOfRange,
) -> Result<Place, NotInLog> {
    let Some(position) = position else {
        return Ok(Place { position: bounds.first, moved_from: None });
    };
    if (bounds.first..=bounds.end).contains(&position) {
        return Ok(Place { position, moved_from: None });
    }
    let moved_from = Some(position);
    match policy {
        OnOutOfRange::Stop => Err(NotInLog { position }),
        OnOutOfRange::Earliest => Ok(Place { position: bounds.first, moved_from }),
        OnOutOfRange::Latest => Ok(Place { position: bounds.end, moved_from }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P30
    #[test]
    fn the_policy_decides_only_about_positions_that_are_not_in_the_log() {
        use OnOutOfRange::{Earliest, Latest, Stop};
        let bounds = Bounds { first: 10, end: 20, bytes: 0 };
        let table = [
            (None, Stop, Ok((10, None))),
            (Some(10), Stop, Ok((10, None))),
            (Some(20), Stop, Ok((20, None))),
            (Some(9), Stop, Err(NotInLog { position: 9 })),
            (Some(21), Stop, Err(NotInLog { position: 21 })),
            (Some(9), Earliest, Ok((10, Some(9)))),
            (Some(21), Earliest, Ok((10, Some(21)))),
            (Some(9), Latest, Ok((20, Some(9)))),
            (Some(15), Latest, Ok((15, None))),
        ];
        for (position, policy, expected) in table {
            let expected = expected.map(|(position, moved_from)| Place { position, moved_from });
            assert_eq!(place(position, bounds, policy), expected, "{position:?} {policy:?}");
        }
    }
}
