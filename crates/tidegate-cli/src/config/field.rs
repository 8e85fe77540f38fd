use std::time::Duration;

use serde::de::DeserializeOwned;

use super::node::{Key, Node, Value};
use super::read::read;
use super::report::Report;
use super::suggest::{quoted, suggestion};
use super::units;

/// One setting: its value, and where it stands in the file.
///
/// The methods that read it report what is wrong and answer `None`; the caller goes on to the
/// next setting.
#[derive(Clone)]
pub(super) struct Field<'r> {
    pub(super) report: &'r Report<'r>,
    pub(super) path: String,
    /// The line of the key, or of the value if it has no key.
    pub(super) line: u64,
    pub(super) node: &'r Node,
}

impl<'r> Field<'r> {
    pub(super) fn root(report: &'r Report<'r>, node: &'r Node) -> Self {
        Self { report, path: String::new(), line: node.line, node }
    }

    /// Reports a problem of this setting.
    pub(super) fn problem(&self, message: &str) {
        self.report.add(self.line, &self.path, message);
    }

    /// The value as any type that serde can read.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Option<T> {
        read(self.report, &self.path, self.line, self.node, &[])
    }

    /// Text that isn't empty.
    pub(super) fn text(&self) -> Option<String> {
        let text: String = self.read()?;
        if text.is_empty() {
            self.problem("is empty");
            return None;
        }
        Some(text)
    }

    /// Text in which `${NAME}` isn't replaced, and the line on which it begins.
    pub(super) fn raw_text(&self) -> Option<(&'r str, u64)> {
        match &self.node.value {
            Value::Text(text) => Some((text, self.node.line)),
            _ => {
                self.problem(&format!("expected text, found {}", self.node.kind()));
                None
            }
        }
    }

    /// A time such as `500ms`, more than 0.
    pub(super) fn duration(&self) -> Option<Duration> {
        let text: String = self.read()?;
        units::duration(&text).map_err(|problem| self.problem(&problem)).ok()
    }

    /// A time that may be `0s` as well.
    pub(super) fn time_or_zero(&self) -> Option<Duration> {
        match self.read::<String>()?.trim() {
            "0s" => Some(Duration::ZERO),
            _ => self.duration(),
        }
    }

    /// A size such as `64MiB`, or a number of bytes, more than 0.
    pub(super) fn bytes(&self) -> Option<usize> {
        let text = match &self.node.value {
            Value::Integer(bytes) => bytes.to_string(),
            _ => self.read()?,
        };
        units::bytes(&text).map_err(|problem| self.problem(&problem)).ok()
    }

    /// A number of things, at least 1.
    pub(super) fn count(&self) -> Option<u64> {
        let count: u64 = self.read()?;
        if count == 0 {
            self.problem("must be at least 1");
            return None;
        }
        Some(count)
    }

    /// A number of things that are all held at once, at least 1.
    pub(super) fn count_in_memory(&self) -> Option<usize> {
        let count = usize::try_from(self.count()?);
        count.map_err(|_| self.problem("is too large")).ok()
    }

    /// The value as a connector's settings, which check themselves: `problems` gives what they
    /// found, each with its key below this one. Keys in `beside` are read by others.
    pub(super) fn settings<T, P>(
        &self,
        beside: &[&str],
        problems: impl FnOnce(&T) -> P,
    ) -> Option<T>
    where
        T: DeserializeOwned,
        P: IntoIterator<Item = (String, String)>,
    {
        let settings: T = read(self.report, &self.path, self.line, self.node, beside)?;
        let mut is_right = true;
        for (key, problem) in problems(&settings) {
            is_right = false;
            let line = self.line_of(&key);
            self.report.add(line, &format!("{}.{key}", self.path), &problem);
        }
        is_right.then_some(settings)
    }

    /// The line of the setting with this key below this one, such as `csv.columns[2]`, or of the
    /// nearest one above it that is there.
    fn line_of(&self, key: &str) -> u64 {
        let (mut line, mut node) = (self.line, self.node);
        for part in key.split(['.', '[']) {
            let next = match &node.value {
                Value::Map(entries) => entries
                    .iter()
                    .find(|(known, _)| known.name == part)
                    .map(|(key, node)| (key.line, node)),
                Value::List(items) => part
                    .strip_suffix(']')
                    .and_then(|index| items.get(index.parse::<usize>().ok()?))
                    .map(|node| (node.line, node)),
                _ => None,
            };
            let Some(found) = next else { break };
            (line, node) = found;
        }
        line
    }

    /// A map with these keys and no others.
    pub(super) fn table(&self, known: &[&str]) -> Option<Table<'r>> {
        let table = self.any_table()?;
        self.report.check_keys(&self.path, table.entries, known);
        Some(table)
    }

    /// The setting with this key below this one, if this is a map and has it.
    pub(super) fn get(&self, key: &str) -> Option<Field<'r>> {
        match &self.node.value {
            Value::Map(entries) => Table { field: self.clone(), entries }.get(key),
            _ => None,
        }
    }

    /// A map with whatever keys.
    pub(super) fn any_table(&self) -> Option<Table<'r>> {
        match &self.node.value {
            Value::Map(entries) => Some(Table { field: self.clone(), entries }),
            _ => {
                self.problem(&format!("expected a map, found {}", self.node.kind()));
                None
            }
        }
    }

    /// A list with at least one item.
    pub(super) fn list(&self) -> Option<Vec<Field<'r>>> {
        let Value::List(items) = &self.node.value else {
            self.problem(&format!("expected a list, found {}", self.node.kind()));
            return None;
        };
        let fields = items.iter().enumerate().map(|(index, node)| Field {
            report: self.report,
            path: format!("{}[{index}]", self.path),
            line: node.line,
            node,
        });
        Some(fields.collect())
    }

    /// A map of exactly one of these kinds to its settings, beside the keys in `beside`.
    pub(super) fn one_of(&self, kinds: &[&'static str], beside: &[&str]) -> Option<OneOf<'r>> {
        let table = self.any_table()?;
        let known: Vec<_> = beside.iter().chain(kinds).copied().collect();
        self.report.check_keys(&self.path, table.entries, &known);
        let mut found = kinds.iter().filter_map(|kind| Some((*kind, table.get(kind)?)));
        let Some((kind, field)) = found.next() else {
            // An unknown key is reported already.
            if table.entries.iter().all(|(key, _)| beside.contains(&&*key.name)) {
                self.problem(&format!("expected one of {}", quoted(kinds)));
            }
            return None;
        };
        if let Some((other, second)) = found.next() {
            second
                .problem(&format!("there is `{kind}` already: `{other}` needs an item of its own"));
            return None;
        }
        Some(OneOf { kind, field, table })
    }
}

/// The kind that was chosen, its settings, and the map they were in.
pub(super) struct OneOf<'r> {
    pub(super) kind: &'static str,
    pub(super) field: Field<'r>,
    pub(super) table: Table<'r>,
}

