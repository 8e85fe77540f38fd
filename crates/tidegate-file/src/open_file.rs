//! One file that is being read.
//!
//! - Every call does a bounded amount of work and leaves the state whole, so that the caller may
//!   be dropped between any two calls.
//! - A batch says where reading can begin again behind it.
//! - A failure is said behind all the records before it, and again with every further call:
//!   damaged data never looks like the end of the file.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::{Demand, Partition, RecordBatch};

use crate::book::Begin;
use crate::compression::{Encoding, MAGIC_LENGTH};
use crate::config::{Compression, FileSourceConfig};
use crate::error::Failure;
use crate::identity::{FileId, fingerprint, start};
use crate::note::{Checkpoint, Kind};
use crate::records::RecordReader;
use crate::splitter::Place;

/// How much is read without a record to show for it before others have their turn.
const STEP_BYTES: usize = 4 << 20;

/// A file that was opened and looked at, but not read.
pub(crate) struct Found {
    pub(crate) path: String,
    pub(crate) file: Arc<File>,
    pub(crate) id: FileId,
    pub(crate) length: u64,
    pub(crate) kind: Kind,
}

impl Found {
    pub(crate) fn open(path: String, config: &FileSourceConfig) -> Result<Self, Failure> {
        let failure = |error| Failure::io("open", &path, &error);
        let file = File::open(&path).map_err(failure)?;
        let metadata = file.metadata().map_err(failure)?;
        let magic = match config.compression {
            Compression::None => Vec::from([0]),
            _ => start(&file, MAGIC_LENGTH).map_err(|e| Failure::io("read", &path, &e))?,
        };
        let encoding = Encoding::find(config.compression, &path, &magic)?;
        let id = FileId::of(&metadata);
        let kind = Kind { inode: id.inode, encoding, format: config.format };
        Ok(Self { path, file: Arc::new(file), id, length: metadata.len(), kind })
    }
}

/// What a step brought.
#[derive(Debug)]
pub(crate) enum Step {
    /// Records, and where to begin again behind them.
    Batch(RecordBatch, Option<Checkpoint>),
    /// Nothing yet; call again.
    Busy,
    /// There is nothing more, for now if the file is followed.
    AtEnd,
    /// A followed file has other content than what was read of it.
    Rewritten,
}

/// What became of a followed file since it was read last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    None,
    Grown,
    /// It is shorter than what was read of it, or its bytes are others.
    Rewritten,
}

pub(crate) struct OpenFile {
    path: String,
    file: Arc<File>,
    encoding: Encoding,
    input: Box<dyn Read + Send>,
    raw_read: Arc<AtomicU64>,
    reader: RecordReader,
    resume_at: Option<Place>,
    /// Whether a place to return to is worked out for each batch.
    checkpoints: bool,
    last_checkpoint: Checkpoint,
    follow: bool,
    ended: bool,
    failed: Option<Failure>,
}

