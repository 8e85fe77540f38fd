//! The calls of the C library that the safe wrapper doesn't have: many records in one call, the
//! queue of one partition, wake-ups, and commits whose answers can be told apart.
//!
//! This is the only unsafe code of the crate. What makes it sound:
//!
//! - Every queue holds the consumer, so the client lives longer than its queues and the messages
//!   that were taken from them. Fields are dropped in the order in which they are declared: the
//!   queue before the consumer.
//! - A pointer is wrapped where it is made, is owned by one value, and is given back to the library
//!   once, in `Drop`. None of these types can leave the thread that made it.
//! - What a message lends (key, payload, headers) borrows from the [`Messages`], which give one back
//!   only by `&mut self`.
//! - A wake-up runs on a thread of the library, while it holds the queue's lock. It sets a flag and
//!   unparks a thread, nothing else. It is taken off the queue, under the same lock, before the
//!   bell that it points to is dropped.
//! - Numbers that the library puts into its error fields are read as numbers, not as an enum that
//!   may not have them.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::types::{RDKafkaErrorCode, RDKafkaRespErr};
use rdkafka_sys as sys;

use super::context::Context;
use crate::wake::Wake;

/// A consumer that queues and messages hold on to.
pub(super) type SharedConsumer = Arc<BaseConsumer<Context>>;

/// Rings when the queue it belongs to was empty and is not any more.
struct Bell {
    rung: AtomicBool,
    wake: Arc<Wake>,
}

/// A queue of the client.
pub(super) struct Queue {
    queue: NonNull<sys::rd_kafka_queue_t>,
    /// At a fixed address, because the library keeps it.
    bell: Option<Box<Bell>>,
    consumer: SharedConsumer,
}

impl Queue {
    /// A new queue, for answers.
    pub(super) fn new(consumer: &SharedConsumer, wake: &Arc<Wake>) -> Self {
        // SAFETY: the client is alive. The library aborts if it can't allocate.
        let queue = unsafe { sys::rd_kafka_queue_new(consumer.client().native_ptr()) };
        Self::wrap(queue, consumer, Some(wake)).expect("a new queue is not null")
    }

    /// The queue of a partition, taken off the consumer's common queue. Nothing of the partition
    /// may have been fetched yet, so it must not be assigned yet.
    pub(super) fn of_partition(
        consumer: &SharedConsumer,
        topic: &str,
        partition: i32,
        wake: &Arc<Wake>,
    ) -> Option<Self> {
        let topic = CString::new(topic).ok()?;
        let client = consumer.client().native_ptr();
        // SAFETY: the client is alive and the topic ends with a zero byte.
        let queue = unsafe { sys::rd_kafka_queue_get_partition(client, topic.as_ptr(), partition) };
        let queue = Self::wrap(queue, consumer, Some(wake))?;
        // SAFETY: the queue is ours; null ends the forwarding.
        unsafe { sys::rd_kafka_queue_forward(queue.queue.as_ptr(), ptr::null_mut()) };
        Some(queue)
    }

    /// The consumer's queue, to look at its length. Events are taken by the safe wrapper, which
    /// has its own wake-up on it.
    pub(super) fn of_consumer(consumer: &SharedConsumer) -> Option<Self> {
        // SAFETY: the client is alive.
        let queue = unsafe { sys::rd_kafka_queue_get_consumer(consumer.client().native_ptr()) };
        Self::wrap(queue, consumer, None)
    }

    fn wrap(
        queue: *mut sys::rd_kafka_queue_t,
        consumer: &SharedConsumer,
        wake: Option<&Arc<Wake>>,
    ) -> Option<Self> {
        let queue = NonNull::new(queue)?;
        let bell = wake.map(|wake| {
            // What came before there was a bell has to be looked at, too.
            let bell = Bell { rung: AtomicBool::new(true), wake: Arc::clone(wake) };
            let bell = Box::new(bell);
            let pointer = ptr::from_ref::<Bell>(&bell).cast_mut().cast::<c_void>();
            // SAFETY: the queue is ours, and the bell stays where it is until `drop` has taken
            // this wake-up away.
            unsafe { sys::rd_kafka_queue_cb_event_enable(queue.as_ptr(), Some(ring), pointer) };
            bell
        });
        Some(Self { queue, bell, consumer: Arc::clone(consumer) })
    }

