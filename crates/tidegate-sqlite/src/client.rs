//! The only file that knows the driver.
//!
//! - A connection is opened so that a commit is on the disk when it returns: WAL with
//!   `synchronous = FULL`, or, where the file system can't do WAL, a journal with `EXTRA`.
//! - A failure says which kind it is. [`Fault::Row`] means that the statement alone was undone;
//!   after any other fault the transaction counts as undone and is rolled back by its owner.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ErrorCode, OpenFlags, ToSql, params_from_iter};

/// A value as SQLite stores it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum SqlValue {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

/// What went wrong, as far as it decides what to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Another connection holds a lock, for longer than the busy timeout.
    Busy,
    /// The disk or the database has no room.
    Full,
    /// The disk failed.
    Io,
    /// The file can't be written.
    ReadOnly,
    /// The file is something else.
    NotADatabase,
    /// The file is damaged.
    Corrupt,
    /// The file can't be opened.
    CannotOpen,
    /// This statement's values were refused: a constraint, a type, a size.
    Row,
    /// Anything else that the driver reports: a schema that has changed, no memory.
    Other,
    /// Not the driver's: the message says what happened and what to do.
    Explained,
}

/// A failed call, with the driver's own words.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) fault: Fault,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(fault: Fault, message: impl Into<String>) -> Self {
        Self { fault, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// One connection.
pub(crate) struct Client {
    connection: Connection,
}

impl Client {
    /// Opens the file, or makes it. Its folder has to exist.
    pub(crate) fn open(path: &Path, busy_timeout: Duration) -> Result<Self, Failure> {
        if path.is_dir() {
            return Err(Failure::new(Fault::CannotOpen, "it is a folder"));
        }
        if let Some(folder) = path.parent()
            && !folder.as_os_str().is_empty()
            && !folder.is_dir()
        {
            let message = format!("its folder {} does not exist", folder.display());
            return Err(Failure::new(Fault::CannotOpen, message));
        }
        // Without SQLITE_OPEN_URI a path is a path, whatever characters it has.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let client = Self { connection: Connection::open_with_flags(path, flags)? };
        client.connection.busy_timeout(busy_timeout)?;
        client.connection.set_prepared_statement_cache_capacity(64);
        // SQLite opens a file that can't be written read-only, without a word.
        if client.connection.is_readonly("main")? {
            return Err(Failure::new(Fault::ReadOnly, "the file can only be read"));
        }
        let synchronous = if client.enter_wal()? { "FULL" } else { "EXTRA" };
        client.run(&format!("PRAGMA synchronous = {synchronous}; PRAGMA foreign_keys = ON"))?;
        Ok(client)
    }

    /// Switches the file to WAL unless it is; whether it is now.
    ///
    /// The switch itself doesn't wait for other connections: it fails at once if another one is
    /// in the way, as when several open a new file at the same time. So wait for a turn to write,
    /// which does honour the busy timeout, and try again.
    fn enter_wal(&self) -> Result<bool, Failure> {
        const ATTEMPTS: usize = 20;
        for _ in 1..ATTEMPTS {
            match self.journal_mode("PRAGMA journal_mode = WAL") {
                Err(failure) if failure.fault == Fault::Busy => {
                    self.run("BEGIN IMMEDIATE; ROLLBACK")?
                }
                mode => return mode,
            }
        }
        self.journal_mode("PRAGMA journal_mode = WAL")
    }

    fn journal_mode(&self, sql: &str) -> Result<bool, Failure> {
        let mode: String = self.connection.query_row(sql, [], |row| row.get(0))?;
        Ok(mode.eq_ignore_ascii_case("wal"))
    }

    /// Runs statements that have no values.
    pub(crate) fn run(&self, sql: &str) -> Result<(), Failure> {
        Ok(self.connection.execute_batch(sql)?)
    }

    /// Runs `work` in a transaction: what it wrote is on the disk when this returns, or, if
    /// `work` or the commit fails, nothing of it is left.
    ///
    /// The transaction may write from the start: it waits for its turn here, rather than fail in
    /// the middle.
    pub(crate) fn transaction<R>(
        &self,
        work: impl FnOnce() -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.run("BEGIN IMMEDIATE")?;
        let done = work().and_then(|result| self.run("COMMIT").map(|()| result));
        // SQLite ends a transaction by itself after some faults.
        if done.is_err() && self.in_transaction() {
            // It fails only if there is no transaction, and then there is nothing to undo.
            let _ = self.run("ROLLBACK");
        }
        done
    }

    /// Whether a transaction is open.
    pub(crate) fn in_transaction(&self) -> bool {
        !self.connection.is_autocommit()
    }

    /// A statement, from a bounded cache.
    pub(crate) fn prepare(&self, sql: &str) -> Result<Statement<'_>, Failure> {
        Ok(Statement(self.connection.prepare_cached(sql)?))
    }

    /// All rows that a query returns.
    pub(crate) fn rows(
        &self,
        sql: &str,
        values: &[SqlValue],
    ) -> Result<Vec<Vec<SqlValue>>, Failure> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query(params_from_iter(values))?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            let values = (0..columns).map(|column| Ok(SqlValue::read(row.get_ref(column)?)));
            all.push(values.collect::<Result<_, rusqlite::Error>>()?);
        }
        Ok(all)
    }
}

