//! Bad input gets a clear error that names file and line, and loses nothing before it.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use tidegate_core::*;
use tidegate_file::*;

/// What is read before the error, and the error, without the directory's name.
async fn failure(files: &Files, config: FileSourceConfig) -> (Vec<String>, String) {
    let mut driver = Driver::new(config, None);
    let error = driver.read_all().await.unwrap_err();
    assert!(!error.is_retryable());
    let again = driver.next().await.unwrap_err();
    assert_eq!(again.to_string(), error.to_string(), "it does not turn into an end");
    let payloads = driver.payloads().into_iter().map(str::to_owned).collect();
    (
        payloads,
        error.to_string().replace(&format!("{}/", files.text("")[..].trim_end_matches('/')), ""),
    )
}

fn lines(count: usize) -> String {
    (1..=count).map(|n| format!("{{\"line\":{n},\"text\":\"{}\"}}\n", n * 7919)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_missing_file_is_named() {
    let files = Files::new();
    let (_, error) = failure(&files, files.config("x.jsonl", FileFormat::Json)).await;
    assert_eq!(
        error,
        "cannot open x.jsonl: No such file or directory (os error 2). Check `path`, and the \
         directory the pipeline was started in"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pattern_that_matches_nothing_is_named() {
    let files = Files::new();
    let (_, error) = failure(&files, files.config("*.jsonl", FileFormat::Json)).await;
    assert!(
        error.starts_with("no file matches *.jsonl. Check `path`, and the directory"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_directory_is_refused_with_a_pattern_that_would_do() {
    let files = Files::new();
    std::fs::create_dir(files.path("data")).unwrap();
    let (_, error) = failure(&files, files.config("data/", FileFormat::Json)).await;
    assert_eq!(
        error,
        "data is a directory. Give a pattern for the files in it, for example data/*.jsonl"
    );
}

#[tokio::test(start_paused = true)]
async fn a_file_without_permission_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let files = Files::new();
    let path = files.write("x.jsonl", "1\n");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::File::open(&path).is_ok() {
        // The text is also tested where no such user is needed, in `error.rs`.
        eprintln!("SKIPPED: this user may read everything");
        return;
    }
    let (_, error) = failure(&files, files.config("x.jsonl", FileFormat::Json)).await;
    assert!(
        error.starts_with("cannot open x.jsonl: Permission denied (os error 13). Give"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_file_that_goes_before_it_is_opened_is_named() {
    let files = Files::new();
    files.write("a.jsonl", "1\n");
    let gone = files.write("b.jsonl", "2\n");
    let mut driver = Driver::new(files.config("*.jsonl", FileFormat::Json), None);
    driver.read_until(1).await;
    std::fs::remove_file(&gone).unwrap();
    let error = driver.read_all().await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot open {gone}: No such file")), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_empty_file_has_no_records() {
    let files = Files::new();
    for format in [FileFormat::Json, FileFormat::Csv, FileFormat::Lines] {
        files.write("x", "");
        let mut driver = Driver::new(files.config("x", format), None);
        driver.read_all().await.unwrap();
        assert_eq!((driver.seen.len(), driver.finished.len()), (0, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_cut_off_file_everything_before_the_cut_is_delivered() {
    let files = Files::new();
    let text = lines(20_000);
    for (name, bytes, data) in [
        ("x.jsonl.gz", gzip(text.as_bytes()), "gzip"),
        ("x.jsonl.zst", zstd(text.as_bytes()), "Zstandard"),
    ] {
        for cut in [1, 8, bytes.len() / 2] {
            files.write(name, &bytes[..bytes.len() - cut]);
            let (seen, error) = failure(&files, files.config(name, FileFormat::Json)).await;
            let next = seen.len() + 1;
            // The last bytes are the checksum: all lines are there.
            let least = if cut == 1 { 20_001 } else { 5_000 };
            assert!(next >= least, "{name} without its last {cut} bytes: {next}");
            assert_eq!(seen.join("\n") + "\n", lines(seen.len()));
            assert_eq!(
                error,
                format!(
                    "{name}:{next}: the {data} data ends too early: the file is cut off, or has a \
                     rest behind it. The lines before line {next} are not concerned. Get the file \
                     again or repair it, then start the pipeline again"
                )
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn damaged_data_is_not_taken_for_the_end() {
    let files = Files::new();
    let text = lines(20_000);
    for (name, mut bytes) in
        [("x.jsonl.gz", gzip(text.as_bytes())), ("x.jsonl.zst", zstd(text.as_bytes()))]
    {
        let middle = bytes.len() / 2;
        bytes[middle..middle + 64].fill(0x55);
        files.write(name, &bytes);
        let (seen, error) = failure(&files, files.config(name, FileFormat::Json)).await;
        assert!(seen.len() < 20_000);
        let next = seen.len() + 1;
        assert!(error.starts_with(&format!("{name}:{next}: the ")), "{error}");
        assert!(error.contains(" data is damaged ("), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_not_what_its_name_says_is_refused() {
    let files = Files::new();
    files.write("x.gz", "{}\n");
    let (_, error) = failure(&files, files.config("x.gz", FileFormat::Json)).await;
    assert_eq!(
        error,
        "x.gz is named like a gzip file and isn't one. Get the file again, or set `compression: \
         none` if it is plain text"
    );
    let plain = FileSourceConfig {
        compression: Compression::None,
        ..files.config("x.gz", FileFormat::Json)
    };
    let mut driver = Driver::new(plain, None);
    driver.read_all().await.unwrap();
    assert_eq!(driver.payloads(), ["{}"]);
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_too_long_stops_behind_the_lines_before_it() {
    let files = Files::new();
    let mut text = b"1\n2\n".to_vec();
    text.resize(100 << 20, b'x');
    files.write("x.jsonl", &text);
    files.write("y.jsonl.gz", gzip(&text));
    for name in ["x.jsonl", "y.jsonl.gz"] {
        let (seen, error) = failure(&files, files.config(name, FileFormat::Json)).await;
        assert_eq!(seen, ["1", "2"]);
        assert_eq!(
            error,
            format!(
                "{name}:3: the line is longer than `max_line` (16777216 bytes). Raise `max_line` \
                 if such lines are right, or repair the file"
            )
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_quote_that_is_never_closed_is_named_with_the_line_of_its_row() {
    let files = Files::new();
    files.write("x.csv", "a,b\n1,2\n3,\"4\n5,6\n");
    let (seen, error) = failure(&files, files.config("x.csv", FileFormat::Csv)).await;
    assert_eq!(seen, ["1,2"]);
    assert!(error.starts_with("x.csv:3: the row has a quote that is never closed."), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_header_row_that_names_a_column_twice_is_refused() {
    let files = Files::new();
    files.write("x.csv", "a,b,a\n1,2,3\n");
    let (_, error) = failure(&files, files.config("x.csv", FileFormat::Csv)).await;
    assert!(error.starts_with("x.csv:1: the column `a` is there twice"), "{error}");
    files.write("x.csv", b"a,\xFF\n1,2\n");
    let (_, error) = failure(&files, files.config("x.csv", FileFormat::Csv)).await;
    assert!(error.starts_with("x.csv:1: the header row is not valid UTF-8"), "{error}");
}

/// P43
#[tokio::test(start_paused = true)]
async fn invalid_utf8_fails_the_decoding_of_its_record_only() {
    let files = Files::new();
    files.write("x.jsonl", b"1\n\"\xFF\"\n3\n");
    let mut source = FileSource::new(files.config("x.jsonl", FileFormat::Json), None).unwrap();
    let demand = Demand::new(10, 1000);
    source.next(&demand).await.unwrap();
    let SourceEvent::Fetched(batch) = source.next(&demand).await.unwrap() else { panic!() };
    let decoded: Vec<_> = batch.iter().map(decode::decode_json).collect();
    assert_eq!((&decoded[0], &decoded[2]), (&Ok(1.into()), &Ok(3.into())));
    let error = decoded[1].clone().unwrap_err().to_string();
    assert!(error.ends_with("x.jsonl:2:2: invalid UTF-8: the byte 0xFF"), "{error}");
}

#[tokio::test]
async fn a_device_without_line_breaks_stops_at_the_limit() {
    let files = Files::new();
    let config = FileSourceConfig { max_line: 1 << 20, ..FileSourceConfig::new("/dev/zero") };
    let (seen, error) = failure(&files, config).await;
    assert_eq!(seen, Vec::<String>::new());
    assert!(
        error.starts_with("/dev/zero:1: the line is longer than `max_line` (1048576"),
        "{error}"
    );
}
