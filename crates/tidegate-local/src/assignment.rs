//! Which member shall own which partition, as a pure decision.
//!
//! - Every partition gets a member, as long as there is one; their numbers differ by at most one.
//! - As few partitions as possible move; of those that a member must give up, the ones go first
//!   that it doesn't own yet.
//! - The same members and partitions give the same answer, in whichever process and order.

use std::collections::{BTreeMap, BTreeSet};

/// A member's id; ids rise in the order in which members joined.
pub(crate) type MemberId = i64;

/// What is known of one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seat {
    /// Who reads it now.
    pub(crate) owner: Option<MemberId>,
    /// Who was to read it by the last decision.
    pub(crate) target: Option<MemberId>,
}

/// Decides for each partition, in the order of `seats`; all `None` if there is no member.
pub(crate) fn assign(members: &[MemberId], seats: &[Seat]) -> Vec<Option<MemberId>> {
    let members: BTreeSet<MemberId> = members.iter().copied().collect();
    if members.is_empty() {
        return vec![None; seats.len()];
    }
    let mut kept = holders(&members, seats);
    let room = quotas(&kept, seats.len());
    let mut decided = vec![None; seats.len()];
    for (member, indices) in &mut kept {
        indices.sort_by_key(|index| (seats[*index].owner != Some(*member), *index));
        indices.truncate(room[member]);
        for index in indices {
            decided[*index] = Some(*member);
        }
    }
    let mut free: BTreeMap<MemberId, usize> =
        kept.iter().map(|(member, indices)| (*member, room[member] - indices.len())).collect();
    hand_back_to_owners(seats, &mut decided, &mut free);
    fill(&mut decided, &free);
    decided
}

/// Who would go on with each partition: by the last decision, else who reads it now.
fn holders(members: &BTreeSet<MemberId>, seats: &[Seat]) -> BTreeMap<MemberId, Vec<usize>> {
    let mut held: BTreeMap<MemberId, Vec<usize>> =
        members.iter().map(|member| (*member, Vec::new())).collect();
    for (index, seat) in seats.iter().enumerate() {
        let mut wishes = [seat.target, seat.owner].into_iter().flatten();
        if let Some(member) = wishes.find(|member| members.contains(member)) {
            held.entry(member).or_default().push(index);
        }
    }
    held
}

/// How many partitions each member gets: who has most now gets the larger shares, so that the
/// fewest have to move.
fn quotas(held: &BTreeMap<MemberId, Vec<usize>>, seats: usize) -> BTreeMap<MemberId, usize> {
    let (share, larger) = (seats / held.len(), seats % held.len());
    let mut order: Vec<(MemberId, usize)> =
        held.iter().map(|(member, indices)| (*member, indices.len())).collect();
    order.sort_by_key(|(member, count)| (std::cmp::Reverse(*count), *member));
    order
        .into_iter()
        .enumerate()
        .map(|(rank, (member, _))| (member, share + usize::from(rank < larger)))
        .collect()
}

fn hand_back_to_owners(
    seats: &[Seat],
    decided: &mut [Option<MemberId>],
    free: &mut BTreeMap<MemberId, usize>,
) {
    for (seat, decided) in seats.iter().zip(decided) {
        if decided.is_none()
            && let Some(owner) = seat.owner
            && let Some(room) = free.get_mut(&owner)
            && *room > 0
        {
            *room -= 1;
            *decided = Some(owner);
        }
    }
}

fn fill(decided: &mut [Option<MemberId>], free: &BTreeMap<MemberId, usize>) {
    let mut places = free.iter().flat_map(|(member, room)| std::iter::repeat_n(*member, *room));
    for decided in decided.iter_mut().filter(|decided| decided.is_none()) {
        *decided = places.next();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seat() -> impl Strategy<Value = Seat> {
        let member = || prop::option::of(0..8_i64);
        (member(), member()).prop_map(|(owner, target)| Seat { owner, target })
    }

    fn group() -> impl Strategy<Value = (Vec<MemberId>, Vec<Seat>)> {
        (prop::collection::btree_set(0..8_i64, 1..8), prop::collection::vec(seat(), 0..40))
            .prop_map(|(members, seats)| (members.into_iter().collect(), seats))
    }

    fn counts(members: &[MemberId], decided: &[Option<MemberId>]) -> Vec<usize> {
        members.iter().map(|m| decided.iter().filter(|d| **d == Some(*m)).count()).collect()
    }

    proptest! {
        #[test]
        fn every_partition_has_a_live_member_and_shares_differ_by_at_most_one(
            (members, seats) in group()
        ) {
            let decided = assign(&members, &seats);
            prop_assert_eq!(decided.len(), seats.len());
            let counts = counts(&members, &decided);
            prop_assert_eq!(counts.iter().sum::<usize>(), seats.len());
            prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1);
        }

        #[test]
        fn the_decision_depends_on_nothing_but_its_input((members, seats) in group()) {
            let mut reversed = members.clone();
            reversed.reverse();
            prop_assert_eq!(assign(&members, &seats), assign(&reversed, &seats));
        }

        #[test]
        fn a_decision_that_is_carried_out_stands((members, seats) in group()) {
            let decided = assign(&members, &seats);
            let seats: Vec<_> =
                decided.iter().map(|d| Seat { owner: *d, target: *d }).collect();
            prop_assert_eq!(assign(&members, &seats), decided);
        }

        /// No assignment with shares that differ by at most one leaves more where it is.
        #[test]
        fn as_few_partitions_as_possible_move((members, seats) in group()) {
            let held: Vec<_> = seats
                .iter()
                .map(|s| [s.target, s.owner].into_iter().flatten().find(|m| members.contains(m)))
                .collect();
            let mut sizes = counts(&members, &held);
            sizes.sort_unstable_by(|a, b| b.cmp(a));
            let (share, larger) = (seats.len() / members.len(), seats.len() % members.len());
            let most: usize = sizes
                .iter()
                .enumerate()
                .map(|(rank, size)| (*size).min(share + usize::from(rank < larger)))
                .sum();
            let decided = assign(&members, &seats);
            let kept = held.iter().zip(&decided).filter(|(h, d)| h.is_some() && h == d).count();
            prop_assert!(kept >= most, "kept {} of {}", kept, most);
        }
    }

    #[test]
    fn members_come_and_go() {
        let settle = |decided: Vec<Option<MemberId>>| -> Vec<Seat> {
            decided.into_iter().map(|d| Seat { owner: d, target: d }).collect()
        };
        let alone = assign(&[1], &[Seat::default(); 4]);
        assert_eq!(alone, [Some(1); 4]);
        let two = assign(&[1, 2], &settle(alone));
        assert_eq!(two, [Some(1), Some(1), Some(2), Some(2)]);
        let three = assign(&[1, 2, 3], &settle(two.clone()));
        assert_eq!(three, [Some(1), Some(1), Some(2), Some(3)]);
        assert_eq!(assign(&[2, 3], &settle(three)), [Some(2), Some(3), Some(2), Some(3)]);
        assert_eq!(assign(&[], &settle(two)), [None; 4]);
    }

    #[test]
    fn a_member_that_is_gone_before_it_took_over_leaves_the_partition_with_its_owner() {
        let seats =
            [Seat { owner: Some(1), target: Some(1) }, Seat { owner: Some(1), target: Some(2) }];
        assert_eq!(assign(&[1], &seats), [Some(1), Some(1)]);
        assert_eq!(assign(&[1, 3], &seats), [Some(1), Some(3)]);
    }
}
