//! Which values a column takes, and how they are stored.
//!
//! - A value is stored without loss or it is refused. SQLite itself would store any value in any
//!   column; that is how a table rots, so it isn't relied on.
//! - What [`ColumnType::declaration`] writes into a table, [`ColumnType::of_declared`] reads back
//!   as the same type.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value as Json};

use crate::client::SqlValue;
use crate::date_time::is_date_time;

/// What a column takes. `null` is stored as `NULL` in a column of any type.
///
/// | type | takes | stored as |
/// |---|---|---|
/// | `integer` | whole numbers of 64 bits (also written `3.0`), `true`, `false` | INTEGER |
/// | `real` | numbers that a 64-bit float holds exactly | REAL |
/// | `numeric` | numbers, `true`, `false` | INTEGER or REAL |
/// | `text` | text | TEXT |
/// | `blob` | arrays of numbers from 0 to 255 | BLOB |
/// | `boolean` | `true`, `false`, `0`, `1` | INTEGER 0 or 1 |
/// | `timestamp` | text: an ISO 8601 date, or date and time, with or without zone | TEXT, as it came |
/// | `json` | anything | TEXT, as JSON |
/// | `any` | anything; arrays and objects as JSON text | as it is |
///
/// The types of a table that exists follow from its declaration, by SQLite's own rules of
/// affinity, with these additions: a declared type that contains `BOOL` is a `boolean`, one that
/// contains `JSON` is `json`, one that contains `DATE` or `TIME`, or none at all, is `any`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ColumnType {
    /// Whole numbers.
    Integer,
    /// Floating point numbers.
    Real,
    /// Numbers of either kind.
    Numeric,
    /// Text.
    Text,
    /// Bytes.
    Blob,
    /// Truth values.
    Boolean,
    /// Dates and times as text.
    Timestamp,
    /// Values of any shape, as JSON text.
    Json,
    /// Whatever comes.
    Any,
}

impl ColumnType {
    /// The type of a column that was declared like this.
    pub(crate) fn of_declared(declared: &str) -> Self {
        let declared = declared.to_ascii_uppercase();
        let has = |part: &str| declared.contains(part);
        if declared.is_empty() || declared == "ANY" {
            Self::Any
        } else if declared == Self::Timestamp.declaration() {
            Self::Timestamp
        } else if has("BOOL") {
            Self::Boolean
        } else if has("JSON") {
            Self::Json
        } else if has("INT") {
            Self::Integer
        } else if has("CHAR") || has("CLOB") || has("TEXT") {
            Self::Text
        } else if has("BLOB") {
            Self::Blob
        } else if has("REAL") || has("FLOA") || has("DOUB") {
            Self::Real
        } else if has("DATE") || has("TIME") {
            Self::Any
        } else {
            Self::Numeric
        }
    }

