//! Which files there are.
//!
//! - A path that exists is taken as it is; otherwise it is a pattern.
//! - What can't be looked at is an error: a file that is silently left out would be lost.
//! - Directories that a pattern matches are left out; a directory given as the path is refused.

use std::fs;
use std::io;
use std::os::unix::fs::{DirEntryExt, FileTypeExt};
use std::path::{Path, PathBuf};

use crate::error::Failure;

/// How a path is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Nature {
    /// A regular file.
    Regular,
    /// A named pipe or a character device: read once, on a thread of its own.
    Pipe,
}

/// What was found: paths in the order of their bytes.
pub(crate) fn find(pattern: &str) -> Result<Vec<String>, Failure> {
    match fs::metadata(pattern) {
        Ok(metadata) if metadata.is_dir() => return Err(directory(pattern)),
        Ok(_) => return Ok(vec![pattern.to_owned()]),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        // A pattern's first part may well be too long or not a directory: then it matches nothing.
        Err(error) if !is_pattern(pattern) => return Err(Failure::io("open", pattern, &error)),
        Err(_) => {}
    }
    if !is_pattern(pattern) {
        return Ok(Vec::new());
    }
    let options = glob::MatchOptions {
        case_sensitive: true,
        require_literal_separator: true,
        require_literal_leading_dot: true,
    };
    let matches = glob::glob_with(pattern, options).map_err(|error| {
        Failure::new(format!("`path` {pattern} is not a valid pattern: {error}"))
    })?;
    let mut paths = Vec::new();
    for path in matches {
        let path = path.map_err(|error| {
            Failure::io("list", &error.path().display().to_string(), error.error())
        })?;
        if !path.is_dir() {
            paths.push(utf8(path)?);
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

/// Why a bounded source has nothing to read.
pub(crate) fn nothing_found(pattern: &str) -> Failure {
    if is_pattern(pattern) {
        Failure::new(format!(
            "no file matches {pattern}. Check `path`, and the directory the pipeline was started \
             in, or set `follow: true` to wait for files"
        ))
    } else {
        Failure::io("open", pattern, &io::Error::from_raw_os_error(NO_SUCH_FILE))
    }
}

const NO_SUCH_FILE: i32 = 2;

/// How the file at this path is read.
pub(crate) fn nature(path: &str) -> Result<Nature, Failure> {
    let kind = fs::metadata(path).map_err(|e| Failure::io("open", path, &e))?.file_type();
    if kind.is_file() {
        Ok(Nature::Regular)
    } else if kind.is_fifo() || kind.is_char_device() {
        Ok(Nature::Pipe)
    } else if kind.is_dir() {
        Err(directory(path))
    } else {
        Err(Failure::new(format!(
            "{path} is neither a file nor a pipe (a socket or a block device) and can't be read \
             as lines. Check `path`"
        )))
    }
}

/// The path of the regular file with this inode in the directory of `path`.
pub(crate) fn sibling_with_inode(path: &str, inode: u64) -> Result<Option<String>, Failure> {
    let directory = match Path::new(path).parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let failure = |error: io::Error| Failure::io("list", &directory.display().to_string(), &error);
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failure(error)),
    };
    for entry in entries {
        let entry = entry.map_err(failure)?;
        if entry.ino() == inode && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            return utf8(entry.path()).map(Some);
        }
    }
    Ok(None)
}

fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

fn directory(path: &str) -> Failure {
    let path = path.trim_end_matches('/');
    Failure::new(format!(
        "{path} is a directory. Give a pattern for the files in it, for example {path}/*.jsonl"
    ))
}

fn utf8(path: PathBuf) -> Result<String, Failure> {
    path.into_os_string().into_string().map_err(|path| {
        Failure::new(format!(
            "the name of {} is not valid UTF-8. Rename the file, or let `path` not match it",
            path.display()
        ))
    })
}
