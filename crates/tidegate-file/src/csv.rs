//! Comma-separated values as in RFC 4180: where a row ends, what its fields are, how one is
//! written.
//!
//! The three agree: what [`write_field`] writes is one field to [`fields`], and [`RowScanner`]
//! ends a row where [`fields`] sees no open quote. A quote opens a quoted field only at the
//! field's start, two quotes inside stand for one, and rows end with `\n` or `\r\n`.

use std::borrow::Cow;

/// Finds the ends of rows in a stream of bytes that comes in pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowScanner {
    delimiter: u8,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    FieldStart,
    Unquoted,
    Quoted,
    /// Behind a quote in a quoted field: it ends the field, or stands for a quote with the next.
    QuoteInQuoted,
}

impl RowScanner {
    pub(crate) fn new(delimiter: u8) -> Self {
        Self { delimiter, state: State::FieldStart }
    }

    /// The index behind the `\n` that ends the row, if it is in `bytes`. The next call goes on
    /// behind it, or behind `bytes`.
    pub(crate) fn row_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            match self.state {
                State::Quoted => {
                    at += memchr::memchr(b'"', rest)? + 1;
                    self.state = State::QuoteInQuoted;
                    continue;
                }
                State::Unquoted => match memchr::memchr2(self.delimiter, b'\n', rest) {
                    Some(found) => at += found,
                    None => return None,
                },
                State::FieldStart | State::QuoteInQuoted => {}
            }
            self.state = match bytes[at] {
                b'"' => State::Quoted,
                b'\n' => {
                    self.state = State::FieldStart;
                    return Some(at + 1);
                }
                byte if byte == self.delimiter => State::FieldStart,
                _ => State::Unquoted,
            };
            at += 1;
        }
        None
    }

    /// Whether the bytes so far end inside a quoted field.
    pub(crate) fn in_quotes(&self) -> bool {
        self.state == State::Quoted
    }

    /// Begins a new row.
    pub(crate) fn reset(&mut self) {
        self.state = State::FieldStart;
    }
}

/// One field of a row.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Field<'a> {
    /// Its bytes, unquoted.
    pub(crate) bytes: Cow<'a, [u8]>,
    /// Whether it began with a quote: an empty text is quoted, a missing value isn't.
    pub(crate) quoted: bool,
}

/// The fields of one row, which has no line break at its end; at least one.
pub(crate) fn fields(row: &[u8], delimiter: u8) -> impl Iterator<Item = Field<'_>> {
    let mut rest = Some(row);
    std::iter::from_fn(move || {
        let bytes = rest?;
        let (field, length) = match bytes.first() {
            Some(b'"') => quoted_field(bytes, delimiter),
            _ => {
                let length = memchr::memchr(delimiter, bytes).unwrap_or(bytes.len());
                (Field { bytes: Cow::Borrowed(&bytes[..length]), quoted: false }, length)
            }
        };
        rest = bytes.get(length + 1..);
        Some(field)
    })
}

/// The quoted field at the start of `bytes`, and its length there. What stands between its
/// closing quote and the delimiter belongs to it.
fn quoted_field(bytes: &[u8], delimiter: u8) -> (Field<'_>, usize) {
    let mut content = Cow::Borrowed(&bytes[1..1]);
    let mut at = 1;
    loop {
        let quote = memchr::memchr(b'"', &bytes[at..]).map_or(bytes.len(), |found| at + found);
        append(&mut content, bytes, at, quote);
        if bytes.get(quote + 1) != Some(&b'"') {
            at = (quote + 1).min(bytes.len());
            break;
        }
        append(&mut content, bytes, quote, quote + 1);
        at = quote + 2;
    }
    let end = memchr::memchr(delimiter, &bytes[at..]).map_or(bytes.len(), |found| at + found);
    append(&mut content, bytes, at, end);
    (Field { bytes: content, quoted: true }, end)
}

/// Adds `bytes[from..to]`; borrows as long as the content is one piece of `bytes`.
fn append<'a>(content: &mut Cow<'a, [u8]>, bytes: &'a [u8], from: usize, to: usize) {
    if from == to {
        return;
    }
    if content.is_empty() {
        *content = Cow::Borrowed(&bytes[from..to]);
    } else {
        content.to_mut().extend_from_slice(&bytes[from..to]);
    }
}

