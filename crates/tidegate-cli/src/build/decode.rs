use tidegate_core::{BoxError, Record};
use tidegate_file::decode::{decode_csv, decode_line};

use crate::config::PayloadFormat;
use crate::jq::{DecodeError, Val, decode_json, from_json};

/// The value of a record; `null` for a tombstone.
pub(crate) fn decode(record: Record<'_>, format: PayloadFormat) -> Result<Val, BoxError> {
    match format {
        _ if record.is_tombstone() => Ok(Val::Null),
        PayloadFormat::Json => decode_json(record.payload()).map_err(|error| placed(record, error)),
        PayloadFormat::Csv => Ok(from_json(decode_csv(record)?)),
        PayloadFormat::Lines => Ok(from_json(decode_line(record)?)),
    }
}

/// For a record of a file the place in the file, as editors take it; a line is one record.
fn placed(record: Record<'_>, error: DecodeError) -> BoxError {
    match record.header("file").map(String::from_utf8_lossy) {
        Some(file) => {
            let (line, column) = (record.position(), error.offset + 1);
            format!("{file}:{line}:{column}: not JSON: {}", error.what).into()
        }
        None => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate_core::{Header, NewRecord, Partition, Position, RecordBatch};

    use super::*;

    fn decode_one(
        payload: &[u8],
        headers: &[Header],
        format: PayloadFormat,
    ) -> Result<Val, String> {
        let mut builder =
            RecordBatch::builder(Partition::whole("x")).with_shared_headers(Arc::from(headers));
        let record = NewRecord { payload: Some(payload), ..NewRecord::default() };
        builder.push(Position::new(17), record).unwrap();
        let batch = builder.finish();
        decode(batch.get(0), format).map_err(|error| error.to_string())
    }

    #[test]
    fn each_format_makes_its_value() {
        let csv = [Header::new("csv-columns", *br#"["a","b"]"#)];
        for (payload, headers, format, value) in [
            (&b"{\"a\": 1}"[..], &[][..], PayloadFormat::Json, r#"{"a":1}"#),
            (b"1,\"x, y\"", &csv, PayloadFormat::Csv, r#"{"a":"1","b":"x, y"}"#),
            (b"1,", &csv, PayloadFormat::Csv, r#"{"a":"1","b":null}"#),
            (b"a line", &[], PayloadFormat::Lines, r#""a line""#),
        ] {
            assert_eq!(decode_one(payload, headers, format).unwrap().to_string(), value);
        }
    }

    #[test]
    fn an_error_names_the_file_the_line_and_the_column() {
        let file = [Header::new("file", *b"data/a.jsonl")];
        let error = decode_one(b"{\"a\" 1}", &file, PayloadFormat::Json).unwrap_err();
        assert_eq!(error, "data/a.jsonl:17:6: not JSON: expected colon");
        let error = decode_one(b"{\"a\" 1}", &[], PayloadFormat::Json).unwrap_err();
        assert_eq!(error, "not JSON: expected colon at byte 5");
        assert!(decode_one(b"\xff", &file, PayloadFormat::Lines).is_err());
    }
}
