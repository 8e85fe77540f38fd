//! Splits a stream of bytes into lines or CSV rows. Pure: bytes are pushed in, rows taken out.
//!
//! - A row is given out once it is complete: with its line break, or at the end of the stream.
//! - A row's place depends on the bytes only, never on the pieces in which they came.
//! - Of an unfinished row no more than `max_line` bytes are kept, beside one piece of
//!   [`PIECE`] bytes.
//! - An error stays: the next call says it again.

use std::ops::Range;

use crate::csv::RowScanner;

/// How many bytes are read at once.
pub(crate) const PIECE: usize = 128 << 10;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// What ends a row, and which rows count.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    /// Every line, an empty one too.
    Lines,
    /// Lines that are not blank.
    NonBlankLines,
    /// CSV rows that are not empty.
    Csv(RowScanner),
}

/// A row that is complete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    /// The number of its first line, from 1.
    pub(crate) line: u64,
    /// Where its content is in the buffer, without the line break.
    pub(crate) content: Range<usize>,
    /// Its length in the stream, with the line break.
    pub(crate) length: usize,
    /// Whether a line break ends it; only the last row of a stream can lack it.
    pub(crate) terminated: bool,
}

/// A place between two rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The number of the line that begins here, from 1.
    pub(crate) line: u64,
    /// How many bytes of the stream come before it.
    pub(crate) offset: u64,
}

/// Why there is no next row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SplitError {
    /// The row is longer than `max_line`.
    TooLong,
    /// The stream ends inside a quoted field.
    OpenQuote,
}

#[derive(Debug)]
pub(crate) struct Splitter {
    rule: Rule,
    max_line: usize,
    buffer: Vec<u8>,
    /// Where the next row begins in the buffer.
    head: usize,
    /// Up to where the next row's end was looked for.
    scanned: usize,
    place: Place,
    /// Bytes of the stream that are still to be thrown away, see [`Splitter::skip_to`].
    discard: u64,
    ended: bool,
}

impl Splitter {
    pub(crate) fn new(rule: Rule, max_line: usize) -> Self {
        Self {
            rule,
            max_line,
            buffer: Vec::new(),
            head: 0,
            scanned: 0,
            place: Place { line: 1, offset: 0 },
            discard: 0,
            ended: false,
        }
    }

    /// Where the next row begins.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// How many bytes are kept.
    pub(crate) fn buffered(&self) -> usize {
        self.buffer.len() - self.head
    }

    /// Lets `read` put up to [`PIECE`] bytes in, and returns its answer: how many they were.
    /// Rows taken before are not in the buffer any more.
    pub(crate) fn fill<E>(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        self.compact();
        let old = self.buffer.len();
        self.grow(PIECE);
        self.buffer.resize(old + PIECE, 0);
        let answer = read(&mut self.buffer[old..]);
        self.buffer.truncate(old + *answer.as_ref().unwrap_or(&0));
        let thrown = self.discard.min((self.buffer.len() - old) as u64);
        self.discard -= thrown;
        self.buffer.drain(old..old + thrown as usize);
        if self.buffer.is_empty() {
            // Many followed files that stand at their end must not keep a piece's room each.
            self.buffer = Vec::new();
        }
        answer
    }

