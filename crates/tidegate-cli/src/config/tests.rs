//! Whole pipeline files: what is accepted, and how every problem is said.

use std::time::Duration;

use super::*;

const FLIGHTS: &str = r#"
name: flights
source: { file: { path: data/*.jsonl.gz, format: json } }
steps:
  - jq: 'select(.dep_time != null)'
  - jq: '{id: "\(.carrier)\(.flight)-\(.time_hour)", carrier, delay: .arr_delay}'
sink: { sqlite: { path: out.db, table: flights, key: [id] } }
dead_letters: { file: { path: dead.jsonl } }
commit: { every: 1s }
store: { sqlite: { path: flights.state.db } }
"#;

/// A file that is right but for `rest`.
fn with(rest: &str) -> String {
    format!("name: n\nsource: {{file: {{path: a}}}}\n{rest}")
}

fn parse_with(
    text: &str,
    variables: &'static [(&str, &str)],
) -> Result<PipelineConfig, Vec<String>> {
    parse(text, &Environment::of(variables))
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

fn accepted(text: &str) -> PipelineConfig {
    match parse_with(text, &[]) {
        Ok(config) => config,
        Err(problems) => panic!("{text}\n{problems:#?}"),
    }
}

fn problems(text: &str) -> Vec<String> {
    match parse_with(text, &[("SECRET", "hunter2")]) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(problems) => problems,
    }
}

fn sinks(flow: &FlowConfig) -> &[SinkConfig] {
    match &flow.end {
        FlowEnd::Sinks(sinks) => sinks,
        _ => panic!("it ends in a step"),
    }
}

#[test]
fn the_pipeline_of_the_readme_is_accepted() {
    let config = accepted(FLIGHTS);
    assert_eq!(config.name, "flights");
    assert!(matches!(&config.source, SourceConfig::File(file) if file.path == "data/*.jsonl.gz"));
    assert_eq!(config.flow.steps.len(), 2);
    assert_eq!(&*config.flow.steps[1].name, "steps[1].jq");
    assert_eq!(&*sinks(&config.flow)[0].name, "sink.sqlite");
    assert!(matches!(
        &config.dead_letters,
        Some(DeadLettersConfig { kind: DeadLettersKind::File(_), .. })
    ));
    assert!(config.store.is_some());
}

#[test]
fn every_setting_is_read() {
    let config = accepted(
        r#"
name: all
vars: { limit: 15, carriers: [UA, DL] }
source: { local: { path: q.db, topic: t, group: g, format: lines, session_timeout: 3s } }
steps:
  - { name: parse, jq: 'fromjson | select(.delay > $limit)' }
  - batch: { count: 100, bytes: 1MiB, every: 500ms }
  - jq: 'map(.delay)'
  - unbatch
  - throttle: { rate: 100, per: 1m }
  - branch:
      - when: '. > 60'
        steps: [ { jq: '{delay: .}' } ]
        sink: { local: { path: q.db, topic: late, key: delay, partitions: 2 } }
      - when: '. > 30'
        steps:
          - tee:
              - sink: { stdout: {} }
              - sinks: [ { file: { path: x.csv, format: csv } }, { null: {} } ]
      - otherwise: filter
dead_letters: { local: { path: q.db, topic: dead } }
commit: { every: 250ms, count: 5000 }
limits: { in_flight: 384KiB, messages_per_partition: 77, jq_outputs: 9 }
drain: 0s
retry_for: 2m
stall_after: 90s
"#,
    );
    let settings = &config.settings;
    assert_eq!(settings.commit.every, Duration::from_millis(250));
    assert_eq!(settings.commit.count, Some(5_000));
    assert_eq!((settings.limits.bytes, settings.limits.messages_per_partition), (32 << 10, 77));
    assert_eq!(settings.limits.chunk_bytes, 32 << 10, "no more than all records together");
    assert_eq!(config.jq_outputs, 9);
    assert_eq!(settings.drain, Duration::ZERO);
    assert_eq!(settings.retry.give_up_after, Duration::from_secs(120));
    assert_eq!(settings.stall_after, Duration::from_secs(90));

    assert_eq!(config.source.format(), PayloadFormat::Lines);
    let names: Vec<_> = config.flow.steps.iter().map(|step| &*step.name).collect();
    let throttle = "steps[4].throttle";
    assert_eq!(names, ["parse", "steps[1].batch", "steps[2].jq", "steps[3].unbatch", throttle]);
    let FlowEnd::Branch { name, arms, otherwise } = &config.flow.end else { panic!() };
    assert_eq!((&**name, otherwise.is_none()), ("steps[5].branch", true));
    let [late] = sinks(&arms[0].flow) else { panic!() };
    assert_eq!(&*late.name, "steps[5].branch[0].sink.local");
    let SinkKind::Local(target) = &late.kind else { panic!() };
    assert_eq!((target.config.partitions, target.key.is_some()), (Some(2), true));
    let FlowEnd::Tee { ways, .. } = &arms[1].flow.end else { panic!() };
    assert!(sinks(&ways[0])[0].is_stdout() && !sinks(&ways[1])[0].is_stdout());
    assert_eq!(&*sinks(&ways[1])[1].name, "steps[5].branch[1].steps[0].tee[1].sinks[1].null");
}

#[test]
fn all_problems_are_reported_together_with_their_lines() {
    let text = r#"
nam: flights
source: { file: { pth: a.jsonl, format: xml } }
steps:
  - jq: 'select(.a == 1'
  - jk: '.'
  - jq: |
      .a |
      nope(1)
  - batch: { count: 0, bytes: lots }
  - throttle: { per: soon }
sink: { sqlite: { path: out.db, table: 5 }, file: { path: x } }
dead_letters: { sqlite: { path: dead.db } }
commit: { every: 0s, count: -1 }
limits: { in_flight: 64 MiB, jq_output: 5 }
drain: 30
"#;
    assert_eq!(
        problems(text),
        [
            "2: nam: unknown key; did you mean `name`?",
            "2: `name` is missing",
            "3: source.file.pth: unknown key; did you mean `path`?",
            "3: source.file.format: `xml` is unknown; known are `json`, `csv`, `lines`",
            "3: source.file: `path` is missing",
            "5: steps[0].jq: at 1:15 of the program: expected closing parenthesis, found the end \
             of the program\n  | select(.a == 1\n  |               ^",
            "6: steps[1].jk: unknown key; did you mean `jq`?",
            "9: steps[2].jq: at 2:1 of the program: there is no function `nope` with 1 argument\n  \
             | nope(1)\n  | ^^^^",
            "10: steps[3].batch.count: must be at least 1",
            "10: steps[3].batch.bytes: `lots` is not a size such as `4096`, `64KiB`, `64MiB` or \
             `1GiB`",
            "11: steps[4].throttle: `rate` is missing",
            "11: steps[4].throttle.per: `soon` is not a duration: write a number and a unit, as \
             in 500ms, 10s, 5m or 12h",
            "12: sink.file: there is `sqlite` already: `file` needs an item of its own",
            "13: dead_letters.sqlite: unknown key; known are `file`, `local`",
            "14: commit.every: must be more than 0",
            "14: commit.count: expected a whole number that isn't negative, found `-1`",
            "15: limits.jq_output: unknown key; did you mean `jq_outputs`?",
            "16: drain: expected text, found a number: put it in quotes",
        ]
    );
}

#[test]
fn each_mistake_says_what_is_wrong_and_what_to_write() {
    let sink = "sink: {null: {}}\n";
    for (rest, expected) in [
        ("", "1: `sink` is missing"),
        ("sink: {}\n", "3: sink: expected one of `sqlite`, `local`, `file`, `stdout`, `null`"),
        ("sink: stdout\n", "3: sink: expected a map, found text"),
        ("sink: { stdout: { x: 1 } }\n", "3: sink.stdout.x: unknown key; nothing can be set here"),
        ("sinks: []\n", "3: sinks: is empty: name at least one sink"),
        ("sink: {null: {}}\nsinks: [{null: {}}]\n", "4: sinks: there is `sink` already"),
        (
            "sink: { file: { path: x, format: csv, csv: { columns: [a, a] } } }\n",
            "3: sink.file.csv.columns: `a` is there twice",
        ),
        ("sink: { sqlite: { path: x, table: '' } }\n", "3: sink.sqlite.table: is empty"),
        ("sink: { sqlite: { path: x, table: t, key: [a,\n    a] } }\n", "4: sink.sqlite.key[1]: "),
        (
            "sink: { local: { path: x, topic: t, key: '.a |' } }\n",
            "3: sink.local.key: at 1:5 of the program: expected term",
        ),
        ("sink: { local: { path: x, topic: t, partitions: 0 } }\n", "3: sink.local.partitions: "),
        (
            "steps: [ { batch: {} } ]\nsink: { sqlite: { path: x, table: t } }\n",
            "4: sink.sqlite: a row is made of an object, and a batch is a list: put `unbatch`",
        ),
        (
            "steps: [ { tee: [ { sink: {null: {}} } ] } ]\nsink: {null: {}}\n",
            "4: sink: nothing gets here: every message goes into steps[0].tee",
        ),
        (
            "steps:\n  - tee: [ { sink: {null: {}} } ]\n  - unbatch\n",
            "5: steps[1]: nothing gets here: every message goes into steps[0].tee",
        ),
        ("steps: [ { tee: [] } ]\n", "3: steps[0].tee: is empty: name at least one way"),
        ("steps: [ { tee: [ { steps: [] } ] } ]\n", "3: steps[0].tee[0]: `sink` is missing"),
        ("steps: [ { branch: [] } ]\n", "3: steps[0].branch: is empty"),
        (
            "steps: [ { branch: [ { otherwise: filter } ] } ]\n",
            "3: steps[0].branch: there is no branch with `when`",
        ),
        (
            "steps: [ { branch: [ { when: '.a', sink: {null: {}} } ] } ]\n",
            "3: steps[0].branch: the last branch must be `otherwise`",
        ),
        (
            "steps: [ { branch: [ { when: .a, sink: {null: {}} }, { otherwise: drop } ] } ]\n",
            "3: steps[0].branch[1].otherwise: expected a map with `steps` and a `sink`",
        ),
        ("steps: [ unbatc ]\nsink: {null: {}}\n", "3: steps[0]: expected a map, found text"),
        ("steps: {}\nsink: {null: {}}\n", "3: steps: expected a list, found a map"),
        (
            "steps: [ { jq: [] } ]\nsink: {null: {}}\n",
            "3: steps[0].jq: expected text, found a list",
        ),
        ("steps: [ { name: x } ]\nsink: {null: {}}\n", "3: steps[0]: expected one of `jq`, "),
        (
            "steps: [ { jq: '\"${HOME}\"' } ]\nsink: {null: {}}\n",
            "3: steps[0].jq: `${...}` is not replaced inside a program",
        ),
        (
            "steps: [ { throttle: { rate: 5000000000 } } ]\nsink: {null: {}}\n",
            "3: steps[0].throttle.rate: is too large",
        ),
    ] {
        let text = with(rest);
        let found = problems(&text);
        assert_eq!(found.len(), 1, "{text}{found:#?}");
        assert!(found[0].starts_with(expected), "{text}{found:#?}");
    }
    for (rest, expected) in [
        ("vars: { a-b: 1 }\n", "3: vars.a-b: a variable's name has letters"),
        ("vars: [a]\n", "3: vars: expected a map, found a list"),
        (
            "dead_letters: { file: { path: '-' } }\n",
            "3: dead_letters.file: dead letters have to be",
        ),
        ("store: { sqlite: { path: ':memory:' } }\n", "3: store.sqlite.path: a database in memory"),
        ("commit: 1s\n", "3: commit: expected a map, found text"),
        ("name: m\n", "3: name: is there twice, the first time on line 1"),
        ("drain: ${MISSING}\n", "3: drain: the environment variable MISSING is not set"),
    ] {
        let text = with(&format!("{rest}{sink}"));
        let found = problems(&text);
        assert_eq!(found.len(), 1, "{text}{found:#?}");
        assert!(found[0].starts_with(expected), "{text}{found:#?}");
    }
}

#[test]
fn a_source_with_positions_of_its_own_takes_no_store() {
    let found = problems(
        "name: n\nsource: {local: {path: q.db, topic: t, group: g}}\nsink: {null: {}}\n\
         store: {sqlite: {path: s.db}}\n",
    );
    assert_eq!(found, ["4: store: this source keeps its own positions: leave `store` out"]);
}

#[test]
fn a_file_that_is_no_pipeline_is_said_to_be_none() {
    for (text, expected) in [
        ("", "1: expected a map, found nothing"),
        ("- a\n", "1: expected a map, found a list"),
        ("a: [\n", "1: not valid YAML: "),
        ("name: n\n---\nname: m\n", "2: not valid YAML: "),
    ] {
        let found = problems(text);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].starts_with(expected), "{found:#?}");
    }
}

#[test]
fn the_environment_is_put_in_and_never_shown() {
    let text = "name: ${NAME:-n}\nsource: {file: {path: '${DIR}/a', follow: '${FOLLOW}'}}\n\
                vars: {key: '${SECRET}'}\nsteps: [{jq: 'select(.key == $key)'}]\n\
                sink: {null: {}}\n";
    let variables = &[("DIR", "/data"), ("FOLLOW", "true"), ("SECRET", "a\"b: [")];
    let config = parse_with(text, variables).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let SourceConfig::File(file) = &config.source else { panic!() };
    assert_eq!((&*file.path, file.follow, &*config.name), ("/data/a", true, "n"));

    for rest in [
        "sink: { ${SECRET}: {} }\n",
        "drain: ${SECRET}\nsink: {null: {}}\n",
        "commit: { count: '${SECRET}' }\nsink: {null: {}}\n",
        "sink: { file: { path: x, format: '${SECRET}' } }\n",
        "sink: { file: { path: x, format: csv, csv: { columns: ['${SECRET}', '${SECRET}'] } } }\n",
        "sink: { sqlite: { path: x, table: t, key: ['${SECRET}', '${SECRET}'] } }\n",
    ] {
        let found = problems(&with(rest)).join("\n");
        assert!(!found.contains("hunter2"), "{found}");
    }
}

const REFERENCE: &str = include_str!("../../../../docs/reference/pipeline.md");

#[test]
fn the_pipelines_of_the_reference_page_are_accepted() {
    let blocks: Vec<_> = REFERENCE.split("```yaml\n").skip(1).collect();
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        accepted(block.split("```").next().unwrap());
    }
}

/// A setting that is added to a connector has to be described.
#[test]
fn every_key_is_on_the_reference_page() {
    let text = "name: n\nbogus_key_of_all: 1\nsource: {file: {path: a, bogus_key_of_all: 1}}\n\
        sinks:\n\
        - sqlite: {path: a, table: t, bogus_key_of_all: 1}\n\
        - local: {path: a, topic: t, bogus_key_of_all: 1, retention: {bogus_key_of_all: 1}}\n\
        - file: {path: a, bogus_key_of_all: 1, csv: {bogus_key_of_all: 1}}\n\
        - bogus_key_of_all: {}\n\
        steps:\n- bogus_key_of_all: 1\n- batch: {bogus_key_of_all: 1}\n\
        - throttle: {rate: 1, bogus_key_of_all: 1}\n\
        commit: {bogus_key_of_all: 1}\nlimits: {bogus_key_of_all: 1}\n\
        store: {sqlite: {path: a, bogus_key_of_all: 1}}\ndead_letters: {bogus_key_of_all: 1}\n";
    let local = "name: n\nsource: {local: {path: a, topic: t, group: g, bogus_key_of_all: 1}}\n";
    let csv = "name: n\nsource: {file: {path: a, csv: {bogus_key_of_all: 1}}}\n";
    let found = [text, local, csv].map(problems).concat();
    let lists: Vec<_> =
        found.iter().filter_map(|problem| problem.split_once("; known are ")).collect();
    assert_eq!(lists.len(), 17, "{found:#?}");
    for key in lists.iter().flat_map(|(_, keys)| keys.split(", ")) {
        assert!(REFERENCE.contains(key), "{key} is not in docs/reference/pipeline.md");
    }
}
