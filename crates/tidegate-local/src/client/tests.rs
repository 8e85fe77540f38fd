use std::fs;

use tempfile::TempDir;

use super::*;

const NO_WAIT: Duration = Duration::from_millis(1);

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn create(path: &Path) -> Client {
    Client::open(path, Access::Create, NO_WAIT).unwrap()
}

fn open_error(path: &Path) -> LocalError {
    Client::open(path, Access::Create, NO_WAIT).unwrap_err()
}

fn insert_topic(tx: &Tx<'_>, name: &str) -> Result<usize, LocalError> {
    tx.execute(
        "INSERT INTO topics (name, partitions, created_at, keep_uncommitted) VALUES (?1, 1, 0, 0)",
        &[name.into()],
    )
}

fn topics(client: &mut Client) -> i64 {
    client
        .read(|tx| tx.row("SELECT count(*) FROM topics", &[], |row| row.integer(0)))
        .unwrap()
        .unwrap()
}

#[test]
fn a_new_file_is_set_up_for_durable_writes() {
    let folder = folder();
    let path = folder.path().join("q.db");
    drop(create(&path));
    let client = Client::open(&path, Access::Existing, NO_WAIT).unwrap();
    let pragma = |name: &str| -> String {
        let text = |row: &rusqlite::Row<'_>| row.get::<_, rusqlite::types::Value>(0);
        format!("{:?}", client.connection.pragma_query_value(None, name, text).unwrap())
    };
    assert_eq!(pragma("journal_mode"), r#"Text("wal")"#);
    assert_eq!(pragma("synchronous"), "Integer(2)", "FULL");
    assert_eq!(pragma("user_version"), format!("Integer({})", schema::FORMAT));
}

#[test]
fn a_write_that_fails_leaves_nothing() {
    let folder = folder();
    let mut client = create(&folder.path().join("q.db"));
    let error = client
        .write(|tx| {
            insert_topic(tx, "a")?;
            insert_topic(tx, "a")
        })
        .unwrap_err();
    assert!(matches!(error, LocalError::Database { .. }), "{error:?}");
    assert_eq!(topics(&mut client), 0);
}

#[test]
fn another_connections_write_changes_the_data_version_and_ones_own_does_not() {
    let folder = folder();
    let path = folder.path().join("q.db");
    let (mut one, mut other) = (create(&path), create(&path));
    let before = one.data_version().unwrap();
    one.write(|tx| insert_topic(tx, "a")).unwrap();
    assert_eq!(one.data_version().unwrap(), before);
    other.write(|tx| insert_topic(tx, "b")).unwrap();
    assert_ne!(one.data_version().unwrap(), before);
}

#[test]
fn a_garbage_file_is_refused_and_left_as_it_is() {
    let folder = folder();
    let path = folder.path().join("q.db");
    let garbage = b"{\"a\": 1}\n".repeat(1000);
    fs::write(&path, &garbage).unwrap();
    let error = open_error(&path);
    assert!(matches!(error, LocalError::NotADatabase { .. }), "{error:?}");
    assert!(error.to_string().contains("not a SQLite database"));
    assert_eq!(fs::read(&path).unwrap(), garbage);
}

#[test]
fn another_programs_database_is_refused_and_left_as_it_is() {
    let folder = folder();
    let path = folder.path().join("app.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE users (id INTEGER)").unwrap();
    let before = fs::read(&path).unwrap();
    let error = open_error(&path);
    assert!(matches!(error, LocalError::ForeignDatabase { .. }), "{error:?}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn another_format_is_refused_with_both_numbers() {
    let folder = folder();
    let path = folder.path().join("q.db");
    create(&path).connection.pragma_update(None, "user_version", 99).unwrap();
    let error = open_error(&path);
    assert!(matches!(error, LocalError::SchemaVersion { found: 99, .. }), "{error:?}");
}

#[test]
fn what_is_in_the_way_of_opening_is_named() {
    let folder = folder();
    let error = open_error(folder.path());
    assert!(error.to_string().contains("it is a directory"), "{error}");
    let error = open_error(&folder.path().join("no/such/q.db"));
    assert!(error.to_string().contains("no/such does not exist; create it first"), "{error}");
    let path = folder.path().join("none.db");
    let error = Client::open(&path, Access::Existing, NO_WAIT).unwrap_err();
    assert!(matches!(error, LocalError::NoSuchFile { .. }), "{error:?}");
    assert!(!path.exists(), "looking creates nothing");
}

#[test]
fn a_locked_file_is_told_apart_and_can_be_written_afterwards() {
    let folder = folder();
    let path = folder.path().join("q.db");
    let (mut one, mut other) = (create(&path), create(&path));
    one.write(|tx| {
        insert_topic(tx, "a")?;
        let error = other.write(|tx| insert_topic(tx, "b")).unwrap_err();
        assert!(error.is_retryable(), "{error:?}");
        assert!(error.to_string().contains("locked by another process"));
        assert_eq!(topics(&mut other), 0, "reading goes on");
        Ok(())
    })
    .unwrap();
    other.write(|tx| insert_topic(tx, "b")).unwrap();
    assert_eq!(topics(&mut one), 2);
}

#[test]
fn a_full_disk_keeps_nothing_of_the_write_and_is_not_retried() {
    let folder = folder();
    let mut client = create(&folder.path().join("q.db"));
    // The database's own limit gives the same answer as a disk without room.
    let pages: i64 =
        client.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    client
        .connection
        .pragma_update_and_check(None, "max_page_count", pages + 2, |_| Ok(()))
        .unwrap();
    let large = "x".repeat(100_000);
    let error = client
        .write(|tx| {
            insert_topic(tx, "small")?;
            insert_topic(tx, &large)
        })
        .unwrap_err();
    assert!(matches!(error, LocalError::DiskFull { .. }), "{error:?}");
    assert!(!error.is_retryable());
    assert_eq!(topics(&mut client), 0);
    client.write(|tx| insert_topic(tx, "small")).unwrap();
}

#[test]
fn a_read_only_file_is_told_apart() {
    let folder = folder();
    let mut client = create(&folder.path().join("q.db"));
    client.connection.pragma_update(None, "query_only", true).unwrap();
    let error = client.write(|tx| insert_topic(tx, "a")).unwrap_err();
    assert!(matches!(error, LocalError::ReadOnly { .. }), "{error:?}");
    assert!(error.to_string().contains("check the permissions"));
}

#[test]
fn a_file_that_was_deleted_or_replaced_is_not_written_to() {
    let folder = folder();
    let path = folder.path().join("q.db");
    let mut client = create(&path);
    fs::remove_file(&path).unwrap();
    let error = client.write(|tx| insert_topic(tx, "a")).unwrap_err();
    assert!(matches!(error, LocalError::Replaced { .. }), "{error:?}");
    fs::write(&path, b"").unwrap();
    let error = client.write(|tx| insert_topic(tx, "a")).unwrap_err();
    assert!(matches!(error, LocalError::Replaced { .. }), "{error:?}");
}

/// P12
#[test]
fn a_value_that_cannot_be_is_damage() {
    let folder = folder();
    let mut client = create(&folder.path().join("q.db"));
    let error = client
        .read(|tx| tx.row("SELECT -1 AS position", &[], |row| row.unsigned::<u64>(0)))
        .unwrap_err();
    assert!(matches!(error, LocalError::Damaged { .. }), "{error:?}");
    assert!(error.to_string().contains("column position holds an impossible value"), "{error}");
}

#[test]
fn many_may_create_the_file_at_once() {
    let folder = folder();
    let path = folder.path().join("q.db");
    let timeout = Duration::from_secs(60);
    std::thread::scope(|scope| {
        for name in 0..8 {
            let path = &path;
            scope.spawn(move || {
                let mut client = Client::open(path, Access::Create, timeout).unwrap();
                client.write(|tx| insert_topic(tx, &name.to_string())).unwrap();
            });
        }
    });
    assert_eq!(topics(&mut create(&path)), 8);
}
