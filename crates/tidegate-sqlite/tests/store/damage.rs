use std::fs;

use tidegate_core::{Partition, PositionStore as _};

use crate::{StoreFile, load, position};

async fn saved(file: &StoreFile) {
    let mut store = file.open("p").unwrap();
    let positions = [
        position(Partition::whole("a.jsonl"), 42, b"note"),
        position(Partition::new("t", 1), 7, b""),
    ];
    store.save(&positions).await.unwrap();
}

/// P12: whatever field of a row changes, the row is refused.
#[tokio::test]
async fn a_damaged_row_is_refused_whichever_field_it_is() {
    let changes = [
        "stream = 'b.jsonl' WHERE stream = 'a.jsonl'",
        "number = 3 WHERE stream = 'a.jsonl'",
        "number = -2 WHERE stream = 't'",
        "number = 4294967297 WHERE stream = 't'",
        "frontier = 43 WHERE stream = 'a.jsonl'",
        "note = x'6e6f7466' WHERE stream = 'a.jsonl'",
        "checksum = checksum + 1 WHERE stream = 't'",
        "stream = cast(x'ff' AS TEXT) WHERE stream = 't'",
    ];
    for change in changes {
        let file = StoreFile::absent();
        saved(&file).await;
        file.sql(&format!("UPDATE tidegate_positions SET {change}"));
        let error = file.open("p").unwrap().load().await.unwrap_err();
        assert!(!error.is_retryable());
        let text = error.to_string();
        assert!(text.contains("is damaged") && text.contains("restore the file"), "{text}");
    }
}

/// P12: a row that belongs to another pipeline is damage too, not a place to begin.
#[tokio::test]
async fn a_row_copied_to_another_pipeline_is_refused() {
    let file = StoreFile::absent();
    saved(&file).await;
    file.sql("UPDATE tidegate_positions SET pipeline = 'q'");
    assert!(file.open("q").unwrap().load().await.unwrap_err().to_string().contains("checksum"));
    assert_eq!(load(&mut file.open("p").unwrap()).await, []);
}

#[tokio::test]
async fn another_layout_is_refused_and_left_alone() {
    let file = StoreFile::absent();
    saved(&file).await;
    file.sql("UPDATE tidegate_store SET version = 2");
    let error = file.open("p").unwrap_err();
    assert!(!error.is_retryable());
    assert!(error.to_string().contains("has layout 2"), "{error}");
    file.sql("UPDATE tidegate_store SET version = 1");
    assert_eq!(load(&mut file.open("p").unwrap()).await.len(), 2);
}

#[tokio::test]
async fn tables_that_are_not_ours_are_refused() {
    let changes = [
        "DROP TABLE tidegate_store",
        "DROP TABLE tidegate_positions",
        "DELETE FROM tidegate_store",
        "INSERT INTO tidegate_store VALUES (1)",
        "ALTER TABLE tidegate_store ADD COLUMN other TEXT",
    ];
    for change in changes {
        let file = StoreFile::absent();
        saved(&file).await;
        file.sql(change);
        let error = file.open("p").unwrap_err();
        assert!(
            !error.is_retryable() && error.to_string().contains("are damaged or not"),
            "{error}"
        );
    }
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let file = StoreFile::absent();
    fs::write(&file.path, "no database\n".repeat(100)).unwrap();
    let error = file.open("p").unwrap_err();
    assert!(!error.is_retryable());
    assert!(error.to_string().contains("is not a SQLite database"), "{error}");
    assert!(fs::read_to_string(&file.path).unwrap().starts_with("no database"));
}

#[test]
fn a_missing_folder_is_named() {
    let mut file = StoreFile::absent();
    file.path = file.path.with_file_name("out").join("state.db");
    let error = file.open("p").unwrap_err();
    assert!(format!("{error:?}").contains("out does not exist"), "{error:?}");
}
