//! Makes values of the records that the file source delivers.
//!
//! A record that can't be decoded is an error of that record only. The error names the file, the
//! line and, where that helps, the column in bytes from 1. Records of other sources can be
//! decoded too; the error then names partition and position.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use tidegate_core::Record;

use crate::config::FileFormat;
use crate::csv::fields;
use crate::records::{COLUMNS_HEADER, DELIMITER_HEADER, FILE_HEADER};

/// The record's payload is not what its format says, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecodeError(String);

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DecodeError {}

/// The decoder for a format.
///
/// ```
/// # use tidegate_core::*;
/// use tidegate_file::{FileFormat, decode::decoder};
/// # let mut builder = RecordBatch::builder(Partition::whole("data/x.jsonl"))
/// #     .with_shared_headers([Header::new("file", *b"data/x.jsonl")].into());
/// # builder.push(Position::new(17), NewRecord { payload: Some(b"{oops"), ..Default::default() })?;
/// # let batch = builder.finish();
/// let error = decoder(FileFormat::Json)(batch.get(0)).unwrap_err();
/// assert_eq!(error.to_string(), "data/x.jsonl:17:2: not JSON: key must be a string");
/// # Ok::<(), BatchFull>(())
/// ```
pub fn decoder(format: FileFormat) -> fn(Record<'_>) -> Result<Value, DecodeError> {
    match format {
        FileFormat::Json => decode_json,
        FileFormat::Csv => decode_csv,
        FileFormat::Lines => decode_line,
    }
}

/// The payload as JSON.
pub fn decode_json(record: Record<'_>) -> Result<Value, DecodeError> {
    serde_json::from_slice(record.payload()).map_err(|error| {
        text(record).err().unwrap_or_else(|| {
            let full = error.to_string();
            let what = full.split(" at line ").next().unwrap_or(&full);
            let place =
                Place { lines_below: error.line().saturating_sub(1), column: error.column() };
            failure(record, Some(place), format!("not JSON: {what}"))
        })
    })
}

/// The payload as a CSV row: an object of texts, by the names in the header `csv-columns`, or
/// `column_1`, `column_2`… without it. An empty field is `null`, and `""` is an empty text. A row
/// with more or fewer fields than there are columns is an error.
pub fn decode_csv(record: Record<'_>) -> Result<Value, DecodeError> {
    let text = text(record)?;
    let delimiter = record.header(DELIMITER_HEADER).and_then(|d| d.first()).copied();
    let row: Vec<Value> = fields(text.as_bytes(), delimiter.unwrap_or(b','))
        .map(|field| {
            if field.bytes.is_empty() && !field.quoted {
                return Value::Null;
            }
            let text = String::from_utf8(field.bytes.into_owned());
            Value::String(text.expect("UTF-8 that is cut at ASCII characters stays UTF-8"))
        })
        .collect();
    let Some(header) = record.header(COLUMNS_HEADER) else {
        let number = |(index, value)| (format!("column_{}", index + 1), value);
        return Ok(Value::Object(row.into_iter().enumerate().map(number).collect()));
    };
    let columns = columns(header).ok_or_else(|| {
        failure(record, None, format!("its header `{COLUMNS_HEADER}` is no JSON array of texts"))
    })?;
    if columns.len() != row.len() {
        let what = format!("the row has {} fields, the header {}", row.len(), columns.len());
        return Err(failure(record, None, what));
    }
    Ok(Value::Object(columns.iter().cloned().zip(row).collect::<Map<_, _>>()))
}

/// The payload as a text.
pub fn decode_line(record: Record<'_>) -> Result<Value, DecodeError> {
    text(record).map(|text| Value::String(text.to_owned()))
}

fn text(record: Record<'_>) -> Result<&str, DecodeError> {
    let payload = record.payload();
    std::str::from_utf8(payload).map_err(|error| {
        let good = &payload[..error.valid_up_to()];
        let lines_below = memchr::memchr_iter(b'\n', good).count();
        let line_start = memchr::memrchr(b'\n', good).map_or(0, |at| at + 1);
        let place = Place { lines_below, column: good.len() - line_start + 1 };
        let byte = payload[error.valid_up_to()];
        failure(record, Some(place), format!("invalid UTF-8: the byte 0x{byte:02X}"))
    })
}