/// Writes one field: `None` is a missing value (nothing at all), an empty text is `""`.
pub(crate) fn write_field(into: &mut Vec<u8>, text: Option<&str>, delimiter: u8) {
    let Some(text) = text else { return };
    let needs_quotes = |byte: u8| byte == delimiter || matches!(byte, b'"' | b'\r' | b'\n');
    if !text.is_empty() && !text.bytes().any(needs_quotes) {
        into.extend_from_slice(text.as_bytes());
        return;
    }
    into.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' {
            into.push(b'"');
        }
        into.push(byte);
    }
    into.push(b'"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(row: &str) -> Vec<(String, bool)> {
        fields(row.as_bytes(), b',')
            .map(|f| (String::from_utf8(f.bytes.into_owned()).unwrap(), f.quoted))
            .collect()
    }

    #[test]
    fn fields_are_split_and_unquoted() {
        let cases: &[(&str, &[(&str, bool)])] = &[
            ("", &[("", false)]),
            ("a,b", &[("a", false), ("b", false)]),
            ("a,", &[("a", false), ("", false)]),
            (r#""","a""b""#, &[("", true), ("a\"b", true)]),
            ("\"a,\nb\",c", &[("a,\nb", true), ("c", false)]),
            (r#"5" pipe,"x"y,z"#, &[("5\" pipe", false), ("xy", true), ("z", false)]),
            (r#""open,"#, &[("open,", true)]),
            (r#""a"""#, &[("a\"", true)]),
        ];
        for (row, expected) in cases {
            let expected: Vec<_> = expected.iter().map(|(t, q)| ((*t).to_owned(), *q)).collect();
            assert_eq!(texts(row), expected, "{row}");
        }
    }

    fn all_rows(text: &[u8], piece: usize) -> (Vec<Vec<u8>>, bool) {
        let mut scanner = RowScanner::new(b',');
        let (mut rows, mut row) = (Vec::new(), Vec::new());
        for mut bytes in text.chunks(piece) {
            while let Some(end) = scanner.row_end(bytes) {
                row.extend_from_slice(&bytes[..end - 1]);
                rows.push(std::mem::take(&mut row));
                bytes = &bytes[end..];
            }
            row.extend_from_slice(bytes);
        }
        if !row.is_empty() {
            rows.push(row);
        }
        rows.retain(|row| !row.is_empty());
        (rows, scanner.in_quotes())
    }

    proptest! {
        #[test]
        fn rows_and_fields_are_those_of_the_csv_crate(
            text in "[ab,\"\n]{0,40}",
            piece in 1usize..9,
        ) {
            let (rows, open) = all_rows(text.as_bytes(), piece);
            prop_assume!(!open);
            let ours: Vec<Vec<Vec<u8>>> = rows
                .iter()
                .map(|row| fields(row, b',').map(|f| f.bytes.into_owned()).collect())
                .collect();
            let theirs: Vec<Vec<Vec<u8>>> = csv::ReaderBuilder::new()
                .has_headers(false)
                .flexible(true)
                .terminator(csv::Terminator::Any(b'\n'))
                .from_reader(text.as_bytes())
                .into_byte_records()
                .map(|record| record.unwrap().iter().map(<[u8]>::to_vec).collect())
                .collect();
            prop_assert_eq!(ours, theirs);
        }

        #[test]
        fn what_is_written_is_read_back(
            row in prop::collection::vec(prop::option::of("[a,;\"\r\n]{0,6}"), 1..5),
        ) {
            let mut line = Vec::new();
            for (index, field) in row.iter().enumerate() {
                if index > 0 {
                    line.push(b',');
                }
                write_field(&mut line, field.as_deref(), b',');
            }
            let back: Vec<Option<String>> = fields(&line, b',')
                .map(|f| match (f.quoted, f.bytes.is_empty()) {
                    (false, true) => None,
                    _ => Some(String::from_utf8(f.bytes.into_owned()).unwrap()),
                })
                .collect();
            prop_assert_eq!(&back, &row);
            line.push(b'\n');
            prop_assert_eq!(RowScanner::new(b',').row_end(&line), Some(line.len()));
        }
    }
}
