//! What travels through the simulated pipelines, and how a record is told from another.
//!
//! A message knows the records that it was made from, and by which way, so that a checker can ask
//! for each of them whether it arrived.

use crate::rng::mix;

/// What came of one record: the record, which of its results it is, and what was done to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The record's number.
    pub record: u32,
    /// Which result of which fan-outs it is: one digit to the base of 1024 for each.
    pub trail: u32,
    /// Which delivery of the record it came from, from 1.
    pub delivery: u32,
    /// All steps that worked on it, in order, as one number.
    pub digest: u64,
}

/// What travels: one record's result, or several records' in one.
#[derive(Clone, Debug)]
pub struct Message {
    /// The partition's number.
    pub partition: u32,
    /// The ownership in which the records were delivered.
    pub ownership: u32,
    /// The record's key, as a number; the first one's if there are several.
    pub key: u64,
    /// The payload's size.
    pub bytes: usize,
    /// The records that it was made from, in order. Never empty.
    pub parts: Vec<Part>,
    /// The records that were put together with it in a batch: they are diverted with it.
    pub fate: Vec<u32>,
}

impl Message {
    /// Notes that a step has worked on it.
    pub fn work(&mut self, step: u16) {
        for part in &mut self.parts {
            part.digest = mix(&[part.digest, u64::from(step)]);
        }
    }

    /// The `index`-th result of a fan-out.
    pub fn child(&self, index: u32) -> Self {
        let mut child = self.clone();
        for part in &mut child.parts {
            part.trail = child_trail(part.trail, index);
        }
        child
    }

    /// What a log keeps of it: its records and which results they are.
    pub fn to_bytes(&self) -> Vec<u8> {
        let numbers = self.parts.iter().flat_map(|part| [part.record, part.trail]);
        numbers.flat_map(u32::to_le_bytes).collect()
    }

    /// From now on these fail together, whatever becomes of the batch.
    pub fn bundle(mut messages: Vec<Self>) -> Vec<Self> {
        let mut fate: Vec<u32> = messages
            .iter()
            .flat_map(|message| {
                let own = message.parts.iter().map(|part| part.record);
                own.chain(message.fate.iter().copied())
            })
            .collect();
        fate.sort_unstable();
        fate.dedup();
        messages.iter_mut().for_each(|message| message.fate.clone_from(&fate));
        messages
    }

    /// One message of several of the same partition.
    pub fn merge(messages: Vec<Self>) -> Option<Self> {
        messages.into_iter().reduce(|mut all, next| {
            all.bytes += next.bytes;
            all.parts.extend(next.parts);
            all
        })
    }
}

/// The trail of a fan-out's result, from the one of its origin.
pub fn child_trail(trail: u32, index: u32) -> u32 {
    trail * 1024 + index + 1
}

/// A record's payload: its number, then as many bytes as asked for that depend on it.
pub fn encode(record: u32, size: usize) -> Vec<u8> {
    let filler = mix(&[u64::from(record)]).to_le_bytes();
    let mut payload = record.to_le_bytes().to_vec();
    payload.extend(filler.iter().cycle().take(size));
    payload
}

/// The number of the record with this payload; `None` if it is damaged.
pub fn decode(payload: &[u8]) -> Option<u32> {
    let record = u32::from_le_bytes(payload.get(..4)?.try_into().ok()?);
    (encode(record, payload.len() - 4) == payload).then_some(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_tells_its_record_unless_it_is_damaged() {
        let mut payload = encode(77, 21);
        assert_eq!(decode(&payload), Some(77));
        payload[9] ^= 1;
        assert_eq!(decode(&payload), None);
        assert_eq!(decode(&payload[..3]), None);
    }

    #[test]
    fn trails_rise_in_the_order_of_the_results() {
        let trails: Vec<_> = [(0, 0), (0, 1), (1, 0), (1, 2)]
            .map(|(first, second)| child_trail(child_trail(0, first), second))
            .to_vec();
        assert!(trails.is_sorted());
    }
}
