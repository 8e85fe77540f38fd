//! Files that go on: appended to, rotated, truncated, new ones.
#![allow(clippy::unwrap_used)]

mod common;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::Duration;

use common::*;
use tidegate_core::*;
use tidegate_file::*;
use tokio::time::{Instant, timeout};

fn config(files: &Files, name: &str) -> FileSourceConfig {
    FileSourceConfig { follow: true, ..files.config(name, FileFormat::Lines) }
}

/// Runs the source for a while in which nothing may happen.
async fn quiet(driver: &mut Driver, seconds: u64) {
    let event = timeout(Duration::from_secs(seconds), driver.next()).await;
    assert!(event.is_err(), "{event:?}");
}

async fn until_finished(driver: &mut Driver, count: usize) {
    while driver.finished.len() < count {
        driver.next().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn appended_lines_come_once_they_are_whole() {
    let files = Files::new();
    let path = files.write("app.log", "1\n2\nthr");
    let mut driver = Driver::new(config(&files, "app.log"), None);
    driver.read_until(2).await;
    quiet(&mut driver, 30).await;
    assert_eq!(driver.source.end(&Partition::whole(path)), Some(Position::new(3)));
    files.append("app.log", "ee");
    quiet(&mut driver, 30).await;
    files.append("app.log", "!\n4\n");
    driver.read_until(4).await;
    assert_eq!(driver.payloads(), ["1", "2", "three!", "4"]);
    assert_eq!(driver.lines(), [1, 2, 3, 4]);
    assert!(!driver.source.capabilities().bounded);
}

#[tokio::test(start_paused = true)]
async fn a_line_is_seen_within_a_quarter_of_a_second() {
    let files = Files::new();
    files.write("app.log", "1\n");
    let mut driver = Driver::new(config(&files, "app.log"), None);
    driver.read_until(1).await;
    quiet(&mut driver, 60).await;
    files.append("app.log", "2\n");
    let start = Instant::now();
    driver.read_until(2).await;
    assert!(start.elapsed() <= Duration::from_millis(260), "{:?}", start.elapsed());
}

/// P38
#[tokio::test(start_paused = true)]
async fn an_idle_file_is_looked_at_a_few_times_a_second() {
    let files = Files::new();
    files.write("app.log", "1\n");
    let mut driver = Driver::new(config(&files, "app.log"), None);
    driver.read_until(1).await;
    let mut polls = 0;
    let mut next = pin!(driver.source.next(&driver.demand));
    let counted = poll_fn(|context| {
        polls += 1;
        next.as_mut().poll(context)
    });
    assert!(timeout(Duration::from_secs(60), counted).await.is_err());
    assert!(polls < 60 * 6, "{polls} polls in a minute");
}

/// P4
#[tokio::test(start_paused = true)]
async fn calls_that_are_dropped_all_the_time_lose_nothing() {
    let files = Files::new();
    files.write("app.log", "");
    let mut driver = Driver::new(config(&files, "app.log"), None);
    for round in 0..200u64 {
        files.append("app.log", format!("{round}\n"));
        for _ in 0..5 {
            while let Some(answer) = driver.poll_once() {
                answer.unwrap();
            }
            tokio::time::advance(Duration::from_millis(60)).await;
        }
    }
    let expected: Vec<_> = (0..200).map(|n: u64| n.to_string()).collect();
    assert_eq!(driver.payloads(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_rotated_file_is_read_to_its_end_beside_the_one_that_takes_its_place() {
    let files = Files::new();
    let path = files.write("app.log", "1\n2\n");
    let mut driver = Driver::new(config(&files, "app.log"), None);
    driver.read_until(2).await;
    files.append("app.log", "3\n");
    files.rename("app.log", "app.log.1");
    files.write("app.log", "a\n");
    driver.read_until(4).await;
    files.append("app.log.1", "4\nlast, without a break");
    driver.read_until(5).await;
    until_finished(&mut driver, 1).await;
    files.append("app.log", "b\n");
    driver.read_until(7).await;
    assert_eq!(driver.finished, [path.as_str()]);
    let of = |old: bool| -> Vec<_> {
        let seen = driver.seen.iter().filter(|(partition, ..)| (partition == &path) == old);
        seen.map(|(_, line, text)| (*line, text.as_str())).collect()
    };
    assert_eq!(of(true), [(1, "1"), (2, "2"), (3, "3"), (4, "4"), (5, "last, without a break")]);
    assert_eq!(of(false), [(1, "a"), (2, "b")]);
    let new = driver.seen.last().unwrap().0.clone();
    assert!(new.starts_with(&format!("{path}#")), "{new}");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_renamed_within_the_pattern_is_not_read_again() {
    let files = Files::new();
    files.write("app.log", "1\n");
    let mut driver = Driver::new(config(&files, "app.log*"), None);
    driver.read_until(1).await;
    files.rename("app.log", "app.log.1");
    files.write("app.log", "2\n");
    driver.read_until(2).await;
    quiet(&mut driver, 60).await;
    files.append("app.log.1", "3\n");
    driver.read_until(3).await;
    assert_eq!(driver.payloads(), ["1", "2", "3"]);
    assert_eq!(driver.finished, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_truncated_file_begins_anew_as_another_partition() {
    let files = Files::new();
    let path = files.write("app.log", "1\n2\n3\n");
    let mut driver = Driver::new(config(&files, "app.log"), None);
    driver.read_until(3).await;
    files.write("app.log", "a\n");
    driver.read_until(4).await;
    assert_eq!(driver.finished, [path.as_str()]);
    // Truncated, and longer than before when it is looked at again.
    files.write("app.log", "x\ny\nz\n");
    driver.read_until(7).await;
    let new: Vec<_> = driver.seen[3..].iter().map(|(_, l, text)| (*l, text.as_str())).collect();
    assert_eq!(new, [(1, "a"), (1, "x"), (2, "y"), (3, "z")]);
    let mut partitions: Vec<_> = driver.seen.iter().map(|(partition, ..)| partition).collect();
    partitions.dedup();
    assert_eq!(partitions.len(), 3, "{partitions:?}");
    assert_eq!(driver.finished.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn new_files_are_found_and_deleted_ones_finish() {
    let files = Files::new();
    let mut driver = Driver::new(config(&files, "*.log"), None);
    quiet(&mut driver, 5).await;
    let a = files.write("a.log", "1\n");
    driver.read_until(1).await;
    files.write("b.log", "2\n");
    driver.read_until(2).await;
    std::fs::remove_file(&a).unwrap();
    until_finished(&mut driver, 1).await;
    assert_eq!(driver.finished, [a.as_str()]);
    driver.release(&a).await;
    // It may well get the inode of the deleted one.
    files.write("a.log", "3\n");
    driver.read_until(3).await;
    assert_eq!(driver.payloads(), ["1", "2", "3"]);
    assert_ne!(driver.seen[2].0, a, "positions rise within a partition");
}

#[tokio::test(start_paused = true)]
async fn a_file_without_room_does_not_stop_the_others() {
    let files = Files::new();
    let a = files.write("a.log", "1\n");
    files.write("b.log", "2\n");
    let mut driver = Driver::new(config(&files, "*.log"), None);
    driver.demand.set_open(&Partition::whole(a.as_str()), false);
    driver.read_until(1).await;
    quiet(&mut driver, 10).await;
    assert_eq!(driver.payloads(), ["2"]);
    driver.demand.set_open(&Partition::whole(a.as_str()), true);
    driver.read_until(2).await;
    assert_eq!(driver.payloads(), ["2", "1"]);
}

#[tokio::test(start_paused = true)]
async fn files_that_are_always_busy_have_their_turns() {
    let files = Files::new();
    let lines = 1_000;
    for name in ["a.log", "b.log", "c.log"] {
        files.write(name, format!("{name}\n").repeat(lines));
    }
    let mut driver = Driver::new(config(&files, "*.log"), None);
    driver.demand = Demand::new(10, 1 << 20);
    driver.read_until(300).await;
    for name in ["a.log", "b.log", "c.log"] {
        let count = driver.payloads().iter().filter(|text| **text == name).count();
        assert_eq!(count, 100, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_goes_on_in_the_files_wherever_they_are_now() {
    let files = Files::new();
    let store = Memory::default();
    let path = files.write("app.log", "1\n2\n3\n");
    let mut first = Driver::new(config(&files, "app.log"), store.boxed());
    first.read_until(3).await;
    first.commit(&path, 3).await;
    drop(first);

    // Rotated while nobody reads.
    files.append("app.log", "4\n");
    files.rename("app.log", "app.log.1");
    files.write("app.log", "a\nb\n");
    let mut second = Driver::new(config(&files, "app.log"), store.boxed());
    second.read_until(4).await;
    let mut seen = second.seen.clone();
    seen.sort();
    let new = seen[3].0.clone();
    let expected = [(&path, 3, "3"), (&path, 4, "4"), (&new, 1, "a"), (&new, 2, "b")];
    assert_eq!(seen, expected.map(|(p, l, t)| (p.clone(), l, t.to_owned())));
    assert!(new.starts_with(&format!("{path}#")));
    second.commit(&path, 5).await;
    second.commit(&new, 2).await;
    until_finished(&mut second, 1).await;
    second.release(&path).await;
    drop(second);

    let mut third = Driver::new(config(&files, "app.log"), store.boxed());
    third.read_until(1).await;
    assert_eq!(third.seen, [(new, 2, "b".to_owned())]);
    quiet(&mut third, 30).await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_followed_is_refused() {
    let files = Files::new();
    files.write("app.log", "1\n");
    files.write("app.log.1.gz", gzip(b"0\n"));
    let mut driver = Driver::new(config(&files, "app.log*"), None);
    let error = loop {
        match driver.next().await {
            Ok(event) => assert!(!matches!(event, SourceEvent::Finished(_))),
            Err(error) => break error.to_string(),
        }
    };
    let compressed = files.text("app.log.1.gz");
    assert_eq!(
        error,
        format!(
            "{compressed} is compressed and can't be followed. Let `path` match uncompressed files \
             only, or leave `follow` out"
        )
    );
    let directory = FileSourceConfig { follow: true, ..FileSourceConfig::new(files.text("")) };
    let error = Driver::new(directory, None).next().await.unwrap_err().to_string();
    assert!(error.contains(" is a directory. Give a pattern"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_followed_csv_is_resumed_with_its_columns() {
    let files = Files::new();
    let store = Memory::default();
    let path = files.write("x.csv", "a,b\n1,2\n");
    let csv = FileSourceConfig { format: FileFormat::Csv, ..config(&files, "x.csv") };
    let mut first = Driver::new(csv.clone(), store.boxed());
    first.read_until(1).await;
    first.commit(&path, 3).await;
    drop(first);
    files.append("x.csv", "3,\"4\n5\"\n6,");
    let mut source = FileSource::new(csv, store.boxed()).unwrap();
    let demand = Demand::new(10, 1000);
    source.next(&demand).await.unwrap();
    let SourceEvent::Fetched(batch) = source.next(&demand).await.unwrap() else { panic!() };
    assert_eq!((batch.len(), batch.get(0).position()), (1, Position::new(3)));
    let row = decode::decode_csv(batch.get(0)).unwrap();
    assert_eq!(row, serde_json::json!({"a": "3", "b": "4\n5"}));
}
