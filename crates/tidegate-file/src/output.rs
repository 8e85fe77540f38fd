//! The file that is written to.
//!
//! - It holds whole lines only: what a crash left behind the last line break is cut off when it
//!   is opened, and what a failed write left is cut off at once, or before the next write.
//! - A write returns once its bytes are on the disk.
//! - One process at a time: the file is locked as long as it is open.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::Path;

use crate::config::STANDARD;
use crate::csv::{RowScanner, fields};
use crate::error::Failure;

/// A header row longer than this is taken for damage.
const LONGEST_HEADER: u64 = 1 << 20;

pub(crate) struct Output {
    path: String,
    kind: Kind,
}

enum Kind {
    File {
        file: File,
        /// Where a failed write began, if its remains couldn't be cut off yet.
        torn_at: Option<u64>,
    },
    /// A pipe or a device: nothing can be cut off or made durable.
    Stream(File),
    Stdout {
        /// Standard output itself, if it is a file and can be made durable.
        file: Option<File>,
    },
}

/// An output, and what is in it already.
pub(crate) struct Opened {
    pub(crate) output: Output,
    /// The columns, if it is a CSV file with a header row.
    pub(crate) columns: Option<Vec<String>>,
}

impl Output {
    /// Opens it, creates it if it isn't there, and repairs its end. `delimiter`: it is CSV.
    pub(crate) fn open(path: &str, delimiter: Option<u8>) -> Result<Opened, Failure> {
        if path == STANDARD {
            return Ok(Opened { output: Self::stdout(), columns: None });
        }
        let kind = match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                return Err(Failure::new(format!(
                    "{path} is a directory. Give the file to write in it, for example \
                     {path}/out.jsonl"
                )));
            }
            Ok(metadata) if !metadata.is_file() => {
                let opened = OpenOptions::new().write(true).open(path);
                Kind::Stream(opened.map_err(|error| Failure::io("open", path, &error))?)
            }
            _ => Kind::File { file: open_file(path)?, torn_at: None },
        };
        let mut columns = None;
        if let Kind::File { file, .. } = &kind {
            lock(file, path)?;
            let failure = |error| Failure::io("read", path, &error);
            match delimiter {
                None => repair(file, path, whole_lines(file).map_err(failure)?)?,
                Some(delimiter) => {
                    let rows = whole_rows(file, delimiter).map_err(failure)?;
                    repair(file, path, rows.length)?;
                    columns = rows.columns;
                }
            }
        }
        Ok(Opened { output: Self { path: path.to_owned(), kind }, columns })
    }

    fn stdout() -> Self {
        let file = io::stdout().as_fd().try_clone_to_owned().map(File::from).ok();
        let file = file.filter(|file| file.metadata().is_ok_and(|metadata| metadata.is_file()));
        Self { path: "standard output".to_owned(), kind: Kind::Stdout { file } }
    }

    /// Writes whole lines and returns when they are durable. After an error nothing of them is
    /// there, as far as that can be undone.
    pub(crate) fn write(&mut self, lines: &[u8]) -> Result<(), Failure> {
        let written = match &mut self.kind {
            Kind::File { file, torn_at } => append(file, torn_at, lines),
            Kind::Stream(file) => file.write_all(lines),
            Kind::Stdout { file } => write_stdout(file.as_ref(), lines),
        };
        written.map_err(|error| match (error.kind(), &self.kind) {
            (io::ErrorKind::BrokenPipe, _) => Failure::new(format!(
                "cannot write to {}: its reader has gone. Start the pipeline again with a reader \
                 that reads to the end",
                self.path
            )),
            _ => Failure::io("write", &self.path, &error),
        })
    }
}

/// What a file can do, so that its failures can be tried out.
trait Disk {
    fn length(&self) -> io::Result<u64>;
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    fn cut(&mut self, length: u64) -> io::Result<()>;
    fn sync(&mut self) -> io::Result<()>;
}

impl Disk for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Adds bytes at the end: all of them durably, or none.
fn append(disk: &mut impl Disk, torn_at: &mut Option<u64>, bytes: &[u8]) -> io::Result<()> {
    if let Some(length) = *torn_at {
        // The remains of an earlier write must not become the beginning of this one's line.
        disk.cut(length)?;
        *torn_at = None;
    }
    let before = disk.length()?;
    let written = disk.append(bytes).and_then(|()| disk.sync());
    if written.is_err() && disk.cut(before).and_then(|()| disk.sync()).is_err() {
        *torn_at = Some(before);
    }
    written
}

