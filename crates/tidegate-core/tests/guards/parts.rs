//! Chunks that are split, put together, doubled, bundled and settled in part.

use tidegate_core::{BoxError, Chunk, Outcome, Position};

use crate::recorder::{admitted, batch, chunk, first, frontier, ledger};

fn values_of(parts: &[Chunk<u64>]) -> Vec<&[u64]> {
    parts.iter().map(Chunk::values).collect()
}

/// P2
#[test]
fn a_message_given_to_several_sinks_settles_with_the_worst_of_their_answers() {
    use Outcome::{Diverted, Done, Failed, Filtered};
    let cases = [
        ([Filtered, Filtered], Filtered, Some(1)),
        ([Filtered, Done], Done, Some(1)),
        ([Diverted, Done], Diverted, Some(1)),
        ([Done, Failed], Failed, None),
    ];
    for (answers, expected, moved) in cases {
        let (ledger, recorder, chunk) = admitted(1);
        let copies = chunk.duplicate(2);
        assert_eq!(values_of(&copies), [[0], [0]]);
        for (copy, answer) in copies.into_iter().zip(answers) {
            assert_eq!(recorder.heard().counts.total(), 0, "not before the last answer");
            copy.settle(answer);
        }
        assert_eq!(recorder.heard().counts.get(expected), 1, "{answers:?}");
        assert_eq!(frontier(&ledger), moved, "{answers:?}");
    }
}

#[test]
fn one_copy_is_the_chunk_itself() {
    for count in [0, 1] {
        let (ledger, _, chunk) = admitted(2);
        let copies = chunk.duplicate(count);
        assert_eq!(copies.len(), 1);
        copies.into_iter().for_each(|copy| copy.settle(Outcome::Done));
        assert_eq!(frontier(&ledger), Some(2));
    }
}

/// P2, P9
#[test]
fn a_bundle_of_bundles_answers_for_every_message_in_them() {
    for (outcome, moved) in [(Outcome::Done, Some(5)), (Outcome::Abandoned, Some(1))] {
        let (ledger, recorder, mut chunk) = admitted(5);
        chunk.split_front(1).settle(Outcome::Done);
        let mut pairs = chunk.split_front(2).bundle().unwrap();
        pairs.append(chunk.bundle().unwrap());
        assert_eq!(pairs.values(), [[1, 2], [3, 4]]);
        let all = pairs.bundle().unwrap();
        assert_eq!(all.values(), [[[1, 2], [3, 4]]]);

        let rejected = all.map(|_| -> u64 { crate::recorder::quiet_panic("too much") }).rejected;
        assert_eq!(first(&rejected), (1, "panicked: too much".to_owned()));
        let originals: Vec<_> = rejected
            .begin_diversion()
            .into_iter()
            .flat_map(|(_, originals)| originals)
            .map(|original| original.batch.get(original.row).position().get())
            .collect();
        assert_eq!(originals, [1, 2, 3, 4]);
        rejected.settle(outcome);
        assert_eq!(recorder.heard().counts.get(outcome), 4 + u64::from(outcome == Outcome::Done));
        assert_eq!(frontier(&ledger), moved);
    }
}

#[test]
fn nothing_is_no_bundle() {
    let (_, recorder, mut chunk) = admitted(1);
    assert!(chunk.split_front(0).bundle().is_none());
    assert!(Chunk::<u64>::from_messages([]).is_none());
    chunk.settle(Outcome::Done);
    assert!(recorder.heard().abandoned.is_empty());
}

/// P50
#[test]
fn splitting_and_putting_together_again_keeps_the_order_and_the_duties() {
    let (ledger, recorder, mut chunk) = admitted(6);
    let mut front = chunk.split_front(2);
    let middle = chunk.split_front(2);
    front.append(middle);
    front.append(chunk.split_front(100));
    assert!(chunk.is_empty());
    drop(chunk);
    assert_eq!(front.values(), [0, 1, 2, 3, 4, 5]);
    let messages: Vec<_> = front.into_messages().collect();
    let again = Chunk::from_messages(messages).unwrap();
    assert_eq!(again.values(), [0, 1, 2, 3, 4, 5]);
    again.settle(Outcome::Done);
    assert_eq!(recorder.counts(), [0, 6, 0, 0, 0]);
    assert_eq!(frontier(&ledger), Some(6));
}

/// P2, P50
#[test]
fn partition_by_keeps_the_order_in_each_part_and_filters_what_no_part_takes() {
    let (ledger, recorder, chunk) = admitted(8);
    let ways = [Some(0), Some(1), None, Some(0), Some(7), Some(1), Some(1), Some(0)];
    let (parts, rejected) = chunk.partition_by(2, |value| ways[*value as usize]);
    assert!(rejected.is_empty());
    assert_eq!(values_of(&parts), [[0, 3, 7], [1, 5, 6]]);
    assert_eq!(recorder.counts(), [2, 0, 0, 0, 0]);
    parts.into_iter().for_each(|part| part.settle(Outcome::Done));
    assert_eq!(frontier(&ledger), Some(8));
}

