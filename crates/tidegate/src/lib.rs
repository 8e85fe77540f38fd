//! Stream consumers that never lose a message.
//!
//! You write what happens to a message. Tidegate decides when the source may forget it: after
//! everything made from it is durable, whatever fails in between.
//!
//! This crate is the one to depend on. It re-exports the contracts ([`tidegate_core`]), the engine
//! ([`tidegate_runtime`]) and, behind features of the same name, the connectors.

pub use tidegate_core as core;
#[cfg(feature = "file")]
pub use tidegate_file as file;
#[cfg(feature = "local")]
pub use tidegate_local as local;
pub use tidegate_runtime as runtime;
#[cfg(feature = "sqlite")]
pub use tidegate_sqlite as sqlite;

/// What most pipelines need.
pub mod prelude {
    pub use tidegate_core::{
        BoxError, DeadLetter, Outcome, Partition, Position, Record, Sink, Source, Step,
    };
    pub use tidegate_runtime::{
        BatchLimits, CommitPolicy, Concurrency, Flow, Handle, Pipeline, PipelineError,
        RecordStream, Running, Settings, Status, Stream, Summary,
    };
}

/// The README and the guide's pages, compiled and run as tests.
#[cfg(doctest)]
mod guide {
    #[cfg(feature = "file")]
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/guide/sink.md")]
    struct Sink;
    #[doc = include_str!("../../../docs/guide/source.md")]
    struct Source;
    #[doc = include_str!("../../../docs/guide/step.md")]
    struct Step;
}
