//! Files for Tidegate: a source for JSON lines, CSV and plain lines, and a sink.
//!
//! What holds, whatever the files are like:
//!
//! - A line is delivered whole or not at all, in the order of its file, and its position is the
//!   number of its line, so that an error can be found with an editor.
//! - What cannot be read stops the source behind the last good line, with the file, the line and
//!   what to do about it; the lines before it are delivered and can be committed.
//! - Memory stays within `max_line` and one read of 128 KiB for each open file.
//! - The source does not interpret payloads: [`decode`] does, record by record, so that a line
//!   that is not JSON is the failure of that record only.
//! - The sink leaves whole lines only, and answers once they are on the disk.
//!
//! A file is recognised by its inode, so the crate builds on Unix systems only.
#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(not(unix))]
compile_error!("tidegate-file recognises files by their inode and needs a Unix system");

mod config;
mod error;

mod csv;
mod splitter;
mod records;

mod discovery;
mod compression;
mod identity;
mod note;
mod progress;
mod book;

mod open_file;
mod pipe;
mod turn;
mod bounded;
mod tracked;
mod follow;
mod source;

pub mod decode;

mod rows;
mod output;
mod sink;

pub use config::{
    Compression, CsvOptions, CsvSinkOptions, FileFormat, FileSinkConfig, FileSourceConfig,
    SinkFormat,
};
pub use error::{ConfigError, ConfigProblem};
pub use sink::FileSink;
pub use source::FileSource;
