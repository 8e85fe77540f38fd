//! Randomness that is the same on every machine and in every version of any crate.
//!
//! - [`Rng`] is a sequence: whoever draws from it changes what the next one gets, so it is drawn
//!   from only where the order of events is fixed.
//! - [`mix`] is a function: the same question gets the same answer, however often it is asked.

use std::time::Duration;

/// A sequence of random numbers (Steele, Lea and Flood's SplitMix64).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The sequence that belongs to this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Another sequence, which doesn't change when more is drawn from this one.
    pub fn fork(&mut self) -> Self {
        Self(self.number())
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scramble(self.0)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.number() % (high - low + 1)
    }

    /// An index below `count`, which is more than 0.
    pub fn below(&mut self, count: usize) -> usize {
        (self.number() % count as u64) as usize
    }

    /// True in so many of a thousand cases.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.number() % 1000 < u64::from(per_mille)
    }

    /// A time from `low` to `high` milliseconds, both included.
    pub fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// One of these numbers of milliseconds.
    pub fn pick_millis(&mut self, choices: &[u64]) -> Duration {
        Duration::from_millis(self.pick(choices))
    }
}

/// A number that depends on nothing but these.
pub fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0x5bd1_e995_9747_b28c, |state, part| {
        scramble(state.rotate_left(23) ^ part.wrapping_add(0x9e37_79b9_7f4a_7c15))
    })
}

fn scramble(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_sequence_for_ever() {
        let mut rng = Rng::new(1);
        assert_eq!([rng.number(), rng.number()], [0x910a_2dec_8902_5cc1, 0xbeeb_8da1_658e_ec67]);
        let mut fork = rng.clone().fork();
        assert_ne!(fork.number(), rng.number());
        assert!((0..100).all(|_| (3..=5).contains(&rng.between(3, 5))));
    }

    #[test]
    fn a_mix_depends_on_every_part_and_on_their_order() {
        assert_eq!(mix(&[1, 2]), mix(&[1, 2]));
        assert_ne!(mix(&[1, 2]), mix(&[2, 1]));
        assert_ne!(mix(&[1]), mix(&[1, 0]));
    }
}
