//! A YAML document as a tree that knows its lines.
//!
//! Parsing only: what the values mean, and whether they may come from the environment, is decided
//! by whoever reads the tree. The input is bounded in size, depth and aliases, so a hostile file
//! is an error rather than a full memory.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use serde_saphyr::options::DuplicateKeyPolicy;

use super::Problem;

/// The largest pipeline file.
pub(crate) const MAX_BYTES: u64 = 1 << 20;

const MAX_DEPTH: usize = 32;
const MAX_NODES: usize = 50_000;
const MAX_ALIASES: usize = 100;

/// A value and the line it is on, from 1.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) line: u64,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) line: u64,
}

impl Node {
    /// What kind of value it is, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "true or false",
            Value::Integer(_) | Value::Float(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }
}

/// Parses one YAML document.
pub(super) fn parse(text: &str) -> Result<Node, Problem> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_aliases: MAX_ALIASES,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_NODES,
            max_replay_stack_depth: MAX_DEPTH,
        },
        // Repeated keys are found here, so that they are reported with all other problems.
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        strict_booleans: true,
        // For keys: there is a sink called `null`.
        null_as_string: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        reject_unsupported_tags: true,
        // A snippet could show a password that stands beside the mistake.
        with_snippet: false,
    };
    let root: Spanned<Value> =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let line = error.location().map_or(1, |location| location.line());
            let message = error.without_snippet().to_string();
            Problem::new(line, "", format!("not valid YAML: {message}"))
        })?;
    Ok(root.into())
}

impl From<Spanned<Value>> for Node {
    fn from(spanned: Spanned<Value>) -> Self {
        Self { line: spanned.referenced.line(), value: spanned.value }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        i64::try_from(value).map(Value::Integer).map_err(|_| E::custom("the number is too large"))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element::<Spanned<Value>>()? {
            items.push(item.into());
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = access.next_key::<Spanned<String>>()? {
            let key = Key { name: key.value, line: key.referenced.line() };
            entries.push((key, access.next_value::<Spanned<Value>>()?.into()));
        }
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn every_value_and_key_knows_its_line() {
        let root = parse("a: 1\nb:\n  - x\n  - {c: 1s}\nd: |\n  one\n  two\n").unwrap();
        let Value::Map(entries) = &root.value else { panic!("{root:?}") };
        let lines: Vec<_> = entries.iter().map(|(k, v)| (&*k.name, k.line, v.line)).collect();
        assert_eq!(lines, [("a", 1, 1), ("b", 2, 3), ("d", 5, 6)]);
        let Value::List(items) = &entries[1].1.value else { panic!("{root:?}") };
        assert_eq!(items.iter().map(|item| item.line).collect::<Vec<_>>(), [3, 4]);
        assert!(matches!(&entries[2].1.value, Value::Text(text) if text == "one\ntwo\n"));
    }

    #[test]
    fn scalars_are_what_they_look_like() {
        let root = parse("[1, -2, 1.5, true, yes, 007, 1_000, 1s, '1', ~, ]").unwrap();
        let Value::List(items) = root.value else { panic!() };
        let kinds: Vec<_> = items.iter().map(Node::kind).collect();
        let (number, text) = ("a number", "text");
        assert_eq!(
            kinds,
            [number, number, number, "true or false", text, text, text, text, text, "nothing"]
        );
    }

    #[test]
    fn a_mistake_in_the_syntax_has_its_line() {
        let tab = problem("a: 1\nb:\n\t- x\n");
        assert!(tab.starts_with("3: not valid YAML: "), "{tab}");
        let open = problem("a: [1, 2\nb: 3\n");
        assert!(open.contains("not valid YAML"), "{open}");
    }

    #[test]
    fn a_hostile_file_is_refused() {
        let nested = problem(&("[".repeat(100) + &"]".repeat(100)));
        assert!(nested.contains("not valid YAML"), "{nested}");
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
        }
        let bomb = problem(&bomb);
        assert!(bomb.contains("not valid YAML"), "{bomb}");
    }
}
