//! P9: unanswered is never done, and the step that lost the message is named.

use tidegate_core::{Chunk, Delivery, Outcome, StepId};

use crate::recorder::{STEP, admitted, batch, chunk, frontier, ledger};

const LATER: StepId = StepId::new(9);

fn one_receipt(chunk: Chunk<u64>) -> tidegate_core::Receipt {
    let mut messages = chunk.into_messages();
    let receipt = messages.next().unwrap().receipt;
    assert!(messages.next().is_none());
    receipt
}

/// P9
#[test]
fn whichever_guard_of_a_message_is_dropped_it_is_abandoned_in_the_step_that_had_it() {
    type Lose = fn(Delivery);
    let ways: [(&str, Lose, StepId); 15] = [
        ("a delivery", |d| drop(d), StepId::SOURCE),
        ("a chunk", |d| drop(chunk(d)), STEP),
        (
            "a chunk in the next step",
            |d| {
                let mut chunk = chunk(d);
                chunk.enter(LATER);
                drop(chunk);
            },
            LATER,
        ),
        ("a chunk of records", |d| drop(d.into_records(STEP)), STEP),
        ("what a map leaves", |d| drop(chunk(d).map(|_| ())), STEP),
        ("messages nobody asked for", |d| drop(chunk(d).into_messages()), STEP),
        ("a message", |d| drop(chunk(d).into_messages().next()), STEP),
        ("a receipt", |d| drop(one_receipt(chunk(d))), STEP),
        (
            "one of two receipts",
            |d| {
                let receipt = one_receipt(chunk(d));
                receipt.share().settle(Outcome::Done);
                drop(receipt);
            },
            STEP,
        ),
        ("a rejection", |d| drop(d.transform::<()>(STEP, |_| Err("no".into())).rejected), STEP),
        ("a rejected receipt", |d| drop(one_receipt(chunk(d)).reject("no")), STEP),
        (
            "results nobody asked for",
            |d| drop(chunk(d).flat_map(|value| [Ok::<_, &str>(value)])),
            STEP,
        ),
        (
            "results that were asked for in part",
            |d| {
                let mut results = chunk(d).flat_map(|value| [Ok::<_, &str>(value); 3]);
                let first = results.next_chunk(1).unwrap();
                first.chunk.settle(Outcome::Done);
            },
            STEP,
        ),
        ("a bundle", |d| drop(chunk(d).bundle()), STEP),
        ("a duty without its value", |d| drop(chunk(d).unload(&mut Vec::new())), STEP),
    ];
    for (name, lose, step) in ways {
        let (ledger, recorder) = ledger();
        lose(ledger.admit(batch([3])).unwrap());
        let heard = recorder.heard();
        assert_eq!(recorder.counts(), [0, 0, 0, 0, 1], "{name}");
        assert_eq!(heard.abandoned.len(), 1, "{name}");
        assert_eq!(heard.abandoned[0].0, step, "{name}");
        assert_eq!(heard.abandoned[0].1.unwrap().get(), 3, "{name}");
        assert_eq!((frontier(&ledger), ledger.pending(), ledger.open()), (None, 0, 1), "{name}");
    }
}

/// P9, P1
#[test]
fn an_abandoned_message_holds_the_frontier_in_front_of_what_was_done_behind_it() {
    let (ledger, recorder, mut chunk) = admitted(3);
    let first = chunk.split_front(1);
    drop(chunk.split_front(1));
    chunk.settle(Outcome::Done);
    first.settle(Outcome::Done);
    assert_eq!(recorder.counts(), [0, 2, 0, 0, 1]);
    assert_eq!(frontier(&ledger), Some(1));
    assert_eq!(ledger.oldest().unwrap().outcome, Outcome::Abandoned);
}

/// P9
#[test]
fn an_empty_guard_has_nothing_to_answer_for() {
    let (ledger, recorder, chunk) = admitted(1);
    let (kept, rejected) = chunk.partition_by(3, |_| Some(1));
    assert!(rejected.is_empty() && kept[0].is_empty() && kept[2].is_empty());
    let [first, second, third] = kept.try_into().unwrap();
    drop((first, third, rejected));
    second.settle(Outcome::Done);
    assert_eq!(recorder.counts(), [0, 1, 0, 0, 0]);
    assert!(recorder.heard().abandoned.is_empty());
    assert_eq!(frontier(&ledger), Some(1));
    drop(ledger.admit(batch([])).unwrap());
    assert!(recorder.heard().abandoned.is_empty());
}

/// P22, P47
#[test]
fn what_is_dropped_after_the_generation_ended_was_released_and_is_no_failure() {
    let (ledger, recorder, chunk) = admitted(4);
    let mut results = chunk.flat_map(|value| [Ok::<_, &str>(value); 2]);
    let some = results.next_chunk(3).unwrap();
    assert!(ledger.fence() > 0);
    drop(some);
    drop(results);
    drop(ledger.admit(batch([9])).unwrap());
    assert!(recorder.heard().abandoned.is_empty());
    assert_eq!(recorder.counts(), [0; 5]);
    assert_eq!((frontier(&ledger), ledger.open()), (None, 0));
}
