//! Test kit for Tidegate: what a pipeline's author, a connector's author and Tidegate's own tests
//! drive pipelines with.
//!
//! What must hold:
//!
//! - nothing sleeps in real time to "let things happen": tests wait for a condition, and every
//!   wait has a limit after which it panics and says what it was waiting for;
//! - what a source or a sink has made durable outlives it ([`SourceControl`], [`SinkControl`]), so
//!   that a crash and a restart is a second pipeline on the same controls;
//! - the checkers ([`Checker`]) know nothing of the engine: they read the [`Journal`], which only
//!   the outside of the pipeline writes to.
//!
//! ```
//! use std::time::Duration;
//! use tidegate_runtime::Pipeline;
//! use tidegate_testkit::{SinkControl, SourceControl, run_virtual, text, virtual_settings};
//!
//! run_virtual(async {
//!     let source = SourceControl::new("orders", 1);
//!     let sink = SinkControl::new();
//!     source.push(0, "7");
//!     source.end();
//!     let summary = Pipeline::new("doubled")
//!         .settings(virtual_settings())
//!         .source(source.source())
//!         .try_map(|record| text(record).parse::<u64>())
//!         .map(|n| n * 2)
//!         .sink(sink.sink())
//!         .run()
//!         .await?;
//!     assert_eq!(sink.items(), [14]);
//!     assert_eq!(summary.status.committed, 1);
//!     Ok::<_, tidegate_runtime::PipelineError>(())
//! })?;
//! # Ok::<_, tidegate_runtime::PipelineError>(())
//! ```
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod signal;
mod process;
mod gate;
mod fault;
mod fault_point;

mod journal;
mod checker;

mod source;
mod sink;

mod virtual_time;
mod test_pipeline;

pub mod conformance;

pub use checker::{Checker, EarlyCommit, Findings, Order};
pub use fault::Fault;
pub use fault_point::FaultPoint;
pub use gate::Gate;
pub use journal::{Entry, Event, Journal, RecordId};
pub use process::Process;
pub use sink::{ProbeSink, SinkControl};
pub use source::{ScriptedSource, SourceControl};
pub use test_pipeline::{Handled, TestPipeline};
pub use virtual_time::{EPOCH, pass, run_virtual, text, virtual_clock, virtual_settings};
