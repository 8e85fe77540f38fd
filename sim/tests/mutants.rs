//! The checkers can fail: each world that is broken on purpose is found out within a few seeds.

use tidegate_sim::mutant::Mutant;
use tidegate_sim::run::check;
use tidegate_sim::scenario::LogKind;

/// The most seeds that a mutant may live through.
const SEEDS: u64 = 100;

/// What must be said of it.
fn rule(mutant: Mutant) -> &'static [&'static str] {
    match mutant {
        Mutant::CommitOneTooFar => &["P5", "P1"],
        Mutant::CommitGoesBack => &["P5", "P14"],
        Mutant::AnswerBeforeWrite | Mutant::LoseItem => &["P1"],
        Mutant::WriteTwice => &["P13"],
        Mutant::WriteBackwards => &["P50"],
        Mutant::LoseLetter => &["P1"],
        Mutant::AcceptZombies => &["P22"],
        Mutant::SkipBatch => &["source:"],
        Mutant::DropMessage => &["P9", "P14"],
        Mutant::WorkTwice => &["P16"],
        Mutant::NeverAnswer => &["P31"],
        Mutant::Unseeded => &["two courses"],
    }
}

/// The seed that finds it, and what is said of it.
fn found(mutant: Mutant, log: LogKind) -> Option<(u64, String)> {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    (0..SEEDS).find_map(|seed| {
        let failure = check(seed, Some(log), Some(mutant), scratch.path()).failure?;
        Some((seed, failure))
    })
}

#[test]
fn every_mutant_is_found_out_on_the_memory_log() {
    for mutant in Mutant::ALL {
        let found = found(mutant, LogKind::Memory);
        let (seed, failure) = found.unwrap_or_else(|| panic!("{} lives", mutant.name()));
        let expected = rule(mutant);
        assert!(
            expected.iter().any(|rule| failure.contains(rule)),
            "{} in seed {seed}: {failure}",
            mutant.name()
        );
    }
}

#[test]
fn what_a_sink_or_a_step_does_wrong_is_found_out_on_the_local_log_too() {
    for mutant in
        [Mutant::LoseItem, Mutant::LoseLetter, Mutant::CommitOneTooFar, Mutant::DropMessage]
    {
        assert!(found(mutant, LogKind::Local).is_some(), "{} lives", mutant.name());
    }
}
