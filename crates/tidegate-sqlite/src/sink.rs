//! Writes items as rows of a table.
//!
//! - One write is one transaction. Nothing of it is done before the commit has returned, and then
//!   everything that wasn't refused is (P6).
//! - A row that the table refuses undoes its own statement and nothing else (P43). Where a
//!   refusal undoes the whole transaction, or shows only at the commit, every row gets a
//!   transaction of its own.
//! - Items become rows before the database is asked, so a type that doesn't fit costs no statement.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use tidegate_core::{ItemError, Report, Sink, SinkCapabilities, SinkError};

use crate::SqliteSinkConfig;
use crate::client::{Client, Failure, Fault, Statement};
use crate::columns::Columns;
use crate::error::sink_error;
use crate::table::{Row, Table, columns_of};
use crate::worker::Worker;

/// Writes each item as one row: its serialised form is an object whose members are the columns.
///
/// A column that the item doesn't have keeps its default or, in an upsert of a row that exists,
/// its value. An item is refused, alone, if it isn't an object, has a member that is no column of
/// the table, a value that its [column doesn't take](crate::ColumnType), no value for a column of
/// the key, or breaks a constraint of the table. A float that isn't a number is `null` in JSON, so
/// it is stored as `NULL`.
///
/// ```
/// use tidegate_core::Sink;
/// use tidegate_sqlite::{SqliteSink, SqliteSinkConfig};
///
/// #[derive(serde::Serialize)]
/// struct Flight {
///     id: String,
///     delay: Option<i32>,
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("out.db");
/// let config = SqliteSinkConfig::new(path, "flights").key(["id"]).create(true);
/// let mut sink = SqliteSink::new(config);
/// sink.open().await?;
/// let flights = [Flight { id: "UA1545".into(), delay: Some(11) }];
/// assert!(sink.write(&flights).await?.into_rejections().is_empty());
/// sink.close().await?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// A lock that another connection holds for longer than the busy timeout is
/// [retryable](SinkError::is_retryable). A full disk, an I/O error, a file that is read-only,
/// damaged or no database, a missing table and a table that doesn't suit the settings stop the
/// pipeline, with a message that says what to do.
pub struct SqliteSink<T> {
    config: Arc<SqliteSinkConfig>,
    worker: Worker,
    /// `None` before `open`, and until the first item gives a created table its shape.
    table: Option<Arc<Table>>,
    items: PhantomData<fn(&T)>,
}

impl<T> SqliteSink<T> {
    /// A sink with these settings. It touches nothing before it is opened.
    pub fn new(config: SqliteSinkConfig) -> Self {
        let worker = Worker::new(config.path.clone(), config.busy_timeout);
        Self { config: Arc::new(config), worker, table: None, items: PhantomData }
    }

    /// Does the database work on the calling thread instead of a blocking one, for simulations
    /// that have to run the same way twice. Waiting for a lock then stalls the thread.
    #[must_use]
    pub fn inline(mut self) -> Self {
        self.worker.set_inline();
        self
    }

    async fn run<R: Send + 'static>(
        &mut self,
        work: impl FnOnce(&Client) -> Result<R, Failure> + Send + 'static,
    ) -> Result<R, SinkError> {
        self.worker.run(work).await.map_err(|failure| sink_error(&self.config.path, failure))
    }

    /// Creates the table, unless another process was faster.
    async fn create(&mut self, columns: Columns) -> Result<Arc<Table>, SinkError> {
        let config = Arc::clone(&self.config);
        let table = self.run(move |client| Table::create(client, &config, &columns)).await?;
        Ok(Arc::clone(self.table.insert(Arc::new(table))))
    }
}

impl<T> fmt::Debug for SqliteSink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqliteSink({} table {:?})", self.config.path.display(), self.config.table)
    }
}

impl<T: Serialize + Send + Sync + 'static> Sink for SqliteSink<T> {
    type Item = T;

    /// With a key, writing twice is the same as writing once.
    fn capabilities(&self) -> SinkCapabilities {
        SinkCapabilities::new().idempotent(!self.config.key.is_empty())
    }

    async fn open(&mut self) -> Result<(), SinkError> {
        let problems: Vec<_> = self.config.problems().iter().map(ToString::to_string).collect();
        if !problems.is_empty() {
            return Err(SinkError::stop(format!("sqlite sink: {}", problems.join("; "))));
        }
        let config = Arc::clone(&self.config);
        let table = self.run(move |client| Table::read(client, &config)).await?;
        self.table = table.map(Arc::new);
        if self.table.is_none() && !self.config.create {
            return Err(SinkError::stop(format!(
                "SQLite database {} has no table {:?}; add `create: true` to have it created, \
                 or correct the name",
                self.config.path.display(),
                self.config.table
            )));
        }
        if self.table.is_none() && !self.config.columns.is_empty() {
            self.create(self.config.columns.clone()).await?;
        }
        Ok(())
    }

    async fn write(&mut self, batch: &[T]) -> Result<Report, SinkError> {
        let table = match &self.table {
            Some(table) => Arc::clone(table),
            None => match columns_of(batch) {
                // Nothing says yet what the table looks like, so it waits for an item that does.
                columns if columns.is_empty() => return Ok(refuse_all(batch.len())),
                columns => self.create(columns).await?,
            },
        };
        let rows: Vec<_> = batch.iter().map(|item| table.row(item)).collect();
        let answers = self.run(move |client| write_rows(client, &table, rows)).await?;
        if answers.iter().all(Result::is_ok) {
            return Ok(Report::all_done(batch.len()));
        }
        let answers = answers.into_iter().map(|answer| answer.map_err(ItemError::new));
        Ok(Report::each(answers.collect()))
    }

    async fn close(&mut self) -> Result<(), SinkError> {
        let closed = self.worker.close().await;
        closed.map_err(|failure| sink_error(&self.config.path, failure))
    }
}

