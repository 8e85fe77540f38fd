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
