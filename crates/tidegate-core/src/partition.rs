use std::fmt;
use std::sync::Arc;

/// One ordered stream of records inside a source: a topic's partition, a file, a queue.
///
/// Cheap to clone. Two partitions are the same if stream and index are. It prints as
/// `orders[3]`, or as the bare stream where the source has no numbered partitions.
///
/// ```
/// use tidegate_core::Partition;
/// assert_eq!(Partition::new("orders", 3).to_string(), "orders[3]");
/// assert_eq!(Partition::whole("data/a.jsonl").to_string(), "data/a.jsonl");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    stream: Arc<str>,
    index: Option<u32>,
}

impl Partition {
    /// The partition `index` of a topic or another numbered stream.
    pub fn new(stream: impl Into<Arc<str>>, index: u32) -> Self {
        Self { stream: stream.into(), index: Some(index) }
    }

    /// A stream that isn't divided: a file, a queue.
    pub fn whole(stream: impl Into<Arc<str>>) -> Self {
        Self { stream: stream.into(), index: None }
    }

    /// The topic, the file's path or the queue's name.
    pub fn stream(&self) -> &str {
        &self.stream
    }

    /// The number within the stream; `None` for a stream that isn't divided.
    pub fn index(&self) -> Option<u32> {
        self.index
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            Some(index) => write!(f, "{}[{index}]", self.stream),
            None => f.write_str(&self.stream),
        }
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
