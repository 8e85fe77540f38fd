//! A value to JSON.
//!
//! What JSON can't say is an error of that record, never something near it: byte strings, keys
//! that aren't text. As in jq, `nan` becomes `null` and an infinite number the largest finite one.

use jaq_json::{Num, Val};
use serde::ser::{Error as _, SerializeMap as _};
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// Why a value has no JSON.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EncodeError {
    /// `{(1): 2}`.
    #[error("an object's key is {0}, and JSON has only text as keys: use tostring")]
    Key(String),
    /// The result of `tobytes`.
    #[error("a byte string can't be written as JSON: use @base64")]
    Bytes,
    /// Text that isn't UTF-8, cut or decoded from bytes.
    #[error("a text isn't valid UTF-8: use @base64")]
    Text,
    /// An integer of more than 64 bits, where the sink can't take it.
    #[error("the integer {0} has more than 64 bits: use tostring")]
    Integer(String),
}

/// A value that serde can write as JSON text, with all digits of its numbers.
#[derive(Clone, Debug)]
pub(crate) struct Json(pub(crate) Val);

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        JsonRef(&self.0).serialize(to)
    }
}

/// The value as one line of JSON text, without the line's end.
pub(crate) fn encode_json(value: &Val) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&JsonRef(value))
}

/// The value as a tree. Integers are exact or refused; a number with a fraction becomes the
/// nearest 64-bit float.
pub(crate) fn to_json_value(value: &Val) -> Result<Value, EncodeError> {
    Ok(match value {
        Val::Null => Value::Null,
        Val::Bool(truth) => Value::Bool(*truth),
        Val::Num(Num::Int(integer)) => Value::from(*integer),
        Val::Num(Num::BigInt(integer)) => u64::try_from(&**integer)
            .map(Value::from)
            .map_err(|_| EncodeError::Integer(integer.to_string()))?,
        Val::Num(Num::Float(float)) => finite(*float).map_or(Value::Null, Value::from),
        Val::Num(Num::Dec(digits)) => {
            finite(digits.parse().unwrap_or(f64::NAN)).map_or(Value::Null, Value::from)
        }
        Val::TStr(text) => Value::String(utf8(text)?.to_owned()),
        Val::BStr(_) => return Err(EncodeError::Bytes),
        Val::Arr(items) => Value::Array(items.iter().map(to_json_value).collect::<Result<_, _>>()?),
        Val::Obj(fields) => Value::Object(
            fields
                .iter()
                .map(|(key, field)| Ok((key_text(key)?.to_owned(), to_json_value(field)?)))
                .collect::<Result<_, EncodeError>>()?,
        ),
    })
}

struct JsonRef<'a>(&'a Val);

impl Serialize for JsonRef<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Val::Null => to.serialize_unit(),
            Val::Bool(truth) => to.serialize_bool(*truth),
            Val::Num(Num::Int(integer)) => to.serialize_i64(*integer as i64),
            Val::Num(Num::Float(float)) => match finite(*float) {
                Some(float) => to.serialize_f64(float),
                None => to.serialize_unit(),
            },
            Val::Num(number) => {
                RawValue::from_string(number.to_string()).map_err(S::Error::custom)?.serialize(to)
            }
            Val::TStr(text) => to.serialize_str(utf8(text).map_err(S::Error::custom)?),
            Val::BStr(_) => Err(S::Error::custom(EncodeError::Bytes)),
            Val::Arr(items) => to.collect_seq(items.iter().map(JsonRef)),
            Val::Obj(fields) => {
                let mut map = to.serialize_map(Some(fields.len()))?;
                for (key, field) in fields.iter() {
                    map.serialize_entry(key_text(key).map_err(S::Error::custom)?, &JsonRef(field))?;
                }
                map.end()
            }
        }
    }
}

fn finite(float: f64) -> Option<f64> {
    (!float.is_nan()).then(|| float.clamp(f64::MIN, f64::MAX))
}

fn utf8(bytes: &[u8]) -> Result<&str, EncodeError> {
    std::str::from_utf8(bytes).map_err(|_| EncodeError::Text)
}

fn key_text(key: &Val) -> Result<&str, EncodeError> {
    match key {
        Val::TStr(text) => utf8(text),
        other => Err(EncodeError::Key(other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::decode_json;
    use super::*;

    fn encoded(value: &Val) -> Result<String, String> {
        let text = encode_json(value).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(text).unwrap())
    }

    #[test]
    fn json_comes_out_as_it_went_in() {
        let text = r#"{"z":0.10,"a":123456789012345678901234567890,"m":[-1,true,"é\n\"",null,{}]}"#;
        assert_eq!(encoded(&decode_json(text.as_bytes()).unwrap()).unwrap(), text);
    }

    #[test]
    fn a_json_value_has_exact_integers_and_the_same_order_of_keys() {
        let text = r#"{"z":18446744073709551615,"a":-9223372036854775808,"m":[1.5,"x",null]}"#;
        let value = to_json_value(&decode_json(text.as_bytes()).unwrap()).unwrap();
        assert_eq!(value.to_string(), text);
        let too_large = decode_json(b"18446744073709551616").unwrap();
        assert_eq!(
            to_json_value(&too_large).unwrap_err().to_string(),
            "the integer 18446744073709551616 has more than 64 bits: use tostring"
        );
    }

    #[test]
    fn what_is_no_number_becomes_null_and_infinity_the_largest_number_as_in_jq() {
        for (float, text) in [
            (f64::NAN, "null"),
            (f64::INFINITY, "1.7976931348623157e+308"),
            (f64::NEG_INFINITY, "-1.7976931348623157e+308"),
            (0.1, "0.1"),
        ] {
            let value = Val::from(float);
            assert_eq!(encoded(&value).unwrap(), text);
            assert_eq!(to_json_value(&value).unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_json_cannot_say_is_an_error() {
        let bytes = Val::byte_str(b"ab".to_vec());
        let odd_key = Val::obj([(Val::from(1_isize), Val::Null)].into_iter().collect());
        let broken = Val::utf8_str(b"\xff".to_vec());
        for (value, error) in [
            (bytes, EncodeError::Bytes),
            (odd_key, EncodeError::Key("1".to_owned())),
            (broken, EncodeError::Text),
        ] {
            assert_eq!(encoded(&value), Err(error.to_string()));
            assert_eq!(to_json_value(&value), Err(error));
        }
    }
}
