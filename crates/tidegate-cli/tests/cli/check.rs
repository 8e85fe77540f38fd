//! `tidegate check`: says what a file would do, or everything that is wrong with it.

use crate::common::{Ended, Folder, exists};

const PIPELINE: &str = r#"
name: orders
source: { local: { path: "${DIR}/q.db", topic: orders, group: "${GROUP:-shop}" } }
steps:
  - jq: |
      select(.total > 0)
      | {id, total}
  - branch:
      - when: .total > 100
        sink: { sqlite: { path: out.db, table: large, key: [id] } }
      - otherwise: { sink: { file: { path: small.jsonl } } }
dead_letters: { file: { path: dead.jsonl } }
commit: { every: 5s, count: 1000 }
"#;

fn check(folder: &Folder, args: &[&str]) -> Ended {
    let mut command = folder.command(&[&["check"], args].concat());
    command.env("DIR", "hidden-folder").output().unwrap().into()
}

#[test]
fn a_good_file_is_shown_with_its_guarantee_and_touches_nothing() {
    let folder = Folder::new();
    folder.write("p.yaml", PIPELINE);
    let ended = check(&folder, &["p.yaml"]);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:#?}");
    assert!(
        ended.stdout.starts_with(
            "p.yaml is valid.\n\nPipeline orders:\n  \
             source.local: json from topic orders of ${DIR}/q.db, as group shop\n  \
             steps[0].jq: select(.total > 0) | {id, total}\n  \
             steps[1].branch, when .total > 100:\n    \
             steps[1].branch[0].sink.sqlite: upsert into large of out.db by id\n  \
             steps[1].branch, otherwise:\n    \
             steps[1].branch[1].otherwise.sink.file: small.jsonl\n  \
             dead_letters.file: dead.jsonl\n  \
             commit: every 5s or 1000 messages\n\nWhat it guarantees:\n  - at least once: "
        ),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("small.jsonl") && !ended.stdout.contains("hidden-folder"));
    for name in ["q.db", "out.db", "small.jsonl", "dead.jsonl"] {
        assert!(!exists(&folder.path(name)), "{name}");
    }

    let json: serde_json::Value =
        serde_json::from_str(&check(&folder, &["p.yaml", "--json"]).stdout).unwrap();
    assert_eq!((&json["valid"], &json["name"]), (&true.into(), &"orders".into()));
    assert_eq!(json["guarantee"].as_array().unwrap().len(), 5);
}

#[test]
fn a_bad_file_is_shown_with_all_of_its_problems() {
    let folder = Folder::new();
    folder.write(
        "p.yaml",
        "name: n\nsource: { file: { path: '${NOPE}' } }\nsteps:\n  - jq: |\n      .a |\n      \
         nope\nsink: { sqlite: { path: '${DIR}', tabel: t } }\n",
    );
    let ended = check(&folder, &["p.yaml"]);
    assert_eq!((ended.code, &*ended.stdout), (Some(2), ""));
    assert_eq!(
        ended.stderr,
        "p.yaml:2: source.file.path: the environment variable NOPE is not set: set it, or write \
         `${NOPE:-default}`\n\
         p.yaml:6: steps[0].jq: at 2:1 of the program: there is no function `nope`\n  \
         | nope\n  | ^^^^\n\
         p.yaml:7: sink.sqlite.tabel: unknown key; did you mean `table`?\n\
         p.yaml:7: sink.sqlite: `table` is missing\n\
         error: p.yaml has 4 problems\n"
    );

    let ended = check(&folder, &["p.yaml", "--json"]);
    assert_eq!(ended.code, Some(2));
    let json: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(json["valid"], false);
    let problem = &json["problems"][2];
    assert_eq!((&problem["line"], &problem["setting"]), (&7.into(), &"sink.sqlite.tabel".into()));
}

#[test]
fn a_file_that_cannot_be_a_pipeline_is_refused() {
    let folder = Folder::new();
    folder.write("large.yaml", vec![b' '; 2 << 20]);
    folder.write("bytes.yaml", b"name: n\nsource: \xff\n");
    for (file, code, expected) in [
        ("missing.yaml", 1, "cannot read missing.yaml: No such file"),
        (".", 1, "cannot read .: it is a directory"),
        ("large.yaml", 1, "cannot read large.yaml: it has more than 1048576 bytes"),
        ("bytes.yaml", 2, "bytes.yaml:2: not valid UTF-8"),
    ] {
        let ended = check(&folder, &[file]);
        assert_eq!(ended.code, Some(code), "{ended:#?}");
        assert!(ended.stderr.contains(expected), "{ended:#?}");
    }
}

#[test]
fn wrong_usage_ends_with_2_and_help_with_0() {
    let folder = Folder::new();
    assert_eq!(folder.run(&["chek"]).code, Some(2));
    assert_eq!(folder.run(&["check"]).code, Some(2));
    assert_eq!(folder.run(&["produce", "--db", "q.db", "--topic", ""]).code, Some(2));
    for command in ["run", "check", "produce", "topics"] {
        let help = folder.run(&[command, "--help"]);
        assert_eq!(help.code, Some(0));
        assert!(help.stdout.contains("Examples:\n  tidegate "), "{help:#?}");
    }
}
