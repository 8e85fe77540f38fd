//! Keeps positions in two tables of a SQLite file.
//!
//! - A save is one transaction, on the disk when it returns.
//! - Nothing that is read back is trusted (P12): the layout has a version, every row a checksum
//!   over all of its fields, and a row that differs stops the pipeline instead of placing it
//!   somewhere.
//! - A pipeline's rows have one writer: the process that holds the [`StoreLock`].
//! - The tables' names begin with `tidegate_` and the file's header is left alone, so that a store
//!   can live in a database that has other uses, such as the sink's.

use std::fmt;
use std::path::PathBuf;

use tidegate_core::{Partition, Position, PositionStore, SavedPosition, StoreError};

use crate::SqliteStoreConfig;
use crate::checksum::Checksum;
use crate::client::{Client, Failure, SqlValue};
use crate::error::store_error;
use crate::store_lock::StoreLock;

/// The layout that this version reads and writes.
const VERSION: i64 = 1;

/// What a partition's number is for a stream that isn't divided.
const UNDIVIDED: i64 = -1;

/// The longest note, in bytes, as the contract has it.
const LONGEST_NOTE: usize = 4096;

const CREATE: &str = "
    CREATE TABLE tidegate_store (version INTEGER NOT NULL) STRICT;
    CREATE TABLE tidegate_positions (
        pipeline TEXT NOT NULL,
        stream TEXT NOT NULL,
        number INTEGER NOT NULL,
        frontier INTEGER NOT NULL,
        note BLOB NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (pipeline, stream, number)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO tidegate_store VALUES (1);
";

const LOAD: &str = "
    SELECT stream, number, frontier, note, checksum FROM tidegate_positions WHERE pipeline = ?1
";

const SAVE: &str = "
    INSERT INTO tidegate_positions (pipeline, stream, number, frontier, note, checksum)
    VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (pipeline, stream, number) DO UPDATE
    SET frontier = excluded.frontier, note = excluded.note, checksum = excluded.checksum
";

/// Positions of one pipeline, in a SQLite file.
///
/// Its calls block the calling thread for as long as a commit takes: well under a millisecond on a
/// disk that answers, and at most the busy timeout when another connection writes to the file.
///
/// ```
/// use tidegate_core::{Partition, Position, PositionStore, SavedPosition};
/// use tidegate_sqlite::{SqliteStore, SqliteStoreConfig};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("flights.state.db");
/// let mut store = SqliteStore::open(&SqliteStoreConfig::new(path), "flights")?;
/// let saved = SavedPosition {
///     partition: Partition::whole("data/a.jsonl"),
///     frontier: Position::new(8),
///     note: Vec::new(),
/// };
/// store.save(std::slice::from_ref(&saved)).await?;
/// assert_eq!(store.load().await?, [saved]);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct SqliteStore {
    path: PathBuf,
    pipeline: String,
    client: Client,
    _lock: StoreLock,
}

impl SqliteStore {
    /// Opens the store of this pipeline, or makes it.
    ///
    /// # Errors
    ///
    /// Stops if the file is no database, can't be written, has a layout of another version, or if
    /// a process that runs has opened the store for the same pipeline. Retryable if the file is
    /// locked for longer than the busy timeout.
    pub fn open(
        config: &SqliteStoreConfig,
        pipeline: impl Into<String>,
    ) -> Result<Self, StoreError> {
        let (path, pipeline) = (config.path.clone(), pipeline.into());
        let problems: Vec<_> = config.problems().iter().map(ToString::to_string).collect();
        if !problems.is_empty() {
            return Err(StoreError::stop(format!("sqlite store: {}", problems.join("; "))));
        }
        let failed = |failure| store_error(&path, failure);
        let client = Client::open(&path, config.busy_timeout).map_err(failed)?;
        let layout = client.transaction(|| {
            let layout = Layout::read(&client)?;
            if layout == Layout::Absent {
                client.run(CREATE)?;
            }
            Ok(layout)
        });
        layout.map_err(failed)?.check(&path)?;
        // Last, because it is kept beside the file's real place, which has to exist for that.
        let lock = StoreLock::take(&path, &pipeline)?;
        Ok(Self { path, pipeline, client, _lock: lock })
    }

    fn values(&self, position: &SavedPosition) -> Result<[SqlValue; 6], StoreError> {
        let SavedPosition { partition, frontier, note } = position;
        if note.len() > LONGEST_NOTE {
            return Err(StoreError::stop(format!(
                "the source's note for {partition} has {} bytes; a store keeps {LONGEST_NOTE}: \
                 this is a fault of the source",
                note.len()
            )));
        }
        Ok([
            SqlValue::Text(self.pipeline.clone()),
            SqlValue::Text(partition.stream().to_owned()),
            SqlValue::Integer(partition.index().map_or(UNDIVIDED, i64::from)),
            // The same 64 bits, read as signed here and as unsigned again in `read`.
            SqlValue::Integer(frontier.get().cast_signed()),
            SqlValue::Blob(note.clone()),
            SqlValue::Integer(checksum(&self.pipeline, position).cast_signed()),
        ])
    }

