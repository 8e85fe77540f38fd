use std::time::Duration;

use rusqlite::Connection;
use serde_json::json;
use tidegate_core::{Partition, PositionStore as _, Sink as _};
use tidegate_sqlite::{SqliteSink, SqliteSinkConfig, SqliteStore, SqliteStoreConfig};

use crate::{StoreFile, load, position};

/// P22
#[test]
fn a_second_owner_of_a_pipeline_is_refused_until_the_first_is_gone() {
    let file = StoreFile::absent();
    let store = file.open("p").unwrap();
    let error = file.open("p").unwrap_err();
    assert!(!error.is_retryable());
    let text = error.to_string();
    assert!(text.contains("\"p\" is already running on the store"), "{text}");
    assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
    drop(store);
    file.open("p").unwrap();
}

#[cfg(unix)]
#[test]
fn a_second_owner_is_refused_by_whichever_path_it_comes() {
    let file = StoreFile::absent();
    let store = file.open("p").unwrap();
    let link = file.path.with_file_name("link.db");
    std::os::unix::fs::symlink(&file.path, &link).unwrap();
    let dotted = file.path.parent().unwrap().join(".").join("state.db");
    for path in [link, dotted] {
        let error = SqliteStore::open(&SqliteStoreConfig::new(path), "p").unwrap_err();
        assert!(error.to_string().contains("already running"), "{error}");
    }
    drop(store);
}

#[tokio::test]
async fn pipelines_share_a_file_and_see_only_their_own_positions() {
    let file = StoreFile::absent();
    let (mut one, mut two) = (file.open("one").unwrap(), file.open("two").unwrap());
    let (a, b) =
        (position(Partition::whole("s"), 1, b"one"), position(Partition::whole("s"), 2, b"two"));
    one.save(std::slice::from_ref(&a)).await.unwrap();
    two.save(std::slice::from_ref(&b)).await.unwrap();
    assert_eq!(load(&mut one).await, [a]);
    assert_eq!(load(&mut two).await, [b]);
}

/// P7
#[tokio::test]
async fn a_locked_file_is_retryable_and_the_retry_succeeds() {
    let file = StoreFile::absent();
    let config = SqliteStoreConfig::new(&file.path).busy_timeout(Duration::from_millis(1));
    let mut store = SqliteStore::open(&config, "p").unwrap();
    let other = Connection::open(&file.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let saved = [position(Partition::whole("s"), 1, b"")];
    let error = store.save(&saved).await.unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains("is locked"), "{error}");
    let error = SqliteStore::open(&config, "q").unwrap_err();
    assert!(error.is_retryable(), "{error}");
    other.execute_batch("COMMIT").unwrap();
    store.save(&saved).await.unwrap();
    assert_eq!(load(&mut store).await, saved);
}

#[tokio::test]
async fn a_sink_and_a_store_write_to_one_file_at_the_same_time() {
    let file = StoreFile::absent();
    let mut store = file.open("p").unwrap();
    let config = SqliteSinkConfig::new(&file.path, "t").key(["id"]).create(true);
    let mut sink = SqliteSink::new(config);
    sink.open().await.unwrap();
    let writing = tokio::spawn(async move {
        for batch in 0..50 {
            let items: Vec<_> = (0..200).map(|id| json!({"id": id, "batch": batch})).collect();
            let refused = sink.write(&items).await.unwrap().into_rejections();
            assert!(refused.is_empty(), "{refused:?}");
        }
    });
    for frontier in 0..100 {
        store.save(&[position(Partition::whole("s"), frontier, b"")]).await.unwrap();
        tokio::task::yield_now().await;
    }
    writing.await.unwrap();
    assert_eq!(load(&mut store).await, [position(Partition::whole("s"), 99, b"")]);
    let connection = Connection::open(&file.path).unwrap();
    let rows: i64 = connection
        .query_row("SELECT count(*) FROM t WHERE batch = 49", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 200);
}