    /// Whether something came since the last call. Call it before looking.
    pub(super) fn has_rung(&self) -> bool {
        self.bell.as_ref().is_some_and(|bell| bell.rung.swap(false, Ordering::AcqRel))
    }

    /// Makes the next [`has_rung`](Self::has_rung) true: there is more than was taken.
    pub(super) fn ring(&self) {
        if let Some(bell) = &self.bell {
            bell.rung.store(true, Ordering::Release);
        }
    }

    /// How many events, answers or messages are in it.
    pub(super) fn len(&self) -> usize {
        // SAFETY: the queue is ours.
        unsafe { sys::rd_kafka_queue_length(self.queue.as_ptr()) }
    }

    /// Takes up to `most` messages without waiting, and says how many came. The library counts
    /// them as consumed.
    pub(super) fn take(&self, most: usize, messages: &mut Messages) -> usize {
        let scratch = &mut messages.scratch;
        scratch.clear();
        scratch.resize(most, ptr::null_mut());
        // SAFETY: the queue is ours, and there is room for `most` pointers.
        let taken = unsafe {
            sys::rd_kafka_consume_batch_queue(
                self.queue.as_ptr(),
                0,
                scratch.as_mut_ptr(),
                scratch.len(),
            )
        };
        let taken = usize::try_from(taken).unwrap_or(0);
        messages.waiting.extend(scratch.drain(..taken).filter_map(NonNull::new));
        taken
    }

    /// Asks for a commit, whose answer comes on this queue.
    pub(super) fn commit(&self, offsets: &TopicPartitionList) -> Result<(), RDKafkaErrorCode> {
        // SAFETY: the client and the list are alive; the library copies the list. Without a
        // callback the answer comes as an event.
        let error = unsafe {
            sys::rd_kafka_commit_queue(
                self.consumer.client().native_ptr(),
                offsets.ptr(),
                self.queue.as_ptr(),
                None,
                ptr::null_mut(),
            )
        };
        match error {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(()),
            error => Err(error.into()),
        }
    }

    /// The answer to a commit, if one is there.
    pub(super) fn commit_answer(&self) -> Option<CommitAnswer> {
        // SAFETY: the queue is ours.
        let event = unsafe { sys::rd_kafka_queue_poll(self.queue.as_ptr(), 0) };
        let event = Event(NonNull::new(event)?);
        // SAFETY: the event is alive; what the calls return belongs to it and is copied here.
        unsafe {
            if sys::rd_kafka_event_type(event.0.as_ptr()) != sys::RD_KAFKA_EVENT_OFFSET_COMMIT {
                return None;
            }
            let error = code(sys::rd_kafka_event_error(event.0.as_ptr()) as i32);
            let list = sys::rd_kafka_event_topic_partition_list(event.0.as_ptr());
            let mut partitions = Vec::new();
            if let Some(list) = list.as_ref()
                && list.cnt > 0
            {
                let elements = std::slice::from_raw_parts(list.elems, list.cnt as usize);
                for element in elements {
                    let error = ptr::addr_of!(element.err).cast::<i32>().read();
                    let topic = text(element.topic).into_owned();
                    partitions.push((topic, element.partition, code(error)));
                }
            }
            Some(CommitAnswer { error, partitions })
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the queue is ours and is not used afterwards. The library holds the queue's lock
        // while it rings and while it takes the wake-up away, so none runs after the first call.
        unsafe {
            if self.bell.is_some() {
                sys::rd_kafka_queue_cb_event_enable(self.queue.as_ptr(), None, ptr::null_mut());
            }
            sys::rd_kafka_queue_destroy(self.queue.as_ptr());
        }
    }
}

/// Runs on a thread of the library.
unsafe extern "C" fn ring(_: *mut sys::rd_kafka_t, bell: *mut c_void) {
    // SAFETY: the pointer is the one that `wrap` gave to the library, and it is valid until `drop`
    // has taken the wake-up away.
    let bell = unsafe { &*bell.cast::<Bell>() };
    bell.rung.store(true, Ordering::Release);
    bell.wake.wake();
}

/// What became of a commit: one error for all, or one for each partition.
#[derive(Debug)]
pub(super) struct CommitAnswer {
    pub(super) error: Option<RDKafkaErrorCode>,
    pub(super) partitions: Vec<(String, i32, Option<RDKafkaErrorCode>)>,
}

struct Event(NonNull<sys::rd_kafka_event_t>);

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event is ours and is not used afterwards.
        unsafe { sys::rd_kafka_event_destroy(self.0.as_ptr()) };
    }
}

