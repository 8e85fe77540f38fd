//! One process at a time saves the positions of a pipeline.
//!
//! The lock belongs to an open file, so the operating system drops it when the process ends,
//! however it ends. The file itself stays: removing it would let a third process lock a new one
//! while a second still holds the old one.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use tidegate_core::StoreError;

use crate::checksum::Checksum;

/// Held for as long as it lives.
#[derive(Debug)]
pub(crate) struct StoreLock {
    _file: File,
}

impl StoreLock {
    /// Locks the pipeline's name in the store at `store`, which exists.
    pub(crate) fn take(store: &Path, pipeline: &str) -> Result<Self, StoreError> {
        let path = lock_path(store, pipeline);
        let unusable = |error: std::io::Error| {
            let message = format!(
                "the lock file {} can't be used; give this user write permission on it and on \
                 its folder",
                path.display()
            );
            StoreError::stop(message).with_source(error)
        };
        let options =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
        let mut file = options.open(&path).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => (),
            Err(TryLockError::WouldBlock) => return Err(taken(store, pipeline, &mut file)),
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        // For the message that a second process gives; the lock holds without it.
        file.set_len(0).and_then(|()| write!(file, "{}", std::process::id())).map_err(unusable)?;
        Ok(Self { _file: file })
    }
}

fn taken(store: &Path, pipeline: &str, file: &mut File) -> StoreError {
    let mut holder = String::new();
    let holder = match file.take(20).read_to_string(&mut holder) {
        Ok(_) if holder.parse::<u32>().is_ok() => format!("process {holder}"),
        _ => "another process".to_owned(),
    };
    StoreError::stop(format!(
        "pipeline {pipeline:?} is already running on the store {} ({holder}); stop it first, or \
         give this pipeline another name or another store",
        store.display()
    ))
}

/// Beside the store, under its real name, so that two ways to write its path lead to one lock.
fn lock_path(store: &Path, pipeline: &str) -> PathBuf {
    let store = fs::canonicalize(store).unwrap_or_else(|_| store.to_owned());
    let mut name = OsString::from(store.file_name().unwrap_or_default());
    name.push(format!(".{}.lock", file_name_part(pipeline)));
    store.with_file_name(name)
}

/// The name, if it is short and harmless as part of a file's name, or else what can be kept of it
/// and a checksum that tells it from others.
fn file_name_part(pipeline: &str) -> String {
    const LONGEST: usize = 60;
    let is_harmless = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
    if pipeline.len() <= LONGEST && pipeline.chars().all(is_harmless) {
        return pipeline.to_owned();
    }
    let checksum = Checksum::new().field(pipeline.as_bytes()).finish();
    let kept: String = pipeline.chars().filter(|c| is_harmless(*c)).take(LONGEST).collect();
    format!("{kept}~{checksum:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_gets_a_lock_file_of_its_own() {
        let long = "x".repeat(300);
        let names =
            ["flights", "Flights", "fl/ights", "../flights", "flights ", "", "flüge", &long];
        let parts: Vec<_> = names.iter().map(|name| file_name_part(name)).collect();
        assert_eq!(parts[0], "flights");
        for (index, part) in parts.iter().enumerate() {
            assert!(part.len() < 100 && !part.contains('/'), "{part}");
            assert!(!parts[..index].contains(part), "{part}");
        }
    }
}
