//! The project's own rules: who may depend on whom, how long a file may be, which words are
//! banned, and that what documents point to exists.
#![allow(clippy::unwrap_used)] // a failed unwrap is a failed test

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Dependencies of the core besides the standard library. No runtime, no driver, no I/O.
const CORE_MAY_USE: [&str; 4] = ["base64", "humantime", "serde", "thiserror"];

/// Which crate a connector drives. Only its `client.rs` may name it.
const DRIVERS: [(&str, &str); 2] =
    [("tidegate-local", "rusqlite"), ("tidegate-sqlite", "rusqlite")];

/// How many lines a file may have, tests not counted.
const MOST_LINES: usize = 500;

/// Files that may be longer, and by how much at most. Numbers only go down: a file that got
/// shorter gets a lower number, and one with at most 500 lines leaves the list.
const LONGER: [(&str, usize); 0] = [];

/// Words that mean that something isn't finished, or that it is about somebody's machine.
/// In two parts, so that this file may be checked too.
const BANNED: [(&str, &str); 7] = [
    ("TO", "DO"),
    ("FIX", "ME"),
    ("XX", "X"),
    ("todo", "!"),
    ("unimplemented", "!"),
    ("/ro", "ot/"),
    ("/ho", "me/"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every file of the project below `folder` whose name ends like this, by its path from the root.
fn files(folder: &str, endings: &[&str]) -> BTreeMap<String, String> {
    fn walk(root: &Path, folder: &Path, endings: &[&str], found: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                if !["target", ".git", "proptest-regressions"].contains(&name) {
                    walk(root, &path, endings, found);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                let relative = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found.insert(relative, fs::read_to_string(&path).unwrap());
            }
        }
    }
    let (root, mut found) = (root(), BTreeMap::new());
    walk(&root, &root.join(folder), endings, &mut found);
    assert!(!found.is_empty(), "no file in {folder:?} ends with {endings:?}");
    found
}

fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

/// The names of the crates that a manifest depends on: for itself, and for its tests.
fn dependencies(manifest: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut normal, mut dev) = (Vec::new(), Vec::new());
    let mut section = "";
    for line in manifest.lines() {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']');
            // `[dependencies.name]` is a header and a dependency.
            if let Some((kind, name)) = section.rsplit_once("dependencies.") {
                if kind.ends_with("dev-") {
                    dev.push(name)
                } else {
                    normal.push(name)
                }
                section = "";
            }
            continue;
        }
        let Some((key, _)) = line.split_once('=') else { continue };
        let name = key.trim().split('.').next().unwrap_or_default();
        match section {
            _ if name.starts_with('#') => {}
            _ if section.ends_with("dev-dependencies") => dev.push(name),
            _ if section.ends_with("dependencies") => normal.push(name),
            _ => {}
        }
    }
    (normal, dev)
}

#[test]
fn dependencies_point_from_the_facade_to_the_core_and_never_sideways() {
    let mut problems = Vec::new();
    let manifests = files("crates", &["Cargo.toml"]);
    for (path, manifest) in &manifests {
        let name = path.split('/').nth(1).unwrap();
        let (normal, dev) = dependencies(manifest);
        let (may, dev_may): (&[&str], &[&str]) = match name {
            "tidegate" | "tidegate-cli" => continue,
            "tidegate-core" => (&[], &[]),
            "tidegate-testkit" => (&["tidegate-core", "tidegate-runtime"], &[]),
            _ => (&["tidegate-core"], &["tidegate-runtime", "tidegate-testkit"]),
        };
        let ours = |dependency: &&&str| dependency.starts_with("tidegate");
        for other in normal.iter().filter(ours).filter(|other| !may.contains(other)) {
            problems.push(format!("{path}: {name} must not depend on {other}"));
        }
        for other in dev.iter().filter(ours) {
            if !may.contains(other) && !dev_may.contains(other) {
                problems.push(format!("{path}: the tests of {name} must not depend on {other}"));
            }
        }
        if name == "tidegate-core" {
            for other in normal.iter().filter(|other| !CORE_MAY_USE.contains(other)) {
                problems.push(format!("{path}: {other} is not one of {CORE_MAY_USE:?}"));
            }
        }
    }
    assert_none(&problems);
    assert!(manifests.len() >= 8, "every crate has a manifest");
}

