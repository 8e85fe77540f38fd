//! Which message may be called next, and which result may leave next. No I/O, no time.

use std::collections::{HashMap, VecDeque};

use super::Key;

/// The order of a message among those that the stage has accepted.
pub(crate) type Ticket = u64;

/// Messages that were accepted and not called yet, by key.
pub(crate) enum Waiting<M> {
    /// Everything may be called at once, in order.
    Any(VecDeque<M>),
    /// One message of each key at a time.
    ByKey {
        /// Keys whose first message may be called, in the order in which they became free.
        ready: VecDeque<(Key, M)>,
        /// Keys that are being called or are ready, with what waits behind.
        behind: HashMap<Key, VecDeque<M>>,
        /// How many wait behind.
        count: usize,
    },
}

impl<M> Waiting<M> {
    pub(crate) fn any() -> Self {
        Self::Any(VecDeque::new())
    }

    pub(crate) fn by_key() -> Self {
        Self::ByKey { ready: VecDeque::new(), behind: HashMap::new(), count: 0 }
    }

    pub(crate) fn push(&mut self, key: Key, message: M) {
        match self {
            Self::Any(queue) => queue.push_back(message),
            Self::ByKey { ready, behind, count } => match behind.get_mut(&key) {
                Some(queue) => {
                    *count += 1;
                    queue.push_back(message);
                }
                None => {
                    behind.insert(key, VecDeque::new());
                    ready.push_back((key, message));
                }
            },
        }
    }

    /// The next message that may be called now.
    pub(crate) fn pop(&mut self) -> Option<(Key, M)> {
        match self {
            Self::Any(queue) => queue.pop_front().map(|message| (0, message)),
            Self::ByKey { ready, .. } => ready.pop_front(),
        }
    }

    pub(crate) fn has_ready(&self) -> bool {
        match self {
            Self::Any(queue) => !queue.is_empty(),
            Self::ByKey { ready, .. } => !ready.is_empty(),
        }
    }

    /// The call of this key's message has ended: the one behind it may be called.
    pub(crate) fn called(&mut self, key: Key) {
        if let Self::ByKey { ready, behind, count } = self {
            let next = behind.get_mut(&key).and_then(VecDeque::pop_front);
            match next {
                Some(message) => {
                    *count -= 1;
                    ready.push_back((key, message));
                }
                None => {
                    behind.remove(&key);
                }
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Any(queue) => queue.len(),
            Self::ByKey { ready, count, .. } => ready.len() + count,
        }
    }
}

/// Results on their way out.
pub(crate) enum Results<R> {
    /// As they come.
    AsTheyCome(Vec<R>),
    /// In the order of the tickets; the front's ticket is `first`.
    InOrder {
        /// The ticket of the front.
        first: Ticket,
        /// What has come of the tickets from `first` on.
        slots: VecDeque<Option<R>>,
    },
}

impl<R> Results<R> {
    pub(crate) fn as_they_come() -> Self {
        Self::AsTheyCome(Vec::new())
    }

    pub(crate) fn in_order() -> Self {
        Self::InOrder { first: 0, slots: VecDeque::new() }
    }

    pub(crate) fn push(&mut self, ticket: Ticket, result: R) {
        match self {
            Self::AsTheyCome(results) => results.push(result),
            Self::InOrder { first, slots } => {
                let index = (ticket - *first) as usize;
                if slots.len() <= index {
                    slots.resize_with(index + 1, || None);
                }
                slots[index] = Some(result);
            }
        }
    }

    /// What may leave now, in order.
    pub(crate) fn take(&mut self) -> Vec<R> {
        match self {
            Self::AsTheyCome(results) => std::mem::take(results),
            Self::InOrder { first, slots } => {
                let mut ready = Vec::new();
                while matches!(slots.front(), Some(Some(_))) {
                    *first += 1;
                    ready.extend(slots.pop_front().flatten());
                }
                ready
            }
        }
    }

    pub(crate) fn has_ready(&self) -> bool {
        match self {
            Self::AsTheyCome(results) => !results.is_empty(),
            Self::InOrder { slots, .. } => matches!(slots.front(), Some(Some(_))),
        }
    }

    /// Results that are kept.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::AsTheyCome(results) => results.len(),
            Self::InOrder { slots, .. } => slots.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keys_messages_are_called_one_after_another_and_others_do_not_wait() {
        let mut waiting = Waiting::by_key();
        for (key, message) in [(1, 'a'), (1, 'b'), (2, 'c'), (1, 'd')] {
            waiting.push(key, message);
        }
        assert_eq!(waiting.len(), 4);
        assert_eq!(waiting.pop(), Some((1, 'a')));
        assert_eq!(waiting.pop(), Some((2, 'c')));
        assert_eq!(waiting.pop(), None, "b waits for a");
        waiting.called(2);
        assert_eq!(waiting.pop(), None);
        waiting.called(1);
        assert_eq!(waiting.pop(), Some((1, 'b')));
        waiting.push(2, 'e');
        assert_eq!(waiting.pop(), Some((2, 'e')), "key 2 is free again");
        waiting.called(1);
        assert_eq!(waiting.pop(), Some((1, 'd')));
        assert_eq!(waiting.len(), 0);
    }

    #[test]
    fn ordered_results_wait_for_those_before_them() {
        let mut results = Results::in_order();
        results.push(2, 'c');
        results.push(1, 'b');
        assert!(!results.has_ready() && results.take().is_empty());
        results.push(0, 'a');
        assert_eq!(results.take(), ['a', 'b', 'c']);
        results.push(3, 'd');
        assert_eq!(results.take(), ['d']);
    }
}
