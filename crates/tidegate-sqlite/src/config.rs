//! Settings of the sink and of the store.
//!
//! Unknown keys are refused when they are read. What a type can't say is checked by
//! `problems()`, which reports everything at once, each with its key.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::columns::{Columns, same_name};

/// Where and how [`SqliteSink`](crate::SqliteSink) writes.
///
/// ```
/// let config: tidegate_sqlite::SqliteSinkConfig = serde_json::from_str(
///     r#"{"path": "out.db", "table": "flights", "key": ["id"], "busy_timeout": "2s"}"#,
/// )?;
/// assert_eq!(config.busy_timeout.as_secs(), 2);
/// assert!(!config.create && config.problems().is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SqliteSinkConfig {
    /// The database file. Made if it is missing; its folder must exist. It is switched to WAL
    /// mode, which SQLite remembers in the file.
    pub path: PathBuf,

    /// The table, by its bare name.
    pub table: String,

    /// The columns that tell rows apart. With a key, an item replaces the columns it has in the
    /// row with the same key (an upsert), so a message that is repeated after a crash leaves one
    /// row. The table needs a primary key or a unique index on exactly these columns.
    ///
    /// Default: none. Every item inserts a row, and a repeated message shows as another one.
    #[serde(default)]
    pub key: Vec<String>,

    /// Create the table if it is missing, with [`columns`](Self::columns) or, without them, with
    /// the columns of the first batch. The key becomes its primary key.
    ///
    /// Default: false, because a mistyped table name should be an error rather than a new table.
    #[serde(default)]
    pub create: bool,

    /// The columns and their types. They give a created table its shape, and take the place of
    /// the declared types of a table that exists (say, `json` for a column declared `TEXT`).
    ///
    /// Default: none. The types come from the table. A table that is created gets the columns
    /// that occur in the first batch: declare them when that isn't enough to know them all.
    #[serde(default)]
    pub columns: Columns,

    /// How long one statement waits for another process's or connection's lock before the write
    /// fails and is retried by the pipeline.
    ///
    /// Default: 5 s, longer than a healthy writer holds its lock and short enough to be noticed.
    #[serde(default = "default_busy_timeout", with = "tidegate_core::human_duration")]
    pub busy_timeout: Duration,
}

impl SqliteSinkConfig {
    /// Inserts into `table` of the file `path`; everything else is the default.
    pub fn new(path: impl Into<PathBuf>, table: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            table: table.into(),
            key: Vec::new(),
            create: false,
            columns: Columns::default(),
            busy_timeout: default_busy_timeout(),
        }
    }

    /// Upserts by these columns.
    #[must_use]
    pub fn key<I: Into<String>>(mut self, columns: impl IntoIterator<Item = I>) -> Self {
        self.key = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Sets whether a missing table is created.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Declares columns and their types.
    #[must_use]
    pub fn columns(mut self, columns: Columns) -> Self {
        self.columns = columns;
        self
    }

    /// Sets how long a statement waits for a lock.
    #[must_use]
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// Everything that is wrong with the settings; empty if they can be used.
    pub fn problems(&self) -> Vec<ConfigProblem> {
        let mut problems = path_problems(&self.path);
        if let Some(problem) = name_problem(&self.table) {
            problems.push(ConfigProblem::new("table", problem));
        }
        for (index, column) in self.key.iter().enumerate() {
            let key = format!("key[{index}]");
            if let Some(problem) = name_problem(column) {
                problems.push(ConfigProblem::new(key, problem));
            } else if self.key[..index].iter().any(|other| same_name(other, column)) {
                problems.push(ConfigProblem::new(key, format!("column {column:?} is named twice")));
            } else if !self.columns.is_empty() && self.columns.get(column).is_none() {
                let problem = format!("column {column:?} is not among `columns`: add it there");
                problems.push(ConfigProblem::new(key, problem));
            }
        }
        for (column, _) in self.columns.iter() {
            if let Some(problem) = name_problem(column) {
                problems.push(ConfigProblem::new(format!("columns.{column:?}"), problem));
            }
        }
        problems
    }
}

