//! What this member owns, as it has told the runtime: a plain value without I/O.
//!
//! - A partition is told in one order: assigned, then revoked, finished or lost; it can be assigned
//!   again only once it was released, lost or refused.
//! - The file decides who owns what. This book only finds out what has to be told.

use std::collections::BTreeMap;
use std::ops::Bound;

use tidegate_core::{Generation, Partition};

use crate::assignment::MemberId;
use crate::group::Claim;

/// A partition that was assigned and not let go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Holding {
    pub(crate) partition: Partition,
    pub(crate) generation: u64,
    /// The position of the record to deliver next.
    pub(crate) next: u64,
    pub(crate) phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Its records are delivered.
    Active,
    /// The runtime was told to drain it, because it shall go to another member.
    Revoked,
    /// The runtime was told that no more will come.
    Finished,
}

/// What a look at the file has brought.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) lost: Vec<Partition>,
    pub(crate) revoked: Vec<Partition>,
}

/// All holdings, by the partition's number.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    held: BTreeMap<u32, Holding>,
    served: Option<u32>,
}

impl Holdings {
    pub(crate) fn insert(&mut self, number: u32, holding: Holding) {
        self.held.insert(number, holding);
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<Holding> {
        self.held.remove(&number)
    }

    pub(crate) fn contains(&self, number: u32) -> bool {
        self.held.contains_key(&number)
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.held.keys().copied()
    }

    pub(crate) fn has_active(&self) -> bool {
        self.held.values().any(|holding| holding.phase == Phase::Active)
    }

    /// The holding that the runtime means.
    pub(crate) fn find(&self, partition: &Partition) -> Option<(u32, &Holding)> {
        let number = partition.index()?;
        let holding = self.held.get(&number)?;
        (holding.partition == *partition).then_some((number, holding))
    }

    /// The same, if the generation is the one it was assigned in.
    pub(crate) fn find_in(
        &self,
        partition: &Partition,
        generation: Generation,
    ) -> Option<(u32, &Holding)> {
        self.find(partition).filter(|(_, holding)| holding.generation == generation.get())
    }

    /// Compares with the file. What has another owner is lost; what shall have another one is
    /// revoked. A partition that is being drained already isn't told again: its commit is refused.
    pub(crate) fn compare(&mut self, claims: &[Claim], member: MemberId) -> Changes {
        let mut changes = Changes::default();
        self.held.retain(|number, holding| {
            let claim = claims.get(*number as usize);
            let owned = claim.is_some_and(|claim| {
                claim.owner == Some(member) && claim.generation == holding.generation
            });
            if holding.phase != Phase::Active {
                return true;
            }
            if !owned {
                changes.lost.push(holding.partition.clone());
                return false;
            }
            if claim.and_then(|claim| claim.target) != Some(member) {
                holding.phase = Phase::Revoked;
                changes.revoked.push(holding.partition.clone());
            }
            true
        });
        changes
    }

    /// The member was expired: everything that is delivered is lost.
    pub(crate) fn lose_all(&mut self) -> Vec<Partition> {
        let mut lost = Vec::new();
        self.held.retain(|_, holding| {
            let active = holding.phase == Phase::Active;
            if active {
                lost.push(holding.partition.clone());
            }
            !active
        });
        lost
    }

    /// The next partition to read from, in turn: delivered, with room, and with something to read.
    pub(crate) fn next_to_read(
        &mut self,
        readable: impl Fn(u32, &Holding) -> bool,
    ) -> Option<(u32, &mut Holding)> {
        let after = self.served.map_or(Bound::Unbounded, Bound::Excluded);
        let number = self
            .held
            .range((after, Bound::Unbounded))
            .chain(self.held.range(..=self.served.unwrap_or(0)))
            .find(|(number, holding)| holding.phase == Phase::Active && readable(**number, holding))
            .map(|(number, _)| *number)?;
        self.served = Some(number);
        self.held.get_mut(&number).map(|holding| (number, holding))
    }

    /// Marks what is delivered up to its end; returns it.
    pub(crate) fn finish(&mut self, ends: &[u64]) -> Vec<Partition> {
        let mut finished = Vec::new();
        for (number, holding) in &mut self.held {
            if holding.phase == Phase::Active && holding.next >= ends[*number as usize] {
                holding.phase = Phase::Finished;
                finished.push(holding.partition.clone());
            }
        }
        finished
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: MemberId = 7;

    fn holdings(numbers: &[u32]) -> Holdings {
        let mut holdings = Holdings::default();
        for number in numbers {
            let partition = Partition::new("t", *number);
            let holding = Holding { partition, generation: 3, next: 0, phase: Phase::Active };
            holdings.insert(*number, holding);
        }
        holdings
    }

    fn claim(owner: MemberId, target: MemberId, generation: u64) -> Claim {
        Claim { owner: Some(owner), target: Some(target), generation, committed: None }
    }

    #[test]
    fn only_the_partitions_concerned_are_told() {
        let mut holdings = holdings(&[0, 1, 2, 3]);
        let claims = [claim(ME, ME, 3), claim(ME, 8, 3), claim(8, 8, 4), claim(ME, ME, 5)];
        let partition = |number| Partition::new("t", number);
        let expected =
            Changes { lost: vec![partition(2), partition(3)], revoked: vec![partition(1)] };
        assert_eq!(holdings.compare(&claims, ME), expected);
        assert_eq!(holdings.compare(&claims, ME), Changes::default(), "each is told once");
        assert_eq!(holdings.numbers().collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn a_partition_that_is_being_drained_is_not_lost_again() {
        let mut holdings = holdings(&[0]);
        holdings.compare(&[claim(ME, 8, 3)], ME);
        assert_eq!(holdings.compare(&[claim(8, 8, 4)], ME), Changes::default());
        assert_eq!(holdings.lose_all(), []);
        assert!(holdings.contains(0), "until the runtime releases it");
    }

    #[test]
    fn partitions_are_read_in_turn() {
        let mut holdings = holdings(&[0, 1, 5]);
        let mut read = |without: u32| {
            holdings.next_to_read(|number, _| number != without).map(|(number, _)| number)
        };
        assert_eq!([read(9), read(9), read(9), read(9)], [Some(0), Some(1), Some(5), Some(0)]);
        assert_eq!([read(1), read(5), read(1)], [Some(5), Some(0), Some(5)]);
        let mut only_zero =
            || holdings.next_to_read(|number, _| number == 0).map(|(number, _)| number);
        assert_eq!([only_zero(), only_zero()], [Some(0), Some(0)]);
    }

    #[test]
    fn a_partition_is_finished_once() {
        let mut holdings = holdings(&[0, 1]);
        assert_eq!(holdings.finish(&[0, 4]), [Partition::new("t", 0)]);
        assert_eq!(holdings.finish(&[0, 4]), []);
        assert!(holdings.has_active());
    }

    #[test]
    fn another_topic_or_generation_is_not_held() {
        let holdings = holdings(&[0]);
        assert!(holdings.find(&Partition::new("t", 0)).is_some());
        assert!(holdings.find(&Partition::new("u", 0)).is_none());
        assert!(holdings.find(&Partition::whole("t")).is_none());
        assert!(holdings.find_in(&Partition::new("t", 0), Generation::new(2)).is_none());
    }
}
