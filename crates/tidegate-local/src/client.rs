//! The only file that knows the database driver.
//!
//! - Every write is one immediate transaction: the lock is taken first, so nothing that was read
//!   inside can be outdated, and what fails is rolled back as a whole.
//! - A write that returned is on the disk: write-ahead log with `synchronous = FULL`.
//! - A file that is not ours is never changed.
//! - No transaction spans an await point; nothing here waits but for the lock.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{
    CachedStatement, Connection, ErrorCode, OpenFlags, ToSql, Transaction, TransactionBehavior,
    params_from_iter,
};
use tidegate_core::BoxError;

use crate::error::LocalError;
use crate::place::{self, FileIdentity};
use crate::schema;

/// 16 MiB of write-ahead log before it is copied back: fewer copies of the same hot pages.
const CHECKPOINT_PAGES: u32 = 4096;
/// What is left of the write-ahead log's file when it begins anew, in bytes.
const JOURNAL_BYTES: u32 = 64 << 20;
/// What a connection may cache, in KiB.
const CACHE_KIB: u32 = 8192;
/// All statements of this crate.
const STATEMENTS: usize = 64;
/// How long the database waits for the lock before it is asked again; it then looks once a
/// millisecond.
const LOCK_ATTEMPT: Duration = Duration::from_millis(2);
/// How often the switch to the write-ahead log is tried while others do the same.
const JOURNAL_ATTEMPTS: usize = 100;

/// What a connection is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// The file must be there.
    Existing,
    /// The file is created if it isn't there.
    Create,
}

/// One connection to a log file.
pub(crate) struct Client {
    connection: Connection,
    file: LogFile,
}

struct LogFile {
    path: PathBuf,
    lock_timeout: Duration,
    identity: Option<FileIdentity>,
}

impl Client {
    pub(crate) fn open(
        path: &Path,
        access: Access,
        lock_timeout: Duration,
    ) -> Result<Self, LocalError> {
        place::check(path, access == Access::Create)?;
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        if access == Access::Create {
            flags |= OpenFlags::SQLITE_OPEN_CREATE;
        }
        let file = LogFile { path: path.to_owned(), lock_timeout, identity: None };
        let connection =
            Connection::open_with_flags(path, flags).map_err(|error| file.explain(error))?;
        let mut client = Self { connection, file };
        // SQLite opens a file that can't be written read-only, without a word. The first write would
        // leave files beside it that can't be written either, not even once the file itself can.
        if client.connection.is_readonly("main").is_ok_and(|is_readonly| is_readonly) {
            let source = "the file can only be read".into();
            return Err(LocalError::ReadOnly { path: path.to_owned(), source });
        }
        client.set_up().map_err(|error| client.file.explain(error))??;
        client.file.identity = place::identity(path);
        Ok(client)
    }

    /// Runs `work` in a write transaction and returns when it is durable; rolled back if it fails.
    pub(crate) fn write<T>(
        &mut self,
        work: impl FnOnce(&Tx<'_>) -> Result<T, LocalError>,
    ) -> Result<T, LocalError> {
        self.file.check_identity()?;
        let transaction = self.lock().map_err(|error| self.file.explain(error))?;
        self.run(transaction, work)
    }

    /// Runs `work` on one unchanging view of the file.
    pub(crate) fn read<T>(
        &mut self,
        work: impl FnOnce(&Tx<'_>) -> Result<T, LocalError>,
    ) -> Result<T, LocalError> {
        let transaction = self.begin(TransactionBehavior::Deferred);
        self.run(transaction.map_err(|error| self.file.explain(error))?, work)
    }

    /// A number that changes when another connection has written. Costs about a microsecond.
    pub(crate) fn data_version(&self) -> Result<i64, LocalError> {
        self.connection
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .map_err(|error| self.file.explain(error))
    }

    fn begin(&self, behavior: TransactionBehavior) -> rusqlite::Result<Transaction<'_>> {
        // Nested transactions, which the driver's checked call excludes, are excluded here by
        // `write` and `read` taking the client mutably.
        Transaction::new_unchecked(&self.connection, behavior)
    }

    /// Takes the write lock. The database itself asks ever more rarely, up to every 100 ms, and
    /// hardly ever finds the lock free beside a process that writes all the time; so it is asked
    /// to wait many times for a short while.
    fn lock(&self) -> rusqlite::Result<Transaction<'_>> {
        self.connection.busy_timeout(LOCK_ATTEMPT)?;
        let attempts = self.file.lock_timeout.as_millis() / LOCK_ATTEMPT.as_millis();
        let mut attempt = 0;
        let result = loop {
            attempt += 1;
            match self.begin(TransactionBehavior::Immediate) {
                Err(error) if is_busy(&error) && attempt < attempts => {}
                result => break result,
            }
        };
        self.connection.busy_timeout(self.file.lock_timeout)?;
        result
    }

    fn run<'c, T>(
        &'c self,
        transaction: Transaction<'c>,
        work: impl FnOnce(&Tx<'_>) -> Result<T, LocalError>,
    ) -> Result<T, LocalError> {
        let tx = Tx { transaction, file: &self.file };
        let result = work(&tx)?;
        tx.transaction.commit().map_err(|error| self.file.explain(error))?;
        Ok(result)
    }

