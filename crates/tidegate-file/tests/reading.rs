//! What is read, and as what.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use serde_json::json;
use tidegate_core::*;
use tidegate_file::*;

#[tokio::test(start_paused = true)]
async fn lines_come_without_their_breaks_and_are_numbered() {
    let files = Files::new();
    files.write("x.txt", b"\xEF\xBB\xBFone\r\n\ntwo\nlast");
    let mut lines = Driver::new(files.config("x.txt", FileFormat::Lines), None);
    lines.read_all().await.unwrap();
    assert_eq!(lines.payloads(), ["one", "", "two", "last"]);
    assert_eq!(lines.lines(), [1, 2, 3, 4]);

    let mut json = Driver::new(files.config("x.txt", FileFormat::Json), None);
    json.read_all().await.unwrap();
    assert_eq!(json.payloads(), ["one", "two", "last"], "blank lines are no records");
    assert_eq!(json.lines(), [1, 3, 4]);
    assert_eq!(json.source.end(&Partition::whole(files.text("x.txt"))), Some(Position::new(5)));
}

#[tokio::test(start_paused = true)]
async fn csv_rows_are_decoded_by_the_header_of_their_file() {
    let files = Files::new();
    let path = files.write("x.csv", "id;note\r\n1;\"a\r\nb; \"\"c\"\"\"\r\n\r\n2;\r\n");
    let config = FileSourceConfig {
        csv: Some(CsvOptions { delimiter: ';', header: true }),
        ..files.config("x.csv", FileFormat::Csv)
    };
    let mut source = FileSource::new(config, None).unwrap();
    let demand = Demand::new(100, 1 << 20);
    assert!(matches!(source.next(&demand).await.unwrap(), SourceEvent::Assigned(_)));
    let SourceEvent::Fetched(batch) = source.next(&demand).await.unwrap() else { panic!() };
    let rows: Vec<_> =
        batch.iter().map(|r| (r.position().get(), decode::decode_csv(r).unwrap())).collect();
    assert_eq!(
        rows,
        [(2, json!({"id": "1", "note": "a\r\nb; \"c\""})), (5, json!({"id": "2", "note": null}))]
    );
    assert_eq!(batch.get(0).header("file"), Some(path.as_bytes()));
    assert_eq!(batch.get(0).header("csv-columns"), Some(&br#"["id","note"]"#[..]));
}

#[tokio::test(start_paused = true)]
async fn files_are_read_in_the_order_of_their_paths_whatever_their_compression() {
    let files = Files::new();
    files.write("c.jsonl", "5\n6");
    files.write("a.jsonl.gz", [gzip(b"1\n2"), gzip(b"\n3\n")].concat());
    files.write("b.jsonl.zst", [zstd(b"4"), zstd(b"\n")].concat());
    files.write("b2.jsonl", b"");
    files.write("b3.jsonl.gz", b"");
    files.write(".hidden.jsonl", "no\n");
    std::fs::create_dir(files.path("d.jsonl")).unwrap();
    let mut driver = Driver::new(files.config("*.jsonl*", FileFormat::Json), None);
    driver.read_all().await.unwrap();
    assert_eq!(driver.payloads(), ["1", "2", "3", "4", "5", "6"]);
    let order = ["a.jsonl.gz", "b.jsonl.zst", "b2.jsonl", "b3.jsonl.gz", "c.jsonl"];
    assert_eq!(driver.finished, order.map(|name| files.text(name)));
    let capabilities = driver.source.capabilities();
    assert_eq!((capabilities.bounded, capabilities.resumes), (true, false));
}

#[tokio::test(start_paused = true)]
async fn a_path_that_exists_is_taken_as_it_is() {
    let files = Files::new();
    files.write("a[1]*.txt", "right\n");
    files.write("a1.txt", "wrong\n");
    let mut driver = Driver::new(files.config("a[1]*.txt", FileFormat::Lines), None);
    driver.read_all().await.unwrap();
    assert_eq!(driver.payloads(), ["right"]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_no_larger_than_the_demand() {
    let files = Files::new();
    files.write("x.txt", "1234567890\n".repeat(10) + &"x".repeat(50) + "\n");
    let mut driver = Driver::new(files.config("x.txt", FileFormat::Lines), None);
    let mut sizes = Vec::new();
    for (records, bytes) in [(3, 1000), (100, 25), (100, 9), (1, 1), (4, 40), (100, 49)] {
        driver.demand = Demand::new(records, bytes);
        loop {
            match driver.next().await.unwrap() {
                SourceEvent::Fetched(batch) => break sizes.push(batch.len()),
                event => assert!(matches!(event, SourceEvent::Assigned(_))),
            }
        }
    }
    assert_eq!(sizes, [3, 2, 1, 1, 3, 1], "one record may be larger than the room for bytes");
    driver.read_all().await.unwrap();
    assert_eq!(driver.lines(), Vec::from_iter(1..=11));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_read_without_demand_but_the_end_is_told() {
    let files = Files::new();
    let path = files.write("x.txt", "1\n2\n");
    let mut driver = Driver::new(files.config("x.txt", FileFormat::Lines), None);
    driver.next().await.unwrap();
    driver.demand = Demand::new(0, 0);
    assert!(driver.poll_once().is_none());
    driver.demand = Demand::new(10, 100).without([Partition::whole(path.as_str())]);
    assert!(driver.poll_once().is_none());
    driver.demand = Demand::new(10, 100);
    driver.read_until(2).await;
    driver.demand = Demand::new(0, 0);
    driver.read_all().await.unwrap();
    assert_eq!(driver.finished, [path]);
}

/// P4
#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_loses_nothing() {
    let files = Files::new();
    // Long stretches without a record, so that a call is left half-way.
    let blank = "\n".repeat(9 << 20);
    files.write("a.jsonl.gz", gzip(format!("1\n{blank}2\n{blank}3").as_bytes()));
    files.write("b.jsonl", format!("{blank}4\n5\n"));
    let mut driver = Driver::new(files.config("*.jsonl*", FileFormat::Json), None);
    driver.demand = Demand::new(1, 1 << 20);
    let mut dropped = 0;
    loop {
        match driver.poll_once() {
            Some(Ok(SourceEvent::Ended)) => break,
            Some(answer) => drop(answer.unwrap()),
            None => dropped += 1,
        }
    }
    assert!(dropped >= 6, "{dropped}");
    assert_eq!(driver.payloads(), ["1", "2", "3", "4", "5"]);
}

#[tokio::test]
async fn a_pipe_is_read_to_its_end_and_a_dropped_call_loses_nothing() {
    let files = Files::new();
    let path = files.text("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let writer = {
        let path = path.clone();
        std::thread::spawn(move || {
            let lines: String = (1..=50_000).map(|n| format!("{n}\n")).collect();
            std::fs::write(path, zstd(lines.as_bytes())).unwrap();
        })
    };
    let store = Memory::default();
    let mut driver = Driver::new(files.config("pipe", FileFormat::Json), store.boxed());
    loop {
        let _ = driver.poll_once();
        if let SourceEvent::Ended = driver.next().await.unwrap() {
            break;
        }
    }
    writer.join().unwrap();
    assert_eq!(driver.lines(), Vec::from_iter(1..=50_000));
    driver.commit(&path, 50_001).await;
    driver.release(&path).await;
    assert_eq!(store.frontiers(), [], "a pipe's positions mean nothing later");
}

const CHILD: &str = "TIDEGATE_TEST_READS_STANDARD_INPUT";

/// The test runs itself again as a process whose standard input it controls.
#[tokio::test]
async fn standard_input_is_read_as_it_comes_and_an_open_one_does_not_keep_the_process() {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};
    if std::env::var_os(CHILD).is_some() {
        let config = FileSourceConfig { format: FileFormat::Lines, ..FileSourceConfig::new("-") };
        let mut driver = Driver::new(config, None);
        driver.read_until(2).await;
        println!("\nseen {:?}", driver.seen);
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("standard_input_is_read_as_it_comes_and_an_open_one_does_not_keep_the_process")
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"(\nb\r\n").unwrap();
    let output = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let seen: Vec<String> = output.filter(|line| line.starts_with("seen")).collect();
    assert_eq!(seen, [r#"seen [("stdin", 1, "("), ("stdin", 2, "b")]"#]);
    assert!(child.wait().unwrap().success());
    drop(stdin);
}
