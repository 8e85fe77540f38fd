//! Times and sizes as people write them.

use std::time::Duration;

use bytesize::ByteSize;
use tidegate_core::human_duration;

const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// A time such as `500ms`, `1s`, `1h 30m` or `7d`; more than 0, at most a year.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    match human_duration::parse(text)? {
        Duration::ZERO => Err("must be more than 0".to_owned()),
        duration if duration > LONGEST => Err(format!("`{text}` is more than a year")),
        duration => Ok(duration),
    }
}

/// A size such as `512`, `100kB`, `64MiB` or `1GiB`; more than 0.
pub(super) fn bytes(text: &str) -> Result<usize, String> {
    let size: ByteSize = text.parse().map_err(|_| {
        format!("`{text}` is not a size such as `4096`, `64KiB`, `64MiB` or `1GiB`")
    })?;
    match usize::try_from(size.as_u64()) {
        Ok(0) => Err("must be at least 1 byte".to_owned()),
        Ok(bytes) if bytes <= isize::MAX as usize => Ok(bytes),
        _ => Err(format!("`{text}` is too large")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_limits() {
        assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
        for text in ["", "5", "0s", "400d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, size) in
            [("512", 512), ("1B", 1), ("100kB", 100_000), ("64MiB", 64 << 20), ("0.5 GiB", 1 << 29)]
        {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        for text in ["", "MiB", "-1", "0", "0.1B", "lots", "99999999999GiB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