fn refuse_all(items: usize) -> Report {
    let refusal = || ItemError::new("it has no member that could be a column of the new table");
    Report::each((0..items).map(|_| Err(refusal())).collect())
}

/// An answer for each row: what was refused before, and what the table refuses.
type Answer = Result<(), String>;

fn write_rows(
    client: &Client,
    table: &Table,
    rows: Vec<Result<Row, String>>,
) -> Result<Vec<Answer>, Failure> {
    let fitting: Vec<&Row> = rows.iter().filter_map(|row| row.as_ref().ok()).collect();
    let mut written = match write_together(client, table, &fitting) {
        Err(failure) if failure.fault == Fault::Row => write_one_by_one(client, table, &fitting),
        together => together,
    }?
    .into_iter();
    let answers = rows.into_iter().map(|row| match row {
        Ok(_) => written.next().expect("every fitting row has been answered"),
        Err(reason) => Err(reason),
    });
    Ok(answers.collect())
}

/// All rows in one transaction. It fails with [`Fault::Row`] if a refusal undid more than its row.
fn write_together(client: &Client, table: &Table, rows: &[&Row]) -> Result<Vec<Answer>, Failure> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    client.transaction(|| insert_all(client, table, rows))
}

fn insert_all(client: &Client, table: &Table, rows: &[&Row]) -> Result<Vec<Answer>, Failure> {
    let mut answers = Vec::with_capacity(rows.len());
    // Neighbours mostly have the same columns, and then share the statement.
    let mut prepared: Option<(&[usize], Statement<'_>)> = None;
    for row in rows {
        let (_, statement) = match &mut prepared {
            Some(prepared) if prepared.0 == row.columns() => prepared,
            _ => {
                let statement = client.prepare(&table.insert_statement(row.columns()))?;
                prepared.insert((row.columns(), statement))
            }
        };
        answers.push(match statement.execute(row.values()) {
            Ok(()) => Ok(()),
            // A trigger may have rolled the transaction back, and the rows before with it.
            Err(failure) if failure.fault == Fault::Row && client.in_transaction() => {
                Err(failure.message)
            }
            Err(failure) => return Err(failure),
        });
    }
    Ok(answers)
}

/// Every row in a transaction of its own, in order: slow, and exact about who is refused.
fn write_one_by_one(client: &Client, table: &Table, rows: &[&Row]) -> Result<Vec<Answer>, Failure> {
    let mut answers = Vec::with_capacity(rows.len());
    for row in rows {
        answers.push(match write_together(client, table, &[row]) {
            Ok(mut answer) => answer.pop().expect("one row has one answer"),
            Err(failure) if failure.fault == Fault::Row => Err(failure.message),
            Err(failure) => return Err(failure),
        });
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// P7: nothing of the batch is there afterwards, and it is written once there is room.
    #[tokio::test]
    async fn a_full_disk_stops_and_leaves_nothing_of_the_batch() {
        let folder = tempfile::tempdir().unwrap();
        let config =
            SqliteSinkConfig::new(folder.path().join("a.db"), "t").key(["id"]).create(true);
        let mut sink = SqliteSink::new(config);
        sink.open().await.unwrap();
        sink.write(&[json!({"id": 0, "text": "first"})]).await.unwrap();
        sink.run(|client| client.run("PRAGMA max_page_count = 8")).await.unwrap();

        let batch: Vec<_> =
            (1..100).map(|id| json!({"id": id, "text": "x".repeat(1000)})).collect();
        let error = sink.write(&batch).await.unwrap_err();
        assert!(!error.is_retryable());
        let text = error.to_string();
        assert!(text.contains("free some space, then start again"), "{text}");
        let count = |client: &Client| client.rows("SELECT count(*) FROM t", &[]);
        let one = [[crate::client::SqlValue::Integer(1)]];
        assert_eq!(sink.run(count).await.unwrap(), one);

        sink.run(|client| client.run("PRAGMA max_page_count = 10000")).await.unwrap();
        assert!(sink.write(&batch).await.unwrap().into_rejections().is_empty());
    }

    #[tokio::test]
    async fn a_panic_on_the_blocking_thread_is_an_error_and_the_sink_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let config = SqliteSinkConfig::new(folder.path().join("a.db"), "t").create(true);
        let mut sink = SqliteSink::new(config);
        let error = sink.run::<()>(|_| panic!("a fault of ours")).await.unwrap_err();
        assert!(error.to_string().contains("panicked: a fault of ours"), "{error}");
        assert!(sink.write(&[json!({"a": 1})]).await.unwrap().into_rejections().is_empty());
    }
}
