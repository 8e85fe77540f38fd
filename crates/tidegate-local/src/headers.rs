//! How a record's headers lie in the file: for each, the name's length, the name, the value's
//! length, the value; lengths are unsigned LEB128. A record without headers stores nothing.
//!
//! What is read back is outside data: every length is checked against what is there.

/// Appends one header to `out`.
pub(crate) fn encode(name: &str, value: &[u8], out: &mut Vec<u8>) {
    encode_length(name.len(), out);
    out.extend_from_slice(name.as_bytes());
    encode_length(value.len(), out);
    out.extend_from_slice(value);
}

/// Reads all headers into `into`, which is cleared first. `None` if the bytes are damaged.
pub(crate) fn decode<'a>(mut bytes: &'a [u8], into: &mut Vec<(&'a str, &'a [u8])>) -> Option<()> {
    into.clear();
    while !bytes.is_empty() {
        let name = std::str::from_utf8(take(&mut bytes)?).ok()?;
        into.push((name, take(&mut bytes)?));
    }
    Some(())
}

fn encode_length(mut length: usize, out: &mut Vec<u8>) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut length = 0_usize;
    for shift in (0..usize::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        length |= usize::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            let (taken, rest) = bytes.split_at_checked(length)?;
            *bytes = rest;
            return Some(taken);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn headers_come_back_in_order_with_repeated_names(
            headers in prop::collection::vec((".{0,200}", prop::collection::vec(any::<u8>(), 0..300)), 0..5)
        ) {
            let mut bytes = Vec::new();
            for (name, value) in headers.iter().chain(&headers) {
                encode(name, value, &mut bytes);
            }
            let mut decoded = Vec::new();
            prop_assert_eq!(decode(&bytes, &mut decoded), Some(()));
            let expected: Vec<_> =
                headers.iter().chain(&headers).map(|(n, v)| (n.as_str(), v.as_slice())).collect();
            prop_assert_eq!(decoded, expected);
        }

        /// P12
        #[test]
        fn damaged_bytes_are_refused_without_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..64)
        ) {
            let mut decoded = Vec::new();
            if decode(&bytes, &mut decoded).is_some() {
                let read: usize = decoded.iter().map(|(n, v)| n.len() + v.len()).sum();
                prop_assert!(read <= bytes.len());
            }
        }
    }

    /// P12
    #[test]
    fn a_length_beyond_the_end_is_damage() {
        let mut bytes = Vec::new();
        encode("name", b"value", &mut bytes);
        bytes.pop();
        assert_eq!(decode(&bytes, &mut Vec::new()), None);
        assert_eq!(decode(&[0xff; 12], &mut Vec::new()), None);
    }
}