#[test]
fn a_manifest_s_dependencies_are_found_however_they_are_written() {
    let manifest = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\nb = \"1\"\n# c = 1\n\
                    [dependencies.d]\nversion = \"1\"\n[dev-dependencies]\ne = { path = \"e\" }\n\
                    [dev-dependencies.f]\n[target.'cfg(unix)'.dependencies]\ng = \"1\"\n[lints]\nh = 1";
    assert_eq!(dependencies(manifest), (vec!["a", "b", "d", "g"], vec!["e", "f"]));
}

/// The lines of code and comment before a file's own tests.
fn lines_without_tests(text: &str) -> usize {
    let own = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    own.lines().count()
}

fn code_of(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines()).filter(|(_, line)| !line.trim_start().starts_with("//"))
}

#[test]
fn only_client_rs_of_a_connector_names_its_driver() {
    let mut problems = Vec::new();
    for (name, driver) in DRIVERS {
        let mut in_client = false;
        for (path, text) in files(&format!("crates/{name}/src"), &[".rs"]) {
            let mut uses = code_of(&text).filter(|(_, line)| line.contains(driver));
            if path.ends_with("/client.rs") || path.contains("/client/") {
                in_client |= uses.next().is_some();
            } else if let Some((line, _)) = uses.next() {
                problems.push(format!("{path}:{line}: {driver} belongs in client.rs"));
            }
        }
        if !in_client {
            problems.push(format!("crates/{name}/src/client.rs does not use {driver}"));
        }
    }
    assert_none(&problems);
}

#[test]
fn files_are_short_enough_to_hold_one_idea() {
    let mut problems = Vec::new();
    let mut longer: BTreeMap<_, _> = LONGER.into_iter().collect();
    for (path, text) in files("", &[".rs"]) {
        if path.contains("/tests/") || path.ends_with("/tests.rs") {
            continue;
        }
        let lines = lines_without_tests(&text);
        match longer.remove(path.as_str()) {
            None if lines > MOST_LINES => {
                problems.push(format!("{path}: {lines} lines without tests, split it"));
            }
            Some(_) if lines <= MOST_LINES => {
                problems
                    .push(format!("{path}: {lines} lines, take it off the list of longer ones"));
            }
            Some(most) if lines != most => {
                problems
                    .push(format!("{path}: {lines} lines, the list of longer ones says {most}"));
            }
            _ => {}
        }
    }
    problems.extend(longer.keys().map(|path| format!("{path} is on the list, but isn't there")));
    assert_none(&problems);
}

#[test]
fn nothing_is_left_unfinished() {
    let mut problems = Vec::new();
    let endings = [".rs", ".toml", ".md", ".sh", ".py", ".yaml", ".yml", "scripts/test", "run"];
    for (path, text) in files("", &endings) {
        for (number, line) in (1..).zip(text.lines()) {
            for (first, second) in BANNED {
                let word = format!("{first}{second}");
                let found = line.match_indices(&word).any(|(at, _)| {
                    let before = line[..at].chars().next_back();
                    let after = line[at + word.len()..].chars().next();
                    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
                    !is_word(before) && (!word.ends_with(char::is_alphanumeric) || !is_word(after))
                });
                if found {
                    problems.push(format!("{path}:{number}: '{word}'"));
                }
            }
        }
    }
    assert_none(&problems);
}

/// A document's text outside code blocks.
fn prose(text: &str) -> String {
    let mut in_code = false;
    let outside = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    });
    outside.collect::<Vec<_>>().join("\n")
}

/// What is between a pair of backticks.
fn code_spans(prose: &str) -> Vec<&str> {
    prose.split('`').skip(1).step_by(2).collect()
}

/// Where the links of a text lead.
fn links(prose: &str) -> Vec<&str> {
    let without_code: Vec<_> = prose.split('`').step_by(2).collect();
    let starts = without_code.into_iter().flat_map(|part| part.split("](").skip(1));
    let mut found: Vec<_> =
        starts.filter_map(|rest| rest.split(')').next()).map(str::trim).collect();
    // `[`name`](target)`: the span of code ends within the link.
    found.retain(|target| !target.is_empty());
    found
}

