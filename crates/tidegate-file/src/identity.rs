//! Which file it is, whatever it is called.
//!
//! A file is the same as an earlier one if it has the same inode, is not shorter, and the bytes
//! at its start and before the place that was reached are the same. All three are needed: inodes
//! are used again, and a file may be written anew under its name. In doubt it is another file,
//! which is read from its beginning: repeated rather than lost.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

/// How many bytes at the start, and before the place that was reached, are compared.
const WINDOW: u64 = 1024;

/// A file on this machine, while it is there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct FileId {
    device: u64,
    pub(crate) inode: u64,
}

impl FileId {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// A checksum of the start of the file's first `length` bytes and of their end; `None` if the
/// file is shorter.
pub(crate) fn fingerprint(file: &File, length: u64) -> io::Result<Option<u32>> {
    let window = length.min(WINDOW) as usize;
    let mut buffer = [0; WINDOW as usize];
    let mut hasher = crc32fast::Hasher::new();
    for offset in [0, length - window as u64] {
        match file.read_exact_at(&mut buffer[..window], offset) {
            Ok(()) => hasher.update(&buffer[..window]),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(hasher.finalize()))
}

/// Up to `length` bytes from the start of the file.
pub(crate) fn start(file: &File, length: usize) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match file.read_at(&mut buffer[filled..], filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(filled);
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_at_the_start_or_before_the_place_shows() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let print = |bytes: &[u8], length| {
            std::fs::write(path.path(), bytes).unwrap();
            fingerprint(&File::open(path.path()).unwrap(), length).unwrap()
        };
        let mut bytes = vec![b'x'; 5000];
        let before = print(&bytes, 4000);
        assert!(before.is_some());
        bytes[4000..].fill(b'y');
        assert_eq!(print(&bytes, 4000), before, "what comes later does not count");
        bytes[3999] = b'y';
        assert_ne!(print(&bytes, 4000), before);
        bytes[3999] = b'x';
        bytes[0] = b'y';
        assert_ne!(print(&bytes, 4000), before);
        assert_eq!(print(&bytes[..3999], 4000), None, "shorter");
    }
}