/// The names in the header's value. The last ones are kept: parsing them for each record would
/// cost more than parsing the record.
fn columns(header: &[u8]) -> Option<Arc<[String]>> {
    type Parsed = (Vec<u8>, Arc<[String]>);
    thread_local! {
        static LAST: RefCell<Option<Parsed>> = const { RefCell::new(None) };
    }
    LAST.with_borrow_mut(|last| match last {
        Some((value, columns)) if value == header => Some(Arc::clone(columns)),
        _ => {
            let columns: Arc<[String]> = serde_json::from_slice::<Vec<String>>(header).ok()?.into();
            *last = Some((header.to_vec(), Arc::clone(&columns)));
            Some(columns)
        }
    })
}

/// A place inside a payload.
struct Place {
    lines_below: usize,
    column: usize,
}

fn failure(record: Record<'_>, place: Option<Place>, what: String) -> DecodeError {
    let position = record.position();
    let file = record.header(FILE_HEADER).and_then(|file| std::str::from_utf8(file).ok());
    DecodeError(match (file, place) {
        (Some(file), Some(Place { lines_below, column })) => {
            format!("{file}:{}:{column}: {what}", position.get() + lines_below as u64)
        }
        (Some(file), None) => format!("{file}:{position}: {what}"),
        (None, _) => format!("{record:?}: {what}"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_core::{Header, NewRecord, Partition, Position, RecordBatch};

    use super::*;

    fn batch(headers: &[(&str, &str)], payload: &[u8]) -> RecordBatch {
        let headers: Vec<_> = headers.iter().map(|(n, v)| Header::new(*n, v.as_bytes())).collect();
        let mut builder =
            RecordBatch::builder(Partition::new("t", 3)).with_shared_headers(headers.into());
        let record = NewRecord { payload: Some(payload), ..NewRecord::default() };
        builder.push(Position::new(17), record).unwrap();
        builder.finish()
    }

    fn csv(payload: &[u8]) -> Result<Value, String> {
        let headers = [("file", "d/x.csv"), ("csv-columns", r#"["b","a"]"#)];
        decode_csv(batch(&headers, payload).get(0)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_csv_row_is_an_object_in_the_order_of_its_columns() {
        assert_eq!(csv(b"1,2"), Ok(json!({"b": "1", "a": "2"})));
        assert_eq!(csv(b",\"\"").unwrap().to_string(), r#"{"b":null,"a":""}"#);
        assert_eq!(csv(b"\"x\ny\",2"), Ok(json!({"b": "x\ny", "a": "2"})));
        assert_eq!(csv(b"1").unwrap_err(), "d/x.csv:17: the row has 1 fields, the header 2");
        let value = decode_csv(batch(&[("csv-delimiter", ";")], b"1;x").get(0)).unwrap();
        assert_eq!(value, json!({"column_1": "1", "column_2": "x"}));
    }

    #[test]
    fn an_error_names_file_line_and_column() {
        assert_eq!(
            csv(b"\"a\nb\xFFc\",2").unwrap_err(),
            "d/x.csv:18:2: invalid UTF-8: the byte 0xFF"
        );
        let json = |payload: &[u8]| {
            decode_json(batch(&[("file", "x.jsonl")], payload).get(0)).unwrap_err().to_string()
        };
        assert_eq!(json(b"{\"a\":1"), "x.jsonl:17:6: not JSON: EOF while parsing an object");
        assert_eq!(json(b"[1] 2"), "x.jsonl:17:5: not JSON: trailing characters");
        assert_eq!(json(b"\"\xC3\""), "x.jsonl:17:2: invalid UTF-8: the byte 0xC3");
        let elsewhere = decode_line(batch(&[], b"\xFF").get(0)).unwrap_err();
        assert_eq!(elsewhere.to_string(), "t[3]@17: invalid UTF-8: the byte 0xFF");
    }
}
