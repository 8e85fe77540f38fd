//! Who may read and commit a partition, and what an end of ownership may leave undone.

use super::{Account, Violation, broken};

/// One incarnation's time with one partition.
#[derive(Clone, Debug)]
pub struct Ownership {
    /// Who.
    pub incarnation: u32,
    /// Which partition.
    pub partition: u32,
    /// The generation.
    pub generation: u64,
    /// The position that has to be delivered next, or a lower one where no record is.
    next: u64,
    /// The highest frontier that the engine asked to commit.
    requested: u64,
    /// Whether the engine knows that it has ended.
    over: bool,
}

/// How an ownership ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The engine let go. What it leaves behind has a reason, or it hasn't.
    Released {
        /// Whether there is a reason: out of time, a failure, or taken away already.
        excused: bool,
    },
    /// It was taken away.
    Taken,
}

impl Account {
    /// The incarnation owns the partition from now on.
    pub fn assigned(
        &mut self,
        incarnation: u32,
        partition: u32,
        generation: u64,
    ) -> Result<(), Violation> {
        if let Some(current) = self.current.get(&(incarnation, partition))
            && !self.ownerships[*current as usize].over
        {
            return Err(broken(
                "source: a partition is assigned once until it is let go",
                format!("incarnation {incarnation} got partition {partition} twice"),
            ));
        }
        let book = &mut self.partitions[partition as usize];
        if !book.generations.insert(generation) {
            return Err(broken(
                "source: a generation belongs to one owner",
                format!("partition {partition}: {generation} was given out before"),
            ));
        }
        let (next, serial) = (book.committed, self.ownerships.len() as u32);
        let requested = 0;
        self.ownerships.push(Ownership {
            incarnation,
            partition,
            generation,
            next,
            requested,
            over: false,
        });
        self.current.insert((incarnation, partition), serial);
        Ok(())
    }

    /// The number of the ownership that the incarnation has of the partition, or had last.
    pub fn ownership(&self, incarnation: u32, partition: u32) -> u32 {
        self.current.get(&(incarnation, partition)).copied().unwrap_or(u32::MAX)
    }

    /// These records were handed over: position and number. They must be the next ones.
    pub fn delivered(
        &mut self,
        incarnation: u32,
        partition: u32,
        records: &[(u64, u32)],
    ) -> Result<(), Violation> {
        let rule = "source: delivers each record behind the last commit once, in order";
        let serial = self.ownership(incarnation, partition);
        let Some(own) = self.ownerships.get_mut(serial as usize).filter(|own| !own.over) else {
            return Err(broken(rule, format!("partition {partition} isn't owned")));
        };
        let mut known = self.partitions[partition as usize].records.range(own.next..);
        for (position, record) in records {
            if known.next() != Some((position, record)) {
                let what = format!("record {record} at {partition}@{position}, after {}", own.next);
                return Err(broken(rule, what));
            }
            own.next = position + 1;
            if let Some(record) = self.records.get_mut(record) {
                record.deliveries += 1;
            }
        }
        Ok(())
    }

    /// The engine asks to commit.
    pub fn committing(
        &mut self,
        incarnation: u32,
        partition: u32,
        generation: u64,
        position: u64,
    ) -> Result<(), Violation> {
        let rule = "P5: an owner's frontier rises, up to what it was given";
        let serial = self.ownership(incarnation, partition);
        let Some(own) = self.ownerships.get_mut(serial as usize) else {
            return Err(broken(rule, format!("partition {partition} was never owned")));
        };
        if own.over || own.generation != generation {
            let what = format!("generation {generation} of partition {partition} is over");
            return Err(broken(rule, what));
        }
        if position < own.requested || position > own.next {
            return Err(broken(
                rule,
                format!(
                    "partition {partition}: {position} after {}, {} was delivered",
                    own.requested, own.next
                ),
            ));
        }
        own.requested = position;
        self.verify(partition, position)
    }

    /// The log has accepted a commit.
    pub fn committed(
        &mut self,
        partition: u32,
        generation: u64,
        position: u64,
    ) -> Result<(), Violation> {
        let book = &mut self.partitions[partition as usize];
        if book.generations.last() != Some(&generation) {
            return Err(broken(
                "P22: who lost a partition commits nothing",
                format!(
                    "partition {partition}: the log accepted {position} in generation \
                     {generation}, but {:?} has begun",
                    book.generations.last()
                ),
            ));
        }
        if position < book.committed {
            return Err(broken(
                "P5: what is committed stays committed",
                format!("partition {partition}: {position} after {}", book.committed),
            ));
        }
        book.committed = position;
        Ok(())
    }

    /// Whether somebody else owns by now what the incarnation thinks is its own.
    pub fn is_taken(&self, incarnation: u32, partition: u32) -> bool {
        let serial = self.ownership(incarnation, partition);
        self.ownerships.get(serial as usize).is_some_and(|own| {
            self.partitions[partition as usize].generations.last() != Some(&own.generation)
        })
    }

    /// An ownership has ended. Without an excuse everything that was delivered is committed (P10,
    /// P14). `Ok(true)` if something is left.
    pub fn ended(&mut self, incarnation: u32, partition: u32, how: Ended) -> Result<(), Violation> {
        let serial = self.ownership(incarnation, partition);
        let Some(own) = self.ownerships.get_mut(serial as usize).filter(|own| !own.over) else {
            return Ok(());
        };
        own.over = true;
        let book = &self.partitions[partition as usize];
        let left = match book.committed < own.next {
            true => book.records.range(book.committed..own.next).count(),
            false => 0,
        };
        if left > 0 && how == (Ended::Released { excused: false }) {
            return Err(broken(
                "P14: what was delivered is committed before the partition is let go",
                format!("partition {partition}: {left} records are left, and there was time"),
            ));
        }
        Ok(())
    }

    /// The process is gone: so are all its ownerships.
    pub fn crashed(&mut self, incarnation: u32) {
        for own in self.ownerships.iter_mut().filter(|own| own.incarnation == incarnation) {
            own.over = true;
        }
    }

    /// The partitions that the incarnation owns as far as it knows.
    pub fn owned(&self, incarnation: u32) -> Vec<u32> {
        let serials = self.current.range((incarnation, 0)..=(incarnation, u32::MAX));
        serials
            .filter(|(_, serial)| !self.ownerships[**serial as usize].over)
            .map(|((_, partition), _)| *partition)
            .collect()
    }
}
