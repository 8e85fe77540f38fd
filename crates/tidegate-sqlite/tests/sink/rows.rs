use serde_json::json;
use tidegate_core::Sink as _;

use crate::{Database, open, write};

/// P43
#[tokio::test]
async fn a_refused_row_leaves_its_neighbours_written() {
    let database = Database::with(
        "CREATE TABLE parent (id INTEGER PRIMARY KEY);
         INSERT INTO parent VALUES (1);
         CREATE TABLE t (
             id INTEGER PRIMARY KEY,
             name TEXT NOT NULL,
             size INTEGER CHECK (size > 0),
             parent INTEGER REFERENCES parent (id),
             code TEXT UNIQUE
         )",
    );
    let mut sink = open(database.config("t")).await.unwrap();
    let batch = [
        json!({"id": 1, "name": "first", "code": "a"}),
        json!({"id": 2}),
        json!({"id": 3, "name": "third", "size": 0}),
        json!({"id": 4, "name": "fourth", "parent": 9}),
        json!({"id": 5, "name": "fifth", "code": "a"}),
        json!({"id": 1, "name": "again"}),
        json!({"id": 7, "name": "seventh", "colour": "red"}),
        json!({"id": 8, "name": 8}),
        json!({"id": 9, "name": "ninth", "ID": 9}),
        json!(["not", "an", "object"]),
        json!({"id": 11, "name": "last", "parent": 1, "size": 1}),
    ];
    let refused = write(&mut sink, &batch).await;
    assert_eq!(
        refused,
        [
            "1: NOT NULL constraint failed: t.name",
            "2: CHECK constraint failed: size > 0",
            "3: FOREIGN KEY constraint failed",
            "4: UNIQUE constraint failed: t.code",
            "5: UNIQUE constraint failed: t.id",
            "6: table \"t\" has no column \"colour\"",
            "7: column \"name\" (TEXT) takes text, not the number 8",
            "8: column \"id\" is given twice",
            "9: a row is made from an object, not from an array",
        ]
    );
    assert_eq!(database.text("SELECT id, name FROM t ORDER BY id"), ["1 first", "11 last"]);
}

/// P43: what the table's own conflict clauses would do to a batch does not happen.
#[tokio::test]
async fn conflict_clauses_of_the_table_neither_hide_a_refusal_nor_undo_neighbours() {
    for clause in ["ROLLBACK", "IGNORE", "FAIL", "REPLACE", "ABORT"] {
        let database = Database::with(&format!(
            "CREATE TABLE t (id INTEGER PRIMARY KEY ON CONFLICT {clause}, v TEXT)"
        ));
        let mut sink = open(database.config("t")).await.unwrap();
        let batch = [json!({"id": 1, "v": "a"}), json!({"id": 1, "v": "b"}), json!({"id": 2})];
        let refused = write(&mut sink, &batch).await;
        assert_eq!(refused, ["1: UNIQUE constraint failed: t.id"], "{clause}");
        assert_eq!(database.text("SELECT id, v FROM t"), ["1 a", "2 -"], "{clause}");
    }
}

/// P43: a refusal that undoes the whole transaction still costs one row.
#[tokio::test]
async fn a_trigger_that_rolls_back_refuses_its_row_only() {
    let database = Database::with(
        "CREATE TABLE t (id INTEGER PRIMARY KEY);
         CREATE TRIGGER no_twos BEFORE INSERT ON t WHEN new.id % 10 = 2
         BEGIN SELECT RAISE(ROLLBACK, 'no twos here'); END",
    );
    let mut sink = open(database.config("t")).await.unwrap();
    let batch: Vec<_> = (0..25).map(|id| json!({"id": id})).collect();
    let refused = write(&mut sink, &batch).await;
    assert_eq!(refused, ["2: no twos here", "12: no twos here", "22: no twos here"]);
    assert_eq!(database.text("SELECT count(*) FROM t"), ["22"]);
}

/// P43: so does one that shows only when the transaction commits.
#[tokio::test]
async fn a_deferred_constraint_refuses_its_row_only() {
    let database = Database::with(
        "CREATE TABLE parent (id INTEGER PRIMARY KEY);
         INSERT INTO parent VALUES (1);
         CREATE TABLE t (
             id INTEGER PRIMARY KEY,
             parent INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED
         )",
    );
    let mut sink = open(database.config("t")).await.unwrap();
    let batch = [json!({"id": 1, "parent": 1}), json!({"id": 2, "parent": 2}), json!({"id": 3})];
    let refused = write(&mut sink, &batch).await;
    assert_eq!(refused, ["1: FOREIGN KEY constraint failed"]);
    assert_eq!(database.text("SELECT id FROM t"), ["1", "3"]);
}

