//! Durations in settings as people write them: `500ms`, `10s`, `1h 30m`, `7d`. For
//! `#[serde(with = "tidegate_core::human_duration")]`.
//!
//! ```
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Settings {
//!     #[serde(with = "tidegate_core::human_duration")]
//!     every: std::time::Duration,
//! }
//! let settings: Settings = serde_json::from_str(r#"{"every": "1m 30s"}"#)?;
//! assert_eq!(settings.every.as_secs(), 90);
//! assert!(serde_json::from_str::<Settings>(r#"{"every": 90}"#).is_err());
//! # Ok::<(), serde_json::Error>(())
//! ```

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

/// Reads a duration; the error says how to write one.
pub fn parse(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| {
        format!(
            "`{text}` is not a duration: write a number and a unit, as in 500ms, 10s, 5m or 12h"
        )
    })
}

/// Writes a duration as [`parse`] reads it.
pub fn serialize<S: Serializer>(duration: &Duration, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(&humantime::format_duration(*duration))
}

/// Reads a duration from text.
pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
    parse(&Cow::<'de, str>::deserialize(d)?).map_err(D::Error::custom)
}

/// The same for a duration that may be left out.
pub mod option {
    use super::{Deserialize, Deserializer, Duration, Serializer};

    /// Writes the duration, if there is one.
    pub fn serialize<S: Serializer>(duration: &Option<Duration>, s: S) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => super::serialize(duration, s),
            None => s.serialize_none(),
        }
    }

    /// Reads the duration, if there is one.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Duration>, D::Error> {
        #[derive(Deserialize)]
        struct Wrapped(#[serde(with = "super")] Duration);
        Ok(Option::<Wrapped>::deserialize(d)?.map(|wrapped| wrapped.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_needs_a_number_and_a_unit() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("7d"), Ok(Duration::from_secs(604_800)));
        for wrong in ["", "10", "s", "-1s", "1 fortnight", "99999999999999999999s"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
