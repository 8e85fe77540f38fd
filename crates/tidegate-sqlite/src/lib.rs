//! SQLite for Tidegate: a table sink and the position store.
//!
//! - [`SqliteSink`] writes each item as one row, by insert or by upsert. A row that can't be
//!   written is refused by itself, and its neighbours in the batch are written. An item is done
//!   once the transaction that holds it is committed and synced to the disk.
//! - [`SqliteStore`] keeps the positions of sources that have no broker to keep them. A save is
//!   one synced transaction; what is read back is checked, row by row.
//!
//! Both open the file in WAL mode with `synchronous = FULL`, and may share one file: each has a
//! connection of its own, and waits for the other up to its busy timeout.
//!
//! Only `client.rs` knows the driver. SQLite is compiled in, so nothing has to be installed.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod config;
mod column_type;
mod date_time;
mod columns;

mod client;
mod worker;
mod error;

mod table;
mod sink;

mod checksum;
mod store_lock;
mod store;

pub use column_type::ColumnType;
pub use columns::Columns;
pub use config::{ConfigProblem, SqliteSinkConfig, SqliteStoreConfig};
pub use sink::SqliteSink;
pub use store::SqliteStore;
