//! Follows files: what is appended, what takes their place, what comes anew.
//!
//! - A file is its inode, not its name: a renamed file goes on as the same partition, and the one
//!   that takes its name is another partition. It is called after the path, and `path#inode` if
//!   that was taken, so that positions rise strictly within a partition.
//! - Files are looked at after a pause that grows from [`FIRST_PAUSE`] to [`LAST_PAUSE`], names
//!   every [`SCAN_EVERY`]. In between nothing runs (P38).
//! - A line is delivered once it has its line break, or once its file has ended.
//! - What a file got between the last look and its truncation cannot be read; a warning says so.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs;
use std::path::Path;
use std::time::Duration;

use tidegate_core::{Demand, Partition, SourceEvent};
use tokio::time::Instant;

use crate::book::{Begin, Book};
use crate::compression::Encoding;
use crate::config::{Compression, FileSourceConfig};
use crate::discovery::{Nature, find, nature, sibling_with_inode};
use crate::error::Failure;
use crate::identity::FileId;
use crate::open_file::{Change, Found, OpenFile, Step};
use crate::tracked::Tracked;
use crate::turn::Turn;

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_millis(250);
const SCAN_EVERY: Duration = Duration::from_secs(1);

pub(crate) struct Follower {
    files: Vec<Tracked>,
    events: VecDeque<SourceEvent>,
    /// Partitions of this run, so that no name is given twice.
    names: HashSet<Partition>,
    /// Where the search for a ready file begins, so that each has its turn.
    cursor: usize,
    pause: Duration,
    next_look: Option<Instant>,
    next_scan: Instant,
    scanned: bool,
    said_that_nothing_matches: bool,
}

impl Follower {
    pub(crate) fn new() -> Self {
        Self {
            files: Vec::new(),
            events: VecDeque::new(),
            names: HashSet::new(),
            cursor: 0,
            pause: FIRST_PAUSE,
            next_look: None,
            next_scan: Instant::now(),
            scanned: false,
            said_that_nothing_matches: false,
        }
    }

    /// Goes on by one event, or by a bounded amount of work.
    pub(crate) fn turn(
        &mut self,
        config: &FileSourceConfig,
        book: &mut Book,
        demand: &Demand,
    ) -> Result<Turn, Failure> {
        let now = Instant::now();
        if now >= self.next_scan {
            self.scan(config, book, now)?;
            self.next_scan = now + SCAN_EVERY;
        }
        if self.next_look.is_some_and(|at| now >= at) {
            self.look(now)?;
        }
        if let Some(event) = self.events.pop_front() {
            return Ok(Turn::Event(event));
        }
        while let Some(index) = self.pick(demand) {
            if self.files[index].is_done() {
                return Ok(self.finish(index, book));
            }
            let tracked = &mut self.files[index];
            match tracked.file.step(demand)? {
                Step::Batch(batch, checkpoint) => {
                    book.delivered(batch.partition(), tracked.file.last(), checkpoint);
                    if tracked.is_done() {
                        book.ended(batch.partition());
                    }
                    self.cursor = index + 1;
                    self.pause = FIRST_PAUSE;
                    return Ok(Turn::Event(SourceEvent::Fetched(batch)));
                }
                Step::Busy => return Ok(Turn::Again),
                Step::AtEnd if tracked.is_done() => return Ok(self.finish(index, book)),
                Step::AtEnd => {
                    tracked.rest();
                    book.rests(tracked.file.partition());
                }
                Step::Rewritten => {
                    tracked.rewritten();
                    self.next_scan = now;
                    return Ok(Turn::Again);
                }
            }
        }
        Ok(Turn::Until(self.next_look(now).min(self.next_scan)))
    }

    /// A file to read from: first those that are on their way out, then each in its turn.
    fn pick(&mut self, demand: &Demand) -> Option<usize> {
        if let Some(done) = self.files.iter_mut().position(Tracked::is_done) {
            return Some(done);
        }
        let can_read = |file: &Tracked| file.is_ready() && demand.allows(file.file.partition());
        let leaving = self.files.iter().position(|file| file.is_leaving() && can_read(file));
        leaving.or_else(|| {
            let count = self.files.len();
            (0..count)
                .map(|n| (self.cursor + n) % count)
                .find(|&index| can_read(&self.files[index]))
        })
    }

    fn finish(&mut self, index: usize, book: &mut Book) -> Turn {
        let partition = self.files.remove(index).file.partition().clone();
        book.ended(&partition);
        Turn::Event(SourceEvent::Finished(vec![partition]))
    }

    /// When files are looked at next; the pause doubles each time that nothing was there.
    fn next_look(&mut self, now: Instant) -> Instant {
        let pause = &mut self.pause;
        *self.next_look.get_or_insert_with(|| {
            let at = now + *pause;
            *pause = (*pause * 2).min(LAST_PAUSE);
            at
        })
    }

    fn look(&mut self, now: Instant) -> Result<(), Failure> {
        for tracked in &mut self.files {
            match tracked.look(now)? {
                Change::None => {}
                Change::Grown => self.pause = FIRST_PAUSE,
                // What it has now is found as another file.
                Change::Rewritten => self.next_scan = now,
            }
        }
        self.next_look = None;
        Ok(())
    }

