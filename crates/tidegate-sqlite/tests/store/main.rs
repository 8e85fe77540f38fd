//! The store against real files, damaged with a connection of its own.
#![allow(clippy::unwrap_used, missing_docs)]

mod crash;
mod damage;
mod shared;

use std::path::PathBuf;

use rusqlite::Connection;
use tempfile::TempDir;
use tidegate_core::{Partition, Position, PositionStore as _, SavedPosition, StoreError};
use tidegate_sqlite::{SqliteStore, SqliteStoreConfig};

struct StoreFile {
    _folder: TempDir,
    path: PathBuf,
}

impl StoreFile {
    fn absent() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        Self { _folder: folder, path }
    }

    fn open(&self, pipeline: &str) -> Result<SqliteStore, StoreError> {
        SqliteStore::open(&SqliteStoreConfig::new(&self.path), pipeline)
    }

    fn sql(&self, sql: &str) {
        Connection::open(&self.path).unwrap().execute_batch(sql).unwrap();
    }
}

fn position(partition: Partition, frontier: u64, note: &[u8]) -> SavedPosition {
    SavedPosition { partition, frontier: Position::new(frontier), note: note.to_vec() }
}

async fn load(store: &mut SqliteStore) -> Vec<SavedPosition> {
    let mut positions = store.load().await.unwrap();
    positions.sort_by(|a, b| a.partition.cmp(&b.partition));
    positions
}

#[tokio::test]
async fn what_was_saved_last_is_loaded_by_the_next_process() {
    let file = StoreFile::absent();
    let whole = Partition::whole("data/a b.jsonl");
    let numbered = [Partition::new("t", 0), Partition::new("t", u32::MAX)];
    let mut store = file.open("flights").unwrap();
    assert_eq!(load(&mut store).await, []);
    let first = [
        position(whole.clone(), u64::MAX, &[0, 255, b'\'']),
        position(numbered[0].clone(), 0, b""),
        position(numbered[1].clone(), 1 << 63, &[7; 4096]),
    ];
    store.save(&first).await.unwrap();
    assert_eq!(load(&mut store).await, first);
    store.save(&[]).await.unwrap();
    let second = position(numbered[0].clone(), 5, b"new");
    store.save(std::slice::from_ref(&second)).await.unwrap();
    drop(store);

    let mut store = file.open("flights").unwrap();
    assert_eq!(load(&mut store).await, [first[0].clone(), second, first[2].clone()]);
}

#[tokio::test]
async fn a_stream_and_its_numbered_namesake_are_two_partitions() {
    let file = StoreFile::absent();
    let mut store = file.open("p").unwrap();
    let both = [position(Partition::whole("t"), 1, b""), position(Partition::new("t", 0), 2, b"")];
    store.save(&both).await.unwrap();
    assert_eq!(load(&mut store).await, both);
}

#[tokio::test]
async fn a_note_beyond_the_contract_is_refused_and_nothing_is_saved() {
    let file = StoreFile::absent();
    let mut store = file.open("p").unwrap();
    let good = position(Partition::whole("a"), 1, b"");
    let bad = position(Partition::whole("b"), 1, &[0; 4097]);
    let error = store.save(&[good, bad]).await.unwrap_err();
    assert!(!error.is_retryable() && error.to_string().contains("b has 4097 bytes"), "{error}");
    assert_eq!(load(&mut store).await, []);
}
