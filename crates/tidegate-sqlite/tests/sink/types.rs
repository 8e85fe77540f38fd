use serde_json::{Value as Json, json};
use tidegate_core::Sink as _;
use tidegate_sqlite::{ColumnType, Columns, SqliteSink};

use crate::{Database, open, write};

/// Every declared type against every kind of value: what is stored, or what the refusal says.
#[tokio::test]
async fn each_value_is_stored_as_its_columns_type_says_or_refused_with_column_type_and_value() {
    let huge = u64::MAX;
    let cases: Vec<(&str, Json, Result<&str, &str>)> = vec![
        ("INTEGER", json!(i64::MIN), Ok("integer -9223372036854775808")),
        ("INTEGER", json!(3.0), Ok("integer 3")),
        ("INTEGER", json!(true), Ok("integer 1")),
        ("INTEGER", json!(null), Ok("null -")),
        (
            "INTEGER",
            json!(3.5),
            Err("(INTEGER) takes a whole number of 64 bits, not the number 3.5"),
        ),
        ("INTEGER", json!(huge), Err("not the number 18446744073709551615")),
        ("INTEGER", json!(9.3e18), Err("not the number 9.3e+18")),
        ("INTEGER", json!("abc"), Err("not the text \"abc\"")),
        ("INTEGER", json!("12"), Err("not the text \"12\"")),
        ("INTEGER", json!([1]), Err("not an array of length 1")),
        ("INTEGER", json!({"a": 1}), Err("not an object")),
        ("BIGINT", json!(7), Ok("integer 7")),
        ("REAL", json!(0.5), Ok("real 0.5")),
        ("REAL", json!(2), Ok("real 2.0")),
        ("DOUBLE", json!(1_u64 << 63), Ok("real 9.223372036854776e18")),
        ("REAL", json!((1_i64 << 53) + 1), Err("holds exactly, not the number 9007199254740993")),
        ("REAL", json!(huge), Err("holds exactly")),
        ("REAL", json!(true), Err("holds exactly, not true")),
        ("NUMERIC", json!(2), Ok("integer 2")),
        ("DECIMAL(10,2)", json!(2.5), Ok("real 2.5")),
        ("NUMERIC", json!(false), Ok("integer 0")),
        ("NUMERIC", json!(huge), Err("a number of 64 bits")),
        ("NUMERIC", json!("2"), Err("not the text \"2\"")),
        ("TEXT", json!("12"), Ok("text 12")),
        ("VARCHAR(5)", json!("longer than five"), Ok("text longer than five")),
        ("TEXT", json!(12), Err("column \"c\" (TEXT) takes text, not the number 12")),
        ("TEXT", json!(true), Err("takes text, not true")),
        ("TEXT", json!(["a"]), Err("takes text, not an array")),
        ("BLOB", json!([0, 255]), Ok("blob [0, 255]")),
        ("BLOB", json!([]), Ok("blob []")),
        ("BLOB", json!([256]), Err("(BLOB) takes an array of numbers from 0 to 255")),
        ("BLOB", json!("text"), Err("not the text \"text\"")),
        ("BOOLEAN", json!(true), Ok("integer 1")),
        ("BOOL", json!(0), Ok("integer 0")),
        ("BOOLEAN", json!(2), Err("takes true, false, 0 or 1, not the number 2")),
        ("BOOLEAN", json!("true"), Err("not the text \"true\"")),
        ("TIMESTAMP TEXT", json!("2013-01-31T05:15:00Z"), Ok("text 2013-01-31T05:15:00Z")),
        ("TIMESTAMP TEXT", json!("2024-02-29"), Ok("text 2024-02-29")),
        ("TIMESTAMP TEXT", json!("2013-01-31 05:15"), Ok("text 2013-01-31 05:15")),
        (
            "TIMESTAMP TEXT",
            json!("2013-01-31T05:15:00.25-05:00"),
            Ok("text 2013-01-31T05:15:00.25-05:00"),
        ),
        ("TIMESTAMP TEXT", json!("2013-02-29"), Err("takes a date or time such as")),
        ("TIMESTAMP TEXT", json!("2013-01-31T24:00"), Err("2013-01-31T24:00")),
        ("TIMESTAMP TEXT", json!("2013-01-31T05:15:00Zx"), Err("05:15:00Zx")),
        ("TIMESTAMP TEXT", json!("2013-01-31T05:15:00."), Err("05:15:00.")),
        ("TIMESTAMP TEXT", json!("2013-01-31T05:15:00+5"), Err("+5")),
        ("TIMESTAMP TEXT", json!("2013-00-31"), Err("2013-00-31")),
        ("TIMESTAMP TEXT", json!("yesterday"), Err("yesterday")),
        ("TIMESTAMP TEXT", json!(1359608400), Err("not the number 1359608400")),
        ("DATETIME", json!(1359608400), Ok("integer 1359608400")),
        ("DATE", json!("2013-01-31"), Ok("text 2013-01-31")),
        ("JSON TEXT", json!({"b": 1, "a": [null]}), Ok("text {\"b\":1,\"a\":[null]}")),
        ("JSON TEXT", json!("12"), Ok("text \"12\"")),
        ("JSON TEXT", json!(12), Ok("text 12")),
        ("JSON TEXT", json!(null), Ok("null -")),
        ("", json!("12"), Ok("text 12")),
        ("", json!(12), Ok("integer 12")),
        ("", json!(1.5), Ok("real 1.5")),
        ("", json!([1, "a"]), Ok("text [1,\"a\"]")),
        ("", json!(huge), Err("column \"c\" takes any value of at most 64 bits")),
    ];
    for (declared, value, expected) in cases {
        let database = Database::with(&format!("CREATE TABLE t (c {declared})"));
        let mut sink = open(database.config("t")).await.unwrap();
        let refused = write(&mut sink, &[json!({"c": value})]).await;
        let stored = database.text("SELECT typeof(c), c FROM t");
        match expected {
            Ok(text) => {
                assert_eq!((refused, stored), (vec![], vec![text.to_owned()]), "{declared} {value}")
            }
            Err(part) => {
                assert!(
                    refused[0].contains("column \"c\"") && refused[0].contains(part),
                    "{refused:?}"
                );
                assert!(stored.is_empty(), "{declared} {value}: {stored:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_declared_type_in_the_settings_takes_the_place_of_the_tables() {
    let database = Database::with("CREATE TABLE t (tags TEXT, ok INTEGER)");
    let columns = Columns::from_iter([("TAGS", ColumnType::Json), ("ok", ColumnType::Boolean)]);
    let mut sink = open(database.config("t").columns(columns)).await.unwrap();
    let batch = [json!({"tags": ["a"], "ok": true}), json!({"tags": [], "ok": 7})];
    let refused = write(&mut sink, &batch).await;
    assert_eq!(refused.len(), 1);
    assert!(refused[0].starts_with("1: column \"ok\" (BOOLEAN)"), "{refused:?}");
    assert_eq!(database.text("SELECT tags, ok FROM t"), ["[\"a\"] 1"]);
}

#[tokio::test]
async fn a_strict_table_takes_the_same_values() {
    let database = Database::with("CREATE TABLE t (i INTEGER, r REAL, x TEXT, a ANY) STRICT");
    let mut sink = open(database.config("t")).await.unwrap();
    let refused = write(&mut sink, &[json!({"i": true, "r": 1, "x": "y", "a": {"b": 1}})]).await;
    assert_eq!(refused, [""; 0]);
    assert_eq!(database.text("SELECT * FROM t"), ["1 1.0 y {\"b\":1}"]);
}

#[tokio::test]
async fn a_value_of_any_length_gives_a_short_refusal() {
    let database = Database::with("CREATE TABLE t (c INTEGER)");
    let mut sink = open(database.config("t")).await.unwrap();
    let long = json!({"c": "ü".repeat(1 << 20)});
    let unknown = json!({"x".repeat(1 << 20): 1});
    for refusal in write(&mut sink, &[long, unknown]).await {
        assert!(refusal.len() < 300, "{} bytes", refusal.len());
    }
}

#[tokio::test]
async fn any_serialisable_struct_is_an_item() {
    #[derive(serde::Serialize)]
    struct Flight {
        id: u64,
        #[serde(rename = "Tail Number")]
        tail: Option<&'static str>,
        delay: f32,
    }
    let database = Database::absent();
    let mut sink = SqliteSink::new(database.config("flights").key(["id"]).create(true));
    sink.open().await.unwrap();
    let flights = [
        Flight { id: 1, tail: Some("N14228"), delay: 0.5 },
        Flight { id: 2, tail: None, delay: f32::NAN },
    ];
    let refused = sink.write(&flights).await.unwrap().into_rejections();
    assert!(refused.is_empty(), "{refused:?}");
    assert_eq!(database.text("SELECT * FROM flights ORDER BY id"), ["1 N14228 0.5", "2 - -"]);
}