/// A prepared statement.
pub(crate) struct Statement<'a>(CachedStatement<'a>);

impl Statement<'_> {
    /// Runs it with these values, one for each parameter.
    pub(crate) fn execute(&mut self, values: &[SqlValue]) -> Result<(), Failure> {
        self.0.execute(params_from_iter(values))?;
        Ok(())
    }
}

impl SqlValue {
    fn read(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(integer) => Self::Integer(integer),
            ValueRef::Real(real) => Self::Real(real),
            ValueRef::Text(text) => Self::Text(String::from_utf8_lossy(text).into_owned()),
            ValueRef::Blob(blob) => Self::Blob(blob.to_vec()),
        }
    }
}

impl ToSql for SqlValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(integer) => ValueRef::Integer(*integer),
            Self::Real(real) => ValueRef::Real(*real),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(blob) => ValueRef::Blob(blob),
        }))
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        let fault = match error.sqlite_error_code() {
            Some(
                ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::FileLockingProtocolFailed,
            ) => Fault::Busy,
            Some(ErrorCode::DiskFull) => Fault::Full,
            Some(ErrorCode::SystemIoFailure) => Fault::Io,
            Some(ErrorCode::ReadOnly) => Fault::ReadOnly,
            Some(ErrorCode::NotADatabase) => Fault::NotADatabase,
            Some(ErrorCode::DatabaseCorrupt) => Fault::Corrupt,
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => Fault::CannotOpen,
            Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig) => {
                Fault::Row
            }
            _ => Fault::Other,
        };
        Self::new(fault, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> (tempfile::TempDir, Client) {
        let folder = tempfile::tempdir().unwrap();
        let client = Client::open(&folder.path().join("a.db"), Duration::ZERO).unwrap();
        (folder, client)
    }

    fn fault(client: &Client, sql: &str) -> Fault {
        client.run(sql).unwrap_err().fault
    }

    #[test]
    fn a_commit_is_synced() {
        let (_folder, client) = open();
        let synchronous = client.rows("PRAGMA synchronous", &[]).unwrap();
        assert_eq!(synchronous, [[SqlValue::Integer(2)]], "2 is FULL");
        assert_eq!(client.rows("PRAGMA foreign_keys", &[]).unwrap(), [[SqlValue::Integer(1)]]);
    }

    #[test]
    fn each_kind_of_fault_is_told_from_the_others() {
        let (folder, client) = open();
        client.run("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT NOT NULL)").unwrap();
        assert_eq!(fault(&client, "INSERT INTO t VALUES (1, NULL)"), Fault::Row);
        assert_eq!(fault(&client, "INSERT INTO t VALUES ('a', 'b')"), Fault::Row);
        assert_eq!(fault(&client, "INSERT INTO t VALUES (1, zeroblob(2000000000))"), Fault::Row);
        assert_eq!(fault(&client, "INSERT INTO u VALUES (1)"), Fault::Other);

        client.run("PRAGMA query_only = 1").unwrap();
        assert_eq!(fault(&client, "INSERT INTO t VALUES (1, 'a')"), Fault::ReadOnly);
        client.run("PRAGMA query_only = 0; PRAGMA max_page_count = 3").unwrap();
        assert_eq!(fault(&client, "INSERT INTO t VALUES (1, zeroblob(9999))"), Fault::Full);

        let other = Client::open(&folder.path().join("a.db"), Duration::ZERO).unwrap();
        other.run("BEGIN IMMEDIATE").unwrap();
        assert_eq!(fault(&client, "BEGIN IMMEDIATE"), Fault::Busy);
    }

    #[test]
    fn a_transaction_leaves_all_or_nothing() {
        let (_folder, client) = open();
        client.run("CREATE TABLE t (v)").unwrap();
        let insert = || client.run("INSERT INTO t VALUES (1)");
        client.transaction(insert).unwrap();
        let failed = client.transaction(|| {
            insert()?;
            Err::<(), _>(Failure::new(Fault::Other, "no"))
        });
        assert_eq!(failed.unwrap_err().message, "no");
        assert!(!client.in_transaction());
        let count = client.rows("SELECT count(*) FROM t", &[]).unwrap();
        assert_eq!(count, [[SqlValue::Integer(1)]]);
    }
}
