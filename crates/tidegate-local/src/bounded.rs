//! Reading up to an end (`until_end`), alone or with others.
//!
//! The ends of all partitions are noted in the transaction in which the source first joins. A
//! partition is finished once everything before its end was delivered; the source has ended once
//! the *group* has committed everything before every end, whoever did it. Until then it stays a
//! member and takes over from members that die.
//!
//! Members that started at different times have different ends and still all end: each list of
//! ends was taken from one unchanging view of the topic, so of two members one is at the end in
//! every partition before the other, ends, and leaves its partitions to the other.

use crate::config::OnOutOfRange;
use crate::group::Claim;
use crate::range;
use crate::topic::Bounds;

/// Where a bounded source stops, and whether the group has arrived there.
#[derive(Debug)]
pub(crate) struct Bounded {
    /// By the partition's number.
    pub(crate) ends: Vec<u64>,
    /// As of the last look at the file.
    pub(crate) is_settled: bool,
}

impl Bounded {
    /// Up to where the partitions end now.
    pub(crate) fn new(bounds: &[Bounds]) -> Self {
        Self { ends: bounds.iter().map(|bounds| bounds.end).collect(), is_settled: false }
    }

    /// Looks at what the group has committed. What is not in the log any more and is skipped by
    /// the policy counts as committed.
    pub(crate) fn update(&mut self, claims: &[Claim], bounds: &[Bounds], policy: OnOutOfRange) {
        self.is_settled =
            claims.iter().zip(bounds).zip(&self.ends).all(|((claim, bounds), end)| {
                range::place(claim.committed, *bounds, policy)
                    .is_ok_and(|place| place.position >= *end)
            });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_ended_when_the_group_has_committed_every_end() {
        let all =
            |first, end| [Bounds { first, end, bytes: 0 }, Bounds { first: 0, end: 0, bytes: 0 }];
        let claims = |committed| {
            [committed, None].map(|committed| Claim {
                owner: None,
                target: None,
                generation: 1,
                committed,
            })
        };
        let mut bounded = Bounded::new(&all(0, 10));
        let table = [
            (Some(9), 0, OnOutOfRange::Stop, false),
            (Some(10), 0, OnOutOfRange::Stop, true),
            (Some(12), 0, OnOutOfRange::Stop, true),
            (None, 0, OnOutOfRange::Stop, false),
            (None, 10, OnOutOfRange::Stop, true),
            (Some(3), 10, OnOutOfRange::Stop, false),
            (Some(3), 10, OnOutOfRange::Earliest, true),
            (Some(3), 5, OnOutOfRange::Latest, true),
        ];
        for (committed, first, policy, ended) in table {
            bounded.update(&claims(committed), &all(first, 15), policy);
            assert_eq!(bounded.is_settled, ended, "{committed:?} from {first} {policy:?}");
        }
    }
}
