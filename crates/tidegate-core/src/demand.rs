use std::collections::HashSet;

use crate::Partition;

/// What the runtime has room for now; given to every [`Source::next`](crate::Source::next).
///
/// It is derived anew from the ledgers each time, so it can't go stale over a rebalance. A source
/// fetches only from partitions that [`Demand::allows`], at most [`Demand::max_records`] records
/// of [`Demand::max_bytes`] at once (a single larger record is allowed), and keeps its client
/// alive when nothing is allowed.
#[derive(Clone, Debug)]
pub struct Demand {
    max_records: usize,
    max_bytes: usize,
    closed: HashSet<Partition>,
}

impl Demand {
    /// Room for `max_records` and `max_bytes` from every partition.
    pub fn new(max_records: usize, max_bytes: usize) -> Self {
        Self { max_records, max_bytes, closed: HashSet::new() }
    }

    /// The same, but with no room for these partitions.
    #[must_use]
    pub fn without(mut self, partitions: impl IntoIterator<Item = Partition>) -> Self {
        self.closed.extend(partitions);
        self
    }

    /// Takes the partition's room away, or gives it back.
    pub fn set_open(&mut self, partition: &Partition, open: bool) {
        if open {
            self.closed.remove(partition);
        } else if !self.closed.contains(partition) {
            self.closed.insert(partition.clone());
        }
    }

    /// Sets the room for one fetch; 0 records means that nothing may be fetched at all.
    pub fn set_limits(&mut self, max_records: usize, max_bytes: usize) {
        (self.max_records, self.max_bytes) = (max_records, max_bytes);
    }

    /// Whether records of this partition may be fetched.
    pub fn allows(&self, partition: &Partition) -> bool {
        self.max_records > 0 && !self.closed.contains(partition)
    }

    /// Whether this partition has room, however much there is for all of them.
    pub fn is_open(&self, partition: &Partition) -> bool {
        !self.closed.contains(partition)
    }

    /// Whether nothing may be fetched, from whichever partition.
    pub fn is_none(&self) -> bool {
        self.max_records == 0
    }

    /// How many records one event may carry.
    pub fn max_records(&self) -> usize {
        self.max_records
    }

    /// How many bytes one event may carry; one record may be larger.
    pub fn max_bytes(&self) -> usize {
        self.max_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P25
    #[test]
    fn a_closed_partition_closes_no_other_and_opens_again() {
        let (first, second) = (Partition::new("t", 0), Partition::new("t", 1));
        let mut demand = Demand::new(10, 1000).without([first.clone()]);
        assert!(!demand.allows(&first) && demand.allows(&second));
        demand.set_open(&first, true);
        demand.set_open(&second, false);
        demand.set_open(&second, false);
        assert!(demand.allows(&first) && !demand.allows(&second));
        demand.set_open(&second, true);
        assert!(demand.allows(&second), "closed twice is opened once");
    }

    /// P35
    #[test]
    fn without_records_nothing_is_allowed_from_any_partition() {
        let mut demand = Demand::new(10, 1000);
        assert!(!demand.is_none());
        demand.set_limits(0, 500);
        assert!(demand.is_none() && !demand.allows(&Partition::whole("t")));
        assert_eq!((demand.max_records(), demand.max_bytes()), (0, 500));
    }
}
