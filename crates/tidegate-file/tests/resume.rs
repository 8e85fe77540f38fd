//! What a restart does.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use tidegate_core::*;
use tidegate_file::*;

const RECORDS: u64 = 60;

/// Sixty CSV rows with blank lines and fields of several lines among them, and the line each
/// begins in.
fn csv() -> (String, Vec<u64>) {
    let (mut text, mut lines, mut line) = ("id,text\r\n".to_owned(), Vec::new(), 2);
    for id in 1..=RECORDS {
        if id % 7 == 0 {
            text.push('\n');
            line += 1;
        }
        lines.push(line);
        let row = match id % 3 {
            0 => format!("{id},\"a\nb, \"\"c\"\"\n{id}\"\n"),
            _ => format!("{id},text {id}\r\n"),
        };
        line += row.matches('\n').count() as u64;
        text += &row;
    }
    (text, lines)
}

fn json() -> (String, Vec<u64>) {
    let row =
        |id: u64| format!("{}{{\"id\":{id}}}\n", if id.is_multiple_of(5) { "\n" } else { "" });
    let text = (1..=RECORDS).map(row).collect();
    (text, (1..=RECORDS).map(|id| id + id / 5).collect())
}

/// Reads `read` records, settles `settled` of them, and is gone; another run reads the rest.
async fn stop_and_go_on(config: &FileSourceConfig, read: usize, settled: usize, lines: &[u64]) {
    let store = Memory::default();
    let mut first = Driver::new(config.clone(), store.boxed());
    assert!(first.source.capabilities().resumes);
    first.demand = Demand::new(7, 1 << 20);
    first.read_until(read).await;
    if settled > 0 {
        first.commit(&config.path, lines[settled - 1] + 1).await;
    }
    let whole = first.seen.clone();
    drop(first);

    let mut second = Driver::new(config.clone(), store.boxed());
    second.demand = Demand::new(11, 1 << 20);
    second.read_all().await.unwrap();
    assert_eq!(second.lines(), lines[settled..], "settled {settled} of {read}");
    let both = whole.len().min(RECORDS as usize);
    assert_eq!(second.seen[..both - settled], whole[settled..], "and the same content");
}

/// P8
#[tokio::test(start_paused = true)]
async fn a_restart_goes_on_exactly_behind_what_was_committed() {
    let files = Files::new();
    for (format, (text, lines)) in [(FileFormat::Csv, csv()), (FileFormat::Json, json())] {
        let text = text.as_bytes();
        let packed = [gzip(&text[..100]), gzip(&text[100..])].concat();
        for (name, bytes) in [("x", text.to_vec()), ("x.gz", packed), ("x.zst", zstd(text))] {
            files.write(name, bytes);
            let config = files.config(name, format);
            for (read, settled) in
                [(1, 0), (7, 3), (7, 7), (30, 1), (30, 14), (30, 29), (60, 42), (60, 59), (60, 60)]
            {
                stop_and_go_on(&config, read, settled, &lines).await;
            }
        }
    }
}

/// P8
#[tokio::test(start_paused = true)]
async fn a_large_file_is_resumed_anywhere_in_it() {
    let files = Files::new();
    let lines = 120_000;
    let text: String = (1..=lines).map(|n| format!("line {n}\n")).collect();
    files.write("x", &text);
    files.write("x.gz", gzip(text.as_bytes()));
    for name in ["x", "x.gz"] {
        let store = Memory::default();
        let mut expected = 1;
        for settled in [1, 300, 45_000, 45_001, 119_999] {
            let config = files.config(name, FileFormat::Lines);
            let mut driver = Driver::new(config.clone(), store.boxed());
            driver.read_until((settled - expected + 1) as usize).await;
            assert_eq!(driver.seen[0].1, expected);
            assert_eq!(driver.seen[0].2, format!("line {expected}"));
            driver.commit(&config.path, settled + 1).await;
            expected = settled + 1;
        }
        let mut driver = Driver::new(files.config(name, FileFormat::Lines), store.boxed());
        driver.read_all().await.unwrap();
        assert_eq!(driver.lines(), [lines]);
    }
}

