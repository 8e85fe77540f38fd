//! A message that could not be handled, in full, with where it came from and why it failed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Position, Record, Timestamp};

/// The original record + what happened to it. Its JSON is one line; bytes that are valid UTF-8
/// stay readable, others are base64.
///
/// ```
/// # use tidegate_core::*;
/// # let mut builder = RecordBatch::builder(Partition::new("orders", 3));
/// # builder.push(Position::new(7), NewRecord { payload: Some(b"{oops"), ..Default::default() })?;
/// # let batch = builder.finish();
/// let letter = DeadLetter::new(batch.get(0), "shop", "parse", "not JSON", Timestamp::from_millis(0));
/// let line = serde_json::to_string(&letter)?;
/// assert!(line.contains(r#""payload":{"text":"{oops"}"#));
/// assert_eq!(serde_json::from_str::<DeadLetter>(&line)?, letter);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The pipeline's name.
    pub pipeline: String,
    /// The topic, file or queue the record came from.
    pub stream: String,
    /// The partition's number, if the stream has numbered ones.
    pub partition: Option<u32>,
    /// The record's position in its partition.
    pub position: Position,
    /// The step or sink that failed.
    pub step: String,
    /// The error and its causes.
    pub error: String,
    /// How many times the step was tried.
    pub attempts: u32,
    /// When it was given up, in milliseconds since 1970.
    pub failed_at: Timestamp,
    /// When the source says the record was written.
    pub timestamp: Option<Timestamp>,
    /// The original key.
    #[serde(with = "maybe_bytes")]
    pub key: Option<Vec<u8>>,
    /// The original payload; `None` is a tombstone.
    #[serde(with = "maybe_bytes")]
    pub payload: Option<Vec<u8>>,
    /// The original headers, in order.
    #[serde(with = "header_list")]
    pub headers: Vec<(String, Vec<u8>)>,
}

