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

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Vec<u8>>, D::Error> {
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
