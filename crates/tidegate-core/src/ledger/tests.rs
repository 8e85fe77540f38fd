//! Scripted tables of (action, expected state). `model` tries the same actions at random against
//! a naive model.

mod model;

use super::*;
use crate::{NewRecord, Partition};
use Outcome::{Abandoned, Diverted, Done, Failed, Filtered};

/// A batch of records with these positions, each with a payload of 10 bytes.
fn batch(positions: &[u64]) -> Arc<RecordBatch> {
    let mut builder = RecordBatch::builder(Partition::new("t", 0));
    for &position in positions {
        let record = NewRecord { payload: Some(b"0123456789"), ..NewRecord::default() };
        builder.push(Position::new(position), record).unwrap();
    }
    Arc::new(builder.finish())
}

fn slots(sequences: &[u64]) -> Vec<Slot> {
    sequences.iter().map(|&sequence| Slot::single(sequence)).collect()
}

enum Do<'a> {
    Admit(&'a [u64]),
    Share(u64, u32),
    Settle(&'a [u64], Outcome),
    SettleRange(Range<u64>, Outcome),
    /// Makes the single slots one, and remembers it as the last bundle.
    Bundle(&'a [u64]),
    /// Makes the last bundle and the single slots one.
    BundleAgain(&'a [u64]),
    ShareBundle(u32),
    SettleBundle(Outcome),
    Fence,
}
use Do::*;

/// The state after an action: frontier, messages in flight, position of the oldest one.
type State = (Option<u64>, usize, Option<u64>);

fn play(script: &[(Do<'_>, State)]) -> Ledger {
    let mut ledger = Ledger::new(1000);
    let mut last_bundle = None;
    for (line, (action, expected)) in script.iter().enumerate() {
        let bundle = |last: Option<Slot>| last.expect("the script makes a bundle first");
        match action {
            Admit(positions) => {
                ledger.admit(&batch(positions)).unwrap();
            }
            Share(sequence, more) => ledger.share([(Slot::single(*sequence), *more)]),
            Settle(sequences, outcome) => {
                ledger.settle(&slots(sequences), *outcome);
            }
            SettleRange(range, outcome) => {
                ledger.settle_range(range.clone(), *outcome);
            }
            Bundle(members) => last_bundle = Some(ledger.bundle(slots(members))),
            BundleAgain(members) => {
                let members = std::iter::once(bundle(last_bundle)).chain(slots(members)).collect();
                last_bundle = Some(ledger.bundle(members));
            }
            ShareBundle(more) => ledger.share([(bundle(last_bundle), *more)]),
            SettleBundle(outcome) => {
                ledger.settle(&[bundle(last_bundle)], *outcome);
            }
            Fence => {
                ledger.fence();
            }
        }
        let state = (
            ledger.frontier().map(Position::get),
            ledger.open(),
            ledger.oldest().map(|oldest| oldest.position.get()),
        );
        assert_eq!(state, *expected, "after line {line} of the script");
    }
    ledger
}

/// P1
#[test]
fn only_the_settled_prefix_moves_the_frontier() {
    play(&[
        (Admit(&[10, 11, 12]), (None, 3, Some(10))),
        (Settle(&[2], Done), (None, 2, Some(10))),
        (Settle(&[1], Done), (None, 1, Some(10))),
        (Settle(&[0], Done), (Some(13), 0, None)),
    ]);
}

/// P1
#[test]
fn gaps_between_positions_are_passed_as_soon_as_the_position_behind_them_is_settled() {
    play(&[
        (Admit(&[3, 7]), (None, 2, Some(3))),
        (Admit(&[100]), (None, 3, Some(3))),
        (Settle(&[0], Done), (Some(4), 2, Some(7))),
        (Settle(&[2], Done), (Some(4), 1, Some(7))),
        (Settle(&[1], Done), (Some(101), 0, None)),
    ]);
}

/// P1, P41
#[test]
fn a_failed_message_holds_the_frontier_for_good_and_later_success_does_not_carry_it_past() {
    play(&[
        (Admit(&[0, 1, 2]), (None, 3, Some(0))),
        (SettleRange(0..1, Done), (Some(1), 2, Some(1))),
        (Settle(&[1], Failed), (Some(1), 2, Some(1))),
        (Settle(&[2], Done), (Some(1), 1, Some(1))),
        (Admit(&[3]), (Some(1), 2, Some(1))),
        (Settle(&[3], Done), (Some(1), 1, Some(1))),
    ]);
}

/// P9
#[test]
fn an_abandoned_message_holds_the_frontier_whatever_its_other_shares_answer() {
    for (first, second) in [(Abandoned, Done), (Done, Abandoned), (Abandoned, Diverted)] {
        let ledger = play(&[
            (Admit(&[0, 1]), (None, 2, Some(0))),
            (Share(0, 1), (None, 2, Some(0))),
            (Settle(&[0], first), (None, 2, Some(0))),
            (Settle(&[0], second), (None, 2, Some(0))),
            (Settle(&[1], Done), (None, 1, Some(0))),
        ]);
        assert_eq!(ledger.oldest().unwrap().outcome, Abandoned);
    }
}

/// P2, P3
#[test]
fn filtered_and_diverted_messages_settle_like_done_ones() {
    play(&[
        (Admit(&[0, 1, 2]), (None, 3, Some(0))),
        (Settle(&[0], Filtered), (Some(1), 2, Some(1))),
        (Settle(&[1], Diverted), (Some(2), 1, Some(2))),
        (Settle(&[2], Done), (Some(3), 0, None)),
    ]);
}

/// P2
#[test]
fn a_message_settles_with_its_last_share() {
    play(&[
        (Admit(&[5]), (None, 1, Some(5))),
        (Share(0, 2), (None, 1, Some(5))),
        (Settle(&[0], Done), (None, 1, Some(5))),
        (Settle(&[0, 0], Filtered), (Some(6), 0, None)),
    ]);
}

/// P2
#[test]
fn a_bundle_answers_for_all_its_members() {
    play(&[
        (Admit(&[0, 1, 2]), (None, 3, Some(0))),
        (Bundle(&[0, 2]), (None, 3, Some(0))),
        (Settle(&[1], Done), (None, 2, Some(0))),
        (SettleBundle(Done), (Some(3), 0, None)),
    ]);
}

/// P2
#[test]
fn a_bundle_in_a_bundle_answers_down_to_the_messages_once_all_its_shares_have() {
    play(&[
        (Admit(&[0, 1, 2]), (None, 3, Some(0))),
        (Bundle(&[0, 1]), (None, 3, Some(0))),
        (BundleAgain(&[2]), (None, 3, Some(0))),
        (ShareBundle(1), (None, 3, Some(0))),
        (SettleBundle(Done), (None, 3, Some(0))),
        (SettleBundle(Filtered), (Some(3), 0, None)),
        // The places of both bundles are used again.
        (Admit(&[3, 4]), (Some(3), 2, Some(3))),
        (Bundle(&[3]), (Some(3), 2, Some(3))),
        (BundleAgain(&[4]), (Some(3), 2, Some(3))),
        (SettleBundle(Failed), (Some(3), 2, Some(3))),
    ]);
}

/// P2
#[test]
fn two_results_of_one_message_in_one_bundle_are_two_answers() {
    let ledger = play(&[
        (Admit(&[0]), (None, 1, Some(0))),
        (Share(0, 1), (None, 1, Some(0))),
        (Bundle(&[0, 0]), (None, 1, Some(0))),
    ]);
    assert_eq!(ledger.positions(Slot::bundle(0)), [Position::new(0)], "named once");
    let mut ledger = ledger;
    assert!(ledger.settle(&[Slot::bundle(0)], Done).drained);
    assert_eq!(ledger.frontier(), Some(Position::new(1)));
}

/// P22
#[test]
fn once_fenced_nothing_changes_any_more() {
    let mut ledger = play(&[
        (Admit(&[0, 1, 2]), (None, 3, Some(0))),
        (Settle(&[0], Done), (Some(1), 2, Some(1))),
        (Bundle(&[1, 2]), (Some(1), 2, Some(1))),
        (Fence, (Some(1), 0, None)),
        (Share(1, 1), (Some(1), 0, None)),
        (Settle(&[1], Done), (Some(1), 0, None)),
        (SettleRange(1..3, Done), (Some(1), 0, None)),
        (SettleBundle(Done), (Some(1), 0, None)),
        (Bundle(&[1]), (Some(1), 0, None)),
        (ShareBundle(1), (Some(1), 0, None)),
        (SettleBundle(Failed), (Some(1), 0, None)),
        (Admit(&[3, 4]), (Some(1), 0, None)),
        (SettleRange(3..5, Done), (Some(1), 0, None)),
    ]);
    assert_eq!(ledger.bytes(), 0);
    assert_eq!(ledger.fence(), 0, "the bytes were let go already");
    assert!(ledger.begin_diversion(Slot::single(1)).is_empty());
    assert!(ledger.positions(Slot::single(1)).is_empty());
    ledger.hold(&slots(&[1]), StepId::new(1));
    assert!(ledger.is_fenced());
}

/// P5
#[test]
fn a_source_that_goes_back_does_not_take_the_frontier_with_it() {
    play(&[
        (Admit(&[10]), (None, 1, Some(10))),
        (Settle(&[0], Done), (Some(11), 0, None)),
        (Admit(&[4]), (Some(11), 1, Some(4))),
        (Settle(&[1], Done), (Some(11), 0, None)),
        (Admit(&[12]), (Some(11), 1, Some(12))),
        (Settle(&[2], Done), (Some(13), 0, None)),
    ]);
}

#[test]
fn a_batch_is_admitted_whole_while_there_is_any_room_and_refused_when_there_is_none() {
    let mut ledger = Ledger::new(2);
    assert_eq!(ledger.admit(&batch(&[0])).unwrap(), 0..1);
    assert_eq!(ledger.admit(&batch(&[1, 2, 3])).unwrap(), 1..4);
    assert!(!ledger.has_room());
    assert_eq!(ledger.admit(&batch(&[4])), Err(LedgerFull { open: 4, capacity: 2 }));

    ledger.settle_range(1..4, Done);
    assert!(!ledger.has_room(), "what settled behind an open message still takes room");
    ledger.settle_range(0..1, Done);
    assert_eq!(ledger.admit(&batch(&[4])).unwrap(), 4..5);
}

#[test]
fn an_empty_batch_takes_no_slot() {
    let mut ledger = Ledger::new(1);
    assert!(ledger.admit(&batch(&[])).unwrap().is_empty());
    assert_eq!((ledger.open(), ledger.bytes(), ledger.oldest()), (0, 0, None));
}

/// P36
#[test]
fn a_batch_is_kept_until_the_last_of_its_messages_is_settled() {
    let mut ledger = Ledger::new(10);
    let (first, second) = (batch(&[0, 1]), batch(&[2]));
    let (first_bytes, second_bytes) = (first.bytes(), second.bytes());
    ledger.admit(&first).unwrap();
    ledger.admit(&second).unwrap();
    assert_eq!(ledger.bytes(), first_bytes + second_bytes);

    let completed = ledger.settle(&slots(&[1, 2]), Done);
    assert_eq!(completed.freed_bytes, second_bytes);
    assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (2, 1));

    let completed = ledger.settle(&slots(&[0]), Failed);
    assert_eq!((completed.freed_bytes, completed.counts.get(Failed)), (0, 1));
    assert_eq!(Arc::strong_count(&first), 2, "a failed message's original stays retrievable");
}

/// P36, P46
#[test]
fn a_message_that_fails_in_two_shares_is_diverted_once_with_its_original_record() {
    let mut ledger = Ledger::new(10);
    let records = batch(&[7, 9]);
    ledger.admit(&records).unwrap();
    ledger.share([(Slot::single(1), 1)]);
    let bundle = ledger.bundle(slots(&[0, 1]));

    let diversions = ledger.begin_diversion(Slot::single(1));
    assert_eq!(diversions.len(), 1);
    assert_eq!(diversions[0].batch.get(diversions[0].row).position(), Position::new(9));
    let diversions = ledger.begin_diversion(bundle);
    assert_eq!(diversions.len(), 1, "the other one of the bundle is diverted by somebody else");
    assert_eq!(diversions[0].batch.get(diversions[0].row).position(), Position::new(7));
    assert!(ledger.begin_diversion(bundle).is_empty());
}

#[test]
fn the_oldest_message_names_the_step_that_took_it_last() {
    let mut ledger = Ledger::new(10);
    ledger.admit(&batch(&[4, 5])).unwrap();
    assert_eq!(ledger.oldest().unwrap().holder, StepId::SOURCE);
    ledger.hold(&slots(&[0]), StepId::new(2));
    let bundle = ledger.bundle(slots(&[0, 1]));
    ledger.hold(&[bundle], StepId::new(3));
    let expected = OldestOpen {
        position: Position::new(4),
        holder: StepId::new(3),
        outcome: Outcome::Filtered,
    };
    assert_eq!(ledger.oldest(), Some(expected));
}

/// P35
#[test]
fn an_idle_ledger_does_not_keep_the_room_of_its_busiest_time() {
    let mut ledger = Ledger::new(100_000);
    let positions: Vec<_> = (0..50_000).collect();
    ledger.admit(&batch(&positions)).unwrap();
    ledger.settle_range(0..49_999, Done);
    assert!(ledger.slots.capacity() >= 50_000, "it is busy still");
    ledger.settle_range(49_999..50_000, Done);
    assert!(ledger.slots.capacity() <= 2 * IDLE_SLOTS);
    ledger.admit(&batch(&[50_000])).unwrap();
    ledger.settle_range(50_000..50_001, Done);
    assert_eq!(ledger.frontier(), Some(Position::new(50_001)));
}

#[test]
fn a_settlement_says_what_it_changed() {
    let mut ledger = Ledger::new(10);
    let records = batch(&[0, 1, 2]);
    ledger.admit(&records).unwrap();
    ledger.share([(Slot::single(0), 1)]);

    let completed = ledger.settle(&slots(&[0, 1]), Filtered);
    assert_eq!((completed.counts.total(), completed.counts.get(Filtered)), (1, 1));
    assert!(!completed.frontier_moved && !completed.drained);

    let completed = ledger.settle(&slots(&[0]), Done);
    assert_eq!((completed.counts.total(), completed.counts.get(Done)), (1, 1), "the worse one");
    assert!(completed.frontier_moved && !completed.drained);

    let completed = ledger.settle(&slots(&[2]), Diverted);
    assert_eq!(completed.counts.get(Diverted), 1);
    assert_eq!(completed.freed_bytes, records.bytes());
    assert!(completed.frontier_moved && completed.drained);
}

#[test]
#[should_panic(expected = "a share is answered once")]
fn a_second_answer_for_the_same_share_is_a_bug_and_is_not_overlooked() {
    let mut ledger = Ledger::new(10);
    ledger.admit(&batch(&[0, 1])).unwrap();
    ledger.settle(&slots(&[1]), Done);
    ledger.settle(&slots(&[1]), Done);
}