#[tokio::test(start_paused = true)]
async fn files_that_were_settled_as_a_whole_are_not_read_again() {
    let files = Files::new();
    let a = files.write("a.jsonl", "1\n2\n\n");
    let b = files.write("b.jsonl.gz", gzip(b"3\n4"));
    let c = files.write("c.jsonl", "");
    let store = Memory::default();
    let config = files.config("*.jsonl*", FileFormat::Json);
    let mut first = Driver::new(config.clone(), store.boxed());
    first.read_all().await.unwrap();
    first.commit(&a, 3).await;
    first.commit(&b, 3).await;
    for path in [&a, &b, &c] {
        first.release(path).await;
    }
    assert_eq!(store.frontiers(), [(a, 3), (b, 3), (c, 1)]);

    let mut second = Driver::new(config.clone(), store.boxed());
    second.read_all().await.unwrap();
    assert_eq!((second.seen.len(), second.finished.len()), (0, 0), "they aren't even opened");

    let d = files.write("d.jsonl", "5\n");
    files.append("a.jsonl", "6\n");
    let mut third = Driver::new(config, store.boxed());
    third.read_all().await.unwrap();
    assert_eq!(third.payloads(), ["6", "5"]);
    assert_eq!(third.lines(), [4, 1]);
    assert_eq!(third.finished, [files.text("a.jsonl"), d]);
}

#[tokio::test(start_paused = true)]
async fn without_the_settlement_of_its_last_record_a_file_is_not_done() {
    let files = Files::new();
    let path = files.write("x.jsonl", "1\n2\n3\n");
    let store = Memory::default();
    let config = files.config("x.jsonl", FileFormat::Json);
    let mut first = Driver::new(config.clone(), store.boxed());
    first.read_all().await.unwrap();
    first.commit(&path, 3).await;
    first.release(&path).await;
    let mut second = Driver::new(config, store.boxed());
    second.read_all().await.unwrap();
    assert_eq!(second.payloads(), ["3"]);
}

#[tokio::test(start_paused = true)]
async fn a_last_line_that_was_incomplete_comes_again_when_it_is_whole() {
    let files = Files::new();
    let path = files.write("x.jsonl", "1\n2");
    let store = Memory::default();
    let config = files.config("x.jsonl", FileFormat::Json);
    let mut first = Driver::new(config.clone(), store.boxed());
    first.read_all().await.unwrap();
    first.commit(&path, 3).await;
    files.append("x.jsonl", "2\n3\n");
    let mut second = Driver::new(config.clone(), store.boxed());
    second.read_all().await.unwrap();
    assert_eq!(second.payloads(), ["22", "3"]);
    assert_eq!(second.lines(), [2, 3]);
    second.commit(&path, 4).await;
    let mut third = Driver::new(config, store.boxed());
    third.read_all().await.unwrap();
    assert_eq!(third.seen, []);
}

#[tokio::test(start_paused = true)]
async fn another_file_under_the_same_name_is_read_from_its_beginning() {
    let files = Files::new();
    let path = files.write("x.jsonl", "1\n2\n3\n");
    let config = files.config("x.jsonl", FileFormat::Json);
    let run = async |store: &Memory| {
        let mut driver = Driver::new(config.clone(), store.boxed());
        driver.read_all().await.unwrap();
        if let Some((_, line, _)) = driver.seen.last().cloned() {
            driver.commit(&path, line + 1).await;
        }
        driver.payloads().join(" ")
    };
    let store = Memory::default();
    assert_eq!(run(&store).await, "1 2 3");
    assert_eq!(run(&store).await, "");
    // Written anew in place: same inode, longer, same beginning.
    files.write("x.jsonl", "1\n2\n4\n5\n");
    assert_eq!(run(&store).await, "1 2 4 5");
    // Shorter.
    files.write("x.jsonl", "1\n2\n");
    assert_eq!(run(&store).await, "1 2");
    // The same content in another file: repeated rather than lost.
    files.write("y", "1\n2\n");
    files.rename("y", "x.jsonl");
    assert_eq!(run(&store).await, "1 2");
    assert_eq!(run(&store).await, "");
}

