//! One file for each command.

mod check;
mod describe;
mod execute;
mod file;
mod produce;
mod run;
mod topics;

use std::process::ExitCode;

use crate::cli::Command;
use crate::console;

/// Runs a command.
pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::check(&args),
        Command::Produce(args) => produce::produce(args),
        Command::Topics(args) => topics::topics(&args),
    }
}

/// Why a command didn't do what it was to do.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It failed; the message says what to do.
    Failed(String),
    /// It was asked for something that makes no sense; nothing was done.
    Usage(String),
    /// The problems of a file, which are shown already.
    Invalid,
}

impl Failure {
    /// Shows it, and says how the process ends.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Self::Failed(message) => {
                console::error(message);
                ExitCode::from(1)
            }
            Self::Usage(message) => {
                console::error(message);
                ExitCode::from(2)
            }
            Self::Invalid => ExitCode::from(2),
        }
    }
}