/// The anchors of a document's headings, as code hosts make them.
fn heading_anchors(text: &str) -> Vec<String> {
    let headings = prose(text);
    let headings = headings.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

#[test]
fn links_between_documents_lead_somewhere() {
    let (root, mut problems, mut checked) = (root(), Vec::new(), 0);
    for (path, text) in files("", &[".md"]) {
        let folder = root.join(&path).parent().unwrap().to_owned();
        for link in links(&prose(&text)) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            checked += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { root.join(&path) } else { folder.join(file) };
            if !target.exists() {
                problems.push(format!("{path}: {link} is not there"));
            } else if !anchor.is_empty() && target.extension().is_some_and(|e| e == "md") {
                let anchors = heading_anchors(&fs::read_to_string(target).unwrap());
                if !anchors.iter().any(|found| found == anchor) {
                    problems.push(format!("{path}: {link} has no heading of that name"));
                }
            }
        }
    }
    assert_none(&problems);
    assert!(checked > 0, "no document has a link");
}

/// Whether a Rust file defines an item, or a variant or field, of this name.
fn defines(text: &str, name: &str) -> bool {
    let keywords =
        ["fn", "struct", "enum", "trait", "mod", "type", "const", "static", "macro_rules!"];
    code_of(text).any(|(_, line)| {
        keywords.iter().any(|keyword| {
            line.match_indices(&format!("{keyword} {name}")).any(|(at, found)| {
                let after = line[at + found.len()..].chars().next();
                let before = line[..at].chars().next_back();
                let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
                !is_word(after) && !is_word(before)
            })
        })
    })
}

/// What is wrong with a span of code that names a place in the project, `crates/x/src/y.rs` or
/// `crates/x/src/y.rs::name`; `None` if it is right, or names no place.
fn wrong_place(root: &Path, span: &str) -> Option<String> {
    let folders = ["crates/", "docs/", "examples/", "scripts/", "sim/", "bench/"];
    let is_pattern = span.contains(['<', '*', '{', '…', ' ']);
    if !folders.iter().any(|folder| span.starts_with(folder)) || is_pattern {
        return None;
    }
    let mut parts = span.split("::");
    let file = root.join(parts.next()?);
    if !file.exists() {
        return Some(format!("{span} is not there"));
    }
    let names: Vec<_> = parts.map(|name| name.trim_end_matches("()")).collect();
    if names.is_empty() {
        return None;
    }
    let Ok(text) = fs::read_to_string(&file) else { return Some(format!("{span} is no file")) };
    let missing = names.into_iter().find(|name| !defines(&text, name))?;
    Some(format!("{span}: the file defines no `{missing}`"))
}

#[test]
fn places_in_the_code_that_documents_name_exist() {
    let root = root();
    let documents = files("", &[".md"]);
    assert!(documents.contains_key("ARCHITECTURE.md"), "ARCHITECTURE.md is the map of the code");
    let mut problems = Vec::new();
    for (path, text) in &documents {
        let prose = prose(text);
        let wrong = code_spans(&prose).into_iter().filter_map(|span| wrong_place(&root, span));
        problems.extend(wrong.map(|problem| format!("{path}: {problem}")));
    }
    assert_none(&problems);
}

#[test]
fn the_checks_on_documents_find_what_they_look_for() {
    let text =
        "# A b, `c`!\n[x](y.md) and `[no](code)` [`z`](w#v)\n```\n[not](this)\n```\n`one::two`";
    let prose = prose(text);
    assert_eq!(links(&prose), ["y.md", "w#v"]);
    assert_eq!(code_spans(&prose), ["c", "[no](code)", "z", "one::two"]);
    assert_eq!(heading_anchors(text), ["a-b-c"]);
    assert_eq!(lines_without_tests("a\nb\n\n#[cfg(test)]\nmod tests {\n}\n"), 2);

    let here = "crates/tidegate/tests/tidy.rs";
    let wrong = |span: &str| wrong_place(&root(), span).is_some();
    assert!(!wrong(here) && !wrong(&format!("{here}::wrong_place()")));
    assert!(!wrong("cargo test") && !wrong("crates/tidegate-<connector>/src/lib.rs"));
    assert!(wrong("crates/none/src/lib.rs") && wrong(&format!("{here}::wrong_plac")));
    assert!(wrong("crates/tidegate/tests::x"), "a folder defines nothing");
}