/// Messages that were taken from the library, in order.
pub(super) struct Messages {
    waiting: VecDeque<NonNull<sys::rd_kafka_message_t>>,
    scratch: Vec<*mut sys::rd_kafka_message_t>,
    _consumer: SharedConsumer,
}

impl Messages {
    pub(super) fn new(consumer: &SharedConsumer) -> Self {
        Self { waiting: VecDeque::new(), scratch: Vec::new(), _consumer: Arc::clone(consumer) }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Message<'_>> {
        // SAFETY: the messages are ours until they are given back, which takes `&mut self`.
        self.waiting.iter().map(|message| Message(unsafe { message.as_ref() }))
    }

    /// Gives the first `count` messages back to the library.
    pub(super) fn give_back(&mut self, count: usize) {
        for message in self.waiting.drain(..count) {
            // SAFETY: the message is ours and is not used afterwards.
            unsafe { sys::rd_kafka_message_destroy(message.as_ptr()) };
        }
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        self.give_back(self.waiting.len());
    }
}

/// A record, or an error that came in its place.
#[derive(Clone, Copy)]
pub(super) struct Message<'a>(&'a sys::rd_kafka_message_t);

impl<'a> Message<'a> {
    /// The error, if it is one.
    pub(super) fn error(self) -> Option<RDKafkaErrorCode> {
        // SAFETY: the field is a 32-bit number, whichever it is.
        code(unsafe { ptr::addr_of!(self.0.err).cast::<i32>().read() })
    }

    /// What the library says of the error.
    pub(super) fn reason(self) -> String {
        // SAFETY: the message is lent to us; the text belongs to it and is copied.
        unsafe { text(sys::rd_kafka_message_errstr(self.0)).into_owned() }
    }

    pub(super) fn offset(self) -> i64 {
        self.0.offset
    }

    pub(super) fn key(self) -> Option<&'a [u8]> {
        // SAFETY: the library says that there are so many bytes.
        unsafe { bytes(self.0.key, self.0.key_len) }
    }

    pub(super) fn payload(self) -> Option<&'a [u8]> {
        // SAFETY: the library says that there are so many bytes.
        unsafe { bytes(self.0.payload, self.0.len) }
    }

    /// Milliseconds since 1970, by the producer's or the broker's clock, whichever the topic has.
    pub(super) fn timestamp(self) -> Option<i64> {
        let mut kind = sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message is lent to us, and `kind` is written to.
        let millis = unsafe { sys::rd_kafka_message_timestamp(self.0, &raw mut kind) };
        let is_known = kind != sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        (is_known && millis >= 0).then_some(millis)
    }

    /// The headers in order, names that are not UTF-8 with replacement characters. A value that is
    /// null comes as an empty one.
    pub(super) fn headers(self) -> Vec<(Cow<'a, str>, &'a [u8])> {
        let mut headers = ptr::null_mut();
        let mut all = Vec::new();
        // SAFETY: the message is lent to us; the headers belong to it, and what is borrowed from them
        // borrows from it.
        unsafe {
            let found = sys::rd_kafka_message_headers(self.0, &raw mut headers);
            if found != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
                return all;
            }
            let (mut name, mut value, mut len) = (ptr::null(), ptr::null(), 0);
            while sys::rd_kafka_header_get_all(
                headers,
                all.len(),
                &raw mut name,
                &raw mut value,
                &raw mut len,
            ) == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR
            {
                all.push((text(name), bytes(value.cast_mut(), len).unwrap_or_default()));
            }
        }
        all
    }
}

