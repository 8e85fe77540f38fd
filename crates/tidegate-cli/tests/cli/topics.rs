//! `tidegate produce` and `tidegate topics`.

use std::io::Write as _;
use std::process::Stdio;

use crate::common::Folder;

#[test]
fn lines_of_a_file_become_records_and_groups_show_how_far_they_are() {
    let folder = Folder::new();
    folder.write("in.jsonl", "{\"c\":\"a\"}\n\n{\"c\":\"b\"}\n{\"c\":\"a\"}\n");
    let args = ["produce", "--db", "q.db", "--topic", "t", "--key", "c", "--partitions", "2"];

    let produced = folder.run(&[&args[..], &["in.jsonl"]].concat());

    assert_eq!(produced.code, Some(0), "{produced:#?}");
    assert_eq!(produced.stdout, "wrote 3 records to topic t of q.db\n");
    assert_eq!(
        folder.run(&["topics", "--db", "q.db"]).stdout,
        "TOPIC  PARTITIONS  RECORDS  BYTES\nt               2        3     30\n"
    );

    folder.write(
        "p.yaml",
        "name: n\nsource: { local: { path: q.db, topic: t, group: g, until_end: true } }\n\
         sink: { local: { path: q.db, topic: u, key: .c } }\n",
    );
    assert_eq!(folder.run_pipeline("p.yaml").count("committed"), 3);
    folder.run(&[&args[..], &["in.jsonl"]].concat());
    let topics = folder.run(&["topics", "--db", "q.db"]);
    assert!(
        topics.stdout.ends_with(
            "\n\nGROUP  TOPIC  MEMBERS  COMMITTED  LAG\ng      t            0          3    3\n"
        ),
        "{}",
        topics.stdout
    );
    let json: serde_json::Value =
        serde_json::from_str(&folder.run(&["topics", "--db", "q.db", "--json"]).stdout).unwrap();
    assert_eq!(json["topics"][1]["records"], 3, "topic u");
    assert_eq!(json["groups"][0]["lag"], 3);
}

#[test]
fn lines_come_from_standard_input_too() {
    let folder = Folder::new();
    let mut command = folder.command(&["produce", "--db", "q.db", "--topic", "t", "--json"]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"any text\n\xff bytes\nlast").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["written"], &json["complete"]), (&3.into(), &true.into()));
}

#[test]
fn a_mistake_says_what_to_do() {
    let folder = Folder::new();
    folder.write("in.jsonl", "{\"c\":1}\nnot json\n");
    for (args, code, expected) in [
        (&["--topic", "t", "--key", "c", "in.jsonl"][..], 1, "in.jsonl:2:1: not JSON"),
        (&["--topic", "t", "--key", ".c |", "in.jsonl"], 2, "--key: at 1:5 of the program"),
        (&["--topic", "t", "missing.jsonl"], 1, "cannot open missing.jsonl"),
        (&["--topic", "t", "--partitions", "0", "in.jsonl"], 2, "partitions: is not between 1"),
        (&["--topic", "t", "--partitions", "9", "in.jsonl"], 1, "9"),
    ] {
        let ended = folder.run(&[&["produce", "--db", "q.db"], args].concat());
        assert_eq!(ended.code, Some(code), "{args:?}: {ended:#?}");
        assert!(ended.stderr.contains(expected), "{args:?}: {ended:#?}");
    }
    let topics = folder.run(&["topics", "--db", "missing.db"]);
    assert_eq!(topics.code, Some(1));
    assert!(topics.stderr.contains("missing.db does not exist"), "{topics:#?}");
}
