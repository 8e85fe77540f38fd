//! A seeded simulation of Tidegate.
//!
//! Each seed makes a random pipeline, random records and random faults, and runs core and runtime
//! with them in virtual time, on one thread: the same seed takes the same course. Checkers that
//! share no code with the engine watch the border between pipeline and world.
//!
//! - [`scenario`], [`shape`], [`fault`]: what is decided before a run.
//! - [`rules`], [`expect`]: what the author's code does, and what must come of it.
//! - [`world`], [`source`], [`sink`], [`log`]: what is around the pipelines, and goes wrong.
//! - [`account`]: what is durable, and the checkers.
//! - [`pipeline`], [`run`]: the engine's part, and one run.
//! - [`mutant`]: worlds that are broken on purpose, to see the checkers fail.

pub mod rng;
pub mod message;

pub mod shape;
pub mod fault;
pub mod scenario;
pub mod rules;
pub mod expect;

pub mod trace;
pub mod account;
pub mod mutant;
pub mod world;

pub mod memory_log;
pub mod memory_source;
pub mod log;
pub mod source;
pub mod sink;
pub mod hoard;

pub mod pipeline;
pub mod run;
