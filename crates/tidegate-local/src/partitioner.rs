//! Which partition a record goes to.
//!
//! The same key goes to the same partition, today and in every later version: the hash is part of
//! the file's format. It is 32-bit murmur2 with the seed that Apache Kafka's Java client uses
//! (`org.apache.kafka.common.utils.Utils.murmur2`), so a topic that moves to Kafka with the same
//! number of partitions keeps every key where it was.

const SEED: u32 = 0x9747_b28c;
const MULTIPLIER: u32 = 0x5bd1_e995;

/// Chooses partitions for one topic: by key, or in turn for records that have none.
#[derive(Debug)]
pub(crate) struct Partitioner {
    partitions: u32,
    turn: u32,
}

impl Partitioner {
    /// `first_turn` is where records without a key begin; producers that live for one record
    /// would otherwise all write to partition 0.
    pub(crate) fn new(partitions: u32, first_turn: u64) -> Self {
        assert!(partitions > 0, "a topic has at least one partition");
        Self { partitions, turn: (first_turn % u64::from(partitions)) as u32 }
    }

    pub(crate) fn choose(&mut self, key: Option<&[u8]>) -> u32 {
        match key {
            Some(key) => (murmur2(key) & 0x7fff_ffff) % self.partitions,
            None => {
                let chosen = self.turn;
                self.turn = (self.turn + 1) % self.partitions;
                chosen
            }
        }
    }
}

/// Austin Appleby's MurmurHash2 (public domain), 32 bits, little-endian.
fn murmur2(data: &[u8]) -> u32 {
    // The length is mixed in with 32 bits, as Java's `int` length is.
    let mut hash = SEED ^ data.len() as u32;
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let word = u32::from_le_bytes(word.try_into().expect("chunks of 4 have 4 bytes"));
        let mixed = word.wrapping_mul(MULTIPLIER);
        let mixed = (mixed ^ (mixed >> 24)).wrapping_mul(MULTIPLIER);
        hash = hash.wrapping_mul(MULTIPLIER) ^ mixed;
    }
    let tail = words.remainder();
    if !tail.is_empty() {
        let bits = tail.iter().rev().fold(0, |bits, byte| bits << 8 | u32::from(*byte));
        hash = (hash ^ bits).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_one_of_kafkas_java_client() {
        let known: [(&[u8], i32); 7] = [
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (&[12, 42, 56, 24, 109, 111], 274_204_207),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            (b"abc", 479_470_107),
        ];
        for (key, hash) in known {
            assert_eq!(murmur2(key) as i32, hash, "{:?}", String::from_utf8_lossy(key));
        }
    }

    #[test]
    fn a_key_keeps_its_partition_and_records_without_one_take_turns() {
        let mut partitioner = Partitioner::new(3, 7);
        let of_key = partitioner.choose(Some(b"order-7"));
        let turns: Vec<_> = (0..6).map(|_| partitioner.choose(None)).collect();
        assert_eq!(turns, [1, 2, 0, 1, 2, 0]);
        assert_eq!(partitioner.choose(Some(b"order-7")), of_key);
    }

    #[test]
    fn an_empty_key_is_a_key() {
        let mut partitioner = Partitioner::new(5, 0);
        let chosen: Vec<_> = (0..4).map(|_| partitioner.choose(Some(b""))).collect();
        assert!(chosen.iter().all(|partition| *partition == chosen[0]));
    }
}
