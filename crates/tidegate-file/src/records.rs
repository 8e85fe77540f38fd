//! Makes record batches from the bytes of one file, pipe or standard input. Pure.
//!
//! - A record's position is the number of its first line, its payload the row without its line
//!   break.
//! - A CSV's header row is no record. Its names go into the header `csv-columns` of all records,
//!   so that a record can be decoded without its file.
//! - What can't be a record fails behind the records before it, and keeps failing.

use std::sync::Arc;

use tidegate_core::{Demand, Header, NewRecord, Partition, Position, RecordBatch};

use crate::config::{FileFormat, FileSourceConfig, first_repeated};
use crate::csv::{RowScanner, fields};
use crate::error::Failure;
use crate::splitter::{Place, Row, Rule, SplitError, Splitter};

/// The header of every record that names its file.
pub(crate) const FILE_HEADER: &str = "file";
/// The header that names a CSV's columns, as a JSON array of strings.
pub(crate) const COLUMNS_HEADER: &str = "csv-columns";
/// The header that names a CSV's delimiter, unless that is a comma.
pub(crate) const DELIMITER_HEADER: &str = "csv-delimiter";

/// Where reading stands, seen from the last record that was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    /// The position of the last record before it; 0 before the first.
    pub(crate) after: u64,
    /// Where the next row begins.
    pub(crate) place: Place,
    /// The length of the last record if it lacked its line break, else 0: if the file grows
    /// later, that record was only the beginning of a line.
    pub(crate) tail: u64,
}

#[derive(Debug)]
pub(crate) struct RecordReader {
    partition: Partition,
    path: String,
    splitter: Splitter,
    max_line: usize,
    headers: Arc<[Header]>,
    delimiter: u8,
    header_pending: bool,
    skip_below: u64,
    after: u64,
    tail: u64,
    rows: Vec<Row>,
}

impl RecordReader {
    /// Reads records of `partition`; `path` is how its file is called in headers and messages.
    pub(crate) fn new(partition: Partition, path: &str, config: &FileSourceConfig) -> Self {
        let options = config.csv_options();
        // Settings allow ASCII only.
        let delimiter = options.delimiter as u8;
        let rule = match config.format {
            FileFormat::Lines => Rule::Lines,
            FileFormat::Json => Rule::NonBlankLines,
            FileFormat::Csv => Rule::Csv(RowScanner::new(delimiter)),
        };
        let mut headers = vec![Header::new(FILE_HEADER, path.as_bytes())];
        if config.format == FileFormat::Csv && delimiter != b',' {
            headers.push(Header::new(DELIMITER_HEADER, [delimiter]));
        }
        Self {
            partition,
            path: path.to_owned(),
            splitter: Splitter::new(rule, config.max_line),
            max_line: config.max_line,
            headers: headers.into(),
            delimiter,
            header_pending: config.format == FileFormat::Csv && options.header,
            skip_below: 0,
            after: 0,
            tail: 0,
            rows: Vec::new(),
        }
    }

    /// Leaves out the records before this position; `after` is the last one that is left out
    /// for certain.
    pub(crate) fn resume(&mut self, frontier: Position, after: u64) {
        (self.skip_below, self.after) = (frontier.get(), after);
    }

    pub(crate) fn partition(&self) -> &Partition {
        &self.partition
    }

    /// Where the bytes go in.
    pub(crate) fn splitter(&mut self) -> &mut Splitter {
        &mut self.splitter
    }

    /// Whether the CSV's header row, if there is one, was read.
    pub(crate) fn knows_columns(&self) -> bool {
        !self.header_pending
    }

    /// The number of the line that is read next.
    pub(crate) fn line(&self) -> u64 {
        self.splitter.place().line
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { after: self.after, place: self.splitter.place(), tail: self.tail }
    }

    /// Whether [`RecordReader::take`] has an answer without more bytes.
    pub(crate) fn has_row(&mut self) -> bool {
        !matches!(self.splitter.peek(), Ok(None))
    }

    /// The records that are there now, as many as the demand has room for; `None` if more bytes
    /// are needed for the next one.
    pub(crate) fn take(&mut self, demand: &Demand) -> Result<Option<RecordBatch>, Failure> {
        self.rows.clear();
        let mut bytes = 0;
        let stopped = self.collect(demand, &mut bytes);
        if self.rows.is_empty() {
            return stopped.map(|()| None);
        }
        // The failure comes again with the next call, behind these records.
        let mut builder = RecordBatch::builder(self.partition.clone())
            .with_shared_headers(Arc::clone(&self.headers))
            .with_capacity(self.rows.len(), bytes);
        for row in &self.rows {
            let payload = Some(self.splitter.content(row));
            builder
                .push(Position::new(row.line), NewRecord { payload, ..NewRecord::default() })
                .map_err(|error| Failure::new(format!("{}:{}: {error}", self.path, row.line)))?;
        }
        Ok(Some(builder.finish()))
    }

    /// Takes rows from the splitter as long as there is room for them. They stay in its buffer.
    fn collect(&mut self, demand: &Demand, bytes: &mut usize) -> Result<(), Failure> {
        while self.rows.len() < demand.max_records() {
            let Some(row) = self.splitter.peek().map_err(|error| self.explain(error))? else {
                break;
            };
            if self.header_pending {
                self.read_header(&row)?;
                self.splitter.take(&row);
                continue;
            }
            if row.line >= self.skip_below {
                let more = *bytes + row.content.len();
                if more > demand.max_bytes() && !self.rows.is_empty() {
                    break;
                }
                *bytes = more;
                self.rows.push(row.clone());
            }
            self.splitter.take(&row);
            self.after = self.after.max(row.line);
            self.tail = if row.terminated { 0 } else { row.length as u64 };
        }
        Ok(())
    }

    fn read_header(&mut self, row: &Row) -> Result<(), Failure> {
        let (path, line) = (&self.path, row.line);
        let names: Result<Vec<String>, _> = fields(self.splitter.content(row), self.delimiter)
            .map(|field| String::from_utf8(field.bytes.into_owned()))
            .collect();
        let names = names.map_err(|_| {
            Failure::new(format!(
                "{path}:{line}: the header row is not valid UTF-8. Convert the file to UTF-8"
            ))
        })?;
        if let Some(twice) = first_repeated(&names) {
            return Err(Failure::new(format!(
                "{path}:{line}: the column `{twice}` is there twice in the header row. Rename one, \
                 or set `csv.header: false` if the file has no header row"
            )));
        }
        let names = serde_json::Value::from(names).to_string();
        let columns = Header::new(COLUMNS_HEADER, names.into_bytes());
        self.headers = self.headers.iter().cloned().chain([columns]).collect();
        self.header_pending = false;
        Ok(())
    }

    fn explain(&self, error: SplitError) -> Failure {
        let (path, line) = (&self.path, self.line());
        Failure::new(match error {
            SplitError::TooLong => format!(
                "{path}:{line}: the line is longer than `max_line` ({} bytes). Raise `max_line` \
                 if such lines are right, or repair the file",
                self.max_line
            ),
            SplitError::OpenQuote => format!(
                "{path}:{line}: the row has a quote that is never closed. Repair the row, or use \
                 `format: lines` if the file is not CSV"
            ),
        })
    }
}
