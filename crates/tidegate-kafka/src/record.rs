//! What is written to a topic.

use tidegate_core::{DeadLetter, Header, Record, Timestamp};

/// A record to write: what a [`KafkaSink`](crate::KafkaSink) takes.
///
/// ```
/// use tidegate_kafka::KafkaRecord;
/// let record = KafkaRecord::new("hello").with_key("k").with_header("lang", "en");
/// assert_eq!(record.payload.as_deref(), Some(&b"hello"[..]));
/// assert_eq!(record.topic, None);
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KafkaRecord {
    /// The topic; `None` is the sink's.
    pub topic: Option<String>,
    /// The partition; `None` lets the partitioner choose.
    pub partition: Option<u32>,
    /// Chooses the partition, and thereby the order: records of one key stay in order.
    pub key: Option<Vec<u8>>,
    /// The content; `None` is a tombstone.
    pub payload: Option<Vec<u8>>,
    /// In order; names may repeat.
    pub headers: Vec<Header>,
    /// When it happened; `None` notes the time of the write. Times before 1970-01-01T00:00:00.001Z
    /// can't be told from none.
    pub timestamp: Option<Timestamp>,
}

impl KafkaRecord {
    /// A record with this payload and nothing else.
    pub fn new(payload: impl Into<Vec<u8>>) -> Self {
        Self { payload: Some(payload.into()), ..Self::default() }
    }

    /// Sets the topic.
    #[must_use]
    pub fn with_topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// Sets the partition.
    #[must_use]
    pub fn with_partition(mut self, partition: u32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// Sets the key.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Adds a header behind those it has.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<Box<str>>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push(Header::new(name, value.into()));
        self
    }

    /// Sets when it happened.
    #[must_use]
    pub fn with_timestamp(mut self, timestamp: Timestamp) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// The bytes it carries: key, payload, header names and values.
    pub(crate) fn bytes(&self) -> usize {
        let headers: usize = self.headers.iter().map(|h| h.name.len() + h.value.len()).sum();
        self.key.as_ref().map_or(0, Vec::len) + self.payload.as_ref().map_or(0, Vec::len) + headers
    }
}

/// Everything a source delivered, for a copy from topic to topic. Topic and partition are left to
/// the sink.
impl From<Record<'_>> for KafkaRecord {
    fn from(record: Record<'_>) -> Self {
        Self {
            topic: None,
            partition: None,
            key: record.key().map(<[u8]>::to_vec),
            payload: (!record.is_tombstone()).then(|| record.payload().to_vec()),
            headers: record.headers().map(|(name, value)| Header::new(name, value)).collect(),
            timestamp: record.timestamp(),
        }
    }
}

/// The original record, byte for byte; where it came from and why it failed stand behind its own
/// headers, under names that begin with `tidegate-`:
///
/// `tidegate-pipeline`, `tidegate-stream`, `tidegate-partition` (only if the stream has numbered
/// partitions), `tidegate-position`, `tidegate-step`, `tidegate-error`, `tidegate-attempts`,
/// `tidegate-failed-at` (milliseconds since 1970). Numbers are decimal text. A record that was
/// diverted before carries the names twice; the last ones are the newest.
impl From<DeadLetter> for KafkaRecord {
    fn from(letter: DeadLetter) -> Self {
        let mut record = Self {
            topic: None,
            partition: None,
            key: letter.key,
            payload: letter.payload,
            headers: letter.headers.into_iter().map(|(n, v)| Header::new(n, v)).collect(),
            timestamp: letter.timestamp,
        };
        let mut note = |name: &str, value: String| {
            record.headers.push(Header::new(name, value.into_bytes()));
        };
        note("tidegate-pipeline", letter.pipeline);
        note("tidegate-stream", letter.stream);
        if let Some(partition) = letter.partition {
            note("tidegate-partition", partition.to_string());
        }
        note("tidegate-position", letter.position.to_string());
        note("tidegate-step", letter.step);
        note("tidegate-error", letter.error);
        note("tidegate-attempts", letter.attempts.to_string());
        note("tidegate-failed-at", letter.failed_at.as_millis().to_string());
        record
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::{NewRecord, Partition, Position, RecordBatch};

    use super::*;

    /// P46
    #[test]
    fn a_dead_letter_keeps_the_original_bytes_and_says_where_it_came_from() {
        let mut builder = RecordBatch::builder(Partition::new("orders", 3));
        let original = NewRecord {
            key: Some(b"\xff"),
            payload: Some(b"{oops"),
            timestamp: Some(Timestamp::from_millis(5)),
            headers: &[("a", b"1"), ("a", b"2")],
        };
        builder.push(Position::new(7), original).unwrap();
        let batch = builder.finish();
        let now = Timestamp::from_millis(99);
        let letter = DeadLetter::new(batch.get(0), "shop", "parse", "not JSON", now);

        let record = KafkaRecord::from(letter);

        assert_eq!(record.key.as_deref(), Some(&b"\xff"[..]));
        assert_eq!(record.payload.as_deref(), Some(&b"{oops"[..]));
        assert_eq!(record.timestamp, Some(Timestamp::from_millis(5)));
        let headers: Vec<_> = record
            .headers
            .iter()
            .map(|h| (&*h.name, std::str::from_utf8(&h.value).unwrap()))
            .collect();
        assert_eq!(
            headers,
            [
                ("a", "1"),
                ("a", "2"),
                ("tidegate-pipeline", "shop"),
                ("tidegate-stream", "orders"),
                ("tidegate-partition", "3"),
                ("tidegate-position", "7"),
                ("tidegate-step", "parse"),
                ("tidegate-error", "not JSON"),
                ("tidegate-attempts", "1"),
                ("tidegate-failed-at", "99"),
            ]
        );
    }

    #[test]
    fn a_tombstone_stays_a_tombstone() {
        let mut builder = RecordBatch::builder(Partition::new("t", 0));
        builder.push(Position::new(0), NewRecord::default()).unwrap();
        let batch = builder.finish();
        assert_eq!(KafkaRecord::from(batch.get(0)), KafkaRecord::default());
    }
}