/// P12
#[tokio::test(start_paused = true)]
async fn a_note_that_is_damaged_or_not_ours_stops_with_what_to_do() {
    let files = Files::new();
    let path = files.write("x.jsonl", "1\n2\n");
    let config = files.config("x.jsonl", FileFormat::Json);
    let store = Memory::default();
    let mut first = Driver::new(config.clone(), store.boxed());
    first.read_all().await.unwrap();
    first.commit(&path, 3).await;
    let good = store.get(&path).unwrap();
    assert!(good.note.len() < 4096);
    for (note, what) in [
        (good.note[..20].to_vec(), "it is damaged (wrong length)"),
        (b"17".to_vec(), "it was not saved by a file source"),
    ] {
        store.put(SavedPosition { note, ..good.clone() });
        let error = Driver::new(config.clone(), store.boxed()).read_all().await.unwrap_err();
        assert!(!error.is_retryable());
        assert_eq!(
            error.to_string(),
            format!(
                "the saved position of {path} can't be used: {what}. Give the pipeline a store of \
                 its own, or restore this one; without the saved position the file is read again \
                 from its beginning"
            )
        );
    }
}

/// P22
#[tokio::test(start_paused = true)]
async fn commits_of_another_generation_or_a_released_partition_are_refused() {
    let files = Files::new();
    let path = files.write("x.jsonl", "1\n2\n");
    let store = Memory::default();
    let mut driver = Driver::new(files.config("x.jsonl", FileFormat::Json), store.boxed());
    driver.read_all().await.unwrap();
    let partition = Partition::whole(path.as_str());
    let frontier = |generation| PartitionFrontier {
        partition: partition.clone(),
        generation,
        position: Position::new(3),
    };
    let current = driver.generations[&partition];
    let other = frontier(Generation::new(current.get() + 1));
    let report = driver.source.commit(Commit::Through(&[other])).await.unwrap();
    assert_eq!(report.refused, std::slice::from_ref(&partition));
    driver.source.release(std::slice::from_ref(&partition)).await.unwrap();
    let report = driver.source.commit(Commit::Through(&[frontier(current)])).await.unwrap();
    assert_eq!(report.refused, std::slice::from_ref(&partition));
    assert_eq!(store.frontiers(), []);
}

struct FailingStore;

impl PositionStore for FailingStore {
    async fn load(&mut self) -> Result<Vec<SavedPosition>, StoreError> {
        Ok(Vec::new())
    }

    async fn save(&mut self, _: &[SavedPosition]) -> Result<(), StoreError> {
        Err(StoreError::retry("the database is locked"))
    }
}

/// P7
#[tokio::test(start_paused = true)]
async fn a_save_that_fails_is_the_commits_failure_and_can_be_retried() {
    let files = Files::new();
    let path = files.write("x.jsonl", "1\n2\n");
    let store = Some(BoxPositionStore::new(FailingStore));
    let mut driver = Driver::new(files.config("x.jsonl", FileFormat::Json), store);
    driver.read_all().await.unwrap();
    let partition = Partition::whole(path);
    let generation = driver.generations[&partition];
    let frontier = PartitionFrontier { partition, generation, position: Position::new(3) };
    let error = driver.source.commit(Commit::Through(&[frontier])).await.unwrap_err();
    assert!(error.is_retryable());
    assert_eq!(
        error.to_string(),
        "cannot save how far the files are settled: the database is locked"
    );
}
