//! The command line.

use std::ops::Range;
use std::time::Duration;

use tidegate_sim::mutant::Mutant;
use tidegate_sim::scenario::LogKind;

/// What `--help` prints.
pub(crate) const HELP: &str = "\
Simulates Tidegate pipelines: random shapes, random faults, checkers apart from the engine.
Each seed runs twice and must take the same course.

Usage: cargo run --release -- [OPTIONS]

  --seeds N        run N seeds (default 300)
  --from SEED      the first of them (default 0)
  --seed SEED      run this one only
  --minutes M      go on with new seeds for M minutes instead
  --source KIND    memory or local; without it the seed chooses
  --trace          print what happened (with --seed)
  --mutant NAME    break the world on purpose, to see the checkers fail; `list` names them
  --help           print this

Ends with exit code 0 if all seeds passed. A seed that failed is printed with the command that
repeats it.
";

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) seeds: Range<u64>,
    pub(crate) time: Option<Duration>,
    pub(crate) log: Option<LogKind>,
    pub(crate) trace: bool,
    pub(crate) mutant: Option<Mutant>,
}

/// What to do.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Run(Options),
    Help,
    Mutants,
}

impl Request {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut from, mut count, mut minutes) = (0, 300, None);
        let (mut log, mut trace, mut mutant) = (None, false, None);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--seeds" => count = number(&value()?)?,
                "--from" => from = number(&value()?)?,
                "--seed" => (from, count) = (number(&value()?)?, 1),
                "--minutes" => minutes = Some(number(&value()?)?),
                "--source" => log = Some(kind(&value()?)?),
                "--trace" => trace = true,
                "--mutant" => match value()?.as_str() {
                    "list" => return Ok(Self::Mutants),
                    name => {
                        let known = Mutant::named(name);
                        mutant = Some(known.ok_or(format!("{name} is not a mutant: try `list`"))?);
                    }
                },
                "--help" | "-h" => return Ok(Self::Help),
                _ => return Err(format!("{word} is not an option: try --help")),
            }
        }
        if trace && count != 1 {
            return Err("--trace needs --seed: it prints one run".to_owned());
        }
        let end = if minutes.is_some() { u64::MAX } else { from + count };
        let time = minutes.map(|minutes: u64| Duration::from_secs(minutes * 60));
        Ok(Self::Run(Options { seeds: from..end, time, log, trace, mutant }))
    }
}

impl Options {
    /// The command that repeats a seed.
    pub(crate) fn command(&self, seed: u64) -> String {
        let mut command = format!("cargo run --release -- --seed {seed}");
        match self.log {
            Some(LogKind::Memory) => command.push_str(" --source memory"),
            Some(LogKind::Local) => command.push_str(" --source local"),
            None => {}
        }
        if let Some(mutant) = self.mutant {
            command.push_str(" --mutant ");
            command.push_str(mutant.name());
        }
        command + " --trace"
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number"))
}

fn kind(text: &str) -> Result<LogKind, String> {
    match text {
        "memory" => Ok(LogKind::Memory),
        "local" => Ok(LogKind::Local),
        _ => Err(format!("`{text}` is neither memory nor local")),
    }
}