/// This member's generation and id, as the group knows it now.
pub(super) fn membership(consumer: &SharedConsumer) -> Option<(i32, String)> {
    // SAFETY: the client is alive; what the calls return is copied before it is given back.
    unsafe {
        let metadata = sys::rd_kafka_consumer_group_metadata(consumer.client().native_ptr());
        let metadata = NonNull::new(metadata)?;
        let generation = sys::rd_kafka_consumer_group_metadata_generation_id(metadata.as_ptr());
        let member = text(sys::rd_kafka_consumer_group_metadata_member_id(metadata.as_ptr()));
        let membership = (generation, member.into_owned());
        sys::rd_kafka_consumer_group_metadata_destroy(metadata.as_ptr());
        Some(membership)
    }
}

/// Where the partition ends, as the last fetch found it. Asks nobody.
pub(super) fn known_end(consumer: &SharedConsumer, topic: &str, partition: i32) -> Option<u64> {
    let topic = CString::new(topic).ok()?;
    let (mut low, mut high) = (0, 0);
    // SAFETY: the client is alive, the topic ends with a zero byte, and both numbers are written.
    let error = unsafe {
        sys::rd_kafka_get_watermark_offsets(
            consumer.client().native_ptr(),
            topic.as_ptr(),
            partition,
            &raw mut low,
            &raw mut high,
        )
    };
    (error == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR).then(|| u64::try_from(high).ok())?
}

/// Up to where this partition has been taken, gaps included: the position behind the last record
/// or marker that [`Queue::take`] has passed.
pub(super) fn passed(consumer: &SharedConsumer, topic: &str, partition: i32) -> Option<u64> {
    let mut list = TopicPartitionList::with_capacity(1);
    list.add_partition(topic, partition);
    // SAFETY: the client and the list are alive.
    let error = unsafe { sys::rd_kafka_position(consumer.client().native_ptr(), list.ptr()) };
    if error != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
        return None;
    }
    match list.elements().first()?.offset() {
        rdkafka::Offset::Offset(offset) => u64::try_from(offset).ok(),
        _ => None,
    }
}

fn code(number: i32) -> Option<RDKafkaErrorCode> {
    if number == 0 {
        return None;
    }
    Some(match RDKafkaRespErr::try_from(number) {
        Ok(error) => error.into(),
        Err(_) => RDKafkaErrorCode::Unknown,
    })
}

/// # Safety
/// The pointer is null, or there are `len` bytes that stay for as long as the caller borrows.
unsafe fn bytes<'a>(pointer: *mut c_void, len: usize) -> Option<&'a [u8]> {
    // SAFETY: as promised by the caller.
    (!pointer.is_null()).then(|| unsafe { std::slice::from_raw_parts(pointer.cast(), len) })
}

/// # Safety
/// The pointer is null, or a text that ends with a zero byte and stays for as long as the caller
/// borrows.
unsafe fn text<'a>(pointer: *const c_char) -> Cow<'a, str> {
    if pointer.is_null() {
        return Cow::Borrowed("");
    }
    // SAFETY: as promised by the caller.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy()
}
