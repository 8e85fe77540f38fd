//! A few seeds of each kind, as a test. `cargo run --release` runs many more.

use tidegate_sim::run::check;
use tidegate_sim::scenario::LogKind;

fn all_pass(log: LogKind, seeds: u64) {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    for seed in 0..seeds {
        let checked = check(seed, Some(log), None, scratch.path());
        assert_eq!(checked.failure, None, "seed {seed} on {log:?}");
    }
}

#[test]
fn seeds_pass_on_the_memory_log_and_take_the_same_course_twice() {
    all_pass(LogKind::Memory, 100);
}

#[test]
fn seeds_pass_on_the_local_log_and_take_the_same_course_twice() {
    all_pass(LogKind::Local, 30);
}

/// The runs have to be worth something: everything that can go wrong does.
#[test]
fn the_seeds_of_the_test_go_through_every_kind_of_fault() {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let mut tally = tidegate_sim::world::Tally::default();
    for seed in 0..100 {
        tally.add(check(seed, Some(LogKind::Memory), None, scratch.path()).report.tally);
    }
    let counts = format!("{tally}");
    assert!(!counts.contains("=0 ") && !counts.ends_with("=0"), "{counts}");
}
