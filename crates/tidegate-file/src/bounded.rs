//! Reads the files that are there at the start, one after another.
//!
//! One file is open at a time. A file that an earlier run settled as a whole is passed over
//! without being read.

use std::collections::VecDeque;

use tidegate_core::{Demand, Partition, SourceEvent};

use crate::book::{Begin, Book};
use crate::config::FileSourceConfig;
use crate::discovery::{Nature, find, nature, nothing_found};
use crate::error::Failure;
use crate::open_file::{Found, OpenFile, Step};
use crate::pipe::Pipe;
use crate::turn::Turn;

pub(crate) struct Bounded {
    waiting: VecDeque<String>,
    current: Current,
}

enum Current {
    None,
    File(OpenFile),
    Pipe(Pipe),
}

impl Bounded {
    /// The files that match the path now.
    pub(crate) fn files(config: &FileSourceConfig) -> Result<Self, Failure> {
        let paths = find(&config.path)?;
        if paths.is_empty() {
            return Err(nothing_found(&config.path));
        }
        Ok(Self { waiting: paths.into(), current: Current::None })
    }

    /// Standard input; the partition is to be assigned.
    pub(crate) fn stdin(
        config: &FileSourceConfig,
        book: &mut Book,
    ) -> Result<(Self, SourceEvent), Failure> {
        let pipe = Pipe::stdin(config)?;
        let assigned = assign_pipe(&pipe, book);
        Ok((Self { waiting: VecDeque::new(), current: Current::Pipe(pipe) }, assigned))
    }

    /// Goes on by one event, or by a bounded amount of work.
    pub(crate) fn turn(
        &mut self,
        config: &FileSourceConfig,
        book: &mut Book,
        demand: &Demand,
    ) -> Result<Turn, Failure> {
        let (done, partition) = match &mut self.current {
            Current::None => return self.open_next(config, book),
            Current::File(file) => (file.is_done(), file.partition().clone()),
            Current::Pipe(pipe) => (pipe.is_done(), pipe.partition().clone()),
        };
        if done {
            return Ok(self.finish(partition, book));
        }
        if !demand.allows(&partition) {
            return Ok(Turn::NoDemand);
        }
        match &mut self.current {
            Current::File(file) => match file.step(demand)? {
                Step::Batch(batch, checkpoint) => {
                    book.delivered(&partition, file.last(), checkpoint);
                    if file.is_done() {
                        // Known before the batch is committed, so that the commit can say it.
                        book.ended(&partition);
                    }
                    Ok(Turn::Event(SourceEvent::Fetched(batch)))
                }
                Step::Busy => Ok(Turn::Again),
                Step::AtEnd => Ok(self.finish(partition, book)),
                Step::Rewritten => Err(Failure::new(format!(
                    "{} was written anew while it was read. Start the pipeline again",
                    file.path()
                ))),
            },
            Current::Pipe(pipe) => Ok(match pipe.take(demand)? {
                Some(batch) => {
                    book.delivered(&partition, pipe.last(), None);
                    Turn::Event(SourceEvent::Fetched(batch))
                }
                None => Turn::NeedsPiece,
            }),
            Current::None => Ok(Turn::Again),
        }
    }

    /// Waits for the pipe that is being read.
    pub(crate) async fn receive(&mut self) {
        if let Current::Pipe(pipe) = &mut self.current {
            pipe.receive().await;
        }
    }

    fn finish(&mut self, partition: Partition, book: &mut Book) -> Turn {
        book.ended(&partition);
        self.current = Current::None;
        Turn::Event(SourceEvent::Finished(vec![partition]))
    }

    /// Opens the next file. It stays the next one if that fails, so that the failure is said
    /// again rather than the file left out.
    fn open_next(&mut self, config: &FileSourceConfig, book: &mut Book) -> Result<Turn, Failure> {
        let Some(path) = self.waiting.front().cloned() else { return Ok(Turn::Ended) };
        let turn = match nature(&path)? {
            Nature::Pipe => {
                let pipe = Pipe::open(&path, config)?;
                let assigned = assign_pipe(&pipe, book);
                self.current = Current::Pipe(pipe);
                Turn::Event(assigned)
            }
            Nature::Regular => self.open_file(path, config, book)?,
        };
        self.waiting.pop_front();
        Ok(turn)
    }

    fn open_file(
        &mut self,
        path: String,
        config: &FileSourceConfig,
        book: &mut Book,
    ) -> Result<Turn, Failure> {
        let found = Found::open(path, config)?;
        let known = book.recognise_by_path(&found.path, &found.file, found.kind)?;
        let (partition, begin) = match known {
            Some((partition, saved)) => {
                if saved.note.done && saved.note.checkpoint.raw_length == found.length {
                    tracing::debug!(file = found.path, "settled as a whole by an earlier run");
                    return Ok(Turn::Again);
                }
                (partition, Begin::resumed(&saved, found.length))
            }
            None => (Partition::whole(found.path.as_str()), Begin::fresh()),
        };
        let kind = found.kind;
        let checkpoints = book.keeps_positions();
        let file = OpenFile::new(found, partition.clone(), begin, config, checkpoints)?;
        self.current = Current::File(file);
        let assignment = book.assign(partition, Some(kind), begin);
        Ok(Turn::Event(SourceEvent::Assigned(vec![assignment])))
    }
}

fn assign_pipe(pipe: &Pipe, book: &mut Book) -> SourceEvent {
    let assignment = book.assign(pipe.partition().clone(), None, Begin::fresh());
    SourceEvent::Assigned(vec![assignment])
}
