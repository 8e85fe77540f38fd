//! The file sink.
//!
//! A batch is one write: its lines are put together first, then written and synced on a blocking
//! thread. The output is behind a mutex because a write may be abandoned at the end of a drain
//! while its thread goes on; whoever comes next waits for that thread.

use std::fmt;
use std::sync::{Arc, Mutex};

use serde::Serialize;
use tidegate_core::{Report, Sink, SinkError};

use crate::config::{FileSinkConfig, SinkFormat};
use crate::error::{ConfigError, Failure};
use crate::output::{Opened, Output};
use crate::rows::{Encoded, Rows};

/// Appends items to a file, or writes them to standard output, as JSON lines or CSV.
///
/// - An item counts as done once its line is on the disk (`fdatasync`); on a pipe or a terminal,
///   once it is written.
/// - The file holds whole lines only. A write that fails half-way is taken back, and so is the
///   half line that a crash left, when the file is opened again. Lines of a batch that was not
///   answered for may be there and come again: at least once.
/// - An item that can't be written is refused, and its neighbours are written (P43). In CSV that
///   is an item that is no object, or has a key that is no column. A missing key is an empty
///   field, as `null` is; an empty text is `""`; arrays and objects are written as JSON.
/// - The file is locked: a second writer is refused when it opens.
/// - Every failure stops the pipeline, a full disk too.
///
/// Opening a CSV file that has rows already reads all of it once, to find a row that a crash cut
/// in two.
pub struct FileSink<T> {
    config: FileSinkConfig,
    rows: Rows<T>,
    output: Option<Arc<Mutex<Output>>>,
}

impl<T: Serialize> FileSink<T> {
    /// A sink with these settings. The file is opened, or created, when the pipeline starts.
    ///
    /// ```
    /// use tidegate_file::{FileSink, FileSinkConfig};
    /// let sink = FileSink::<serde_json::Value>::new(FileSinkConfig::new("out.jsonl"))?;
    /// assert_eq!(format!("{sink:?}"), "FileSink(out.jsonl)");
    /// # Ok::<(), tidegate_file::ConfigError>(())
    /// ```
    pub fn new(config: FileSinkConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self { rows: Rows::new(&config), config, output: None })
    }

    /// Writes lines that are put together, if there are any.
    async fn put(&self, lines: Vec<u8>) -> Result<(), SinkError> {
        let Some(output) = &self.output else {
            return Err(SinkError::stop(format!("{} is not open", self.config.path)));
        };
        if lines.is_empty() {
            return Ok(());
        }
        let output = Arc::clone(output);
        blocking(move || match output.lock() {
            Ok(mut output) => output.write(&lines),
            Err(_) => Err(Failure::new("an earlier write panicked; see its error")),
        })
        .await
    }
}

impl<T> fmt::Debug for FileSink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileSink({})", self.config.path)
    }
}

impl<T: Serialize + Send + Sync + 'static> Sink for FileSink<T> {
    type Item = T;

    async fn open(&mut self) -> Result<(), SinkError> {
        let path = self.config.path.clone();
        let delimiter = (self.config.format == SinkFormat::Csv)
            .then(|| self.config.csv.clone().unwrap_or_default().delimiter as u8);
        let Opened { output, columns } = blocking(move || Output::open(&path, delimiter)).await?;
        if let Some(columns) = columns {
            let there = columns.join(", ");
            self.rows.continue_with(columns).map_err(|expected| {
                SinkError::stop(format!(
                    "{} has the columns {there}, but `csv.columns` says {}. Change the setting, or \
                     write to another file",
                    self.config.path,
                    expected.join(", ")
                ))
            })?;
        }
        self.output = Some(Arc::new(Mutex::new(output)));
        self.put(self.rows.header()).await?;
        self.rows.header_written();
        Ok(())
    }

    async fn write(&mut self, batch: &[T]) -> Result<Report, SinkError> {
        let Encoded { lines, report } = self.rows.encode(batch);
        self.put(lines).await?;
        self.rows.header_written();
        Ok(report)
    }

    async fn close(&mut self) -> Result<(), SinkError> {
        // Everything that was answered for is on the disk already.
        self.output = None;
        Ok(())
    }
}

async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> Result<R, Failure> + Send + 'static,
) -> Result<R, SinkError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(SinkError::from),
        Err(error) => Err(SinkError::stop(format!("writing was cut short: {error}"))),
    }
}
