//! Runs Tidegate pipelines on tokio.
//!
//! The journey of a message: [`Source::next`](tidegate_core::Source::next) in the coordinator →
//! the partition's ledger admits it → the partition's task runs the steps on chunks → a sink's
//! task writes and reports → the receipts settle → the ledger's frontier moves → the coordinator
//! commits it.
//!
//! What must hold, and where it is seen to:
//!
//! - the coordinator never waits for a step, a sink or the dead letters (`coordinator`);
//! - every channel is bounded, and sources read only with credit (`coordinator::credit`);
//! - one deadline bounds a drain (`coordinator::drain`);
//! - a message that fails is diverted or stops the pipeline, never dropped (`dead_letters`).
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod settings;
mod status;
mod error;

mod plan;
mod pipeline;
mod record_stream;
mod stream;
mod fan_out;
mod steps;

mod timer;
mod backoff;
mod log_limit;
mod board;
mod task;
mod ending;
mod sink_writer;
mod sink_task;
mod dead_letters;
mod coordinator;
mod running;

pub use error::{PipelineError, PipelineErrorKind};
pub use fan_out::{Branches, Ways};
pub use pipeline::Pipeline;
pub use plan::Label;
pub use record_stream::RecordStream;
pub use running::{Handle, Running};
pub use settings::{CommitPolicy, Limits, RetryPolicy, Settings, Threads};
pub use status::{Stall, Status, Summary};
pub use steps::{BatchLimits, Concurrency};
pub use stream::{Flow, Origin, Stream, Sub, Top};