    fn set_up(&mut self) -> rusqlite::Result<Result<(), LocalError>> {
        self.connection.busy_timeout(self.file.lock_timeout)?;
        self.connection.set_prepared_statement_cache_capacity(STATEMENTS);
        let content = Content::read(&self.connection)?;
        if let Err(error) = content.check(&self.file.path) {
            return Ok(Err(error));
        }
        // The journal mode is switched before the schema is written: it can't be changed inside
        // of a transaction, and a file with our mark is then always in this mode.
        self.switch_to_write_ahead_log()?;
        self.connection.execute_batch(&format!(
            "PRAGMA synchronous = FULL;
             PRAGMA cache_size = -{CACHE_KIB};
             PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};
             PRAGMA journal_size_limit = {JOURNAL_BYTES};"
        ))?;
        if content == Content::Empty {
            return self.create_schema();
        }
        Ok(Ok(()))
    }

    fn switch_to_write_ahead_log(&self) -> rusqlite::Result<()> {
        let mut attempt = 0;
        loop {
            let mode = self.connection.pragma_query_value(None, "journal_mode", |row| row.get(0));
            if mode.is_ok_and(|mode: String| mode == "wal") {
                return Ok(());
            }
            attempt += 1;
            match self.connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())) {
                Ok(()) if attempt < JOURNAL_ATTEMPTS => {}
                // The switch doesn't wait for the lock; an empty transaction does.
                Err(error) if is_busy(&error) && attempt < JOURNAL_ATTEMPTS => {
                    self.connection.execute_batch("BEGIN IMMEDIATE; COMMIT")?;
                }
                result => return result,
            }
        }
    }

    fn create_schema(&mut self) -> rusqlite::Result<Result<(), LocalError>> {
        let transaction = Transaction::new(&mut self.connection, TransactionBehavior::Immediate)?;
        // Another process may have been faster, or quite another program.
        let content = Content::read(&transaction)?;
        if let Err(error) = content.check(&self.file.path) {
            return Ok(Err(error));
        }
        if content == Content::Empty {
            transaction.execute_batch(schema::CREATE)?;
            transaction.pragma_update(None, "application_id", schema::APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", schema::FORMAT)?;
        }
        transaction.commit().map(Ok)
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({})", self.file.path.display())
    }
}

/// What a file turned out to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Empty,
    Log { format: i64 },
    Foreign,
}

impl Content {
    fn read(connection: &Connection) -> rusqlite::Result<Self> {
        connection.query_row(
            "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
             FROM pragma_application_id, pragma_user_version",
            [],
            |row| {
                let (application, format, objects): (i64, i64, i64) =
                    (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok(match application {
                    schema::APPLICATION_ID => Self::Log { format },
                    0 if format == 0 && objects == 0 => Self::Empty,
                    _ => Self::Foreign,
                })
            },
        )
    }

    fn check(self, path: &Path) -> Result<(), LocalError> {
        let path = path.to_owned();
        match self {
            Self::Empty | Self::Log { format: schema::FORMAT } => Ok(()),
            Self::Log { format: found } => {
                Err(LocalError::SchemaVersion { path, found, supported: schema::FORMAT })
            }
            Self::Foreign => Err(LocalError::ForeignDatabase { path }),
        }
    }
}

/// A running transaction.
pub(crate) struct Tx<'c> {
    transaction: Transaction<'c>,
    file: &'c LogFile,
}

