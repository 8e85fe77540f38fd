//! The `tidegate` command: runs and checks declared pipelines, and looks after local topics.
//!
//! - Exit codes: 0 done, 1 failed, 2 wrong usage or an invalid pipeline file, 130 stopped at once
//!   by a second signal. A panic ends with 101.
//! - Results go to standard output; progress, logs and errors to standard error.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cli;
mod commands;
mod build;
mod config;
mod jq;

mod console;
mod logging;
mod progress;
mod signals;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match commands::run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
