//! The rules of [`Source`](tidegate_core::Source), [`Sink`](tidegate_core::Sink) and
//! [`PositionStore`](tidegate_core::PositionStore), as checks that run against any of them.
//!
//! A connector implements a harness, which makes the part, feeds it and looks at what became
//! durable *without* the part, and calls [`source`], [`sink`] or [`store`] in its
//! `tests/conformance.rs`. Which checks run depends on what the part declares and on what the
//! harness can do; those that don't run are in the [`Report`] with the reason, and the caller says
//! which ones it expects, so that none is left out unnoticed.
//!
//! ```
//! # use tidegate_core::{PositionStore, SavedPosition, StoreError};
//! # use tidegate_testkit::conformance::{StoreHarness, store};
//! # use std::sync::{Arc, Mutex};
//! # #[derive(Default)] struct Memory(Arc<Mutex<Vec<SavedPosition>>>);
//! # impl PositionStore for Memory {
//! #     async fn load(&mut self) -> Result<Vec<SavedPosition>, StoreError> {
//! #         Ok(self.0.lock().unwrap().clone())
//! #     }
//! #     async fn save(&mut self, positions: &[SavedPosition]) -> Result<(), StoreError> {
//! #         let mut saved = self.0.lock().unwrap();
//! #         for new in positions {
//! #             saved.retain(|old| old.partition != new.partition);
//! #             saved.push(new.clone());
//! #         }
//! #         Ok(())
//! #     }
//! # }
//! #[derive(Default)]
//! struct InMemory(Memory);
//!
//! impl StoreHarness for InMemory {
//!     type Store = Memory;
//!     async fn reset(&mut self) {
//!         self.0 = Memory::default();
//!     }
//!     async fn open(&mut self) -> Memory {
//!         Memory(self.0.0.clone())
//!     }
//! }
//!
//! # tidegate_testkit::run_virtual(async {
//! let report = store(&mut InMemory::default()).await;
//! report.assert_passed_except(&["refuses_damaged_content"]);
//! # });
//! ```

mod report;
mod cancel;
mod source_harness;
mod source_driver;
mod source;
mod rebalance;
mod sink;
mod store;

pub use report::{Report, Skipped};
pub use sink::{SinkHarness, sink};
pub use source::source;
pub use source_harness::SourceHarness;
pub use store::{StoreHarness, store};
