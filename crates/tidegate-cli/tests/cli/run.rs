//! `tidegate run`: whole pipelines, from a file to their results.

use crate::common::{Folder, exists};

const RECORDS: &str = r#"{"id":"a","delay":5,"gone":true}
{"id":"b","delay":null,"gone":false}
{"id":"c","delay":null,"gone":true}
{"id":"a","delay":7,"gone":true}
not json
{"id":"d","delay":30,"gone":true}
"#;

const PIPELINE: &str = r#"
name: delays
vars: { late: 10 }
source: { file: { path: in.jsonl } }
steps:
  - jq: 'select(.gone)'
  - name: complete
    jq: 'if .delay == null then error("\(.id) has no delay") else . end'
  - jq: '{id, delay, is_late: (.delay > $late)}'
sink: { sqlite: { path: out.db, table: delays, key: [id], create: true } }
dead_letters: { file: { path: dead.jsonl } }
store: { sqlite: { path: state.db } }
"#;

/// P2, P10, P46: filtered and diverted records are committed like written ones, at the end too.
#[test]
fn a_bounded_pipeline_ends_when_everything_is_committed() {
    let folder = Folder::new();
    folder.write("in.jsonl", RECORDS);
    folder.write("p.yaml", PIPELINE);

    let first = folder.run_pipeline("p.yaml");

    assert_eq!(first.stderr, "");
    assert_eq!(first.summary(), "read=6 written=3 filtered=1 diverted=2 failed=0 committed=6");
    let rows = folder.query("out.db", "SELECT id, delay, is_late FROM delays ORDER BY id");
    assert_eq!(rows, ["a|7|0", "d|30|1"]);
    let dead = folder.lines("dead.jsonl");
    assert_eq!(dead.len(), 2);
    for (letter, parts) in dead.iter().zip([
        [r#""step":"complete""#, r#""error":"jq: c has no delay""#, r#""position":3"#],
        [
            r#""step":"decode json""#,
            r#"in.jsonl:5:1: not JSON: expected value"#,
            r#""text":"not json""#,
        ],
    ]) {
        parts.iter().for_each(|part| assert!(letter.contains(part), "{letter}\n{part}"));
    }

    let second = folder.run_pipeline("p.yaml");
    assert_eq!(second.summary(), "read=0 written=0 filtered=0 diverted=0 failed=0 committed=0");

    folder.append("in.jsonl", "{\"id\":\"e\",\"delay\":1,\"gone\":true}\n");
    assert_eq!(folder.run_pipeline("p.yaml").count("written"), 1);
}

/// P41, P48: without dead letters a failure stops the pipeline, which says where, and goes on
/// there once the cause is gone.
#[test]
fn a_fatal_error_names_the_step_and_the_record_and_loses_nothing() {
    let folder = Folder::new();
    folder.write("in.jsonl", "{\"a\":1}\n{\"a\":\"x\"}\n{\"a\":3}\n");
    let pipeline = "name: sums\nsource: { file: { path: in.jsonl } }\n\
                    steps: [ { jq: '.a + 1' } ]\nsink: { file: { path: out.jsonl } }\n\
                    store: { sqlite: { path: state.db } }\n";
    folder.write("p.yaml", pipeline);

    let failed = folder.run(&["run", "p.yaml"]);

    assert_eq!(failed.code, Some(1));
    assert_eq!(
        failed.stderr,
        "error: pipeline sums: step steps[0].jq (line 3) failed at in.jsonl@2, attempt 1: jq: cannot \
         calculate \"x\" + 1\n"
    );
    assert!(failed.count("committed") <= 1, "{failed:#?}");

    folder.write("p.yaml", pipeline.replace(".a + 1", "(.a | tonumber? // 0) + 1"));
    folder.run_pipeline("p.yaml");
    let mut lines = folder.lines("out.jsonl");
    lines.sort();
    lines.dedup();
    assert_eq!(lines, ["1", "2", "4"], "some may be there twice, none is missing");
}

#[test]
fn standard_output_has_the_results_and_then_standard_error_the_summary() {
    let folder = Folder::new();
    folder.write("in.csv", "id,name\n1,\"x, y\"\n2,\n");
    folder.write(
        "p.yaml",
        "name: n\nsource: { file: { path: in.csv, format: csv } }\nsink: { stdout: {} }\n",
    );
    let ended = folder.run_pipeline("p.yaml");
    assert_eq!(ended.stdout, "{\"id\":\"1\",\"name\":\"x, y\"}\n{\"id\":\"2\",\"name\":null}\n");
    assert!(ended.stderr.starts_with("read=2 written=2 "), "{ended:#?}");

    let piped = folder.run(&["run", "p.yaml", "--json"]);
    let summary: serde_json::Value = serde_json::from_str(&piped.stderr).unwrap();
    assert_eq!(summary["read"], 2);
    assert_eq!(summary["pipeline"], "n");
    assert!(summary["elapsed_seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn numbers_keep_their_digits_and_objects_the_order_of_their_keys() {
    let folder = Folder::new();
    let line = r#"{"z":0.10,"a":123456789012345678901234567890,"m":{"b":1e3,"a":[]},"t":"é\n"}"#;
    folder.write("in.jsonl", format!("{line}\n"));
    folder.write(
        "p.yaml",
        "name: n\nsource: { file: { path: in.jsonl } }\nsinks:\n  - file: { path: out.jsonl }\n  \
         - local: { path: q.db, topic: t }\n",
    );
    folder.run_pipeline("p.yaml");
    assert_eq!(folder.read("out.jsonl"), format!("{line}\n"));
    folder.write(
        "q.yaml",
        "name: m\nsource: { local: { path: q.db, topic: t, group: g, until_end: true } }\n\
         sink: { stdout: {} }\n",
    );
    assert_eq!(folder.run_pipeline("q.yaml").stdout, format!("{line}\n"));
}

#[test]
fn every_kind_of_step_does_what_it_says() {
    let folder = Folder::new();
    let numbers: String = (1..=10).map(|n| format!("{n}\n")).collect();
    folder.write("in.jsonl", numbers);
    folder.write(
        "p.yaml",
        r#"
name: steps
source: { file: { path: in.jsonl } }
steps:
  - jq: '., -.'
  - batch: { count: 4, bytes: 1KiB, every: 1s }
  - jq: 'map(select(. > 0))'
  - unbatch
  - throttle: { rate: 1000, per: 1s }
  - branch:
      - when: '. % 3 == 0'
        steps:
          - tee:
              - sink: { file: { path: threes.jsonl } }
              - steps: [ { jq: '. * 10' } ]
                sinks: [ { file: { path: tens.jsonl } }, { null: {} } ]
      - when: '. == 5'
        sink: { file: { path: five.jsonl } }
      - otherwise: filter
"#,
    );
    let ended = folder.run_pipeline("p.yaml");
    assert_eq!(ended.count("read"), 10);
    assert_eq!(ended.count("committed"), 10);
    assert_eq!(folder.lines("threes.jsonl"), ["3", "6", "9"]);
    assert_eq!(folder.lines("tens.jsonl"), ["30", "60", "90"]);
    assert_eq!(folder.lines("five.jsonl"), ["5"]);
}

#[test]
fn a_record_that_a_predicate_fails_on_is_that_records_failure() {
    let folder = Folder::new();
    folder.write("in.jsonl", "1\n\"x\"\n[[2]]\n3\n");
    folder.write(
        "p.yaml",
        "name: n\nsource: { file: { path: in.jsonl } }\n\
         steps:\n  - branch:\n    - { when: '(. - 1) == 0', sink: { file: { path: ones } } }\n    \
         - otherwise: { steps: [ unbatch ], sink: { file: { path: rest } } }\n\
         dead_letters: { file: { path: dead } }\n",
    );
    let ended = folder.run_pipeline("p.yaml");
    assert_eq!(ended.summary(), "read=4 written=1 filtered=0 diverted=3 failed=0 committed=4");
    let dead = folder.lines("dead").join("\n");
    assert!(dead.contains(r#""step":"steps[0].branch""#), "{dead}");
    assert!(dead.contains("unbatch takes lists, and this is 3"), "{dead}");
}

#[test]
fn records_that_would_overwhelm_the_process_are_dead_letters() {
    let folder = Folder::new();
    let nested = "[".repeat(500_000);
    folder.write("in.jsonl", format!("{nested}\n\"{nested}\"\n1\n2\n"));
    folder.write(
        "p.yaml",
        "name: n\nsource: { file: { path: in.jsonl } }\n\
         steps:\n  - jq: 'if . == 1 then repeat(.) elif . == 2 then . else fromjson end'\n\
         sink: { file: { path: out } }\ndead_letters: { file: { path: dead } }\n\
         limits: { jq_outputs: 50 }\n",
    );
    let ended = folder.run_pipeline("p.yaml");
    assert_eq!(ended.summary(), "read=4 written=1 filtered=0 diverted=3 failed=0 committed=4");
    let dead = folder.read("dead");
    assert_eq!(dead.matches("more than 256 nested lists and objects").count(), 2);
    assert!(dead.contains("more than 50 outputs from one record"));
}

/// P27, P47: a signal finishes and commits what is in flight; nothing of it is a failure.
#[test]
fn a_signal_drains_commits_and_ends_well() {
    let folder = Folder::new();
    folder.write("in.jsonl", "1\n2\n");
    folder.write(
        "p.yaml",
        "name: n\nsource: { file: { path: in.jsonl, follow: true } }\nsink: { stdout: {} }\n\
         commit: { every: 60s }\nstore: { sqlite: { path: state.db } }\n",
    );
    for (signal, lines) in [("-TERM", ["1", "2"]), ("-INT", ["3", "4"])] {
        let mut running = folder.start("p.yaml");
        for expected in lines {
            assert_eq!(running.line(), expected);
        }
        running.signal(signal);
        let ended = running.wait();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert_eq!(ended.count("committed"), 2, "{ended:#?}");
        folder.append("in.jsonl", "3\n4\n");
    }
}

const STUCK: &str = "name: n\nsource: { file: { path: in.jsonl } }\n\
                     steps: [ { throttle: { rate: 1, per: 1h } } ]\nsink: { stdout: {} }\n\
                     store: { sqlite: { path: state.db } }\n";

#[test]
fn a_second_signal_stops_at_once_and_says_what_that_means() {
    let folder = Folder::new();
    folder.write("in.jsonl", "1\n2\n3\n");
    folder.write("p.yaml", STUCK);
    let mut running = folder.start("p.yaml");
    assert_eq!(running.line(), "1");
    running.signal("-INT");
    running.wait_for_log("stopping: what is in flight is finished and committed, within 30s");
    running.signal("-INT");
    let ended = running.wait();
    assert_eq!(ended.code, Some(130), "{ended:#?}");
    assert!(ended.stderr.contains("stopped at once by a second signal"), "{ended:#?}");
    assert!(ended.stderr.contains("they come again in the next run"), "{ended:#?}");
}

/// P27
#[test]
fn a_drain_that_takes_too_long_ends_and_its_records_come_again() {
    let folder = Folder::new();
    folder.write("in.jsonl", "1\n2\n3\n");
    folder.write("p.yaml", format!("{STUCK}drain: 100ms\n"));
    let mut running = folder.start("p.yaml");
    assert_eq!(running.line(), "1");
    running.signal("-TERM");
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.stderr.contains("were not finished and committed before the drain time"));

    folder.write("p.yaml", STUCK.replace("1h", "1ms"));
    let rest = folder.run_pipeline("p.yaml");
    let lines: Vec<_> = rest.stdout.lines().collect();
    assert!(lines == ["1", "2", "3"] || lines == ["2", "3"], "{rest:#?}");
}

/// P1: what wasn't committed comes again after a crash, and nothing is skipped.
#[test]
fn a_crash_loses_nothing() {
    let folder = Folder::new();
    let records: String = (0..2_000).map(|n| format!("{{\"id\":{n}}}\n")).collect();
    folder.write("in.jsonl", records);
    let pipeline = "name: n\nsource: { file: { path: in.jsonl } }\n\
                    steps: [ { throttle: { rate: 1000, per: 1s } } ]\n\
                    sinks:\n  - sqlite: { path: out.db, table: t, key: [id], create: true }\n  \
                    - stdout: {}\n\
                    commit: { every: 10ms }\nstore: { sqlite: { path: state.db } }\n";
    folder.write("p.yaml", pipeline);
    for _ in 0..3 {
        let mut running = folder.start("p.yaml");
        running.line();
        running.kill();
    }
    folder.write("p.yaml", pipeline.replace("rate: 1000", "rate: 1000000"));
    folder.run_pipeline("p.yaml");
    let counted = folder.query("out.db", "SELECT count(*), min(id), max(id) FROM t");
    assert_eq!(counted, ["2000|0|1999"]);
}

#[test]
fn input_that_cannot_be_read_stops_with_the_file_and_what_to_do() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("directory")).unwrap();
    folder.write("cut.jsonl.gz", [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0x33]);
    folder.write("late.jsonl", "1\n2\n{\n");
    folder.write("bytes.jsonl", b"1\n\"\xff\"\n");
    for (path, expected) in [
        ("missing.jsonl", "missing.jsonl"),
        ("none-*.jsonl", "none-*.jsonl"),
        ("directory", "directory"),
        ("cut.jsonl.gz", "cut.jsonl.gz"),
        ("late.jsonl", "late.jsonl:3:"),
        ("bytes.jsonl", "bytes.jsonl:2:"),
    ] {
        let source = format!("name: n\nsource: {{ file: {{ path: '{path}' }} }}\n");
        folder.write("p.yaml", format!("{source}sink: {{ file: {{ path: out }} }}\n"));
        let ended = folder.run(&["run", "p.yaml"]);
        assert_eq!(ended.code, Some(1), "{path}: {ended:#?}");
        assert!(ended.stderr.contains(expected), "{path}: {ended:#?}");
        assert!(ended.stderr.starts_with("error: "), "{path}: {ended:#?}");
        assert!(!ended.stderr.contains(".rs:"), "{path}: {ended:#?}");
    }
    for (name, content, read) in [
        ("empty.jsonl", "", 0),
        ("bom.jsonl", "\u{feff}1\n2\n", 2),
        ("crlf.jsonl", "1\r\n2\r\n", 2),
        ("unended.jsonl", "1\n2", 2),
        ("blank.jsonl", "1\n\n2\n", 2),
    ] {
        folder.write(name, content);
        let source = format!("name: n\nsource: {{ file: {{ path: {name} }} }}\n");
        folder.write("p.yaml", format!("{source}sink: {{ null: {{}} }}\n"));
        assert_eq!(folder.run_pipeline("p.yaml").count("written"), read, "{name}");
    }
}

#[test]
fn output_that_cannot_be_written_stops_before_anything_is_committed() {
    let folder = Folder::new();
    folder.write("in.jsonl", "1\n");
    folder.write("no.db", "this is no database, and long enough to be sure of it");
    folder.write("file", "");
    for (sink, expected) in [
        ("file: { path: missing/out.jsonl }", "missing/out.jsonl"),
        ("file: { path: /dev/full }", "/dev/full"),
        ("sqlite: { path: no.db, table: t }", "no.db"),
        ("sqlite: { path: new.db, table: t }", "create: true"),
        ("sqlite: { path: file/new.db, table: t, create: true }", "file/new.db"),
        ("local: { path: no.db, topic: t }", "no.db"),
    ] {
        folder.write(
            "p.yaml",
            format!(
                "name: n\nsource: {{ file: {{ path: in.jsonl }} }}\nsink: {{ {sink} }}\n\
                 store: {{ sqlite: {{ path: state.db }} }}\nretry_for: 0s\n"
            ),
        );
        let ended = folder.run(&["run", "p.yaml"]);
        assert_eq!(ended.code, Some(1), "{sink}: {ended:#?}");
        assert!(ended.stderr.contains(expected), "{sink}: {ended:#?}");
        assert_eq!(ended.count("committed"), 0, "{sink}: {ended:#?}");
    }
    assert!(!exists(&folder.path("missing")));
}

#[test]
fn a_file_with_problems_is_not_run() {
    let folder = Folder::new();
    folder.write("p.yaml", "name: n\nsource: { file: { path: in.jsonl } }\nsnk: {}\n");
    let ended = folder.run(&["run", "p.yaml"]);
    assert_eq!(ended.code, Some(2));
    assert_eq!(
        ended.stderr,
        "p.yaml:1: `sink` is missing\np.yaml:3: snk: unknown key; did you mean `sink`?\n\
         error: p.yaml has 2 problems\n"
    );
    let ended = folder.run(&["run", "missing.yaml"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("cannot read missing.yaml"), "{ended:#?}");
}

#[test]
fn a_secret_of_the_environment_is_never_printed() {
    let folder = Folder::new();
    folder.write("in.jsonl", "1\n");
    folder.write(
        "p.yaml",
        "name: n\nvars: { key: '${API_TOKEN}' }\nsource: { file: { path: in.jsonl } }\n\
         steps: [ { jq: 'error(\"no access with \\($key)\")' } ]\nsink: { null: {} }\n",
    );
    let mut command = folder.command(&["run", "p.yaml"]);
    let ended: crate::common::Ended = command.env("API_TOKEN", "hunter2").output().unwrap().into();
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("no access with ${API_TOKEN}"), "{ended:#?}");
    assert!(!format!("{ended:?}").contains("hunter2"), "{ended:#?}");
}
