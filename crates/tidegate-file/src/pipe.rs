//! Standard input, named pipes and character devices: read once, on a thread of their own.
//!
//! - The thread reads ahead by at most [`PIECES`] pieces and then waits, so a slow pipeline makes
//!   the writer at the other end wait.
//! - Nothing can be read a second time: there are no positions to save, and what was read and not
//!   settled is gone when the process ends.
//! - The thread is not joined. It may be inside a `read` that nothing but the other end can bring
//!   back, and waiting for it would make an interrupted pipeline hang until its user types a
//!   line. It holds no lock and nothing that needs to be closed: it ends with the next piece once
//!   the receiver is gone, or with the process.

use std::io::{self, Read};
use std::thread;

use tidegate_core::{Demand, Partition, RecordBatch};
use tokio::sync::mpsc;

use crate::compression::Encoding;
use crate::config::{Compression, FileSourceConfig};
use crate::error::Failure;
use crate::records::RecordReader;

/// How many pieces wait to be split.
const PIECES: usize = 4;
const PIECE: usize = 64 << 10;

/// The partition of standard input.
pub(crate) const STDIN: &str = "stdin";

type Opener = Box<dyn FnOnce() -> io::Result<Box<dyn Read + Send>> + Send>;

pub(crate) struct Pipe {
    path: String,
    pieces: mpsc::Receiver<Result<Vec<u8>, PieceError>>,
    reader: RecordReader,
    ended: bool,
    failed: Option<Failure>,
}

enum PieceError {
    Open(io::Error),
    Refused(Failure),
    Read(Encoding, io::Error),
}

impl Pipe {
    /// Standard input.
    pub(crate) fn stdin(config: &FileSourceConfig) -> Result<Self, Failure> {
        Self::spawn(STDIN, config, Box::new(|| Ok(Box::new(io::stdin()))))
    }

    /// The pipe or device at this path. It is opened on the thread, because that waits for a
    /// writer.
    pub(crate) fn open(path: &str, config: &FileSourceConfig) -> Result<Self, Failure> {
        let owned = path.to_owned();
        Self::spawn(path, config, Box::new(move || Ok(Box::new(std::fs::File::open(owned)?))))
    }

    fn spawn(path: &str, config: &FileSourceConfig, open: Opener) -> Result<Self, Failure> {
        let (sender, pieces) = mpsc::channel(PIECES);
        let (name, setting) = (path.to_owned(), config.compression);
        thread::Builder::new()
            .name(format!("read {path}"))
            .spawn(move || {
                if let Err(error) = read_all(open, &name, setting, &sender) {
                    // Nobody listens any more: then nobody wants to know.
                    let _ = sender.blocking_send(Err(error));
                }
            })
            .map_err(|error| Failure::io("start a thread to read", path, &error))?;
        Ok(Self {
            path: path.to_owned(),
            pieces,
            reader: RecordReader::new(Partition::whole(path), path, config),
            ended: false,
            failed: None,
        })
    }

    pub(crate) fn partition(&self) -> &Partition {
        self.reader.partition()
    }

    /// The position of the last record that was taken.
    pub(crate) fn last(&self) -> u64 {
        self.reader.mark().after
    }

    /// Whether the last record was taken.
    pub(crate) fn is_done(&mut self) -> bool {
        self.ended && !self.reader.has_row()
    }

    /// The records that are there; `None` if a piece must [come in](Pipe::receive) first.
    pub(crate) fn take(&mut self, demand: &Demand) -> Result<Option<RecordBatch>, Failure> {
        if let Some(batch) = self.reader.take(demand)? {
            return Ok(Some(batch));
        }
        self.failed.clone().map_or(Ok(None), Err)
    }

    /// Waits for the next piece. Dropping the future loses nothing: a piece is either still in
    /// the channel or already with the reader.
    pub(crate) async fn receive(&mut self) {
        match self.pieces.recv().await {
            Some(Ok(piece)) => self.reader.splitter().push(&piece),
            Some(Err(error)) => {
                self.failed = Some(match error {
                    PieceError::Open(error) => Failure::io("open", &self.path, &error),
                    PieceError::Refused(failure) => failure,
                    PieceError::Read(encoding, error) => {
                        encoding.explain(&self.path, self.reader.line(), &error)
                    }
                });
            }
            None if self.failed.is_none() => {
                self.reader.splitter().finish();
                self.ended = true;
            }
            None => {}
        }
    }
}

/// What the thread does: ends at the end of the input, or when nobody listens any more.
fn read_all(
    open: Opener,
    name: &str,
    setting: Compression,
    sender: &mpsc::Sender<Result<Vec<u8>, PieceError>>,
) -> Result<(), PieceError> {
    let mut raw = open().map_err(PieceError::Open)?;
    let start = match setting {
        Compression::None => Vec::from([0]),
        _ => first_bytes(&mut raw).map_err(|error| PieceError::Read(Encoding::Plain, error))?,
    };
    let encoding = Encoding::find(setting, name, &start).map_err(PieceError::Refused)?;
    let start = if setting == Compression::None { Vec::new() } else { start };
    let failure = |error| PieceError::Read(encoding, error);
    let mut input = encoding.decode(io::Cursor::new(start).chain(raw)).map_err(failure)?;
    loop {
        let mut piece = vec![0; PIECE];
        match input.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(read) => piece.truncate(read),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failure(error)),
        }
        // A piece waits with the room it needs, not with the room of the largest one.
        piece.shrink_to_fit();
        if sender.blocking_send(Ok(piece)).is_err() {
            return Ok(());
        }
    }
}

/// As many of the first bytes as are needed to know the compression: one, mostly, because more
/// may not come before the first one was answered.
fn first_bytes(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while Encoding::is_open(&bytes) {
        match input.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => bytes.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}
