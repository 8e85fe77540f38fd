//! Points in time in settings as people write them: `2026-11-01T08:30:00Z`.

use std::borrow::Cow;
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serializer, de::Error as _, ser::Error as _};
use tidegate_core::Timestamp;

pub(super) fn serialize<S: Serializer>(time: &Timestamp, s: S) -> Result<S::Ok, S::Error> {
    let millis = u64::try_from(time.as_millis())
        .map_err(|_| S::Error::custom("a time before 1970 can't be written"))?;
    s.collect_str(&humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(millis)))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Timestamp, D::Error> {
    let text = Cow::<'de, str>::deserialize(d)?;
    let time = humantime::parse_rfc3339(&text).map_err(|_| {
        D::Error::custom(format!(
            "`{text}` is not a point in time: write it in UTC, as in 2026-11-01T08:30:00Z"
        ))
    })?;
    let since = time.duration_since(UNIX_EPOCH).map_err(D::Error::custom)?;
    Ok(Timestamp::from_millis(i64::try_from(since.as_millis()).map_err(D::Error::custom)?))
}
