use serde_json::json;
use tidegate_core::Sink as _;
use tidegate_sqlite::{ColumnType, Columns};

use crate::{Database, open, write};

const SCHEMA: &str = "SELECT sql FROM sqlite_schema WHERE name = 't'";

#[tokio::test]
async fn a_missing_table_is_an_error_that_says_how_to_have_it_created() {
    let database = Database::absent();
    let error = open(database.config("flights")).await.unwrap_err();
    assert!(!error.is_retryable());
    let text = error.to_string();
    assert!(text.contains("no table \"flights\"; add `create: true`"), "{text}");
    assert!(text.contains("out.db"), "{text}");
}

#[tokio::test]
async fn declared_columns_create_the_table_before_the_first_item() {
    let database = Database::absent();
    let columns = Columns::from_iter([
        ("id", ColumnType::Integer),
        ("speed", ColumnType::Real),
        ("name", ColumnType::Text),
        ("raw", ColumnType::Blob),
        ("late", ColumnType::Boolean),
        ("at", ColumnType::Timestamp),
        ("tags", ColumnType::Json),
        ("n", ColumnType::Numeric),
        ("x", ColumnType::Any),
    ]);
    let config = database.config("t").key(["id"]).columns(columns).create(true);
    drop(open(config.clone()).await.unwrap());
    let expected = r#"CREATE TABLE "t" ("id" INTEGER NOT NULL, "speed" REAL, "name" TEXT, "raw" BLOB, "late" BOOLEAN, "at" TIMESTAMP TEXT, "tags" JSON TEXT, "n" NUMERIC, "x" , PRIMARY KEY ("id"))"#;
    assert_eq!(database.text(SCHEMA), [expected]);

    // The same types are read back from the table, without the settings.
    let mut sink = open(database.config("t").key(["id"])).await.unwrap();
    let item = json!({
        "id": 1, "speed": 1.5, "name": "a", "raw": [1], "late": true, "at": "2013-01-31",
        "tags": {"a": 1}, "n": 2, "x": "y"
    });
    let wrong = json!({"id": 2, "late": 2, "at": "soon"});
    let refused = write(&mut sink, &[item, wrong]).await;
    assert!(refused.len() == 1 && refused[0].starts_with("1: column \"late\" (BOOLEAN)"));
    let rows = database.text("SELECT *, typeof(tags) FROM t");
    assert_eq!(rows, ["1 1.5 a [1] 1 2013-01-31 {\"a\":1} 2 y text"]);
}

#[tokio::test]
async fn without_declared_columns_the_first_batch_gives_the_table_its_shape() {
    let database = Database::absent();
    let mut sink = open(database.config("t").key(["id"]).create(true)).await.unwrap();
    assert!(database.text(SCHEMA).is_empty(), "nothing is known yet");
    let batch = [
        json!(17),
        json!({"id": "a", "n": 1, "ok": true, "nothing": null, "mixed": 1}),
        json!({"id": "b", "N": 1.5, "tags": [1], "mixed": "one", "ok": null}),
    ];
    let refused = write(&mut sink, &batch).await;
    assert_eq!(refused, ["0: a row is made from an object, not from a number"]);
    let expected = r#"CREATE TABLE "t" ("id" TEXT NOT NULL, "n" NUMERIC, "ok" BOOLEAN, "nothing" , "mixed" , "tags" JSON TEXT, PRIMARY KEY ("id"))"#;
    assert_eq!(database.text(SCHEMA), [expected]);
    let rows = database.text("SELECT * FROM t ORDER BY id");
    assert_eq!(rows, ["a 1 1 - 1 -", "b 1.5 - - one [1]"]);

    let later = [json!({"id": "c", "new": 1}), json!({"id": "d", "nothing": {"now": "known"}})];
    let refused = write(&mut sink, &later).await;
    assert_eq!(refused, ["0: table \"t\" has no column \"new\""]);
}

#[tokio::test]
async fn a_key_that_no_item_of_the_first_batch_has_is_a_column_all_the_same() {
    let database = Database::absent();
    let mut sink = open(database.config("t").key(["id"]).create(true)).await.unwrap();
    let refused = write(&mut sink, &[json!({"v": 1})]).await;
    assert_eq!(refused, ["0: key column \"id\" is missing"]);
    assert_eq!(write(&mut sink, &[json!({"v": 1, "id": "now"})]).await, [""; 0]);
}

#[tokio::test]
async fn items_that_give_no_column_are_refused_and_the_table_waits() {
    let database = Database::absent();
    let mut sink = open(database.config("t").create(true)).await.unwrap();
    let refused = write(&mut sink, &[json!(1), json!({})]).await;
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert!(refused[1].contains("no member that could be a column"), "{refused:?}");
    assert_eq!(write(&mut sink, &[json!({"a": 1})]).await, [""; 0]);
    assert_eq!(database.text("SELECT a FROM t"), ["1"]);
}

#[tokio::test]
async fn create_leaves_a_table_that_exists_as_it_is() {
    let database = Database::with("CREATE TABLE t (id INTEGER PRIMARY KEY)");
    let before = database.text(SCHEMA);
    let mut sink = open(database.config("t").key(["id"]).create(true)).await.unwrap();
    let refused = write(&mut sink, &[json!({"id": 1}), json!({"id": 2, "v": 1})]).await;
    assert_eq!(refused, ["1: table \"t\" has no column \"v\""]);
    assert_eq!(database.text(SCHEMA), before);
}

#[tokio::test]
async fn settings_that_the_table_does_not_suit_are_refused_at_the_start() {
    let database = Database::with(
        "CREATE TABLE t (id INTEGER, v TEXT); CREATE VIEW seen AS SELECT id FROM t;",
    );
    let config = database.config("t");
    let declared = Columns::from_iter([("v", ColumnType::Text), ("w", ColumnType::Text)]);
    let cases = [
        (config.clone().key(["id"]), "CREATE UNIQUE INDEX … ON \"t\" (\"id\")"),
        (config.clone().key(["nr"]), "`key` names column \"nr\", which table \"t\" does not have"),
        (config.clone().columns(declared), "`columns` names column \"w\""),
        (database.config("seen"), "view"),
        (database.config(""), "table: is empty"),
    ];
    for (config, part) in cases {
        let error = open(config).await.unwrap_err();
        assert!(!error.is_retryable());
        assert!(format!("{error:?}").contains(part), "{error:?} lacks {part:?}");
    }
}

/// Several pipelines may start at once on a file that none of them has made yet.
#[test]
fn many_sinks_can_open_and_create_at_the_same_time() {
    let database = Database::absent();
    let start = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let (config, start) = (database.config("t").key(["id"]).create(true), &start);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                runtime.block_on(async {
                    start.wait();
                    let mut sink = open(config).await.unwrap();
                    assert_eq!(write(&mut sink, &[json!({"id": writer})]).await, [""; 0]);
                    sink.close().await.unwrap();
                });
            });
        }
    });
    assert_eq!(database.text("SELECT count(*) FROM t"), ["8"]);
}
