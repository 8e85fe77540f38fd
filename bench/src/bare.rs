//! The same work in a loop, with nothing that would survive a failure: the limit.

use std::hint::black_box;

use crate::work::{BATCH, Payloads, convert, keep, parse};

/// Bytes that are copied in one go, as a client fills a buffer.
const BUFFER: usize = 512;

/// Copies, parses, filters, converts and gathers, and throws the batches away.
pub fn run(payloads: &Payloads, messages: u64) {
    let (mut kept, mut failed) = (0, 0);
    let mut batch = Vec::with_capacity(BATCH);
    let mut throw_away = |batch: &mut Vec<u64>| {
        kept += batch.len() as u64;
        black_box(std::mem::replace(batch, Vec::with_capacity(BATCH)));
    };
    let mut done = 0;
    while done < messages {
        let count = BUFFER.min((messages - done) as usize).min((1 << 20) / payloads.size()).max(1);
        let mut buffer = Vec::with_capacity(count * payloads.size());
        for payload in payloads.from(done).take(count) {
            buffer.extend_from_slice(payload);
        }
        for payload in black_box(&buffer).chunks_exact(payloads.size()) {
            match parse(payload) {
                Ok(number) if keep(&number) => {
                    batch.push(convert(number));
                    if batch.len() == BATCH {
                        throw_away(&mut batch);
                    }
                }
                Ok(_) => {}
                Err(_) => failed += 1,
            }
        }
        done += count as u64;
    }
    throw_away(&mut batch);
    let expected = payloads.expected(messages);
    assert_eq!((kept, failed), (expected.kept, expected.diverted), "the bare loop's result");
}
