//! What the sink leaves behind, and what it says when it can't.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use serde_json::{Value, json};
use tidegate_core::*;
use tidegate_file::*;

fn sink(config: FileSinkConfig) -> FileSink<Value> {
    FileSink::new(config).unwrap()
}

fn csv(path: String, columns: Option<&[&str]>) -> FileSinkConfig {
    let columns = columns.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
    FileSinkConfig {
        format: SinkFormat::Csv,
        csv: Some(CsvSinkOptions { delimiter: ',', columns }),
        ..FileSinkConfig::new(path)
    }
}

async fn rejections(sink: &mut FileSink<Value>, items: &[Value]) -> Vec<(usize, String)> {
    let report = sink.write(items).await.unwrap();
    assert_eq!(report.len(), items.len(), "an answer for every item");
    report.into_rejections().into_iter().map(|(index, error)| (index, error.to_string())).collect()
}

async fn open_error(config: FileSinkConfig) -> String {
    let error = sink(config).open().await.unwrap_err();
    assert!(!error.is_retryable());
    error.to_string()
}

fn content(files: &Files, name: &str) -> String {
    std::fs::read_to_string(files.path(name)).unwrap()
}

#[tokio::test]
async fn json_lines_are_appended() {
    let files = Files::new();
    files.write("out.jsonl", "0\n");
    for round in [json!({"b": 1, "a": "x\ny"}), json!([null])] {
        let mut sink = sink(FileSinkConfig::new(files.text("out.jsonl")));
        sink.open().await.unwrap();
        assert_eq!(rejections(&mut sink, &[round, json!(2)]).await, []);
        assert_eq!(rejections(&mut sink, &[]).await, []);
        sink.close().await.unwrap();
    }
    assert_eq!(content(&files, "out.jsonl"), "0\n{\"b\":1,\"a\":\"x\\ny\"}\n2\n[null]\n2\n");
}

/// An item that fails when it is written.
enum Item {
    Good(u8),
    Bad,
}

impl serde::Serialize for Item {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::{Error, SerializeSeq};
        match self {
            Self::Good(number) => serializer.serialize_u8(*number),
            Self::Bad => {
                let mut half = serializer.serialize_seq(None)?;
                half.serialize_element("half")?;
                Err(S::Error::custom("no more"))
            }
        }
    }
}

