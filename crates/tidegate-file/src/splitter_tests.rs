use proptest::prelude::*;

use super::*;

/// A row as a test sees it: first line, content, offset behind it.
type Seen = (u64, Vec<u8>, u64);

fn split(
    text: &[u8],
    rule: Rule,
    max_line: usize,
    pieces: &[usize],
) -> (Vec<Seen>, Result<(), SplitError>) {
    let mut splitter = Splitter::new(rule, max_line);
    let (mut rows, mut rest, mut pieces) = (Vec::new(), text, pieces.iter().cycle());
    loop {
        match splitter.peek() {
            Ok(Some(row)) => {
                let content = splitter.content(&row).to_vec();
                assert_eq!(splitter.peek(), Ok(Some(row.clone())), "it stays until it is taken");
                splitter.take(&row);
                rows.push((row.line, content, splitter.place().offset));
            }
            Err(error) => {
                assert_eq!(splitter.peek(), Err(error), "an error stays");
                return (rows, Err(error));
            }
            Ok(None) if splitter.ended => return (rows, Ok(())),
            Ok(None) if rest.is_empty() => splitter.finish(),
            Ok(None) => {
                let (piece, left) = rest.split_at((*pieces.next().unwrap()).min(rest.len()));
                rest = left;
                splitter
                    .fill(|into| {
                        into[..piece.len()].copy_from_slice(piece);
                        Ok::<_, ()>(piece.len())
                    })
                    .unwrap();
                assert!(splitter.buffered() <= max_line + 1 + piece.len(), "bounded");
            }
        }
    }
}

/// What the rules say, written the slow way.
fn naive(text: &[u8], keep_blank: bool) -> Vec<Seen> {
    let bom = if text.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
    let (mut rows, mut offset) = (Vec::new(), bom as u64);
    let body = &text[bom..];
    for (index, line) in body.split_inclusive(|&byte| byte == b'\n').enumerate() {
        offset += line.len() as u64;
        let content = match line.strip_suffix(b"\n") {
            Some(line) => line.strip_suffix(b"\r").unwrap_or(line),
            None => line,
        };
        if keep_blank || !content.trim_ascii().is_empty() {
            rows.push((index as u64 + 1, content.to_vec(), offset));
        }
    }
    rows
}

fn csv_rule() -> Rule {
    Rule::Csv(RowScanner::new(b','))
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop::sample::select(b"ab ,\"\r\n\xEF\xBB\xBF\xFF".to_vec());
    (any::<bool>(), prop::collection::vec(byte, 0..60))
        .prop_map(|(bom, bytes)| if bom { [BYTE_ORDER_MARK, &bytes].concat() } else { bytes })
}

proptest! {
    #[test]
    fn lines_are_those_of_the_naive_model(
        text in text(),
        pieces in prop::collection::vec(1usize..20, 1..5),
    ) {
        for keep_blank in [true, false] {
            let rule = if keep_blank { Rule::Lines } else { Rule::NonBlankLines };
            let (rows, end) = split(&text, rule, 1000, &pieces);
            prop_assert_eq!(end, Ok(()));
            prop_assert_eq!(rows, naive(&text, keep_blank));
        }
    }

    #[test]
    fn pieces_do_not_matter(
        text in text(),
        pieces in prop::collection::vec(1usize..20, 1..5),
        max_line in 1usize..30,
    ) {
        for rule in [Rule::Lines, Rule::NonBlankLines, csv_rule()] {
            let whole = split(&text, rule.clone(), max_line, &[text.len().max(1)]);
            prop_assert_eq!(split(&text, rule, max_line, &pieces), whole);
        }
    }

    #[test]
    fn reading_goes_on_at_any_place_between_two_rows(
        text in text(),
        pieces in prop::collection::vec(1usize..20, 1..5),
        at in any::<prop::sample::Index>(),
    ) {
        for rule in [Rule::Lines, csv_rule()] {
            let (rows, end) = split(&text, rule.clone(), 1000, &pieces);
            if rows.is_empty() || end.is_err() {
                continue;
            }
            let at = at.index(rows.len());
            let mut splitter = Splitter::new(rule, 1000);
            let line = rows.get(at + 1).map_or(rows[at].0 + 1, |next| next.0);
            splitter.skip_to(Place { line, offset: rows[at].2 });
            let (mut seen, mut rest, mut pieces) = (Vec::new(), &text[..], pieces.iter().cycle());
            while let Some(row) = loop {
                match splitter.peek().unwrap() {
                    None if rest.is_empty() && splitter.ended => break None,
                    None if rest.is_empty() => splitter.finish(),
                    None => {
                        let piece;
                        (piece, rest) = rest.split_at((*pieces.next().unwrap()).min(rest.len()));
                        let put = |into: &mut [u8]| {
                            into[..piece.len()].copy_from_slice(piece);
                            Ok::<_, ()>(piece.len())
                        };
                        splitter.fill(put).unwrap();
                    }
                    some => break some,
                }
            } {
                seen.push(splitter.content(&row).to_vec());
                splitter.take(&row);
            }
            let expected: Vec<_> = rows[at + 1..].iter().map(|row| row.1.clone()).collect();
            prop_assert_eq!(seen, expected);
        }
    }
}

#[test]
fn a_row_may_be_as_long_as_max_line_and_no_longer() {
    for (text, fits) in [
        (&b"12345\r\n"[..], true),
        (b"12345\n", true),
        (b"12345", true),
        (b"123456\n", false),
        (b"123456", false),
        (b"123456\r\n", false),
        (b"12345678901234567890", false),
    ] {
        for piece in [1, 3, 100] {
            let (rows, end) = split(text, Rule::Lines, 5, &[piece]);
            assert_eq!((rows.len(), end.is_ok()), (usize::from(fits), fits), "{text:?} by {piece}");
        }
    }
}

#[test]
fn csv_rows_span_lines_and_are_numbered_by_their_first() {
    let (rows, end) = split(b"h\n\"a\nb\n\",1\n\nx\n\"open\n", csv_rule(), 100, &[4]);
    let lines: Vec<_> = rows.iter().map(|row| row.0).collect();
    assert_eq!(lines, [1, 2, 6]);
    assert_eq!(end, Err(SplitError::OpenQuote));
}