fn write_stdout(file: Option<&File>, lines: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(lines)?;
    stdout.flush()?;
    file.map_or(Ok(()), File::sync_data)
}

fn open_file(path: &str) -> Result<File, Failure> {
    let failure = |error: io::Error| match parent(path) {
        parent if error.kind() == io::ErrorKind::NotFound && !parent.exists() => {
            Failure::new(format!(
                "cannot open {path}: the directory {} does not exist. Create it, or choose another \
                 `path`",
                parent.display()
            ))
        }
        _ => Failure::io("open", path, &error),
    };
    let mut options = OpenOptions::new();
    options.read(true).append(true);
    match options.clone().create_new(true).open(path) {
        Ok(file) => {
            // A file whose name isn't durable can vanish with all its durable lines.
            sync_directory(path).map_err(|error| Failure::io("create", path, &error))?;
            Ok(file)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            options.create(true).open(path).map_err(failure)
        }
        Err(error) => Err(failure(error)),
    }
}

fn parent(path: &str) -> &Path {
    match Path::new(path).parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

fn sync_directory(path: &str) -> io::Result<()> {
    match File::open(parent(path))?.sync_all() {
        // Some file systems have nothing to sync there and say so.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
        {
            Ok(())
        }
        result => result,
    }
}

fn lock(file: &File, path: &str) -> Result<(), Failure> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Failure::new(format!(
            "{path} is being written by another process or another sink. Stop that one, or choose \
             another `path`"
        ))),
        Err(TryLockError::Error(error)) => {
            tracing::warn!(
                file = path,
                %error,
                "the file can't be locked here; make sure that no other process writes to it"
            );
            Ok(())
        }
    }
}

/// Cuts off what is behind the last whole line.
fn repair(file: &File, path: &str, whole: u64) -> Result<(), Failure> {
    let failure = |error| Failure::io("repair the end of", path, &error);
    let length = file.metadata().map_err(failure)?.len();
    if length > whole {
        file.set_len(whole).and_then(|()| file.sync_data()).map_err(failure)?;
        tracing::warn!(
            file = path,
            bytes = length - whole,
            "the file ended in the middle of a line, from a crash; that part was cut off. The \
             source delivers its record again"
        );
    }
    Ok(())
}

/// The length of the file's whole lines: up to behind its last line break.
fn whole_lines(mut file: &File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut buffer = vec![0; 64 << 10];
    while end > 0 {
        let start = end.saturating_sub(buffer.len() as u64);
        let block = &mut buffer[..(end - start) as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(block)?;
        if let Some(at) = memchr::memrchr(b'\n', block) {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

struct WholeRows {
    length: u64,
    columns: Option<Vec<String>>,
}

/// The length of a CSV file's whole rows. A line break may be inside a field, so this can only be
/// found out from the file's start.
fn whole_rows(mut file: &File, delimiter: u8) -> io::Result<WholeRows> {
    let mut scanner = RowScanner::new(delimiter);
    let (mut length, mut read, mut header_length) = (0, 0, None);
    let mut buffer = vec![0; 64 << 10];
    file.seek(SeekFrom::Start(0))?;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        let mut at = 0;
        while let Some(end) = scanner.row_end(&buffer[at..count]) {
            at += end;
            length = read + at as u64;
            header_length.get_or_insert(length);
        }
        read += count as u64;
    }
    let Some(header_length) = header_length else { return Ok(WholeRows { length, columns: None }) };
    if header_length > LONGEST_HEADER {
        return Err(io::Error::other("its first row is too long for the columns' names"));
    }
    let mut header = vec![0; header_length as usize];
    file.seek(SeekFrom::Start(0))?;
    file.read_exact(&mut header)?;
    let header = String::from_utf8(header)
        .map_err(|_| io::Error::other("the columns' names in its first row are not valid UTF-8"))?;
    let header = header.trim_start_matches('\u{FEFF}').trim_end_matches(['\r', '\n']);
    let columns = fields(header.as_bytes(), delimiter)
        .map(|field| String::from_utf8_lossy(&field.bytes).into_owned())
        .collect();
    Ok(WholeRows { length, columns: Some(columns) })
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
