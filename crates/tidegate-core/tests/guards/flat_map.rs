//! `Chunk::flat_map`: every result needs an answer, and so does a message without any.

use tidegate_core::{BoxError, Outcome};

use crate::recorder::{admitted, first, frontier, quiet_panic};

/// What one message gives: results, and how it ends.
#[derive(Clone, Copy)]
struct Gives(u32, End);

#[derive(Clone, Copy, PartialEq)]
enum End {
    Well,
    InError,
    InPanic,
    /// Before the first result.
    AtOnce,
}
use End::{AtOnce, InError, InPanic, Well};

impl Gives {
    fn results(self, message: u64) -> impl Iterator<Item = Result<(u64, u32), BoxError>> {
        let Gives(count, end) = self;
        if end == AtOnce {
            quiet_panic("at once");
        }
        let mut next = 0;
        std::iter::from_fn(move || {
            next += 1;
            match end {
                _ if next <= count => Some(Ok((message, next))),
                InError => Some(Err("broken".into())),
                InPanic => quiet_panic("in the iterator"),
                Well | AtOnce => None,
            }
        })
    }
}

/// P2, P50
#[test]
fn all_results_come_in_order_in_chunks_of_the_size_asked_for_and_all_have_to_be_answered() {
    let scripts: &[&[Gives]] = &[
        &[Gives(0, Well)],
        &[Gives(1, Well)],
        &[Gives(3, Well)],
        &[Gives(2, Well), Gives(2, Well)],
        &[Gives(0, Well), Gives(0, Well), Gives(5, Well)],
        &[Gives(1, Well), Gives(0, Well), Gives(2, Well), Gives(0, Well)],
        &[Gives(2, InError), Gives(1, Well)],
        &[Gives(0, InError), Gives(3, InPanic), Gives(0, Well)],
        &[Gives(0, AtOnce), Gives(1, Well), Gives(0, InPanic)],
        &[Gives(3, InError), Gives(3, InError)],
    ];
    for (number, script) in scripts.iter().enumerate() {
        for max in [1, 2, 3, 4, 100] {
            let case = format!("script {number}, chunks of {max}");
            let (ledger, recorder, chunk) = admitted(script.len() as u64);
            let expected: Vec<_> = (0_u64..)
                .zip(script.iter())
                .flat_map(|(message, gives)| (1..=gives.0).map(move |n| (message, n)))
                .collect();

            let mut asked = chunk.flat_map(|value| script[value as usize].results(value));
            let (mut chunks, mut rejections, mut values) = (Vec::new(), Vec::new(), Vec::new());
            while let Some(transformed) = asked.next_chunk(max) {
                assert!(transformed.chunk.len() <= max, "{case}");
                values.extend_from_slice(transformed.chunk.values());
                chunks.push(transformed.chunk);
                rejections.push(transformed.rejected);
            }
            assert_eq!(values, expected, "{case}");
            let failed = script.iter().filter(|gives| gives.1 != Well).count();
            assert_eq!(rejections.iter().map(|r| r.len()).sum::<usize>(), failed, "{case}");
            let empty = script.iter().filter(|gives| gives.0 == 0 && gives.1 == Well).count();
            assert_eq!(recorder.counts(), [empty as u64, 0, 0, 0, 0], "{case}");

            // The last answer of all moves the frontier behind the last message, whichever it is.
            chunks.into_iter().rev().for_each(|chunk| chunk.settle(Outcome::Done));
            rejections.into_iter().rev().for_each(|rejected| rejected.settle(Outcome::Diverted));
            let done = script.len() - empty - failed;
            assert_eq!(
                recorder.counts(),
                [empty as u64, done as u64, failed as u64, 0, 0],
                "{case}: a message that failed is diverted, though some of its results were done"
            );
            assert_eq!(frontier(&ledger), Some(script.len() as u64), "{case}");
        }
    }
}

/// P2
#[test]
fn a_message_is_not_settled_while_one_of_its_results_is_open() {
    for last in 0..3 {
        let (ledger, _, chunk) = admitted(1);
        let mut asked = chunk.flat_map(|value| [Ok::<_, &str>(value); 3]);
        let mut results = Vec::new();
        while let Some(transformed) = asked.next_chunk(1) {
            results.extend((!transformed.chunk.is_empty()).then_some(transformed.chunk));
        }
        let held = results.remove(last);
        results.into_iter().for_each(|result| result.settle(Outcome::Done));
        assert_eq!(frontier(&ledger), None);
        held.settle(Outcome::Done);
        assert_eq!(frontier(&ledger), Some(1));
    }
}

/// P9
#[test]
fn results_that_nobody_asks_for_any_more_abandon_only_the_messages_they_belong_to() {
    let (ledger, recorder, chunk) = admitted(3);
    let mut asked = chunk.flat_map(|value| [Ok::<_, &str>(value); 2]);
    asked.next_chunk(2).unwrap().chunk.settle(Outcome::Done);
    asked.next_chunk(1).unwrap().chunk.settle(Outcome::Done);
    assert_eq!(frontier(&ledger), Some(1));
    drop(asked);
    assert_eq!(recorder.counts(), [0, 1, 0, 0, 2]);
    assert_eq!(recorder.heard().abandoned[0].1.unwrap().get(), 1);
}

#[test]
fn an_iterator_without_end_is_asked_only_for_what_fits_into_the_chunk() {
    let (ledger, recorder, chunk) = admitted(1);
    let mut asked = chunk.flat_map(|value| std::iter::repeat(Ok::<_, &str>(value)));
    for _ in 0..100 {
        let transformed = asked.next_chunk(3).unwrap();
        assert_eq!(transformed.chunk.len(), 3);
        transformed.chunk.settle(Outcome::Done);
    }
    assert_eq!((frontier(&ledger), recorder.counts()), (None, [0; 5]));
}

#[test]
fn chunks_of_none_would_never_end_so_there_is_at_least_one_result_in_each() {
    let (_, _, chunk) = admitted(2);
    let mut asked = chunk.flat_map(|value| [Ok::<_, &str>(value)]);
    assert_eq!(asked.next_chunk(0).unwrap().chunk.values(), [0]);
}

/// P43
#[test]
fn an_iterator_that_panics_when_it_is_dropped_fails_its_own_message_and_no_other() {
    struct Bomb(u64);
    impl Iterator for Bomb {
        type Item = Result<u64, BoxError>;
        fn next(&mut self) -> Option<Self::Item> {
            None
        }
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            if self.0 == 1 {
                quiet_panic("dropped");
            }
        }
    }
    let (ledger, recorder, chunk) = admitted(3);
    let mut asked = chunk.flat_map(Bomb);
    let transformed = asked.next_chunk(10).unwrap();
    assert_eq!(first(&transformed.rejected), (1, "panicked: dropped".to_owned()));
    assert_eq!(recorder.counts(), [2, 0, 0, 0, 0]);
    transformed.rejected.settle(Outcome::Diverted);
    assert_eq!(frontier(&ledger), Some(3));
}
