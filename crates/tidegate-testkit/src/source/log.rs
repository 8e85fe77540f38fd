use tidegate_core::{BatchFull, Demand, Generation, NewRecord, Partition, Position, RecordBatch};

/// A record that waits to be read.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) position: Position,
    pub(super) key: Option<Vec<u8>>,
    pub(super) payload: Vec<u8>,
}

impl Stored {
    fn bytes(&self) -> usize {
        self.key.as_ref().map_or(0, Vec::len) + self.payload.len()
    }
}

/// Who has a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    Nobody,
    Reading(Generation),
    /// Revoked, finished or at its end: nothing more is read, commits still count.
    Leaving(Generation),
    /// Let go or taken away, but the owner has not heard so: it is not assigned until it has.
    Released,
}

/// One partition: what is in it, and how far it was read and committed.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) partition: Partition,
    pub(super) records: Vec<Stored>,
    /// How many of the records the present owner has read.
    pub(super) read: usize,
    pub(super) committed: Option<Position>,
    pub(super) owner: Owner,
}

impl Log {
    pub(super) fn new(partition: Partition) -> Self {
        Self { partition, records: Vec::new(), read: 0, committed: None, owner: Owner::Nobody }
    }

    pub(super) fn end(&self) -> Position {
        self.records.last().map_or(Position::new(0), |record| record.position.next())
    }

    pub(super) fn append(&mut self, at: Option<Position>, key: Option<&[u8]>, payload: &[u8]) {
        let position = at.unwrap_or_else(|| self.end());
        assert!(position >= self.end(), "{}: {position} is behind its end", self.partition);
        let (key, payload) = (key.map(<[u8]>::to_vec), payload.to_vec());
        self.records.push(Stored { position, key, payload });
    }

    /// Begins a period of ownership, at the commit.
    pub(super) fn assign(&mut self, generation: Generation) {
        self.owner = Owner::Reading(generation);
        let committed = self.committed.unwrap_or(Position::new(0));
        self.read = self.records.partition_point(|record| record.position < committed);
    }

    pub(super) fn leave(&mut self) {
        if let Owner::Reading(generation) = self.owner {
            self.owner = Owner::Leaving(generation);
        }
    }

    pub(super) fn is_readable(&self, demand: &Demand) -> bool {
        matches!(self.owner, Owner::Reading(_)) && demand.allows(&self.partition)
    }

    /// Whether a commit of this generation counts.
    pub(super) fn is_owned_in(&self, generation: Generation) -> bool {
        self.owner == Owner::Reading(generation) || self.owner == Owner::Leaving(generation)
    }

    /// The next batch that the demand allows, of the records before `until`.
    pub(super) fn fetch(&mut self, until: usize, demand: &Demand) -> Option<RecordBatch> {
        let until = until.min(self.records.len()).min(self.read + demand.max_records());
        let mut bytes = 0;
        let waiting = self.records.get(self.read..until)?;
        let fitting = waiting.iter().take_while(|record| {
            bytes += record.bytes();
            bytes <= demand.max_bytes()
        });
        // One record that is larger than allowed is allowed.
        let count = fitting.count().max(1).min(waiting.len());
        let records = &waiting[..count];
        let size = records.iter().map(Stored::bytes).sum();
        let mut batch = RecordBatch::builder(self.partition.clone()).with_capacity(count, size);
        for record in records {
            let new = NewRecord {
                key: record.key.as_deref(),
                payload: Some(&record.payload),
                ..NewRecord::default()
            };
            batch
                .push(record.position, new)
                .unwrap_or_else(|full: BatchFull| panic!("{}: {full}", self.partition));
        }
        self.read += count;
        (count > 0).then(|| batch.finish())
    }
}
