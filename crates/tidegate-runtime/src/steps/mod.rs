//! The steps that come with Tidegate.

mod batch;
mod branch;
mod each;
mod flat_map;
mod fork;
mod map_async;
mod tee;
mod throttle;

pub use batch::BatchLimits;
pub use map_async::Concurrency;

pub(crate) use batch::{Batch, Measure};
pub(crate) use branch::{Branch, Predicate};
pub(crate) use each::{Map, TryFilterMap};
pub(crate) use flat_map::FlatMap;
pub(crate) use fork::Fork;
pub(crate) use map_async::MapAsync;
pub(crate) use tee::Tee;
pub(crate) use throttle::Throttle;
