//! A checksum against damage, not against malice: 64-bit FNV-1a.
//!
//! Every step of it is a bijection of the state, so a change of a single byte always shows.

/// Collects fields; each is preceded by its length, so that bytes can't move from one to the next
/// unnoticed.
pub(crate) struct Checksum(u64);

impl Checksum {
    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    #[must_use]
    pub(crate) fn field(self, bytes: &[u8]) -> Self {
        self.bytes(&(bytes.len() as u64).to_le_bytes()).bytes(bytes)
    }

    pub(crate) fn finish(self) -> u64 {
        self.0
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_fnv_1a() {
        assert_eq!(Checksum::new().bytes(b"foobar").finish(), 0x8594_4171_f739_67e8);
    }

    /// P12
    #[test]
    fn every_single_bit_and_every_moved_boundary_shows() {
        let whole = Checksum::new().field(b"stream").field(b"note").finish();
        for byte in 0..6 {
            for bit in 0..8 {
                let mut stream = *b"stream";
                stream[byte] ^= 1 << bit;
                assert_ne!(Checksum::new().field(&stream).field(b"note").finish(), whole);
            }
        }
        assert_ne!(Checksum::new().field(b"strea").field(b"mnote").finish(), whole);
    }
}
