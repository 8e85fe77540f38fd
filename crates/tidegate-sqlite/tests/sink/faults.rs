use std::fs;
use std::time::Duration;

use serde_json::json;
use tidegate_core::Sink as _;
use tidegate_sqlite::{SqliteSink, SqliteSinkConfig};

use crate::{Database, open, write};

/// P7, P28: the lock goes away, and the same batch is written by the same sink.
#[tokio::test]
async fn a_locked_database_is_retryable_and_the_retry_succeeds() {
    let database = Database::with("CREATE TABLE t (id INTEGER PRIMARY KEY)");
    let config = database.config("t").busy_timeout(Duration::from_millis(1));
    let mut sink = open(config).await.unwrap();
    let other = database.connect();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..2 {
        let error = sink.write(&[json!({"id": 1})]).await.unwrap_err();
        assert!(error.is_retryable(), "{error:?}");
        assert!(error.to_string().contains("is locked by another connection"), "{error}");
    }
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(write(&mut sink, &[json!({"id": 1})]).await, [""; 0]);
    assert_eq!(database.text("SELECT id FROM t"), ["1"]);
}

#[tokio::test]
async fn a_lock_shorter_than_the_busy_timeout_is_waited_for() {
    let database = Database::with("CREATE TABLE t (id INTEGER PRIMARY KEY)");
    let mut sink = open(database.config("t").busy_timeout(Duration::from_secs(60))).await.unwrap();
    let other = database.connect();
    other.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (7)").unwrap();
    let batch = [json!({"id": 1})];
    let mut writing = std::pin::pin!(sink.write(&batch));
    tokio::select! {
        biased;
        _ = &mut writing => panic!("the write did not wait for the lock"),
        () = tokio::task::yield_now() => (),
    }
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(writing.await.unwrap().into_rejections().len(), 0);
    assert_eq!(database.text("SELECT id FROM t ORDER BY id"), ["1", "7"]);
}

/// A drain that runs out of time drops the write's future.
#[tokio::test]
async fn a_write_that_is_given_up_leaves_a_sink_that_can_write() {
    let database = Database::with("CREATE TABLE t (id INTEGER PRIMARY KEY)");
    let mut sink = open(database.config("t").key(["id"])).await.unwrap();
    let other = database.connect();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let batch = [json!({"id": 1})];
    tokio::select! {
        biased;
        _ = sink.write(&batch) => panic!("the write did not wait for the lock"),
        () = tokio::task::yield_now() => (),
    }
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(write(&mut sink, &[json!({"id": 1}), json!({"id": 2})]).await, [""; 0]);
    assert_eq!(database.text("SELECT id FROM t"), ["1", "2"]);
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let database = Database::absent();
    let garbage = b"these are the voyages of the starship".repeat(100);
    fs::write(&database.path, &garbage).unwrap();
    let error = open(database.config("t").create(true)).await.unwrap_err();
    assert!(!error.is_retryable());
    assert!(error.to_string().contains("is not a SQLite database; name another path"), "{error}");
    assert_eq!(fs::read(&database.path).unwrap(), garbage);
}

#[tokio::test]
async fn a_damaged_database_stops_with_what_to_do() {
    let database = Database::with(
        "PRAGMA journal_mode = WAL; CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
         INSERT INTO t SELECT i, 'some text to fill the pages' FROM n;",
    );
    let mut bytes = fs::read(&database.path).unwrap();
    bytes[4096..].fill(0xa5);
    fs::write(&database.path, &bytes).unwrap();
    let mut sink = open(database.config("t").key(["id"])).await.unwrap();
    let error = sink.write(&[json!({"id": 17, "v": "x"})]).await.unwrap_err();
    assert!(!error.is_retryable());
    assert!(error.to_string().contains("is damaged; restore it from a backup"), "{error}");
}

#[tokio::test]
async fn paths_that_can_not_be_opened_are_named_with_the_reason() {
    let database = Database::absent();
    let missing = database.folder().join("no/such/out.db");
    let cases = [
        (missing.as_path(), "no/such does not exist"),
        (database.folder(), "it is a folder"),
        #[cfg(target_os = "linux")] // nobody can make a file there, the superuser neither
        (std::path::Path::new("/proc/tidegate.db"), "unable to open database file"),
    ];
    for (path, part) in cases {
        let error = open(SqliteSinkConfig::new(path, "t").create(true)).await.unwrap_err();
        assert!(!error.is_retryable());
        let text = format!("{error:?}");
        assert!(
            text.contains(part) && text.contains("check the path and the permissions"),
            "{text}"
        );
        assert!(text.contains(&path.display().to_string()), "{text}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_or_folder_without_write_permission_is_read_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let database = Database::with("CREATE TABLE t (id INTEGER)");
    let allow = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    allow(&database.path, 0o444);
    if fs::OpenOptions::new().append(true).open(&database.path).is_ok() {
        eprintln!("SKIPPED: permissions don't bind this user; see the unit tests of client.rs");
        return;
    }
    let error = open(database.config("t")).await.unwrap_err();
    assert!(error.to_string().contains("is read-only; give this user write permission"), "{error}");
    allow(&database.path, 0o644);
    allow(database.folder(), 0o555);
    let error = open(database.config("t")).await.unwrap_err();
    assert!(!error.is_retryable() && error.to_string().contains("permission"), "{error}");
    allow(database.folder(), 0o755);
}

#[tokio::test]
async fn a_table_that_is_dropped_meanwhile_stops_the_pipeline() {
    let database = Database::with("CREATE TABLE t (id INTEGER)");
    let mut sink = open(database.config("t")).await.unwrap();
    database.connect().execute_batch("DROP TABLE t").unwrap();
    let error = sink.write(&[json!({"id": 1})]).await.unwrap_err();
    assert!(!error.is_retryable());
    assert!(format!("{error:?}").contains("no such table: t"), "{error:?}");
}

/// P6: what was reported as done is there for whoever opens the file next, also without `close`.
#[tokio::test]
async fn a_written_batch_is_durable_without_a_close() {
    let database = Database::with("CREATE TABLE t (id INTEGER)");
    let mut sink = open(database.config("t")).await.unwrap();
    write(&mut sink, &[json!({"id": 1})]).await;
    let copy = Database::absent();
    for suffix in ["", "-wal"] {
        let name = |database: &Database| format!("{}{suffix}", database.path.display());
        fs::copy(name(&database), name(&copy)).unwrap();
    }
    assert_eq!(copy.text("SELECT id FROM t"), ["1"], "as after a crash");
    let mode = database.text("PRAGMA journal_mode");
    assert_eq!(mode, ["wal"]);
}

#[test]
fn debug_names_file_and_table() {
    let sink = SqliteSink::<serde_json::Value>::new(SqliteSinkConfig::new("out.db", "t"));
    assert_eq!(format!("{sink:?}"), "SqliteSink(out.db table \"t\")");
}
