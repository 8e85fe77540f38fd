//! What is done to a message, the same in every system: parse a number out of the payload, leave
//! out one in ten, compute, gather a thousand, throw away.

use std::fmt;
use std::sync::Arc;

/// Messages in a batch.
pub const BATCH: usize = 1000;

/// Digits of the number that a payload begins with; a comma and other fields follow.
const DIGITS: usize = 8;

/// One payload in so many doesn't parse, where failures are asked for.
const FAILING: usize = 100;

/// A ring of payloads of one size that stays in the cache; every record is copied from it.
#[derive(Clone)]
pub struct Payloads {
    bytes: Arc<[u8]>,
    size: usize,
}

impl Payloads {
    /// Payloads of `size` bytes (at least 9).
    pub fn new(size: usize) -> Self {
        Self::with(size, |_| false)
    }

    /// Payloads of which one in a hundred can't be parsed.
    pub fn with_failures(size: usize) -> Self {
        Self::with(size, |index| index % FAILING == FAILING / 2)
    }

    fn with(size: usize, fails: impl Fn(usize) -> bool) -> Self {
        let count = ((400 << 10) / size).clamp(4, 4000);
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let mut bytes = Vec::with_capacity(count * size);
        for index in 0..count {
            let number = random.next() % 10_u64.pow(DIGITS as u32);
            let start = bytes.len();
            if fails(index) {
                bytes.extend_from_slice(b"not-a-no");
            } else {
                bytes.extend_from_slice(format!("{number:0DIGITS$}").as_bytes());
            }
            bytes.extend_from_slice(b",EUR,DE,2026-01-31T23:59:59Z,");
            bytes.resize(start + size, b'x');
        }
        Self { bytes: bytes.into(), size }
    }

    /// How many bytes each has.
    pub fn size(&self) -> usize {
        self.size
    }

    /// How many there are before they repeat.
    pub fn count(&self) -> usize {
        self.bytes.len() / self.size
    }

    /// The payload with this number, endlessly.
    #[cfg(feature = "peers")]
    pub fn get(&self, number: u64) -> &[u8] {
        let start = (number % self.count() as u64) as usize * self.size;
        &self.bytes[start..start + self.size]
    }

    /// The payloads from `start` on, endlessly.
    pub fn from(&self, start: u64) -> impl Iterator<Item = &[u8]> {
        let first = (start % self.count() as u64) as usize * self.size;
        self.bytes[first..]
            .chunks_exact(self.size)
            .chain(std::iter::repeat_with(|| self.bytes.chunks_exact(self.size)).flatten())
    }

    /// What has to become of the first `messages` of them.
    pub fn expected(&self, messages: u64) -> Expected {
        let fate = |expected: &mut Expected, payload: &[u8]| match parse(payload) {
            Err(_) => expected.diverted += 1,
            Ok(number) if keep(&number) => expected.kept += 1,
            Ok(_) => {}
        };
        let (mut round, mut rest) = (Expected::default(), Expected::default());
        self.from(0).take(self.count()).for_each(|payload| fate(&mut round, payload));
        let rounds = messages / self.count() as u64;
        let left = (messages % self.count() as u64) as usize;
        self.from(0).take(left).for_each(|payload| fate(&mut rest, payload));
        Expected {
            kept: rounds * round.kept + rest.kept,
            diverted: rounds * round.diverted + rest.diverted,
        }
    }
}

/// The right counts, which every run is checked against.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Expected {
    pub kept: u64,
    pub diverted: u64,
}

/// The first step: the number that ends at the payload's first comma.
pub fn parse(payload: &[u8]) -> Result<u64, NotANumber> {
    let mut number = 0_u64;
    for &byte in payload {
        match byte {
            b'0'..=b'9' => number = number.wrapping_mul(10) + u64::from(byte - b'0'),
            b',' => return Ok(number),
            _ => break,
        }
    }
    Err(NotANumber)
}

/// The second step: leaves out one in ten.
pub fn keep(number: &u64) -> bool {
    !number.is_multiple_of(10)
}

/// The third step.
pub fn convert(number: u64) -> u64 {
    number * 119 / 100
}

/// The payload doesn't begin with a number and a comma.
#[derive(Clone, Copy, Debug)]
pub struct NotANumber;

impl fmt::Display for NotANumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the payload doesn't begin with a number and a comma")
    }
}

impl std::error::Error for NotANumber {}

/// Xorshift: numbers that a branch predictor can't learn, the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