    /// Puts bytes in that were read elsewhere.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.compact();
        self.grow(bytes.len());
        self.buffer.extend_from_slice(bytes);
    }

    /// No more bytes come: what is left is the last row.
    pub(crate) fn finish(&mut self) {
        self.ended = true;
    }

    /// Goes on at a later place, which must be between two rows. The bytes up to there may be
    /// left out with [`Splitter::skipped`], or are thrown away as they come.
    pub(crate) fn skip_to(&mut self, place: Place) {
        let distance = place.offset.saturating_sub(self.place.offset);
        let here = distance.min(self.buffered() as u64);
        self.head += here as usize;
        self.discard = distance - here;
        self.begin_row(place);
    }

    /// How many bytes are still to be thrown away.
    pub(crate) fn to_skip(&self) -> u64 {
        self.discard
    }

    /// The stream itself was moved to the place that was skipped to.
    pub(crate) fn skipped(&mut self) {
        self.discard = 0;
    }

    /// The next row, which stays the next one until it is [taken](Splitter::take). `None`: more
    /// bytes are needed, or the stream has ended.
    pub(crate) fn peek(&mut self) -> Result<Option<Row>, SplitError> {
        if !self.skip_byte_order_mark() {
            return Ok(None);
        }
        loop {
            let Some(row) = self.complete_row()? else { return Ok(None) };
            if row.content.len() > self.max_line {
                return Err(SplitError::TooLong);
            }
            if self.counts(&row) {
                return Ok(Some(row));
            }
            self.pass(row.length, 1);
        }
    }

    /// Passes the row that [`Splitter::peek`] returned. Its content stays in the buffer until
    /// bytes are put in.
    pub(crate) fn take(&mut self, row: &Row) {
        let content = &self.buffer[self.head..self.head + row.length];
        let lines = match self.rule {
            Rule::Csv(_) if row.terminated => memchr::memchr_iter(b'\n', content).count() as u64,
            Rule::Csv(_) => memchr::memchr_iter(b'\n', content).count() as u64 + 1,
            Rule::Lines | Rule::NonBlankLines => 1,
        };
        self.pass(row.length, lines);
    }

    /// The bytes of a row's content.
    pub(crate) fn content(&self, row: &Row) -> &[u8] {
        &self.buffer[row.content.clone()]
    }

    /// The next row, whether it counts or not.
    fn complete_row(&mut self) -> Result<Option<Row>, SplitError> {
        let unseen = &self.buffer[self.scanned..];
        let found = match &mut self.rule {
            Rule::Csv(scanner) => scanner.row_end(unseen),
            Rule::Lines | Rule::NonBlankLines => memchr::memchr(b'\n', unseen).map(|at| at + 1),
        };
        let Some(found) = found else { return self.incomplete_row() };
        let end = self.scanned + found;
        // Found again by the next call: the row stays the next one until it is passed.
        self.scanned = end - 1;
        if let Rule::Csv(scanner) = &mut self.rule {
            scanner.reset();
            self.scanned = self.head;
        }
        let content = &self.buffer[self.head..end - 1];
        let content_length = content.strip_suffix(b"\r").unwrap_or(content).len();
        Ok(Some(Row {
            line: self.place.line,
            content: self.head..self.head + content_length,
            length: end - self.head,
            terminated: true,
        }))
    }

    /// The last row of the stream, if it has ended and something is left.
    fn incomplete_row(&mut self) -> Result<Option<Row>, SplitError> {
        self.scanned = self.buffer.len();
        let length = self.buffered();
        // One byte more may be the first half of a `\r\n`.
        if length > self.max_line + 1 {
            return Err(SplitError::TooLong);
        }
        if !self.ended || length == 0 {
            return Ok(None);
        }
        if let Rule::Csv(scanner) = &self.rule
            && scanner.in_quotes()
        {
            return Err(SplitError::OpenQuote);
        }
        let content = self.head..self.buffer.len();
        Ok(Some(Row { line: self.place.line, content, length, terminated: false }))
    }

    fn counts(&self, row: &Row) -> bool {
        match self.rule {
            Rule::Lines => true,
            Rule::NonBlankLines => !self.content(row).trim_ascii().is_empty(),
            Rule::Csv(_) => !row.content.is_empty(),
        }
    }

    fn pass(&mut self, length: usize, lines: u64) {
        self.head += length;
        self.begin_row(Place {
            line: self.place.line + lines,
            offset: self.place.offset + length as u64,
        });
    }

    fn begin_row(&mut self, place: Place) {
        self.place = place;
        self.scanned = self.head;
        if let Rule::Csv(scanner) = &mut self.rule {
            scanner.reset();
        }
    }

    /// Whether the stream's first bytes are known not to be a byte-order mark, now that one is
    /// passed if it was there.
    fn skip_byte_order_mark(&mut self) -> bool {
        if self.place.offset != 0 {
            return true;
        }
        let start = &self.buffer[self.head..];
        if start.starts_with(BYTE_ORDER_MARK) {
            self.head += BYTE_ORDER_MARK.len();
            self.begin_row(Place { line: 1, offset: BYTE_ORDER_MARK.len() as u64 });
        }
        let start = &self.buffer[self.head..];
        self.place.offset != 0 || self.ended || !BYTE_ORDER_MARK.starts_with(start)
    }

    /// Drops what was taken, and the room that one long row needed.
    fn compact(&mut self) {
        self.buffer.drain(..self.head);
        self.scanned -= self.head;
        self.head = 0;
        if self.buffer.is_empty() && self.buffer.capacity() > 2 * PIECE {
            self.buffer = Vec::new();
        }
    }

    /// Makes room for so many bytes: doubles, but not past what the longest row needs.
    fn grow(&mut self, additional: usize) {
        let needed = self.buffer.len() + additional;
        if needed > self.buffer.capacity() {
            let most = self.max_line.saturating_add(PIECE + 2);
            let target = needed.max((2 * self.buffer.capacity()).min(most));
            self.buffer.reserve_exact(target - self.buffer.len());
        }
    }
}

#[cfg(test)]
#[path = "splitter_tests.rs"]
mod tests;