#[tokio::test]
async fn an_upsert_leaves_one_row_however_often_it_is_repeated() {
    let database =
        Database::with("CREATE TABLE t (a TEXT, b INTEGER, v TEXT, kept TEXT, PRIMARY KEY (a, b))");
    let mut sink = open(database.config("t").key(["A", "b"])).await.unwrap();
    assert!(sink.capabilities().idempotent);
    let batch = [
        json!({"a": "x", "b": 1, "v": "old", "kept": "yes"}),
        json!({"a": "x", "b": 2, "v": "other"}),
        json!({"a": "x", "b": 1, "v": "new"}),
        json!({"a": "x", "b": 1}),
    ];
    for _ in 0..3 {
        assert_eq!(write(&mut sink, &batch).await, [""; 0]);
        let rows = database.text("SELECT * FROM t ORDER BY b");
        assert_eq!(rows, ["x 1 new yes", "x 2 other -"]);
    }
}

#[tokio::test]
async fn an_insert_repeats_what_is_written_twice_and_says_so() {
    let database = Database::with("CREATE TABLE t (v TEXT DEFAULT 'default')");
    let mut sink = open(database.config("t")).await.unwrap();
    assert!(!sink.capabilities().idempotent);
    for _ in 0..2 {
        assert_eq!(write(&mut sink, &[json!({}), json!({"v": null})]).await, [""; 0]);
    }
    let counts = database.text("SELECT v, count(*) FROM t GROUP BY v");
    assert_eq!(counts, ["- 2", "default 2"]);
}

#[tokio::test]
async fn an_item_without_its_key_is_refused() {
    let database = Database::with("CREATE TABLE t (a TEXT, b INTEGER, UNIQUE (a, b))");
    let mut sink = open(database.config("t").key(["a", "b"])).await.unwrap();
    let batch = [json!({"a": "x"}), json!({"a": null, "b": 1}), json!({"b": 1, "a": "x"})];
    let refused = write(&mut sink, &batch).await;
    assert_eq!(refused, ["0: key column \"b\" is missing", "1: key column \"a\" is null"]);
    assert_eq!(database.text("SELECT * FROM t"), ["x 1"]);
}

#[tokio::test]
async fn rows_of_many_shapes_are_written_in_order() {
    let columns: Vec<_> = (0..9).map(|i| format!("c{i} INTEGER")).collect();
    let database = Database::with(&format!(
        "CREATE TABLE t (n INTEGER PRIMARY KEY AUTOINCREMENT, row INTEGER, {})",
        columns.join(", ")
    ));
    let mut sink = open(database.config("t")).await.unwrap();
    // 512 different sets of columns, more than there are cached statements.
    let batch: Vec<_> = (0..1024)
        .map(|row| {
            let set = (0..9).filter(|i| row >> i & 1 == 1).map(|i| (format!("c{i}"), json!(row)));
            set.chain([("row".to_owned(), json!(row))]).collect::<serde_json::Value>()
        })
        .collect();
    assert_eq!(write(&mut sink, &batch).await, [""; 0]);
    let sums = "coalesce(c0,0) + coalesce(c1,0) + coalesce(c2,0) + coalesce(c3,0) + coalesce(c4,0)
        + coalesce(c5,0) + coalesce(c6,0) + coalesce(c7,0) + coalesce(c8,0)";
    let rows = database.query(&format!("SELECT row, {sums} FROM t ORDER BY n"));
    for (row, found) in rows.iter().enumerate() {
        let sum = row * (row & 511).count_ones() as usize;
        assert_eq!(found, &[(row as i64).into(), (sum as i64).into()]);
    }
    assert_eq!(rows.len(), 1024);
}

#[tokio::test]
async fn names_with_quotes_spaces_and_key_words_are_only_names() {
    let evil = r#"x" (a); DROP TABLE t; --"#;
    let database = Database::with("CREATE TABLE t (a TEXT)");
    let config = database.config(evil).key(["select"]).create(true);
    let mut sink = open(config).await.unwrap();
    let batch = [json!({"select": 1, "a b": 2, "q\"'`]": 3, "": 4}), json!({"select": 5})];
    let refused = write(&mut sink, &batch).await;
    assert_eq!(refused.len(), 1, "only the column without a name is refused: {refused:?}");
    let table = evil.replace('"', "\"\"");
    assert_eq!(database.text(&format!("SELECT * FROM \"{table}\"")), ["5 - -"]);
    assert_eq!(database.text("SELECT count(*) FROM t"), ["0"]);
}

#[tokio::test]
async fn an_empty_batch_is_done() {
    let database = Database::with("CREATE TABLE t (a TEXT)");
    let mut sink = open(database.config("t")).await.unwrap();
    assert_eq!(write(&mut sink, &[]).await, [""; 0]);
}

#[test]
fn inline_work_needs_no_blocking_thread() {
    let database = Database::with("CREATE TABLE t (a TEXT)");
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build();
    let runtime = runtime.unwrap();
    // The only blocking thread is taken, so work that went there would never run.
    let (done, wait) = std::sync::mpsc::channel::<()>();
    runtime.spawn_blocking(move || wait.recv());
    runtime.block_on(async {
        let mut sink = tidegate_sqlite::SqliteSink::new(database.config("t")).inline();
        sink.open().await.unwrap();
        assert_eq!(write(&mut sink, &[json!({"a": "x"})]).await, [""; 0]);
        sink.close().await.unwrap();
    });
    drop(done);
    assert_eq!(database.text("SELECT a FROM t"), ["x"]);
}