impl DeadLetter {
    /// A dead letter for a record that `step` of `pipeline` gave up after one attempt.
    pub fn new(
        record: Record<'_>,
        pipeline: &str,
        step: &str,
        error: impl Into<String>,
        failed_at: Timestamp,
    ) -> Self {
        Self {
            pipeline: pipeline.to_owned(),
            stream: record.partition().stream().to_owned(),
            partition: record.partition().index(),
            position: record.position(),
            step: step.to_owned(),
            error: error.into(),
            attempts: 1,
            failed_at,
            timestamp: record.timestamp(),
            key: record.key().map(<[u8]>::to_vec),
            payload: (!record.is_tombstone()).then(|| record.payload().to_vec()),
            headers: record.headers().map(|(n, v)| (n.to_owned(), v.to_vec())).collect(),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Bytes<'a> {
    Text(std::borrow::Cow<'a, str>),
    Base64(String),
}

impl<'a> Bytes<'a> {
    fn encode(bytes: &'a [u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.into()),
            Err(_) => Self::Base64(STANDARD.encode(bytes)),
        }
    }

    fn decode<E: serde::de::Error>(self) -> Result<Vec<u8>, E> {
        match self {
            Self::Text(text) => Ok(text.into_owned().into_bytes()),
            Self::Base64(text) => STANDARD.decode(text).map_err(E::custom),
        }
    }
}

mod maybe_bytes {
    use super::*;

    pub(super) fn serialize<S: Serializer>(v: &Option<Vec<u8>>, s: S) -> Result<S::Ok, S::Error> {
        v.as_deref().map(Bytes::encode).serialize(s)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        Option::<Bytes<'_>>::deserialize(d)?.map(Bytes::decode).transpose()
    }
}

mod header_list {
    use super::*;

    pub(super) fn serialize<S: Serializer>(
        headers: &[(String, Vec<u8>)],
        s: S,
    ) -> Result<S::Ok, S::Error> {
        s.collect_seq(headers.iter().map(|(name, value)| (name, Bytes::encode(value))))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Vec<(String, Vec<u8>)>, D::Error> {
        Vec::<(String, Bytes<'_>)>::deserialize(d)?
            .into_iter()
            .map(|(name, value)| Ok((name, value.decode()?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{NewRecord, Partition, RecordBatch};

    fn letter(key: Option<&[u8]>, payload: Option<&[u8]>) -> DeadLetter {
        let mut builder = RecordBatch::builder(Partition::whole("orders"));
        let headers: &[(&str, &[u8])] = &[("trace", b"a"), ("trace", &[0xff]), ("", b"")];
        let record =
            NewRecord { key, payload, timestamp: Some(Timestamp::from_millis(-1)), headers };
        builder.push(Position::new(u64::MAX), record).unwrap();
        DeadLetter::new(builder.finish().get(0), "p", "s", "e", Timestamp::from_millis(5))
    }

    /// P46
    #[test]
    fn it_says_where_the_record_came_from_and_keeps_it_whole() {
        let letter = letter(Some(b""), Some(&[0xc3]));
        assert_eq!((letter.stream.as_str(), letter.partition), ("orders", None));
        assert_eq!((letter.position, letter.attempts), (Position::new(u64::MAX), 1));
        assert_eq!((letter.key, letter.payload), (Some(vec![]), Some(vec![0xc3])));
        let headers = [("trace", vec![b'a']), ("trace", vec![0xff]), ("", vec![])];
        assert_eq!(letter.headers, headers.map(|(name, value)| (name.to_owned(), value)));
    }

    /// P46
    #[test]
    fn bytes_that_are_not_text_are_base64_and_a_tombstone_stays_one() {
        let json = serde_json::to_value(letter(None, Some(&[0xff, 0x00]))).unwrap();
        assert_eq!(json["payload"], serde_json::json!({"base64": "/wA="}));
        assert_eq!(json["key"], serde_json::Value::Null);
        let tombstone = letter(Some(b"k"), None);
        let line = serde_json::to_string(&tombstone).unwrap();
        assert!(line.contains(r#""payload":null"#));
        assert_eq!(serde_json::from_str::<DeadLetter>(&line).unwrap(), tombstone);
    }

    /// P12
    #[test]
    fn a_line_that_was_tampered_with_is_refused() {
        let good = serde_json::to_string(&letter(Some(b"k"), Some(&[0xff]))).unwrap();
        let bad = [
            ("\"/w==\"", "\"/w=\""),
            ("\"base64\"", "\"base65\""),
            ("\"position\":18446744073709551615", "\"position\":-1"),
            ("\"attempts\":1", "\"attempts\":4294967296"),
            ("\"pipeline\":\"p\",", ""),
            ("\"payload\":", "\"load\":"),
        ];
        for (text, other) in bad {
            let line = good.replace(text, other);
            assert_ne!(line, good, "{text} is there");
            assert!(serde_json::from_str::<DeadLetter>(&line).is_err(), "{line}");
        }
        assert!(serde_json::from_str::<DeadLetter>(&good[..good.len() - 1]).is_err());
    }

    proptest! {
        /// P46
        #[test]
        fn a_letter_is_one_line_and_comes_back_from_it_as_it_was(
            key in any::<Option<Vec<u8>>>(),
            payload in prop_oneof![
                any::<Option<Vec<u8>>>(),
                any::<String>().prop_map(|text| Some(text.into_bytes())),
            ],
            error in any::<String>(),
        ) {
            let letter = DeadLetter { error, ..letter(key.as_deref(), payload.as_deref()) };
            let line = serde_json::to_string(&letter).unwrap();
            prop_assert!(!line.contains(['\n', '\r']));
            prop_assert_eq!(&serde_json::from_str::<DeadLetter>(&line).unwrap(), &letter);
            let bytes = line.into_bytes();
            prop_assert_eq!(serde_json::from_reader::<_, DeadLetter>(&*bytes).unwrap(), letter);
        }
    }
}
