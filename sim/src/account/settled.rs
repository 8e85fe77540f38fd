//! Which records the source may forget: those of which every result is durable in its sink, but
//! for results that failed on their way, whose record is then durable among the dead letters.

use super::{Account, Violation, broken};

impl Account {
    /// `Err` says what is missing. What is settled once stays so.
    pub(super) fn settles(&mut self, number: u32) -> Result<(), String> {
        let Some(record) = self.records.get_mut(&number) else {
            return Err(format!("record {number} is not in the log"));
        };
        if record.settled {
            return Ok(());
        }
        if record.deliveries == 0 {
            return Err(format!("record {number} was never delivered"));
        }
        for expected in &record.expected {
            let result = (number, expected.trail);
            if self.arrived.contains_key(&(expected.sink, result)) {
                continue;
            }
            let failed = expected
                .route
                .iter()
                .find(|(step, trail)| self.troubles.contains(&(number, *step, *trail)));
            if failed.is_none() || record.letters == 0 {
                return Err(format!(
                    "result {} of record {number} has not arrived in sink {} and {}",
                    expected.trail,
                    expected.sink,
                    match failed {
                        None => "did not fail".to_owned(),
                        Some((step, _)) => format!("failed in s{step}, without a dead letter"),
                    }
                ));
            }
        }
        record.settled = true;
        Ok(())
    }

    /// Everything of the partition before `position` must be settled (P1, P2).
    pub(super) fn verify(&mut self, partition: u32, position: u64) -> Result<(), Violation> {
        let book = &self.partitions[partition as usize];
        let unverified: Vec<u32> = match book.verified < position {
            true => book.records.range(book.verified..position).map(|(_, r)| *r).collect(),
            false => Vec::new(),
        };
        for record in unverified {
            self.settles(record).map_err(|what| {
                broken(
                    "P1: nothing is committed that isn't settled",
                    format!("commit of partition {partition} up to {position}, but {what}"),
                )
            })?;
        }
        let book = &mut self.partitions[partition as usize];
        book.verified = book.verified.max(position);
        Ok(())
    }
}
