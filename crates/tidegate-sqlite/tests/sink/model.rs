//! The sink against a model that is a map.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use tidegate_core::Sink as _;
use tidegate_sqlite::SqliteSink;

use crate::{Database, write};

/// A row's values besides its key.
type Values = (Option<i64>, Option<String>);

/// What an upsert does, and whether it is refused.
fn upsert(rows: &mut BTreeMap<i64, Values>, item: &Json) -> bool {
    let Some(id) = item.get("id").and_then(Json::as_i64) else { return false };
    let size = item.get("size");
    if size.is_some_and(|size| !size.is_null() && size.as_i64().is_none_or(|size| size < 0)) {
        return false;
    }
    let name = item.get("name");
    if name.is_some_and(|name| !name.is_null() && !name.is_string()) {
        return false;
    }
    let taken = name.and_then(Json::as_str).is_some_and(|name| {
        rows.iter().any(|(other, (_, taken))| *other != id && taken.as_deref() == Some(name))
    });
    if taken {
        return false;
    }
    let row = rows.entry(id).or_default();
    if let Some(size) = size {
        row.0 = size.as_i64();
    }
    if let Some(name) = name {
        row.1 = name.as_str().map(str::to_owned);
    }
    true
}

fn item() -> impl Strategy<Value = Json> {
    let id = prop_oneof![8 => (0..6_i64).prop_map(Json::from), 1 => Just(Json::Null), 1 => Just(json!("x"))];
    let size = prop_oneof![(-2..9_i64).prop_map(Json::from), Just(Json::Null), Just(json!([1]))];
    let name = prop_oneof!["[a-d]".prop_map(Json::from), Just(Json::Null), Just(json!(7))];
    let maybe = |name: &'static str, value: BoxedStrategy<Json>| {
        proptest::option::weighted(0.8, value.prop_map(move |value| (name.to_owned(), value)))
    };
    (maybe("id", id.boxed()), maybe("size", size.boxed()), maybe("name", name.boxed()))
        .prop_map(|(id, size, name)| [size, name, id].into_iter().flatten().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// P43, and what makes a repeat harmless: after any batches, some of them refused in part,
    /// the table is the map.
    #[test]
    fn the_table_and_the_refusals_are_those_of_a_map(
        batches in proptest::collection::vec(proptest::collection::vec(item(), 0..12), 1..6),
    ) {
        let database = Database::with(
            "CREATE TABLE t (
                id INTEGER PRIMARY KEY, size INTEGER CHECK (size >= 0), name TEXT UNIQUE
            )",
        );
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut sink = SqliteSink::new(database.config("t").key(["id"])).inline();
        runtime.block_on(sink.open()).unwrap();
        let mut rows = BTreeMap::new();
        for batch in batches {
            let refused = runtime.block_on(write(&mut sink, &batch));
            let indexes = batch.iter().enumerate();
            let expected: Vec<_> = indexes
                .filter(|(_, item)| !upsert(&mut rows, item))
                .map(|(index, _)| format!("{index}: "))
                .collect();
            prop_assert_eq!(refused.len(), expected.len(), "{:?} of {:?}", refused, batch);
            for (refused, expected) in refused.iter().zip(&expected) {
                prop_assert!(refused.starts_with(expected), "{} {}", refused, expected);
            }
            let found = database.text("SELECT id, size, name FROM t ORDER BY id");
            let show = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
            let expected: Vec<_> = rows
                .iter()
                .map(|(id, (size, name))| {
                    format!("{id} {} {}", show(size.map(|size| size.to_string())), show(name.clone()))
                })
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
