//! Items as lines: JSON, or CSV rows.
//!
//! - An item is written whole or refused; a refused one leaves no trace beside its neighbours
//!   (P43).
//! - No line has a line break inside but within a quoted CSV field.

use std::collections::HashMap;
use std::marker::PhantomData;

use serde::Serialize;
use serde_json::Value;
use tidegate_core::{ItemError, Report};

use crate::config::{FileSinkConfig, SinkFormat};
use crate::csv::write_field;

/// The lines of a batch, and the answer for each item once they are written.
pub(crate) struct Encoded {
    pub(crate) lines: Vec<u8>,
    pub(crate) report: Report,
}

pub(crate) struct Rows<T> {
    csv: Option<Csv>,
    items: PhantomData<fn(&T)>,
}

struct Csv {
    delimiter: u8,
    columns: Vec<String>,
    index: HashMap<String, usize>,
    /// Whether the columns' names are to be written before the next row.
    header_due: bool,
}

impl<T: Serialize> Rows<T> {
    pub(crate) fn new(config: &FileSinkConfig) -> Self {
        let csv = (config.format == SinkFormat::Csv).then(|| {
            let options = config.csv.clone().unwrap_or_default();
            let mut csv = Csv {
                // Settings allow ASCII only.
                delimiter: options.delimiter as u8,
                columns: Vec::new(),
                index: HashMap::new(),
                header_due: true,
            };
            csv.set_columns(options.columns.unwrap_or_default());
            csv
        });
        Self { csv, items: PhantomData }
    }

    /// Goes on below the rows of a file with these columns. Refused, with the columns that were
    /// expected, if they are others.
    pub(crate) fn continue_with(&mut self, columns: Vec<String>) -> Result<(), Vec<String>> {
        let Some(csv) = &mut self.csv else { return Ok(()) };
        if csv.columns.is_empty() {
            csv.set_columns(columns);
        } else if csv.columns != columns {
            return Err(csv.columns.clone());
        }
        csv.header_due = false;
        Ok(())
    }

    /// The row with the columns' names, if it is due and they are known.
    pub(crate) fn header(&self) -> Vec<u8> {
        let mut lines = Vec::new();
        if let Some(csv) = &self.csv
            && csv.header_due
            && !csv.columns.is_empty()
        {
            csv.write(&mut lines, csv.columns.iter().map(|name| Some(name.as_str())));
        }
        lines
    }

    /// What was due is written.
    pub(crate) fn header_written(&mut self) {
        if let Some(csv) = &mut self.csv
            && !csv.columns.is_empty()
        {
            csv.header_due = false;
        }
    }

    /// The lines of these items.
    pub(crate) fn encode(&mut self, items: &[T]) -> Encoded {
        let mut lines = self.header();
        let mut answers = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let start = lines.len();
            let answer = match &mut self.csv {
                None => json_line(&mut lines, item),
                Some(csv) => csv.row(&mut lines, item),
            };
            if answer.is_err() {
                lines.truncate(start);
                // Answers are kept from the first refused one on.
                answers.resize_with(index, || Ok(()));
            }
            if answer.is_err() || !answers.is_empty() {
                answers.push(answer);
            }
        }
        let report = match answers.is_empty() {
            true => Report::all_done(items.len()),
            false => Report::each(answers),
        };
        Encoded { lines, report }
    }
}

fn json_line<T: Serialize>(lines: &mut Vec<u8>, item: &T) -> Result<(), ItemError> {
    let start = lines.len();
    serde_json::to_writer(&mut *lines, item)
        .map_err(|error| ItemError::new(format!("it can't be written as JSON: {error}")))?;
    for byte in &mut lines[start..] {
        // Only raw JSON that the item brings along has line breaks, and there they are white
        // space: inside a string they would be escaped.
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    lines.push(b'\n');
    Ok(())
}

impl Csv {
    fn set_columns(&mut self, columns: Vec<String>) {
        self.index = columns.iter().cloned().zip(0..).collect();
        self.columns = columns;
    }

    fn row<T: Serialize>(&mut self, lines: &mut Vec<u8>, item: &T) -> Result<(), ItemError> {
        let object = match serde_json::to_value(item) {
            Ok(Value::Object(object)) => object,
            Ok(other) => {
                let kind = kind(&other);
                return Err(ItemError::new(format!("a CSV row is made of an object, not {kind}")));
            }
            Err(error) => {
                return Err(ItemError::new(format!("it can't be written as CSV: {error}")));
            }
        };
        if self.columns.is_empty() {
            if object.is_empty() {
                return Err(ItemError::new("an object without keys has no columns"));
            }
            self.set_columns(object.keys().cloned().collect());
            self.write(lines, self.columns.iter().map(|name| Some(name.as_str())));
        }
        let mut fields = vec![None; self.columns.len()];
        for (key, value) in object {
            let Some(index) = self.index.get(&key) else {
                return Err(ItemError::new(format!(
                    "there is no column for its key `{key}`; the columns are {}",
                    self.columns.join(", ")
                )));
            };
            fields[*index] = match value {
                Value::Null => None,
                Value::String(text) => Some(text),
                other => Some(other.to_string()),
            };
        }
        self.write(lines, fields.iter().map(Option::as_deref));
        Ok(())
    }

    fn write<'a>(&self, lines: &mut Vec<u8>, fields: impl Iterator<Item = Option<&'a str>>) {
        let start = lines.len();
        for (index, field) in fields.enumerate() {
            if index > 0 {
                lines.push(self.delimiter);
            }
            write_field(lines, field, self.delimiter);
        }
        if lines.len() == start {
            // A single missing value: an empty line would be no row at all.
            lines.extend_from_slice(b"\"\"");
        }
        lines.push(b'\n');
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
