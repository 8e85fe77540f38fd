//! What is saved beside a file's frontier, and how it is checked when it comes back.
//!
//! 62 bytes, little-endian: `tgfn`, version, flags, encoding, format, eight numbers, CRC-32 of all
//! before it. What comes back is outside data (P12): anything that is not exactly what this
//! module writes is refused, with what to do about it, and never guessed.

use tidegate_core::{Position, SavedPosition};

use crate::compression::Encoding;
use crate::config::FileFormat;
use crate::error::Failure;
use crate::records::Mark;
use crate::splitter::Place;

const MAGIC: &[u8; 4] = b"tgfn";
const VERSION: u8 = 1;
const DONE: u8 = 1;
const LENGTH: usize = 8 + 6 * 8 + 4 + 4;

/// A place between two records to which reading can return.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Checkpoint {
    pub(crate) mark: Mark,
    /// How much of the file, as it is on the disk, was read at that time; at least what is needed
    /// to get to the place.
    pub(crate) raw_length: u64,
    /// The [fingerprint](crate::identity::fingerprint) of so much of the file.
    pub(crate) fingerprint: u32,
}

/// What a file is and how it is read. With another way of reading, offsets mean nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kind {
    pub(crate) inode: u64,
    pub(crate) encoding: Encoding,
    pub(crate) format: FileFormat,
}

/// The note that goes with a frontier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Note {
    pub(crate) kind: Kind,
    pub(crate) checkpoint: Checkpoint,
    /// Whether the whole file is settled.
    pub(crate) done: bool,
}

impl Note {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Checkpoint { mark, raw_length, fingerprint } = self.checkpoint;
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.extend_from_slice(MAGIC);
        bytes.push(VERSION);
        bytes.push(if self.done { DONE } else { 0 });
        bytes.push(encoding_code(self.kind.encoding));
        bytes.push(format_code(self.kind.format));
        let Place { line, offset } = mark.place;
        for number in [self.kind.inode, mark.after, line, offset, mark.tail, raw_length] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&fingerprint.to_le_bytes());
        let checksum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The note of a saved position, if it is whole, ours, and possible.
    pub(crate) fn decode(saved: &SavedPosition) -> Result<Self, Failure> {
        Self::parse(&saved.note, saved.frontier).map_err(|what| {
            Failure::new(format!(
                "the saved position of {} can't be used: {what}. Give the pipeline a store of its \
                 own, or restore this one; without the saved position the file is read again from \
                 its beginning",
                saved.partition
            ))
        })
    }

    fn parse(bytes: &[u8], frontier: Position) -> Result<Self, &'static str> {
        if !bytes.starts_with(MAGIC) {
            return Err("it was not saved by a file source");
        }
        if bytes.get(4).is_some_and(|version| *version != VERSION) {
            return Err("it was saved by another version of the file source");
        }
        let Ok(bytes) = <&[u8; LENGTH]>::try_from(bytes) else {
            return Err("it is damaged (wrong length)");
        };
        let (content, checksum) = bytes.split_at(LENGTH - 4);
        if crc32fast::hash(content).to_le_bytes() != checksum {
            return Err("it is damaged (wrong checksum)");
        }
        let number = |index: usize| {
            let at = 8 + index * 8;
            u64::from_le_bytes(content[at..at + 8].try_into().expect("a range of eight bytes"))
        };
        let (encoding, format) = (decode_encoding(content[6]), decode_format(content[7]));
        let (Some(encoding), Some(format)) = (encoding, format) else {
            return Err("it is damaged (unknown kind of file)");
        };
        let fingerprint = content[LENGTH - 8..].try_into().expect("the last four bytes");
        let note = Self {
            kind: Kind { inode: number(0), encoding, format },
            checkpoint: Checkpoint {
                mark: Mark {
                    after: number(1),
                    place: Place { line: number(2), offset: number(3) },
                    tail: number(4),
                },
                raw_length: number(5),
                fingerprint: u32::from_le_bytes(fingerprint),
            },
            done: content[5] & DONE != 0,
        };
        if !note.is_possible(frontier) {
            return Err("it contradicts itself");
        }
        Ok(note)
    }

    fn is_possible(&self, frontier: Position) -> bool {
        let Checkpoint { mark, raw_length, .. } = self.checkpoint;
        mark.after < frontier.get()
            && mark.after < mark.place.line
            && mark.tail <= mark.place.offset
            && (self.kind.encoding != Encoding::Plain || mark.place.offset <= raw_length)
    }
}

fn encoding_code(encoding: Encoding) -> u8 {
    match encoding {
        Encoding::Plain => 0,
        Encoding::Gzip => 1,
        Encoding::Zstd => 2,
    }
}

fn decode_encoding(code: u8) -> Option<Encoding> {
    [Encoding::Plain, Encoding::Gzip, Encoding::Zstd]
        .into_iter()
        .find(|encoding| encoding_code(*encoding) == code)
}

fn format_code(format: FileFormat) -> u8 {
    match format {
        FileFormat::Lines => 0,
        FileFormat::Json => 1,
        FileFormat::Csv => 2,
    }
}

fn decode_format(code: u8) -> Option<FileFormat> {
    [FileFormat::Lines, FileFormat::Json, FileFormat::Csv]
        .into_iter()
        .find(|format| format_code(*format) == code)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_core::Partition;

    use super::*;

    fn note() -> Note {
        Note {
            kind: Kind { inode: 77, encoding: Encoding::Gzip, format: FileFormat::Csv },
            checkpoint: Checkpoint {
                mark: Mark { after: 9, place: Place { line: 12, offset: 345 }, tail: 3 },
                raw_length: 200,
                fingerprint: 0xDEAD_BEEF,
            },
            done: true,
        }
    }

    fn saved(note: Vec<u8>, frontier: u64) -> SavedPosition {
        let partition = Partition::whole("data/x.csv");
        SavedPosition { partition, frontier: Position::new(frontier), note }
    }

    /// P12
    #[test]
    fn what_is_not_ours_is_refused_with_the_reason() {
        let good = note().encode();
        let change = |at: usize| {
            let mut bytes = good.clone();
            bytes[at] ^= 4;
            bytes
        };
        let cases = [
            (b"".to_vec(), 10, "it was not saved by a file source"),
            (b"{\"offset\":7}".to_vec(), 10, "it was not saved by a file source"),
            (change(4), 10, "it was saved by another version"),
            (change(20), 10, "it is damaged (wrong checksum)"),
            (good[..30].to_vec(), 10, "it is damaged (wrong length)"),
            (good.clone(), 9, "it contradicts itself"),
        ];
        for (bytes, frontier, expected) in cases {
            let text = Note::decode(&saved(bytes, frontier)).unwrap_err().to_string();
            assert!(text.starts_with("the saved position of data/x.csv can't be used: "), "{text}");
            assert!(text.contains(expected), "{text}");
            assert!(text.contains("Give the pipeline a store of its own"), "{text}");
        }
        assert_eq!(Note::decode(&saved(good, 10)), Ok(note()));
    }

    proptest! {
        /// P12
        #[test]
        fn one_changed_byte_is_never_trusted(at in 0..LENGTH, change in 1u8..) {
            let mut bytes = note().encode();
            bytes[at] ^= change;
            prop_assert!(Note::decode(&saved(bytes, 10)).is_err());
        }
    }
}