/// A map of settings.
pub(super) struct Table<'r> {
    field: Field<'r>,
    entries: &'r [(Key, Node)],
}

impl<'r> Table<'r> {
    /// The setting with this key, if it is there.
    pub(super) fn get(&self, key: &str) -> Option<Field<'r>> {
        let (key, node) = self.entries.iter().find(|(known, _)| known.name == key)?;
        Some(self.child(key, node))
    }

    /// The setting with this key, which has to be there.
    pub(super) fn require(&self, key: &str) -> Option<Field<'r>> {
        let field = self.get(key);
        if field.is_none() {
            self.field.problem(&format!("`{key}` is missing"));
        }
        field
    }

    /// The setting with this key as `read` reads it, or the default if it isn't there.
    pub(super) fn get_or<T>(
        &self,
        key: &str,
        default: T,
        read: impl FnOnce(&Field<'r>) -> Option<T>,
    ) -> Option<T> {
        match self.get(key) {
            None => Some(default),
            Some(field) => read(&field),
        }
    }

    /// Reports a problem of the map itself.
    pub(super) fn problem(&self, message: &str) {
        self.field.problem(message);
    }

    /// All settings, for maps with free keys.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'r str, Field<'r>)> {
        self.entries.iter().map(|(key, node)| (&*key.name, self.child(key, node)))
    }

    /// What the paths of its settings begin with: empty, or the map's own path and a dot.
    fn prefix(&self) -> String {
        let path = &self.field.path;
        if path.is_empty() { String::new() } else { format!("{path}.") }
    }

    fn child(&self, key: &'r Key, node: &'r Node) -> Field<'r> {
        let path = format!("{}{}", self.prefix(), key.name);
        Field { report: self.field.report, path, line: key.line, node }
    }
}

impl Field<'_> {
    /// One of these words.
    pub(super) fn word(&self, known: &[&'static str]) -> Option<&'static str> {
        let text = self.text()?;
        let word = known.iter().find(|word| **word == text).copied();
        if word.is_none() {
            self.problem(&format!("`{text}` is unknown; {}", suggestion(&text, known)));
        }
        word
    }
}