/// P43
#[tokio::test]
async fn an_item_that_cannot_be_written_leaves_no_trace_and_its_neighbours_are_written() {
    let files = Files::new();
    let mut sink = FileSink::<Item>::new(FileSinkConfig::new(files.text("out"))).unwrap();
    sink.open().await.unwrap();
    let report = sink.write(&[Item::Good(1), Item::Bad, Item::Good(2), Item::Bad]).await.unwrap();
    assert_eq!(report.len(), 4);
    let rejected = report.into_rejections();
    assert_eq!(rejected.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(rejected[0].1.to_string(), "it can't be written as JSON: no more");
    assert_eq!(content(&files, "out"), "1\n2\n");
}

#[tokio::test]
async fn csv_takes_its_columns_from_the_first_item_and_refuses_what_does_not_fit() {
    let files = Files::new();
    let mut first = sink(csv(files.text("out.csv"), None));
    first.open().await.unwrap();
    let items = [
        json!(7),
        json!({}),
        json!({"id": 1, "a,b": "x \"y\"\n", "c": null}),
        json!({"id": 2, "d": 3}),
        json!({"c": {"deep": [1, true]}, "id": ""}),
    ];
    assert_eq!(
        rejections(&mut first, &items).await,
        [
            (0, "a CSV row is made of an object, not a number".to_owned()),
            (1, "an object without keys has no columns".to_owned()),
            (3, "there is no column for its key `d`; the columns are id, a,b, c".to_owned()),
        ]
    );
    first.close().await.unwrap();
    // A second run goes on below, with the columns of the file.
    let mut second = sink(csv(files.text("out.csv"), None));
    second.open().await.unwrap();
    assert_eq!(rejections(&mut second, &[json!({"c": 0.5})]).await, []);
    assert_eq!(
        content(&files, "out.csv"),
        "id,\"a,b\",c\n1,\"x \"\"y\"\"\n\",\n\"\",,\"{\"\"deep\"\":[1,true]}\"\n,,0.5\n"
    );
}

#[tokio::test]
async fn csv_with_given_columns_has_a_header_even_without_rows() {
    let files = Files::new();
    let config = csv(files.text("out.csv"), Some(&["a", "b"]));
    for _ in 0..2 {
        let mut sink = sink(config.clone());
        sink.open().await.unwrap();
        sink.close().await.unwrap();
    }
    assert_eq!(content(&files, "out.csv"), "a,b\n");
    let error = open_error(csv(files.text("out.csv"), Some(&["b"]))).await;
    assert!(
        error.ends_with(
            "out.csv has the columns a, b, but `csv.columns` says b. Change the \
                             setting, or write to another file"
        ),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_sink_writes_the_source_reads() {
    let files = Files::new();
    let rows = [
        json!({"a": "", "b": null, "c": "x\r\ny"}),
        json!({"a": "\"", "b": "ü", "c": null}),
        json!({"a": null, "b": null, "c": null}),
    ];
    let mut sink = sink(csv(files.text("x.csv"), None));
    sink.open().await.unwrap();
    sink.write(&rows).await.unwrap();
    let mut source = FileSource::new(files.config("x.csv", FileFormat::Csv), None).unwrap();
    let demand = Demand::new(10, 1000);
    source.next(&demand).await.unwrap();
    let SourceEvent::Fetched(batch) = source.next(&demand).await.unwrap() else { panic!() };
    let back: Vec<_> = batch.iter().map(|row| decode::decode_csv(row).unwrap()).collect();
    assert_eq!(back, rows);
}

#[tokio::test]
async fn half_a_line_that_a_crash_left_is_cut_off() {
    let files = Files::new();
    let long = "x".repeat(200_000);
    for (before, after) in [
        ("1\n2\n{\"hal".to_owned(), "1\n2\n0\n".to_owned()),
        ("{\"hal".to_owned(), "0\n".to_owned()),
        (format!("1\n{long}"), "1\n0\n".to_owned()),
        (format!("{long}\n"), format!("{long}\n0\n")),
    ] {
        files.write("out", &before);
        let mut sink = sink(FileSinkConfig::new(files.text("out")));
        sink.open().await.unwrap();
        sink.write(&[json!(0)]).await.unwrap();
        assert!(content(&files, "out") == after);
    }
}

#[tokio::test]
async fn half_a_csv_row_is_cut_off_even_if_it_ends_with_a_line_break() {
    let files = Files::new();
    files.write("out.csv", "a,b\n1,\"x\ny\"\n2,\"half\n");
    let mut sink = sink(csv(files.text("out.csv"), None));
    sink.open().await.unwrap();
    sink.write(&[json!({"b": 3})]).await.unwrap();
    assert_eq!(content(&files, "out.csv"), "a,b\n1,\"x\ny\"\n,3\n");
}

#[tokio::test]
async fn a_full_disk_stops_with_what_to_do() {
    let mut sink = sink(FileSinkConfig::new("/dev/full"));
    sink.open().await.unwrap();
    let error = sink.write(&[json!(1)]).await.unwrap_err();
    assert!(!error.is_retryable());
    assert_eq!(
        error.to_string(),
        "cannot write /dev/full: No space left on device (os error 28). The disk is full: free \
         some space, then start the pipeline again"
    );
}

#[tokio::test]
async fn a_reader_that_has_gone_stops_the_sink() {
    use std::os::fd::AsRawFd;
    let (reader, writer) = std::io::pipe().unwrap();
    let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let mut sink = sink(FileSinkConfig::new(path.clone()));
    sink.open().await.unwrap();
    sink.write(&[json!(1)]).await.unwrap();
    drop(reader);
    let error = sink.write(&[json!(2)]).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot write to {path}: its reader has gone. Start the pipeline again with a reader \
             that reads to the end"
        )
    );
}

#[tokio::test]
async fn a_second_writer_is_refused() {
    let files = Files::new();
    let config = FileSinkConfig::new(files.text("out"));
    let mut first = sink(config.clone());
    first.open().await.unwrap();
    let error = open_error(config.clone()).await;
    assert!(
        error.ends_with(
            "out is being written by another process or another sink. Stop that \
                             one, or choose another `path`"
        ),
        "{error}"
    );
    first.close().await.unwrap();
    sink(config).open().await.unwrap();
}

#[tokio::test]
async fn an_output_that_cannot_be_opened_is_named_before_the_first_message() {
    let files = Files::new();
    let error = open_error(FileSinkConfig::new(files.text("no/out"))).await;
    let (path, directory) = (files.text("no/out"), files.text("no"));
    assert_eq!(
        error,
        format!(
            "cannot open {path}: the directory {directory} does not exist. Create it, or choose \
             another `path`"
        )
    );
    std::fs::create_dir(files.path("dir")).unwrap();
    let error = open_error(FileSinkConfig::new(files.text("dir"))).await;
    assert!(error.contains("dir is a directory. Give the file to write in it"), "{error}");
    // Nobody may create files there, not even root.
    let error = open_error(FileSinkConfig::new("/sys/out.jsonl")).await;
    assert!(error.starts_with("cannot open /sys/out.jsonl: "), "{error}");
    assert!(error.contains("Permission denied") || error.contains("Read-only"), "{error}");
}