    fn read(&self, row: Vec<SqlValue>) -> Result<SavedPosition, StoreError> {
        let Ok(
            [
                SqlValue::Text(stream),
                SqlValue::Integer(number),
                SqlValue::Integer(frontier),
                SqlValue::Blob(note),
                SqlValue::Integer(expected),
            ],
        ) = <[SqlValue; 5]>::try_from(row)
        else {
            return Err(self.damaged("a saved position", "its columns have other types"));
        };
        let partition = match u32::try_from(number) {
            Ok(index) => Partition::new(stream, index),
            Err(_) if number == UNDIVIDED => Partition::whole(stream),
            Err(_) => {
                let what = format!("the saved position of {stream:?}");
                return Err(self.damaged(&what, &format!("{number} is no partition")));
            }
        };
        let frontier = Position::new(frontier.cast_unsigned());
        let position = SavedPosition { partition, frontier, note };
        if checksum(&self.pipeline, &position) != expected.cast_unsigned() {
            let what = format!("the saved position of {}", position.partition);
            return Err(self.damaged(&what, "its checksum differs"));
        }
        Ok(position)
    }

    fn damaged(&self, what: &str, why: &str) -> StoreError {
        StoreError::stop(format!(
            "in the store {}, {what} for pipeline {:?} is damaged: {why}; restore the file from a \
             backup, or move it away to read everything again from the beginning",
            self.path.display(),
            self.pipeline
        ))
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqliteStore({} pipeline {:?})", self.path.display(), self.pipeline)
    }
}

impl PositionStore for SqliteStore {
    async fn load(&mut self) -> Result<Vec<SavedPosition>, StoreError> {
        let rows = self.client.rows(LOAD, &[SqlValue::Text(self.pipeline.clone())]);
        let rows = rows.map_err(|failure| store_error(&self.path, failure))?;
        rows.into_iter().map(|row| self.read(row)).collect()
    }

    async fn save(&mut self, positions: &[SavedPosition]) -> Result<(), StoreError> {
        let rows = positions.iter().map(|position| self.values(position));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        if rows.is_empty() {
            return Ok(());
        }
        let saved = self.client.transaction(|| {
            let mut statement = self.client.prepare(SAVE)?;
            rows.iter().try_for_each(|row| statement.execute(row))
        });
        saved.map_err(|failure| store_error(&self.path, failure))
    }
}

/// What is in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    Absent,
    Version(i64),
    Unknown,
}

impl Layout {
    fn read(client: &Client) -> Result<Self, Failure> {
        let tables = client.rows(
            "SELECT count(*) FROM sqlite_schema
             WHERE name IN ('tidegate_store', 'tidegate_positions') AND type = 'table'",
            &[],
        )?;
        match tables.concat()[..] {
            [SqlValue::Integer(0)] => return Ok(Self::Absent),
            [SqlValue::Integer(2)] => (),
            _ => return Ok(Self::Unknown),
        }
        match client.rows("SELECT * FROM tidegate_store LIMIT 2", &[])?.concat()[..] {
            [SqlValue::Integer(version)] => Ok(Self::Version(version)),
            _ => Ok(Self::Unknown),
        }
    }

    fn check(self, path: &std::path::Path) -> Result<(), StoreError> {
        let path = path.display();
        match self {
            Self::Absent | Self::Version(VERSION) => Ok(()),
            Self::Version(version) => Err(StoreError::stop(format!(
                "the store {path} has layout {version}, and this version of Tidegate knows \
                 layout {VERSION}; run the version that made it, or name another path"
            ))),
            Self::Unknown => Err(StoreError::stop(format!(
                "the tables tidegate_store and tidegate_positions in {path} are damaged or not \
                 Tidegate's; restore the file from a backup, or name another path"
            ))),
        }
    }
}

fn checksum(pipeline: &str, position: &SavedPosition) -> u64 {
    let number = position.partition.index().map_or(UNDIVIDED, i64::from);
    Checksum::new()
        .field(&VERSION.to_le_bytes())
        .field(pipeline.as_bytes())
        .field(position.partition.stream().as_bytes())
        .field(&number.to_le_bytes())
        .field(&position.frontier.get().to_le_bytes())
        .field(&position.note)
        .finish()
}
