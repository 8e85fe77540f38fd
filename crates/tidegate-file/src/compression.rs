//! Which compression a stream has, and its bytes without it.
//!
//! The first bytes decide: neither gzip's nor Zstandard's can be the beginning of a text. A file
//! that is named like a compressed one and isn't one is refused, because a half-written or
//! mistaken file must not be taken for lines.

use std::io::{self, Read};

use crate::config::Compression;
use crate::error::Failure;

const GZIP: &[u8] = &[0x1F, 0x8B];
const ZSTD: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];

/// How many of the first bytes tell.
pub(crate) const MAGIC_LENGTH: usize = ZSTD.len();

/// What a stream really is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Encoding {
    Plain,
    Gzip,
    Zstd,
}

impl Encoding {
    /// From the setting, the name and the first bytes. An empty stream is plain, whatever it
    /// should be: it has no lines.
    pub(crate) fn find(setting: Compression, path: &str, start: &[u8]) -> Result<Self, Failure> {
        match setting {
            _ if start.is_empty() => Ok(Self::Plain),
            Compression::None => Ok(Self::Plain),
            Compression::Gzip => Ok(Self::Gzip),
            Compression::Zstd => Ok(Self::Zstd),
            Compression::Auto if start.starts_with(GZIP) => Ok(Self::Gzip),
            Compression::Auto if start.starts_with(ZSTD) => Ok(Self::Zstd),
            Compression::Auto if path.ends_with(".gz") => Err(misnamed(path, "gzip")),
            // A skippable frame may come first: `?*M` and 0x18.
            Compression::Auto if path.ends_with(".zst") => match start {
                [0x50..=0x5F, 0x2A, 0x4D, 0x18] => Ok(Self::Zstd),
                _ => Err(misnamed(path, "Zstandard")),
            },
            Compression::Auto => Ok(Self::Plain),
        }
    }

    /// Whether more bytes are needed to know; `start` is what is there so far.
    pub(crate) fn is_open(start: &[u8]) -> bool {
        GZIP.starts_with(start) && start.len() < GZIP.len()
            || ZSTD.starts_with(start) && start.len() < ZSTD.len()
    }

    /// The bytes of `raw` without the compression.
    pub(crate) fn decode<'a>(
        self,
        raw: impl Read + Send + 'a,
    ) -> io::Result<Box<dyn Read + Send + 'a>> {
        Ok(match self {
            Self::Plain => Box::new(raw),
            Self::Gzip => Box::new(flate2::read::MultiGzDecoder::new(raw)),
            Self::Zstd => Box::new(zstd::Decoder::new(raw)?),
        })
    }

    /// Why reading `path` fails at `line`.
    pub(crate) fn explain(self, path: &str, line: u64, error: &io::Error) -> Failure {
        let data = match self {
            Self::Plain => return Failure::io("read", &format!("{path}:{line}"), error),
            Self::Gzip => "gzip",
            Self::Zstd => "Zstandard",
        };
        let what = match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                format!(
                    "the {data} data ends too early: the file is cut off, or has a rest behind it"
                )
            }
            _ => format!("the {data} data is damaged ({error})"),
        };
        let good = match line {
            1 => String::new(),
            _ => format!(" The lines before line {line} are not concerned."),
        };
        Failure::new(format!(
            "{path}:{line}: {what}.{good} Get the file again or repair it, then start the pipeline \
             again"
        ))
    }
}

fn misnamed(path: &str, data: &str) -> Failure {
    Failure::new(format!(
        "{path} is named like a {data} file and isn't one. Get the file again, or set \
         `compression: none` if it is plain text"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_decide_and_the_name_must_not_contradict() {
        let gzip = [0x1F, 0x8B, 8, 0];
        let skippable = [0x51, 0x2A, 0x4D, 0x18];
        let find = |path, start: &[u8]| Encoding::find(Compression::Auto, path, start);
        assert_eq!(find("a.jsonl", &gzip), Ok(Encoding::Gzip));
        assert_eq!(find("a.gz", ZSTD), Ok(Encoding::Zstd));
        assert_eq!(find("a.zst", &skippable), Ok(Encoding::Zstd));
        assert_eq!(find("a.txt", &skippable), Ok(Encoding::Plain));
        assert_eq!(find("a.gz", b""), Ok(Encoding::Plain));
        let error = find("a.gz", b"{\"a\"").unwrap_err().to_string();
        assert!(error.starts_with("a.gz is named like a gzip file and isn't one."), "{error}");
        assert!(find("a.zst", b"ab").is_err());
    }
}
