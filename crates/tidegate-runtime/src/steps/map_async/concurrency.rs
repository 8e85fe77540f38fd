use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use tokio::sync::Semaphore;

/// The hash of a message's key. Two keys with the same hash wait for one another, which is
/// slower, not wrong.
pub(crate) type Key = u64;

pub(crate) type KeyOf<T> = Arc<dyn Fn(&T) -> Key + Send + Sync>;

/// How many calls run at a time, and in which order their results leave.
pub struct Concurrency<T> {
    in_partition: usize,
    in_pipeline: Option<usize>,
    order: Order<T>,
}

pub(crate) enum Order<T> {
    /// Results leave in the order of the messages.
    Ordered,
    /// A key's messages are called one after another, keys in parallel.
    KeyOrdered(KeyOf<T>),
    /// Results leave as they come.
    Unordered,
}

impl<T> Clone for Order<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Ordered => Self::Ordered,
            Self::KeyOrdered(key) => Self::KeyOrdered(Arc::clone(key)),
            Self::Unordered => Self::Unordered,
        }
    }
}

impl<T> Concurrency<T> {
    /// Up to `calls` at a time in each partition; results leave in the order of the messages, so
    /// a slow call holds back those behind it.
    pub fn ordered(calls: usize) -> Self {
        Self { in_partition: calls, in_pipeline: None, order: Order::Ordered }
    }

    /// Up to `calls` at a time in each partition; results leave as they come.
    pub fn unordered(calls: usize) -> Self {
        Self { in_partition: calls, in_pipeline: None, order: Order::Unordered }
    }

    /// Up to `calls` at a time in each partition; messages with the same key are called one after
    /// another in their order, others don't wait for them.
    pub fn key_ordered<K: Hash>(
        calls: usize,
        key: impl Fn(&T) -> K + Send + Sync + 'static,
    ) -> Self {
        let key = move |value: &T| {
            // Fixed keys: the same run must take the same course again in the simulator.
            #[allow(deprecated)]
            let mut hasher = std::hash::SipHasher::new();
            key(value).hash(&mut hasher);
            hasher.finish()
        };
        Self { in_partition: calls, in_pipeline: None, order: Order::KeyOrdered(Arc::new(key)) }
    }

    /// Also bounds the calls of all partitions together.
    #[must_use]
    pub fn in_pipeline(mut self, calls: usize) -> Self {
        self.in_pipeline = Some(calls);
        self
    }

    pub(crate) fn problem(&self) -> Option<&'static str> {
        (self.in_partition == 0 || self.in_pipeline == Some(0))
            .then_some("map_async: at least one call must be allowed at a time")
    }

    pub(crate) fn into_mode(self) -> Mode<T> {
        let permits = self.in_pipeline.map(|calls| Arc::new(Semaphore::new(calls)));
        Mode { calls: self.in_partition.max(1), permits, order: self.order }
    }
}

impl<T> fmt::Debug for Concurrency<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match self.order {
            Order::Ordered => "ordered",
            Order::KeyOrdered(_) => "key_ordered",
            Order::Unordered => "unordered",
        };
        write!(f, "{order}({} in a partition, {:?} in all)", self.in_partition, self.in_pipeline)
    }
}

/// The same, as the stages of all partitions share it.
pub(crate) struct Mode<T> {
    pub(crate) calls: usize,
    pub(crate) permits: Option<Arc<Semaphore>>,
    pub(crate) order: Order<T>,
}

impl<T> Clone for Mode<T> {
    fn clone(&self) -> Self {
        Self { calls: self.calls, permits: self.permits.clone(), order: self.order.clone() }
    }
}