/// P2, P41
#[test]
fn what_a_filter_leaves_out_is_settled_at_once_and_an_error_is_handed_back() {
    let (ledger, recorder, chunk) = admitted(4);
    let transformed = chunk.try_filter_map(|value| match value {
        0 | 1 => Ok(None),
        2 => Err("broken".into()),
        _ => Ok(Some(value * 10)),
    });
    assert_eq!((recorder.counts(), frontier(&ledger)), ([2, 0, 0, 0, 0], Some(2)));
    assert_eq!(transformed.chunk.values(), [30]);
    assert_eq!(first(&transformed.rejected), (2, "broken".to_owned()));
    assert_eq!(transformed.rejected.partition().stream(), "t");
    transformed.chunk.settle(Outcome::Done);
    transformed.rejected.settle(Outcome::Diverted);
    assert_eq!((recorder.counts(), frontier(&ledger)), ([2, 1, 1, 0, 0], Some(4)));
}

/// P43
#[test]
fn a_sink_s_report_rejects_the_items_it_names_and_settles_all_others() {
    let no = || BoxError::from("no");
    let cases = [
        (vec![], vec![]),
        (vec![0], vec![0]),
        (vec![3], vec![3]),
        (vec![1, 2], vec![1, 2]),
        (vec![0, 1, 2, 3], vec![0, 1, 2, 3]),
        // Not rising, or twice: still no rejected item counts as done.
        (vec![2, 0], vec![0, 2]),
        (vec![1, 1, 3], vec![1, 3]),
    ];
    for (report, expected) in cases {
        let (ledger, recorder, chunk) = admitted(4);
        let mut values = vec![99];
        let duty = chunk.unload(&mut values);
        assert_eq!(values, [99, 0, 1, 2, 3]);
        let rejected = duty.settle_except(report.iter().map(|&item| (item, no())).collect());
        let found: Vec<_> = rejected
            .begin_diversion()
            .into_iter()
            .flat_map(|(_, originals)| originals)
            .map(|original| original.batch.get(original.row).position().get() as usize)
            .collect();
        assert_eq!(found, expected, "{report:?}");
        assert_eq!(recorder.counts(), [0, 4 - found.len() as u64, 0, 0, 0], "{report:?}");
        rejected.settle(Outcome::Diverted);
        assert_eq!(frontier(&ledger), Some(4), "{report:?}");
    }
}

/// P9
#[test]
fn a_report_on_an_item_that_does_not_exist_settles_none_as_done() {
    let (ledger, recorder, chunk) = admitted(2);
    let duty = chunk.unload(&mut Vec::new());
    let settle = || duty.settle_except(vec![(0, "no".into()), (2, "no".into())]);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(settle)).unwrap_err();
    assert_eq!((recorder.counts(), frontier(&ledger)), ([0, 0, 0, 0, 2], None));
}

/// P36, P46
#[test]
fn the_original_is_there_as_long_as_its_message_is_open_and_a_step_can_keep_it_longer() {
    let (ledger, recorder) = ledger();
    let delivery = ledger.admit(batch([4, 5])).unwrap();
    let bytes = delivery.batch().bytes();
    let records = delivery.into_records(crate::recorder::STEP).chunk;
    let kept = records.values()[1].clone();
    records.settle(Outcome::Done);
    assert_eq!(recorder.heard().freed_bytes, bytes, "the ledger's own hold ends");
    assert_eq!((kept.get().position(), kept.get().payload()), (Position::new(5), &b"5"[..]));
    assert_eq!(frontier(&ledger), Some(6));
}

/// P1
#[test]
fn batches_settle_in_any_order_and_the_frontier_waits_for_the_first() {
    let (ledger, recorder) = ledger();
    let first = chunk(ledger.admit(batch([1, 5])).unwrap());
    let second = chunk(ledger.admit(batch([9])).unwrap());
    second.settle(Outcome::Filtered);
    assert_eq!((frontier(&ledger), recorder.heard().drained), (None, 0));
    assert_eq!(ledger.progress(), None);
    first.hold();
    assert_eq!(ledger.oldest().unwrap().holder, crate::recorder::STEP);
    first.settle(Outcome::Done);
    assert_eq!((frontier(&ledger), recorder.heard().drained), (Some(10), 1));
    assert_eq!(ledger.progress(), Some((Position::new(10), 3)));
}
