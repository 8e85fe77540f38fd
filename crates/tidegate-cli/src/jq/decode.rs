//! JSON text to a value.
//!
//! Strict: what RFC 8259 doesn't allow is an error with its place, since a record that is guessed
//! at is a record that got lost. Numbers keep their digits, and nesting has a limit, because the
//! stack has one.

use std::borrow::Cow;

use hifijson::num::LexWrite as _;
use hifijson::str::LexAlloc as _;
use hifijson::token::{Expect, Lex as _};
use hifijson::{Read as _, SliceLexer};
use jaq_json::{Map, Num, Val};

/// How deeply lists and objects may be nested.
const MAX_DEPTH: usize = 256;

/// Why a text isn't the JSON of one value.
#[derive(Debug, thiserror::Error)]
#[error("not JSON: {what} at byte {offset}")]
pub(crate) struct DecodeError {
    /// What is wrong.
    pub(crate) what: String,
    /// Where, in bytes from the beginning.
    pub(crate) offset: usize,
}

/// The value of a JSON text. The whole text has to be one value, with white space around it.
pub(crate) fn decode_json(text: &[u8]) -> Result<Val, DecodeError> {
    let mut lexer = SliceLexer::new(text);
    lexer
        .exactly_one(SliceLexer::ws_peek, |next, lexer| decode(next, lexer, MAX_DEPTH))
        .map_err(|failure| failure.at(text.len() - lexer.as_slice().len(), text))
}

/// The value of a JSON tree.
pub(crate) fn from_json(tree: serde_json::Value) -> Val {
    use serde_json::Value;
    match tree {
        Value::Null => Val::Null,
        Value::Bool(truth) => Val::Bool(truth),
        Value::Number(plain) => {
            let digits = plain.to_string();
            let is_integer = digits.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
            Val::Num(number(&digits, is_integer))
        }
        Value::String(plain) => text(plain.into()),
        Value::Array(items) => items.into_iter().map(from_json).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            Val::obj(fields.map(|(key, field)| (text(key.into()), from_json(field))).collect())
        }
    }
}

enum Failure {
    Syntax(hifijson::Error),
    TooDeep,
}

impl Failure {
    /// `offset` is how far the text was read.
    fn at(self, offset: usize, text: &[u8]) -> DecodeError {
        if let Self::Syntax(hifijson::Error::Str(hifijson::str::Error::Utf8(_))) = self
            && let Err(error) = std::str::from_utf8(text)
        {
            // Found at the string's end. Outside of strings there is nothing but ASCII, so the
            // text's first wrong byte is this one.
            let offset = error.valid_up_to();
            return DecodeError { what: format!("invalid UTF-8, 0x{:02X}", text[offset]), offset };
        }
        let what = match self {
            _ if text.is_empty() => "the text is empty".to_owned(),
            Self::TooDeep => format!("more than {MAX_DEPTH} nested lists and objects"),
            Self::Syntax(hifijson::Error::Token(expected)) => format!("expected {expected}"),
            Self::Syntax(error) => error.to_string(),
        };
        DecodeError { what, offset }
    }
}

impl From<Expect> for Failure {
    fn from(expected: Expect) -> Self {
        Self::Syntax(expected.into())
    }
}

impl From<hifijson::Error> for Failure {
    fn from(error: hifijson::Error) -> Self {
        Self::Syntax(error)
    }
}

fn decode(next: u8, lexer: &mut SliceLexer<'_>, depth: usize) -> Result<Val, Failure> {
    let inner = || depth.checked_sub(1).ok_or(Failure::TooDeep);
    Ok(match next {
        b'n' if lexer.strip_prefix(b"null") => Val::Null,
        b't' if lexer.strip_prefix(b"true") => Val::Bool(true),
        b'f' if lexer.strip_prefix(b"false") => Val::Bool(false),
        b'"' => text(string(lexer)?),
        b'0'..=b'9' | b'-' => {
            let (digits, parts) = lexer.num_string().validated().map_err(hifijson::Error::Num)?;
            Val::Num(number(digits, parts.is_int()))
        }
        b'[' => {
            let (depth, mut items) = (inner()?, Vec::new());
            lexer.discarded().seq(b']', SliceLexer::ws_peek, |next, lexer| {
                items.push(decode(next, lexer, depth)?);
                Ok::<_, Failure>(())
            })?;
            Val::Arr(items.into())
        }
        b'{' => {
            let depth = inner()?;
            let mut fields = Map::with_capacity_and_hasher(8, Default::default());
            lexer.discarded().seq(b'}', SliceLexer::ws_peek, |next, lexer| {
                if next != b'"' {
                    return Err(Failure::from(Expect::String));
                }
                let key = text(string(lexer)?);
                lexer.expect(SliceLexer::ws_peek, b':').ok_or(Expect::Colon)?;
                let next = lexer.ws_peek().ok_or(Expect::Value)?;
                fields.insert(key, decode(next, lexer, depth)?);
                Ok(())
            })?;
            Val::obj(fields)
        }
        _ => return Err(Expect::Value.into()),
    })
}

