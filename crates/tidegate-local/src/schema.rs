//! How a log lies in its file.
//!
//! - `application_id` says that the file is ours, `user_version` is the format. A change of this
//!   text or of what the bytes mean is a new format.
//! - A record's `id` is its partition's `id` in the upper bits and its position in the lower
//!   [`POSITION_BITS`]: one partition's records lie together, in order, and an append or a read is
//!   one walk along the tree.
//! - A partition holds the positions `first..end` (its records) and nothing else, without gaps.
//! - `members.id` is never used twice, so `owner` and `target` can't mean a later member.

/// "TIDE".
pub(crate) const APPLICATION_ID: i64 = 0x5449_4445;
/// The format that this version reads and writes.
pub(crate) const FORMAT: i64 = 1;

/// How many of a record id's 63 bits hold the position.
pub(crate) const POSITION_BITS: u32 = 44;
/// The first position that doesn't fit: 17 million million records in one partition.
pub(crate) const POSITIONS: u64 = 1 << POSITION_BITS;
/// The first partition id that doesn't fit; one less than the bits allow, so that the exclusive
/// end of the last partition is still a number.
pub(crate) const PARTITION_IDS: i64 = (1 << (63 - POSITION_BITS)) - 1;

pub(crate) const CREATE: &str = "
CREATE TABLE topics (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    partitions INTEGER NOT NULL,
    created_at INTEGER NOT NULL,        -- milliseconds since 1970, like every time here
    max_age INTEGER,                    -- milliseconds
    max_records INTEGER,                -- of each partition
    max_bytes INTEGER,                  -- of each partition
    keep_uncommitted INTEGER NOT NULL
) STRICT;

CREATE TABLE partitions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    topic INTEGER NOT NULL REFERENCES topics (id),
    number INTEGER NOT NULL,
    first INTEGER NOT NULL,             -- the first position that is still there
    end INTEGER NOT NULL,               -- the position that the next record gets
    bytes INTEGER NOT NULL,             -- of keys, payloads and headers
    UNIQUE (topic, number)
) STRICT;

CREATE TABLE records (
    id INTEGER PRIMARY KEY,
    appended_at INTEGER NOT NULL,
    timestamp INTEGER,                  -- given by the producer; else appended_at counts
    key BLOB,
    payload BLOB,                       -- NULL is a tombstone
    headers BLOB
) STRICT;

CREATE TABLE groups (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    topic INTEGER NOT NULL REFERENCES topics (id),
    version INTEGER NOT NULL,           -- rises with every change of members, owners or targets
    joins INTEGER NOT NULL,             -- how many members there ever were
    UNIQUE (name, topic)
) STRICT;

CREATE TABLE members (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    grp INTEGER NOT NULL REFERENCES groups (id),
    name TEXT NOT NULL,
    session_timeout INTEGER NOT NULL,   -- milliseconds
    heartbeat_at INTEGER NOT NULL,
    UNIQUE (grp, name)
) STRICT;

CREATE TABLE claims (
    grp INTEGER NOT NULL REFERENCES groups (id),
    number INTEGER NOT NULL,
    owner INTEGER,                      -- the member that reads and commits; NULL while nobody does
    target INTEGER,                     -- the member that shall own it
    generation INTEGER NOT NULL,        -- rises each time it is acquired
    committed INTEGER,                  -- the first position that is not settled
    PRIMARY KEY (grp, number)
) STRICT, WITHOUT ROWID;
";