impl Tx<'_> {
    /// Runs a statement; returns how many rows it changed.
    pub(crate) fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<usize, LocalError> {
        self.prepare(sql)?.execute(values)
    }

    /// A statement to run many times.
    pub(crate) fn prepare(&self, sql: &str) -> Result<Statement<'_>, LocalError> {
        let statement =
            self.transaction.prepare_cached(sql).map_err(|error| self.file.explain(error))?;
        Ok(Statement { statement, file: self.file })
    }

    /// The id of the row that was inserted last.
    pub(crate) fn last_id(&self) -> i64 {
        self.transaction.last_insert_rowid()
    }

    /// Calls `visit` for each row until it breaks.
    pub(crate) fn visit(
        &self,
        sql: &str,
        values: &[Value<'_>],
        mut visit: impl FnMut(&Row<'_>) -> Result<ControlFlow<()>, LocalError>,
    ) -> Result<(), LocalError> {
        let mut statement = self.prepare(sql)?;
        let explain = |error| self.file.explain(error);
        let mut rows = statement.statement.query(params_from_iter(values)).map_err(explain)?;
        while let Some(row) = rows.next().map_err(explain)? {
            if visit(&Row { row, file: self.file })?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// All rows.
    pub(crate) fn rows<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T, LocalError>,
    ) -> Result<Vec<T>, LocalError> {
        let mut all = Vec::new();
        self.visit(sql, values, |row| {
            all.push(read(row)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(all)
    }

    /// The first row, if there is one.
    pub(crate) fn row<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T, LocalError>,
    ) -> Result<Option<T>, LocalError> {
        let mut first = None;
        self.visit(sql, values, |row| {
            first = Some(read(row)?);
            Ok(ControlFlow::Break(()))
        })?;
        Ok(first)
    }

    /// What is there contradicts itself.
    pub(crate) fn damaged(&self, what: impl Into<String>) -> LocalError {
        self.file.damaged(what)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.file.path
    }
}

/// A prepared statement; prepared once for the life of the connection.
pub(crate) struct Statement<'t> {
    statement: CachedStatement<'t>,
    file: &'t LogFile,
}

impl Statement<'_> {
    pub(crate) fn execute(&mut self, values: &[Value<'_>]) -> Result<usize, LocalError> {
        self.statement.execute(params_from_iter(values)).map_err(|error| self.file.explain(error))
    }
}

/// What is bound to a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Integer(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

impl Value<'static> {
    /// Positions, counts and sizes; all that we store are far below 2^63.
    pub(crate) fn unsigned(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// A row of a result; what doesn't have the expected type is damage.
pub(crate) struct Row<'r> {
    row: &'r rusqlite::Row<'r>,
    file: &'r LogFile,
}

impl Row<'_> {
    pub(crate) fn integer(&self, column: usize) -> Result<i64, LocalError> {
        self.maybe_integer(column)?.ok_or_else(|| self.mismatch(column))
    }

    pub(crate) fn maybe_integer(&self, column: usize) -> Result<Option<i64>, LocalError> {
        match self.value(column)? {
            ValueRef::Integer(number) => Ok(Some(number)),
            ValueRef::Null => Ok(None),
            _ => Err(self.mismatch(column)),
        }
    }

    pub(crate) fn unsigned<T: TryFrom<i64>>(&self, column: usize) -> Result<T, LocalError> {
        T::try_from(self.integer(column)?).map_err(|_| self.mismatch(column))
    }

    pub(crate) fn maybe_unsigned(&self, column: usize) -> Result<Option<u64>, LocalError> {
        self.maybe_integer(column)?
            .map(|number| u64::try_from(number).map_err(|_| self.mismatch(column)))
            .transpose()
    }

    pub(crate) fn text(&self, column: usize) -> Result<&str, LocalError> {
        match self.value(column)? {
            ValueRef::Text(text) => std::str::from_utf8(text).map_err(|_| self.mismatch(column)),
            _ => Err(self.mismatch(column)),
        }
    }

    pub(crate) fn maybe_bytes(&self, column: usize) -> Result<Option<&[u8]>, LocalError> {
        match self.value(column)? {
            ValueRef::Blob(bytes) => Ok(Some(bytes)),
            ValueRef::Null => Ok(None),
            _ => Err(self.mismatch(column)),
        }
    }

    fn value(&self, column: usize) -> Result<ValueRef<'_>, LocalError> {
        self.row.get_ref(column).map_err(|error| self.file.explain(error))
    }

    fn mismatch(&self, column: usize) -> LocalError {
        let name = self.row.as_ref().column_name(column).unwrap_or("?").to_owned();
        self.file.damaged(format!("column {name} holds an impossible value"))
    }
}

impl LogFile {
    fn explain(&self, error: rusqlite::Error) -> LocalError {
        let path = self.path.clone();
        let kind = error.sqlite_error_code();
        if error.sqlite_extended_error_code() == Some(rusqlite::ffi::SQLITE_READONLY_DBMOVED) {
            return LocalError::Replaced { path };
        }
        // Not the error itself, which says the same twice, in its text and in its cause.
        let code = error.sqlite_extended_error_code().map(|code| format!(" (SQLite error {code})"));
        let source = BoxError::from(format!("{error}{}", code.unwrap_or_default()));
        match kind {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                LocalError::Locked { path, waited: self.lock_timeout, source }
            }
            Some(ErrorCode::NotADatabase) => LocalError::NotADatabase { path, source },
            Some(ErrorCode::ReadOnly) => LocalError::ReadOnly { path, source },
            Some(ErrorCode::DiskFull) => LocalError::DiskFull { path, source },
            Some(ErrorCode::SystemIoFailure) => LocalError::Io { path, source },
            Some(ErrorCode::CannotOpen) => LocalError::CannotOpen {
                path,
                reason: format!("{source}; check that file and folder can be read and written"),
            },
            Some(ErrorCode::DatabaseCorrupt) => self.damaged(source.to_string()),
            _ => LocalError::Database { path, source },
        }
    }

    fn damaged(&self, what: impl Into<String>) -> LocalError {
        LocalError::Damaged { path: self.path.clone(), what: what.into() }
    }

    /// The open file must still be the one that the path names: what is written to a deleted file
    /// is lost with the last process that has it open.
    fn check_identity(&self) -> Result<(), LocalError> {
        if self.identity.is_some() && place::identity(&self.path) != self.identity {
            return Err(LocalError::Replaced { path: self.path.clone() });
        }
        Ok(())
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

#[cfg(test)]
mod tests;