    /// How a table that is created declares it. The word TEXT in two of them gives the column
    /// text affinity: SQLite would otherwise turn a text that looks like a number into one.
    pub(crate) fn declaration(self) -> &'static str {
        match self {
            Self::Integer => "INTEGER",
            Self::Real => "REAL",
            Self::Numeric => "NUMERIC",
            Self::Text => "TEXT",
            Self::Blob => "BLOB",
            Self::Boolean => "BOOLEAN",
            Self::Timestamp => "TIMESTAMP TEXT",
            Self::Json => "JSON TEXT",
            Self::Any => "",
        }
    }

    /// The narrowest type for a column in which this value was seen; `None` for `null`, which
    /// says nothing. Any number gives `numeric`: the next one may be of the other kind.
    pub(crate) fn of_value(value: &Json) -> Option<Self> {
        match value {
            Json::Null => None,
            Json::Bool(_) => Some(Self::Boolean),
            Json::Number(_) => Some(Self::Numeric),
            Json::String(_) => Some(Self::Text),
            Json::Array(_) | Json::Object(_) => Some(Self::Json),
        }
    }

    /// The value as it is stored.
    pub(crate) fn fit(self, value: Json) -> Result<SqlValue, Misfit> {
        match (self, value) {
            (_, Json::Null) => Ok(SqlValue::Null),
            (Self::Json, value) => Ok(SqlValue::Text(value.to_string())),
            (Self::Text | Self::Any, Json::String(text)) => Ok(SqlValue::Text(text)),
            (Self::Timestamp, Json::String(text)) if is_date_time(&text) => {
                Ok(SqlValue::Text(text))
            }
            (Self::Boolean | Self::Integer | Self::Numeric | Self::Any, Json::Bool(truth)) => {
                Ok(SqlValue::Integer(i64::from(truth)))
            }
            (Self::Any, value @ (Json::Array(_) | Json::Object(_))) => {
                Ok(SqlValue::Text(value.to_string()))
            }
            (Self::Blob, Json::Array(items)) => match bytes(&items) {
                Some(bytes) => Ok(SqlValue::Blob(bytes)),
                None => Err(Misfit::new(self, &Json::Array(items))),
            },
            (_, Json::Number(number)) => {
                self.fit_number(&number).ok_or_else(|| Misfit::new(self, &Json::Number(number)))
            }
            (_, value) => Err(Misfit::new(self, &value)),
        }
    }

    fn fit_number(self, number: &Number) -> Option<SqlValue> {
        match self {
            Self::Integer => whole(number).map(SqlValue::Integer),
            Self::Boolean => {
                whole(number).filter(|whole| matches!(whole, 0 | 1)).map(SqlValue::Integer)
            }
            Self::Real => float(number).map(SqlValue::Real),
            Self::Numeric | Self::Any if number.is_f64() => number.as_f64().map(SqlValue::Real),
            Self::Numeric | Self::Any => number.as_i64().map(SqlValue::Integer),
            Self::Text | Self::Blob | Self::Timestamp | Self::Json => None,
        }
    }

    fn takes(self) -> &'static str {
        match self {
            Self::Integer => "a whole number of 64 bits",
            Self::Real => "a number that a 64-bit float holds exactly",
            Self::Numeric => "a number of 64 bits",
            Self::Text => "text",
            Self::Blob => "an array of numbers from 0 to 255",
            Self::Boolean => "true, false, 0 or 1",
            Self::Timestamp => "a date or time such as \"2013-01-31T05:15:00Z\"",
            Self::Json | Self::Any => "any value of at most 64 bits",
        }
    }
}

/// A value that its column doesn't take. It prints behind the column's name.
#[derive(Debug)]
pub(crate) struct Misfit {
    kind: ColumnType,
    value: String,
}

impl Misfit {
    fn new(kind: ColumnType, value: &Json) -> Self {
        Self { kind, value: excerpt(value) }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let declaration = self.kind.declaration();
        if !declaration.is_empty() {
            write!(f, "({declaration}) ")?;
        }
        write!(f, "takes {}, not {}", self.kind.takes(), self.value)
    }
}

/// The value for an error message, short however long it is.
fn excerpt(value: &Json) -> String {
    const LONGEST: usize = 60;
    match value {
        Json::String(text) => match text.char_indices().nth(LONGEST) {
            None => format!("the text {text:?}"),
            Some((end, _)) => format!("the text {:?}… ({} bytes)", &text[..end], text.len()),
        },
        Json::Array(items) => format!("an array of length {}", items.len()),
        Json::Object(_) => "an object".to_owned(),
        Json::Number(number) => format!("the number {number}"),
        Json::Bool(_) | Json::Null => value.to_string(),
    }
}

/// The number as an integer, if it is whole and has room.
fn whole(number: &Number) -> Option<i64> {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0; // 2^63, which a float holds exactly
    if number.is_f64() {
        let float = number.as_f64()?;
        (float.fract() == 0.0 && (-BEYOND..BEYOND).contains(&float)).then_some(float as i64)
    } else {
        number.as_i64()
    }
}

/// The number as a float, if that loses no digit of a whole number.
fn float(number: &Number) -> Option<f64> {
    let float = number.as_f64()?;
    match number.as_i128() {
        Some(whole) => (float as i128 == whole).then_some(float),
        None => Some(float),
    }
}

fn bytes(items: &[Json]) -> Option<Vec<u8>> {
    items.iter().map(|item| item.as_u64().and_then(|number| u8::try_from(number).ok())).collect()
}
