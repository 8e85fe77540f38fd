//! The public conformance suites.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_sqlite::{SqliteSink, SqliteSinkConfig, SqliteStore, SqliteStoreConfig};
use tidegate_testkit::conformance::{self, SinkHarness, StoreHarness};

/// A database file; each place is a new folder.
struct Database {
    folder: TempDir,
    key: Option<&'static str>,
    lock: Option<Connection>,
}

impl Database {
    fn new(key: Option<&'static str>) -> Self {
        let database = Self { folder: tempfile::tempdir().unwrap(), key, lock: None };
        let unique = if key.is_some() { "PRIMARY KEY" } else { "" };
        let table = format!("CREATE TABLE t (id INTEGER {unique}, name TEXT NOT NULL)");
        database.connect().execute_batch(&table).unwrap();
        database
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("out.db")
    }

    fn connect(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }
}

impl SinkHarness for Database {
    type Sink = SqliteSink<Value>;

    async fn reset(&mut self) {
        *self = Self::new(self.key);
    }

    async fn make(&mut self) -> SqliteSink<Value> {
        let config = SqliteSinkConfig::new(self.path(), "t").busy_timeout(Duration::from_millis(1));
        SqliteSink::new(config.key(self.key))
    }

    fn item(&self, number: u64) -> Value {
        json!({"id": number, "name": format!("number {number}")})
    }

    fn bad_item(&self) -> Option<Value> {
        Some(json!({"id": 1, "name": null}))
    }

    async fn read(&mut self) -> Vec<u64> {
        let connection = self.connect();
        let mut rows = connection.prepare("SELECT id FROM t ORDER BY rowid").unwrap();
        let ids = rows.query_map([], |row| row.get::<_, i64>(0)).unwrap();
        ids.map(|id| id.unwrap().try_into().unwrap()).collect()
    }

    fn keeps_order(&self) -> bool {
        self.key.is_none()
    }

    async fn break_down(&mut self) -> bool {
        let other = self.connect();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        self.lock = Some(other);
        true
    }

    async fn repair(&mut self) {
        self.lock = None;
    }
}

/// P6, P43
#[tokio::test]
async fn the_sink_that_inserts_conforms() {
    let report = conformance::sink(&mut Database::new(None)).await;
    report.assert_passed_except(&["repeats_leave_one"]);
}

/// P6, P43
#[tokio::test]
async fn the_sink_that_upserts_conforms() {
    let report = conformance::sink(&mut Database::new(Some("id"))).await;
    report.assert_passed_except(&["keeps_the_order"]);
}

struct State(TempDir);

impl State {
    fn path(&self) -> PathBuf {
        self.0.path().join("state.db")
    }
}

impl StoreHarness for State {
    type Store = SqliteStore;

    async fn reset(&mut self) {
        self.0 = tempfile::tempdir().unwrap();
    }

    async fn open(&mut self) -> SqliteStore {
        SqliteStore::open(&SqliteStoreConfig::new(self.path()), "p").unwrap()
    }

    async fn damage(&mut self) -> bool {
        let connection = Connection::open(self.path()).unwrap();
        let change = "UPDATE tidegate_positions SET checksum = checksum + 1";
        connection.execute_batch(change).unwrap();
        true
    }
}

/// P7, P12
#[tokio::test]
async fn the_store_conforms() {
    conformance::store(&mut State(tempfile::tempdir().unwrap())).await.assert_passed();
}
