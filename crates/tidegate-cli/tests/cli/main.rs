//! The built command, run as its users run it: each test in a folder of its own.
#![allow(clippy::unwrap_used)]

mod check;
mod common;
mod run;
mod topics;
