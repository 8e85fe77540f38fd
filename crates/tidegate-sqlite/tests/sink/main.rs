//! The sink against real files, looked at through a connection of its own.
#![allow(clippy::unwrap_used, missing_docs)]

mod create;
mod faults;
mod model;
mod rows;
mod types;

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::types::Value as Sql;
use serde_json::Value as Json;
use tempfile::TempDir;
use tidegate_core::{Sink as _, SinkError};
use tidegate_sqlite::{SqliteSink, SqliteSinkConfig};

/// A database file in a folder of its own.
struct Database {
    folder: TempDir,
    path: PathBuf,
}

impl Database {
    /// A file that isn't there yet.
    fn absent() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.db");
        Self { folder, path }
    }

    /// A file in which these statements were run.
    fn with(sql: &str) -> Self {
        let database = Self::absent();
        database.connect().execute_batch(sql).unwrap();
        database
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn connect(&self) -> Connection {
        Connection::open(&self.path).unwrap()
    }

    fn config(&self, table: &str) -> SqliteSinkConfig {
        SqliteSinkConfig::new(&self.path, table)
    }

    /// All rows that the query returns, `typeof` included if it asks for it.
    fn query(&self, sql: &str) -> Vec<Vec<Sql>> {
        let connection = self.connect();
        let mut statement = connection.prepare(sql).unwrap();
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| (0..columns).map(|i| row.get(i)).collect());
        rows.unwrap().collect::<Result<_, _>>().unwrap()
    }

    /// The query's rows, each as its columns joined with spaces.
    fn text(&self, sql: &str) -> Vec<String> {
        let show = |value: Sql| match value {
            Sql::Null => "-".to_owned(),
            Sql::Integer(integer) => integer.to_string(),
            Sql::Real(real) => format!("{real:?}"),
            Sql::Text(text) => text,
            Sql::Blob(blob) => format!("{blob:?}"),
        };
        let join = |row: Vec<Sql>| row.into_iter().map(show).collect::<Vec<_>>().join(" ");
        self.query(sql).into_iter().map(join).collect()
    }
}

async fn open(config: SqliteSinkConfig) -> Result<SqliteSink<Json>, SinkError> {
    let mut sink = SqliteSink::new(config);
    sink.open().await?;
    Ok(sink)
}

/// Writes the batch and returns what was refused, as `index: reason`.
async fn write(sink: &mut SqliteSink<Json>, batch: &[Json]) -> Vec<String> {
    let report = sink.write(batch).await.unwrap();
    assert_eq!(report.len(), batch.len());
    let refused = report.into_rejections();
    refused.into_iter().map(|(index, error)| format!("{index}: {error}")).collect()
}
