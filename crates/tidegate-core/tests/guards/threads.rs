//! Several threads answer for parts of the same ledger at once.

use std::sync::mpsc;
use std::thread;

use tidegate_core::{Chunk, Outcome};

use crate::recorder::{batch, chunk, frontier, ledger};

const THREADS: usize = 4;
const BATCHES: u64 = 200;
const RECORDS: u64 = 50;

/// Deals parts of every batch out to the threads, which handle them while more are admitted.
fn deal(ledger: &tidegate_core::SharedLedger, work: fn(usize, Chunk<u64>)) {
    thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|worker| {
                let (give, take) = mpsc::channel();
                scope.spawn(move || take.into_iter().for_each(|chunk| work(worker, chunk)));
                give
            })
            .collect();
        for number in 0..BATCHES {
            let first = number * RECORDS;
            let mut rest = chunk(ledger.admit(batch(first..first + RECORDS)).unwrap());
            for (worker, give) in workers.iter().enumerate() {
                let part = rest.split_front(1 + (worker + number as usize) % 17);
                part.duplicate(2).into_iter().for_each(|copy| give.send(copy).unwrap());
            }
            workers[number as usize % THREADS].send(rest).unwrap();
        }
    });
}

/// P1, P2
#[test]
fn answers_from_several_threads_are_all_counted_once() {
    let (ledger, recorder) = ledger();
    deal(&ledger, |worker, chunk| {
        let transformed = chunk.try_filter_map(|value| match (value % 5, worker) {
            (0, _) => Ok(None),
            (1, 0) => Err("one thread refuses".into()),
            _ => Ok(Some(value)),
        });
        transformed.rejected.settle(Outcome::Diverted);
        if let Some(bundle) = transformed.chunk.bundle() {
            bundle.settle(Outcome::Done);
        }
    });
    let heard = recorder.heard();
    assert_eq!(heard.counts.total(), BATCHES * RECORDS);
    assert_eq!(heard.counts.get(Outcome::Filtered), BATCHES * RECORDS / 5);
    assert_eq!(heard.counts.get(Outcome::Failed) + heard.counts.get(Outcome::Abandoned), 0);
    assert!(heard.abandoned.is_empty() && heard.drained > 0);
    assert_eq!((frontier(&ledger), ledger.open()), (Some(BATCHES * RECORDS), 0));
}

/// P9
#[test]
fn a_thread_that_loses_its_parts_is_noticed_and_the_others_are_not_harmed() {
    let (ledger, recorder) = ledger();
    deal(
        &ledger,
        |worker, chunk| {
            if worker == 3 { drop(chunk) } else { chunk.settle(Outcome::Done) }
        },
    );
    let heard = recorder.heard();
    assert_eq!(heard.counts.total(), BATCHES * RECORDS);
    let lost = heard.counts.get(Outcome::Abandoned);
    assert!(lost > 0 && heard.counts.get(Outcome::Done) == BATCHES * RECORDS - lost);
    assert_eq!((ledger.open() as u64, ledger.pending()), (lost, 0));
    let oldest = ledger.oldest().unwrap();
    assert_eq!((oldest.outcome, Some(oldest.position)), (Outcome::Abandoned, ledger.frontier()));
}

/// P22
#[test]
fn a_fence_in_the_middle_of_it_freezes_the_frontier() {
    let (ledger, recorder) = ledger();
    let (fenced, at) = thread::scope(|scope| {
        let zombie = scope.spawn(|| deal(&ledger, |_, chunk| chunk.settle(Outcome::Done)));
        while ledger.frontier().is_none() {
            thread::yield_now();
        }
        ledger.fence();
        let at = ledger.frontier();
        zombie.join().unwrap();
        (ledger.is_fenced(), at)
    });
    assert!(fenced && at.is_some());
    assert_eq!((ledger.frontier(), ledger.open()), (at, 0));
    assert!(recorder.heard().abandoned.is_empty());
}
