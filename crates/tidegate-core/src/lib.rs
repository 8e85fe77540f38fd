//! The contracts and the book-keeping of Tidegate.
//!
//! This crate does no I/O, starts no task and reads no clock: time and randomness come in as
//! values, decisions go out as values, and the runtime performs them. It holds three things:
//!
//! - the words everything else is written in: [`Position`], [`Partition`], [`Record`], [`Outcome`];
//! - the ledger ([`Ledger`], [`SharedLedger`]) and the guards that make losing a message
//!   impossible: [`Chunk`], [`Message`], [`Receipt`];
//! - the traits that parts from outside implement: [`Source`], [`Sink`], [`Step`],
//!   [`PositionStore`].
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod partition;
mod position;
mod time;

mod record;
mod record_batch;

mod outcome;
mod ledger;
mod shared_ledger;
mod receipt;
mod chunk;

mod outlet;
mod step;
mod demand;
mod source;
mod erased_source;
mod sink;
mod store;
mod erased_store;
mod dead_letter;
mod token_bucket;
mod guarantee;
mod error;

pub mod human_duration;

pub use chunk::{Chunk, FlatMapped, Messages, Transformed};
pub use dead_letter::DeadLetter;
pub use demand::Demand;
pub use erased_source::BoxSource;
pub use erased_store::BoxPositionStore;
pub use error::{BoxError, Panicked, SinkError, SourceError, Stopped, StoreError, error_chain};
pub use guarantee::{Guarantee, SinkFacts};
pub use ledger::{Completed, Diversion, Ledger, LedgerFull, OldestOpen};
pub use outcome::{Outcome, OutcomeCounts};
pub use outlet::{BoxFuture, FailureHandler, Outlet, Push};
pub use partition::Partition;
pub use position::{Generation, Position, Slot, StepId};
pub use receipt::{Message, Receipt, Rejected};
pub use record::{Header, OwnedRecord, Record};
pub use record_batch::{BatchFull, NewRecord, RecordBatch, RecordBatchBuilder};
pub use shared_ledger::{Delivery, LedgerObserver, SharedLedger};
pub use sink::{ItemError, Report, Sink, SinkCapabilities};
pub use source::{
    Assignment, Commit, CommitReport, PartitionFrontier, Revocation, Source, SourceCapabilities,
    SourceEvent,
};
pub use step::Step;
pub use store::{PositionStore, SavedPosition};
pub use time::{Clock, Moment, Timestamp};
pub use token_bucket::TokenBucket;
