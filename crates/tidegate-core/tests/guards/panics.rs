//! A panic of the author's code rejects the message it happened at. Its neighbours go on, in
//! order (P43, P50).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tidegate_core::{
    Chunk, Delivery, Generation, Message, Outcome, Partition, Rejected, SharedLedger, Transformed,
};

use crate::recorder::{
    Recorder, STEP, admitted, batch, chunk, first, frontier, ledger, quiet_panic,
};

/// P43, P50
#[test]
fn a_panic_in_a_closure_rejects_exactly_the_message_it_happened_at() {
    fn doubled(value: u64, bad: &[u64]) -> u64 {
        if bad.contains(&value) { quiet_panic(&format!("at {value}")) } else { value * 2 }
    }
    type Way = fn(Delivery, &[u64]) -> (Vec<Chunk<u64>>, Vec<Rejected>);
    fn one(transformed: Transformed<u64>) -> (Vec<Chunk<u64>>, Vec<Rejected>) {
        (vec![transformed.chunk], vec![transformed.rejected])
    }
    let ways: [(&str, Way); 6] = [
        ("transform", |delivery, bad| {
            one(delivery.transform(STEP, |r| Ok(Some(doubled(r.position().get(), bad)))))
        }),
        ("map", |delivery, bad| one(chunk(delivery).map(|value| doubled(value, bad)))),
        ("try_filter_map", |delivery, bad| {
            one(chunk(delivery).try_filter_map(|value| Ok(Some(doubled(value, bad)))))
        }),
        ("flat_map, in the closure", |delivery, bad| {
            let mut asked = chunk(delivery).flat_map(|value| [Ok::<_, &str>(doubled(value, bad))]);
            one(asked.next_chunk(100).unwrap())
        }),
        ("flat_map, in the iterator", |delivery, bad| {
            let mut asked = chunk(delivery)
                .flat_map(|value| std::iter::once_with(move || Ok::<_, &str>(doubled(value, bad))));
            let (mut chunks, mut rejections) = (Vec::new(), Vec::new());
            while let Some(transformed) = asked.next_chunk(2) {
                chunks.push(transformed.chunk);
                rejections.push(transformed.rejected);
            }
            (chunks, rejections)
        }),
        ("partition_by", |delivery, bad| {
            let choose = |value: &u64| Some(usize::from(doubled(*value, bad) > 100));
            let (mut parts, rejected) = chunk(delivery).partition_by(1, choose);
            let kept = parts.remove(0).map(|value| value * 2);
            assert!(kept.rejected.is_empty());
            (vec![kept.chunk], vec![rejected])
        }),
    ];
    let all = [0, 1, 2, 3, 4];
    for (name, way) in ways {
        for bad in [&all[..0], &[0], &[2], &[4], &[1, 2], &[0, 2, 4], &all] {
            let case = format!("{name}, bad: {bad:?}");
            let (ledger, recorder) = ledger();
            let (chunks, rejections) = way(ledger.admit(batch(0..5)).unwrap(), bad);
            let good: Vec<_> = all.iter().filter(|v| !bad.contains(v)).map(|v| v * 2).collect();
            let values: Vec<_> = chunks.iter().flat_map(|chunk| chunk.values()).copied().collect();
            assert_eq!(values, good, "{case}");
            assert_eq!(rejections.iter().map(Rejected::len).sum::<usize>(), bad.len(), "{case}");
            if let Some(rejected) = rejections.iter().find(|rejected| !rejected.is_empty()) {
                let expected = (bad[0], format!("panicked: at {}", bad[0]));
                assert_eq!(first(rejected), expected, "{case}");
            }

            chunks.into_iter().for_each(|chunk| chunk.settle(Outcome::Done));
            let passed = bad.first().copied().unwrap_or(5);
            assert_eq!(frontier(&ledger), (passed > 0).then_some(passed), "{case}");
            rejections.into_iter().for_each(|rejected| rejected.settle(Outcome::Diverted));
            let counts = [0, good.len() as u64, bad.len() as u64, 0, 0];
            assert_eq!(recorder.counts(), counts, "{case}");
            assert_eq!(frontier(&ledger), Some(5), "{case}");
        }
    }
}

#[test]
fn whatever_is_thrown_becomes_an_error_also_if_it_panics_when_it_is_dropped() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            quiet_panic("dropped");
        }
    }
    let (_, recorder, chunk) = admitted(3);
    let transformed = chunk.map(|value| match value {
        0 => std::panic::resume_unwind(Box::new("text")),
        1 => std::panic::resume_unwind(Box::new(Bomb)),
        _ => std::panic::resume_unwind(Box::new("owned text".to_owned())),
    });
    assert!(transformed.chunk.is_empty());
    let errors: Vec<_> = transformed
        .rejected
        .begin_diversion()
        .into_iter()
        .map(|(error, _)| error.to_string())
        .collect();
    assert_eq!(errors, ["panicked: text", "panicked: (no message)", "panicked: owned text"]);
    transformed.rejected.settle(Outcome::Failed);
    assert_eq!(recorder.counts(), [0, 0, 0, 3, 0]);
}

/// P9
#[test]
fn a_clone_that_panics_leaves_no_share_behind_that_nobody_answers() {
    #[derive(Debug)]
    struct Fragile(u64);
    impl Clone for Fragile {
        fn clone(&self) -> Self {
            if self.0 == 1 { quiet_panic("clone") } else { Self(self.0) }
        }
    }
    let (ledger, recorder, chunk) = admitted(2);
    let chunk = chunk.map(Fragile).chunk;
    catch_unwind(AssertUnwindSafe(|| chunk.duplicate(3))).unwrap_err();
    assert_eq!(recorder.counts(), [0, 0, 0, 0, 2], "abandoned, and nothing is pending");
    assert_eq!((ledger.pending(), frontier(&ledger)), (0, None));
}

/// P9
#[test]
fn a_value_that_panics_when_it_is_dropped_does_not_swallow_the_answer() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            quiet_panic("dropped");
        }
    }
    let (ledger, recorder, chunk) = admitted(1);
    let chunk = chunk.map(|_| Bomb).chunk;
    catch_unwind(AssertUnwindSafe(|| chunk.settle(Outcome::Done))).unwrap_err();
    assert_eq!((recorder.counts(), frontier(&ledger)), ([0, 1, 0, 0, 0], Some(1)));
}

fn other_ledger() -> (SharedLedger, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let partition = Partition::new("t", 0);
    (SharedLedger::new(partition, Generation::new(2), 100, recorder.clone()), recorder)
}

/// P9, P22
#[test]
fn messages_of_two_generations_don_t_mix_and_each_is_abandoned_in_its_own_ledger() {
    let mix: [fn(Chunk<u64>, Chunk<u64>); 2] = [
        |mut one, other| one.append(other),
        |one, other| {
            let messages: Vec<Message<u64>> =
                one.into_messages().chain(other.into_messages()).collect();
            drop(Chunk::from_messages(messages));
        },
    ];
    for mix in mix {
        let (_first, first_heard, one) = admitted(2);
        let (second, second_heard) = other_ledger();
        // The other ledger's slots have higher numbers than the first one has at all.
        chunk(second.admit(batch(0..50)).unwrap()).settle(Outcome::Done);
        let other = chunk(second.admit(batch(50..53)).unwrap());
        catch_unwind(AssertUnwindSafe(|| mix(one, other))).unwrap_err();
        assert_eq!(first_heard.counts(), [0, 0, 0, 0, 2]);
        assert_eq!(second_heard.counts(), [0, 50, 0, 0, 3]);
        assert_eq!(frontier(&second), Some(50));
    }
}