impl OpenFile {
    /// Begins to read `found` as `partition`.
    pub(crate) fn new(
        found: Found,
        partition: Partition,
        begin: Begin,
        config: &FileSourceConfig,
        checkpoints: bool,
    ) -> Result<Self, Failure> {
        let Found { path, file, kind, .. } = found;
        let raw_read = Arc::new(AtomicU64::new(0));
        let counted = Counted { file: Arc::clone(&file), read: Arc::clone(&raw_read) };
        let input = kind.encoding.decode(counted);
        let input = input.map_err(|error| Failure::io("read", &path, &error))?;
        let mut reader = RecordReader::new(partition, &path, config);
        reader.resume(begin.frontier, begin.checkpoint.mark.after);
        Ok(Self {
            path,
            file,
            encoding: kind.encoding,
            input,
            raw_read,
            reader,
            resume_at: Some(begin.checkpoint.mark.place),
            checkpoints,
            last_checkpoint: begin.checkpoint,
            follow: config.follow,
            ended: false,
            failed: None,
        })
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn partition(&self) -> &Partition {
        self.reader.partition()
    }

    /// Whether the last record was taken.
    pub(crate) fn is_done(&mut self) -> bool {
        self.ended && self.failed.is_none() && !self.reader.has_row()
    }

    /// The position of the last record that was taken.
    pub(crate) fn last(&self) -> u64 {
        self.reader.mark().after
    }

    /// A followed file gets no more lines: when its end is reached, it has ended.
    pub(crate) fn end(&mut self) {
        self.follow = false;
    }

    /// Nothing more may be read from the file, because it has other content now. What was read
    /// is still given out.
    pub(crate) fn cut(&mut self) {
        self.finish();
    }

    /// Reads on, up to the next batch.
    pub(crate) fn step(&mut self, demand: &Demand) -> Result<Step, Failure> {
        let mut read = 0;
        while read < STEP_BYTES {
            self.jump();
            if let Some(batch) = self.reader.take(demand)? {
                self.look_ahead();
                return Ok(Step::Batch(batch, self.checkpoint()));
            }
            if let Some(failure) = &self.failed {
                return Err(failure.clone());
            }
            if self.ended {
                return Ok(Step::AtEnd);
            }
            if self.follow {
                // Before each piece: behind a truncation, reading on would begin in the middle of
                // a line.
                match self.change()? {
                    Change::None => return Ok(Step::AtEnd),
                    Change::Rewritten => return Ok(Step::Rewritten),
                    Change::Grown => {}
                }
            }
            read += self.fill();
        }
        Ok(Step::Busy)
    }

    /// What became of the file since it was read last.
    pub(crate) fn change(&self) -> Result<Change, Failure> {
        let failure = |error| Failure::io("read", &self.path, &error);
        let length = self.file.metadata().map_err(failure)?.len();
        let read = self.raw_read.load(Ordering::Relaxed);
        if length == read {
            return Ok(Change::None);
        }
        let Checkpoint { raw_length, fingerprint: expected, .. } = self.last_checkpoint;
        let same = length > read
            && fingerprint(&self.file, raw_length).map_err(failure)? == Some(expected);
        Ok(if same { Change::Grown } else { Change::Rewritten })
    }

    /// Goes to the place where reading begins again, once the columns are known: they are at the
    /// start of the file. A compressed file is read up to there, and its bytes thrown away.
    fn jump(&mut self) {
        let Some(place) = self.resume_at.filter(|_| self.reader.knows_columns()) else { return };
        self.resume_at = None;
        let splitter = self.reader.splitter();
        if place.offset <= splitter.place().offset {
            return;
        }
        splitter.skip_to(place);
        if splitter.to_skip() > 0 && self.encoding == Encoding::Plain {
            match (&*self.file).seek(SeekFrom::Start(place.offset)) {
                Ok(_) => {
                    splitter.skipped();
                    self.raw_read.store(place.offset, Ordering::Relaxed);
                }
                Err(error) => self.failed = Some(Failure::io("read", &self.path, &error)),
            }
        }
    }

    /// If the records ran out, finds out whether the file has, so that the last batch is known to
    /// be the last when it is committed.
    fn look_ahead(&mut self) {
        if !self.follow && !self.ended && self.failed.is_none() && !self.reader.has_row() {
            self.fill();
        }
    }

    /// Reads one piece, and returns its length. At the end, or if it fails, that is noted.
    fn fill(&mut self) -> usize {
        let (input, line) = (&mut self.input, self.reader.line());
        let answer = self.reader.splitter().fill(|buffer| {
            loop {
                match input.read(buffer) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    answer => return answer,
                }
            }
        });
        match answer {
            // Cut off since it was looked at, which the next look shows.
            Ok(0) if self.follow => 0,
            Ok(0) => {
                self.finish();
                0
            }
            Ok(bytes) => bytes,
            Err(error) => {
                self.failed = Some(self.encoding.explain(&self.path, line, &error));
                0
            }
        }
    }

    fn finish(&mut self) {
        if self.reader.splitter().to_skip() > 0 {
            self.failed = Some(Failure::new(format!(
                "{} ends before line {}, which an earlier run has settled. Restore the file, or \
                 let the pipeline begin anew with another store",
                self.path,
                self.reader.line()
            )));
            return;
        }
        self.reader.splitter().finish();
        self.ended = true;
    }

    /// The place behind the records that were taken. `None` if the file can't be read there any
    /// more (it was cut off meanwhile): the places before stay good, and if it is more than that,
    /// the next read says so.
    fn checkpoint(&mut self) -> Option<Checkpoint> {
        if !self.checkpoints {
            return None;
        }
        let mark = self.reader.mark();
        let raw_length = match self.encoding {
            Encoding::Plain => mark.place.offset,
            Encoding::Gzip | Encoding::Zstd => self.raw_read.load(Ordering::Relaxed),
        };
        let fingerprint = fingerprint(&self.file, raw_length).ok().flatten()?;
        self.last_checkpoint = Checkpoint { mark, raw_length, fingerprint };
        Some(self.last_checkpoint)
    }
}

/// Counts the bytes that are read from the file itself.
struct Counted {
    file: Arc<File>,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
