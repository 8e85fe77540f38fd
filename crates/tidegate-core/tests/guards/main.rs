//! The guards (deliveries, chunks, receipts, rejections) on a real ledger: whatever happens to
//! them, every message ends with one outcome.
#![allow(clippy::unwrap_used)] // a failed unwrap is a failed test

mod abandoned;
mod flat_map;
mod model;
mod panics;
mod parts;
mod recorder;
mod threads;