    /// Looks which names there are and which files they stand for.
    fn scan(
        &mut self,
        config: &FileSourceConfig,
        book: &mut Book,
        now: Instant,
    ) -> Result<(), Failure> {
        let paths = find(&config.path)?;
        if paths.is_empty() && self.files.is_empty() && !self.said_that_nothing_matches {
            tracing::warn!(path = config.path, "nothing matches the path yet; waiting for it");
            self.said_that_nothing_matches = true;
        }
        let known = self.files.iter().enumerate();
        let mut known: HashMap<FileId, usize> =
            known.filter_map(|(index, tracked)| Some((tracked.id()?, index))).collect();
        let mut seen: HashSet<usize> = HashSet::new();
        for path in paths {
            let id = match fs::metadata(&path) {
                Ok(metadata) => FileId::of(&metadata),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Failure::io("open", &path, &error)),
            };
            if !known.contains_key(&id)
                && let Some(id) = self.open(path, config, book, &known)?
            {
                known.insert(id, self.files.len() - 1);
            }
            seen.extend(known.get(&id));
        }
        if !self.scanned {
            self.find_renamed(config, book, now)?;
            self.scanned = true;
        }
        for (index, tracked) in self.files.iter_mut().enumerate() {
            tracked.seen(seen.contains(&index), now);
        }
        Ok(())
    }

    /// Follows the file at this path from now on, unless it vanished or is known.
    fn open(
        &mut self,
        path: String,
        config: &FileSourceConfig,
        book: &mut Book,
        known: &HashMap<FileId, usize>,
    ) -> Result<Option<FileId>, Failure> {
        let found = match open_plain(path.clone(), config) {
            Ok(found) => found,
            // Between the look at the directory and this one.
            Err(_) if !Path::new(&path).exists() => return Ok(None),
            Err(failure) => return Err(failure),
        };
        if known.contains_key(&found.id) {
            return Ok(None);
        }
        let saved = book.recognise_by_inode(&path, &found.file, found.kind)?;
        let (partition, begin) = match saved {
            Some((partition, saved)) => (partition, Begin::resumed(&saved, found.length)),
            None => (self.free_name(&path, found.id.inode, book), Begin::fresh()),
        };
        let id = found.id;
        self.track(found, partition, begin, config, book, None)?;
        Ok(Some(id))
    }

    /// Files that an earlier run did not finish and that have another name now: the rest of a log
    /// that was rotated while nobody read it.
    fn find_renamed(
        &mut self,
        config: &FileSourceConfig,
        book: &mut Book,
        now: Instant,
    ) -> Result<(), Failure> {
        let unfinished: Vec<_> = book
            .saved()
            .filter(|(_, saved)| !saved.note.done)
            .map(|(partition, saved)| (partition.clone(), *saved))
            .collect();
        for (partition, saved) in unfinished {
            let path = sibling_with_inode(partition.stream(), saved.note.kind.inode)?;
            let recognised = match path {
                Some(path) => {
                    let found = Found::open(path, config)?;
                    let same = book.recognise_by_inode(&found.path, &found.file, found.kind)?;
                    same.map(|(partition, saved)| (found, partition, saved))
                }
                None => None,
            };
            if let Some((found, partition, saved)) = recognised {
                let begin = Begin::resumed(&saved, found.length);
                self.track(found, partition, begin, config, book, Some(now))?;
            } else {
                tracing::warn!(
                    partition = %partition,
                    settled_before_line = saved.frontier.get(),
                    "an earlier run did not finish this file, and it is not there any more; lines \
                     that it had beyond cannot be read"
                );
            }
        }
        Ok(())
    }

    fn track(
        &mut self,
        found: Found,
        partition: Partition,
        begin: Begin,
        config: &FileSourceConfig,
        book: &mut Book,
        gone_since: Option<Instant>,
    ) -> Result<(), Failure> {
        let (id, kind) = (found.id, found.kind);
        let file = OpenFile::new(found, partition.clone(), begin, config, true)?;
        self.names.insert(partition.clone());
        let assignment = book.assign(partition, Some(kind), begin);
        self.events.push_back(SourceEvent::Assigned(vec![assignment]));
        self.files.push(Tracked::new(file, id, gone_since));
        Ok(())
    }

    fn free_name(&self, path: &str, inode: u64, book: &Book) -> Partition {
        let free = |name: &Partition| !book.knows(name) && !self.names.contains(name);
        let numbered = (2u64..).map(|number| format!("{path}#{inode}.{number}"));
        [path.to_owned(), format!("{path}#{inode}")]
            .into_iter()
            .chain(numbered)
            .map(Partition::whole)
            .find(free)
            .expect("there are more numbers than names in use")
    }
}

fn open_plain(path: String, config: &FileSourceConfig) -> Result<Found, Failure> {
    if nature(&path)? == Nature::Pipe {
        return Err(Failure::new(format!(
            "{path} is a pipe and can't be followed. Leave `follow` out: a pipe is read until its \
             writers close it"
        )));
    }
    let named_compressed = config.compression == Compression::Auto
        && (path.ends_with(".gz") || path.ends_with(".zst"));
    let found = Found::open(path, config)?;
    if named_compressed || found.kind.encoding != Encoding::Plain {
        return Err(Failure::new(format!(
            "{} is compressed and can't be followed. Let `path` match uncompressed files only, or \
             leave `follow` out",
            found.path
        )));
    }
    Ok(found)
}