/// Where [`SqliteStore`](crate::SqliteStore) keeps positions.
///
/// ```
/// let config: tidegate_sqlite::SqliteStoreConfig =
///     serde_json::from_str(r#"{"path": "flights.state.db"}"#)?;
/// assert_eq!(config.busy_timeout.as_secs(), 5);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SqliteStoreConfig {
    /// The database file. Made if it is missing; its folder must exist. Several pipelines may
    /// share it, also with tables of their own. A lock file is kept beside it for each pipeline.
    pub path: PathBuf,

    /// How long a load or a save waits for another connection's lock before it fails and is
    /// retried by the pipeline.
    ///
    /// Default: 5 s, longer than a sink that shares the file takes for one write.
    #[serde(default = "default_busy_timeout", with = "tidegate_core::human_duration")]
    pub busy_timeout: Duration,
}

impl SqliteStoreConfig {
    /// Keeps positions in the file `path`; everything else is the default.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), busy_timeout: default_busy_timeout() }
    }

    /// Sets how long a load or a save waits for a lock.
    #[must_use]
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// Everything that is wrong with the settings; empty if they can be used.
    pub fn problems(&self) -> Vec<ConfigProblem> {
        path_problems(&self.path)
    }
}

/// One thing that is wrong with the settings. It prints as `key: problem`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ConfigProblem {
    /// The setting's path within the settings, such as `key[0]`.
    pub key: String,
    /// What is wrong, and what to write instead.
    pub problem: String,
}

impl ConfigProblem {
    fn new(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { key: key.into(), problem: problem.into() }
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}

fn default_busy_timeout() -> Duration {
    Duration::from_secs(5)
}

/// SQLite gives two names a meaning of their own: both are databases that vanish when they are
/// closed, which is never what a pipeline wants.
fn path_problems(path: &Path) -> Vec<ConfigProblem> {
    let problem = match path.to_str() {
        Some("") => "is empty: name the database file",
        Some(":memory:") => "a database in memory is lost at exit: name a file",
        Some(text) if text.contains('\0') => "contains a zero byte",
        _ => return Vec::new(),
    };
    vec![ConfigProblem::new("path", problem)]
}

fn name_problem(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("is empty"),
        name if name.contains('\0') => Some("contains a zero byte"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ColumnType;

    fn parse(json: &str) -> Result<SqliteSinkConfig, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn unknown_and_repeated_keys_are_refused() {
        let unknown = parse(r#"{"path":"a","table":"t","keys":["id"]}"#).unwrap_err();
        assert!(unknown.to_string().contains("unknown field `keys`"), "{unknown}");
        let twice = parse(r#"{"path":"a","table":"t","columns":{"id":"text","ID":"text"}}"#);
        assert!(twice.unwrap_err().to_string().contains("\"ID\" is declared twice"));
        let kind = parse(r#"{"path":"a","table":"t","columns":{"id":"string"}}"#).unwrap_err();
        assert!(kind.to_string().contains("expected one of `integer`"), "{kind}");
    }

    #[test]
    fn columns_keep_their_order_through_serialisation() {
        let config = parse(r#"{"path":"a","table":"t","columns":{"z":"text","a":"integer"}}"#);
        let config = config.unwrap();
        let declared: Vec<_> = config.columns.iter().collect();
        assert_eq!(declared, [("z", ColumnType::Text), ("a", ColumnType::Integer)]);
        let again = parse(&serde_json::to_string(&config).unwrap()).unwrap();
        assert_eq!(again, config);
    }

    #[test]
    fn all_problems_are_reported_at_once_with_their_keys() {
        let columns = Columns::from_iter([("id", ColumnType::Integer)]);
        let config =
            SqliteSinkConfig::new(":memory:", "").key(["id", "day", "ID", ""]).columns(columns);
        let problems: Vec<_> = config.problems().iter().map(|p| p.key.clone()).collect();
        assert_eq!(problems, ["path", "table", "key[1]", "key[2]", "key[3]"]);
        assert!(SqliteStoreConfig::new("").problems()[0].to_string().starts_with("path: is empty"));
    }
}
