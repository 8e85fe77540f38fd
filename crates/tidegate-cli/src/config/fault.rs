use std::fmt::{self, Display};

use serde::de::{self, Expected, Unexpected};

use super::node::{Node, Value};
use super::suggest::suggestion;

/// What is wrong, and where below the value that is read.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) what: String,
    /// From the inside out.
    pub(super) path: Vec<Segment>,
    pub(super) line: Option<u64>,
    pub(super) missing: Option<&'static str>,
}

#[derive(Debug)]
pub(super) enum Segment {
    Key(String),
    Index(usize),
}

impl Fault {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), path: Vec::new(), line: None, missing: None }
    }

    pub(super) fn expected(expected: &str, node: &Node) -> Self {
        let hint = match (expected, &node.value) {
            ("text", Value::Integer(_) | Value::Float(_) | Value::Bool(_)) => ": put it in quotes",
            ("a list", Value::Text(_)) => ": put it in [ ]",
            _ => "",
        };
        Self::new(format!("expected {expected}, found {}{hint}", node.kind()))
    }

    pub(super) fn inside(mut self, segment: Segment, line: u64) -> Self {
        self.path.push(segment);
        self.line.get_or_insert(line);
        self
    }

    pub(super) fn full_path(&self, base: &str) -> String {
        self.path.iter().rev().fold(base.to_owned(), |path, segment| match segment {
            Segment::Key(key) if path.is_empty() => key.clone(),
            Segment::Key(key) => format!("{path}.{key}"),
            Segment::Index(index) => format!("{path}[{index}]"),
        })
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: Display>(message: T) -> Self {
        Self::new(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("expected {expected}, found {found}"))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("expected {expected}, found {found}"))
    }

    fn missing_field(field: &'static str) -> Self {
        let what = format!("`{field}` is missing");
        Self { what, path: Vec::new(), line: None, missing: Some(field) }
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!("`{variant}` is unknown; {}", suggestion(variant, expected)))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!("`{field}` is unknown; {}", suggestion(field, expected)))
    }
}
