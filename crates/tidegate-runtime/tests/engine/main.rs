//! The engine from outside: scripted sources, probe sinks, virtual time. The numbers are those of
//! the properties that a test proves.

#![allow(clippy::unwrap_used)]

mod support;

mod outcomes;
mod commits;
mod back_pressure;
mod failures;
mod broken_parts;
mod rebalance;
mod drain;
mod crash;
mod storms;
mod stalls;
mod map_async;
mod map_blocking;
mod batch;
mod throttle;
mod threads;
mod review_guards;
mod review_shutdown;