fn string<'a>(lexer: &mut SliceLexer<'a>) -> Result<Cow<'a, str>, Failure> {
    Ok(lexer.discarded().str_string().map_err(hifijson::Error::Str)?)
}

fn text(text: Cow<'_, str>) -> Val {
    // A boxed slice has no spare room, so that it becomes the value's bytes without another
    // allocation.
    Val::utf8_str(Box::<[u8]>::from(text.into_owned().into_bytes()))
}

/// Integers of any size are exact; a number with a fraction or an exponent keeps its digits.
fn number(digits: &str, is_integer: bool) -> Num {
    let integer = is_integer.then(|| Num::from_str_radix(digits, 10)).flatten();
    integer.unwrap_or_else(|| Num::Dec(digits.to_owned().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(text: &str) -> String {
        decode_json(text.as_bytes()).unwrap().to_string()
    }

    #[test]
    fn a_value_keeps_its_digits_and_the_order_of_its_keys() {
        let text = r#"{"z":0.10,"a":123456789012345678901234567890,"m":[-1,1e3,"\u00e9\n",null]}"#;
        assert_eq!(
            round_trip(text),
            r#"{"z":0.10,"a":123456789012345678901234567890,"m":[-1,1e3,"é\n",null]}"#
        );
    }

    #[test]
    fn a_tree_becomes_the_same_value_as_its_text() {
        let json = r#"{"z":[1,-2,1.5,18446744073709551615],"a":null,"b":true,"c":"x"}"#;
        let tree = serde_json::from_str(json).unwrap();
        assert_eq!(from_json(tree).to_string(), json);
    }

    #[test]
    fn the_last_of_two_equal_keys_counts() {
        assert_eq!(round_trip(r#"{"a":1,"b":2,"a":3}"#), r#"{"a":3,"b":2}"#);
    }

    #[test]
    fn what_the_standard_does_not_allow_is_an_error_with_its_place() {
        for (text, message) in [
            (&b""[..], "not JSON: the text is empty at byte 0"),
            (b"{\"a\":1", "not JSON: expected comma or end of sequence at byte 6"),
            (b"{\"a\" 1}", "not JSON: expected colon at byte 5"),
            (b"{1:2}", "not JSON: expected string at byte 1"),
            (b"[1,]", "not JSON: expected value at byte 3"),
            (b"1 2", "not JSON: expected end of file at byte 2"),
            (b"NaN", "not JSON: expected value at byte 0"),
            (b"[Infinity]", "not JSON: expected value at byte 1"),
            (b"+1", "not JSON: expected value at byte 0"),
            (b"1.", "not JSON: expected digit at byte 2"),
            (b"007", "not JSON: expected end of file at byte 1"),
            (b"# c", "not JSON: expected value at byte 0"),
            (b"\"abc", "not JSON: unterminated string at byte 4"),
            (b"\"a\tb\"", "not JSON: invalid string control character at byte 3"),
        ] {
            let error = decode_json(text).unwrap_err();
            assert_eq!(error.to_string(), message, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn invalid_utf8_is_an_error_and_never_replaced() {
        let error = decode_json(b"{\"\xc3\xa9\":\"ab\xffc\"}").unwrap_err().to_string();
        assert_eq!(error, "not JSON: invalid UTF-8, 0xFF at byte 9");
        assert!(decode_json(br#""\ud800""#).is_err(), "half a surrogate pair");
    }

    #[test]
    fn nesting_ends_with_an_error_rather_than_with_the_stack() {
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(decode_json(deep(MAX_DEPTH).as_bytes()).is_ok());
        let error = decode_json(deep(1_000_000).as_bytes()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "not JSON: more than 256 nested lists and objects at byte 256"
        );
    }
}
