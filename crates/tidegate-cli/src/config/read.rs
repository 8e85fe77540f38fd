//! Reads a part of the tree into a setting's own type, with its `Deserialize`.
//!
//! The connectors' settings are the schema: no key is listed twice. Where serde would stop at the
//! first mistake, reading goes on without the setting that has it, so that all are reported.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde::de::value::StringDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

use super::fault::{Fault, Segment};
use super::node::{Key, Node, Value};
use super::report::Report;
use super::units;

/// The value of `node` as a `T`, or `None` if there were problems, which are reported with the
/// setting's path and this line or the one they are on. Keys in `beside` are read by others.
pub(super) fn read<T: DeserializeOwned>(
    report: &Report<'_>,
    path: &str,
    line: u64,
    node: &Node,
    beside: &[&str],
) -> Option<T> {
    let mut node = node.clone();
    let mut left_out: Vec<String> = Vec::new();
    let checked = RefCell::default();
    loop {
        let reader = Reader { report, path, node: &node, checked: &checked, beside };
        let fault = match T::deserialize(reader) {
            Ok(value) => return left_out.is_empty().then_some(value),
            Err(fault) => fault,
        };
        if let Some(missing) = fault.missing
            && fault.path.is_empty()
            && left_out.iter().any(|key| key == missing)
        {
            return None;
        }
        report.add(fault.line.unwrap_or(line), &fault.full_path(path), &fault.what);
        // Without the setting that is wrong, the next problem shows.
        match fault.path.last() {
            Some(Segment::Key(key)) if remove(&mut node, key) => left_out.push(key.clone()),
            _ => return None,
        }
    }
}

fn remove(node: &mut Node, key: &str) -> bool {
    let Value::Map(entries) = &mut node.value else { return false };
    let before = entries.len();
    entries.retain(|(known, _)| known.name != key);
    entries.len() < before
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    report: &'a Report<'a>,
    path: &'a str,
    node: &'a Node,
    /// The paths of the maps whose keys are checked, since the tree is read several times.
    checked: &'a RefCell<BTreeSet<String>>,
    beside: &'a [&'a str],
}

impl<'a> Reader<'a> {
    fn expand(&self, text: &str) -> Result<String, Fault> {
        self.report.environment.expand(text).map_err(Fault::new)
    }

    /// The text of a scalar that isn't quoted, and of one that came from the environment.
    fn parse<T: std::str::FromStr>(&self, expected: &str) -> Result<T, Fault> {
        let text = match &self.node.value {
            Value::Integer(integer) => integer.to_string(),
            Value::Float(float) => float.to_string(),
            Value::Bool(truth) => truth.to_string(),
            Value::Text(text) => self.expand(text)?,
            _ => return Err(Fault::expected(expected, self.node)),
        };
        text.trim().parse().map_err(|_| Fault::new(format!("expected {expected}, found `{text}`")))
    }

    fn entries(&self) -> Result<&'a [(Key, Node)], Fault> {
        match &self.node.value {
            Value::Map(entries) => Ok(entries),
            _ => Err(Fault::expected("a map", self.node)),
        }
    }

    fn map_access(&self, entries: Vec<&'a (Key, Node)>) -> Entries<'a> {
        Entries { reader: *self, rest: entries.into_iter(), value: None }
    }
}

macro_rules! numbers {
    ($($deserialize:ident $visit:ident $number:ty, $expected:literal;)*) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            visitor.$visit(self.parse::<$number>($expected)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Fault;

    numbers! {
        deserialize_bool visit_bool bool, "true or false";
        deserialize_i8 visit_i8 i8, "a whole number of at most 8 bits";
        deserialize_i16 visit_i16 i16, "a whole number of at most 16 bits";
        deserialize_i32 visit_i32 i32, "a whole number of at most 32 bits";
        deserialize_i64 visit_i64 i64, "a whole number";
        deserialize_u8 visit_u8 u8, "a whole number from 0 to 255";
        deserialize_u16 visit_u16 u16, "a whole number from 0 to 65535";
        deserialize_u32 visit_u32 u32, "a whole number from 0 to 4294967295";
        deserialize_f32 visit_f32 f32, "a number";
        deserialize_f64 visit_f64 f64, "a number";
    }

    /// Numbers of bytes are of this type too, so `64MiB` is a number here.
    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if let Value::Text(text) = &self.node.value
            && let text = self.expand(text)?
            && text.ends_with('B')
        {
            return visitor.visit_u64(units::bytes(&text).map_err(Fault::new)? as u64);
        }
        visitor.visit_u64(self.parse("a whole number that isn't negative")?)
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(truth) => visitor.visit_bool(*truth),
            Value::Integer(integer) => match u64::try_from(*integer) {
                Ok(integer) => visitor.visit_u64(integer),
                Err(_) => visitor.visit_i64(*integer),
            },
            Value::Float(float) => visitor.visit_f64(*float),
            Value::Text(text) => visitor.visit_string(self.expand(text)?),
            Value::List(_) => self.deserialize_seq(visitor),
            Value::Map(_) => self.deserialize_map(visitor),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.value {
            Value::Text(text) => visitor.visit_string(self.expand(text)?),
            _ => Err(Fault::expected("text", self.node)),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.value {
            Value::List(items) => visitor.visit_seq(Items { reader: self, rest: items, index: 0 }),
            _ => Err(Fault::expected("a list", self.node)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_map(self.map_access(self.entries()?.iter().collect()))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let entries = self.entries()?;
        if self.checked.borrow_mut().insert(self.path.to_owned()) {
            self.report.check_keys(self.path, entries, &[fields, self.beside].concat());
        }
        let known = entries.iter().enumerate().filter(|(index, (key, _))| {
            let is_repeated = entries[..*index].iter().any(|(other, _)| other.name == key.name);
            fields.contains(&&*key.name) && !is_repeated
        });
        visitor.visit_map(self.map_access(known.map(|(_, entry)| entry).collect()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match &self.node.value {
            Value::Text(text) => {
                let name = self.expand(text)?;
                visitor.visit_enum(Variant { name, content: None })
            }
            Value::Map(entries) if entries.len() == 1 => {
                let (key, content) = &entries[0];
                let content = Some(Reader { node: content, beside: &[], ..self });
                visitor.visit_enum(Variant { name: key.name.clone(), content })
            }
            _ => Err(Fault::expected("a name", self.node)),
        }
    }

    serde::forward_to_deserialize_any! {
        char bytes byte_buf unit unit_struct tuple_struct ignored_any
    }
}

struct Items<'a> {
    reader: Reader<'a>,
    rest: &'a [Node],
    index: usize,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some((node, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        let segment = Segment::Index(self.index);
        self.index += 1;
        let path = format!("{}[{}]", self.reader.path, self.index - 1);
        let reader = Reader { node, path: &path, beside: &[], ..self.reader };
        seed.deserialize(reader).map(Some).map_err(|fault| fault.inside(segment, node.line))
    }
}

struct Entries<'a> {
    reader: Reader<'a>,
    rest: std::vec::IntoIter<&'a (Key, Node)>,
    value: Option<&'a (Key, Node)>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some(entry) = self.rest.next() else { return Ok(None) };
        self.value = Some(entry);
        let name = StringDeserializer::new(entry.0.name.clone());
        let segment = Segment::Key(entry.0.name.clone());
        seed.deserialize(name).map(Some).map_err(|fault: Fault| fault.inside(segment, entry.0.line))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        let (key, node) = self.value.take().ok_or_else(|| Fault::new("a value before its key"))?;
        let path = format!("{}.{}", self.reader.path, key.name);
        let reader = Reader { node, path: &path, beside: &[], ..self.reader };
        let segment = Segment::Key(key.name.clone());
        seed.deserialize(reader).map_err(|fault| fault.inside(segment, key.line))
    }
}

/// A variant by its name, or by a map of its name to its content.
struct Variant<'a> {
    name: String,
    content: Option<Reader<'a>>,
}

impl<'de, 'a> EnumAccess<'de> for Variant<'a> {
    type Error = Fault;
    type Variant = Content<'a>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Content<'a>), Fault> {
        let variant = seed.deserialize(StringDeserializer::<Fault>::new(self.name))?;
        Ok((variant, Content(self.content)))
    }
}

struct Content<'a>(Option<Reader<'a>>);

impl<'a> Content<'a> {
    fn reader(self) -> Result<Reader<'a>, Fault> {
        self.0.ok_or_else(|| Fault::new("expected a map of the name to its settings"))
    }
}

impl<'de> VariantAccess<'de> for Content<'_> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        match self.0 {
            None => Ok(()),
            Some(reader) => Err(Fault::expected("the name alone", reader.node)),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        seed.deserialize(self.reader()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, Fault> {
        self.reader()?.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.reader()?.deserialize_struct("", fields, visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::super::environment::Environment;
    use super::super::node::parse;
    use super::*;

    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Settings {
        path: String,
        size: usize,
        #[serde(default)]
        share: Option<f64>,
        #[serde(default)]
        kind: Kind,
        #[serde(default)]
        keys: Vec<String>,
        #[serde(default)]
        inner: Option<Inner>,
        #[serde(default)]
        columns: BTreeMap<String, Kind>,
        #[serde(default)]
        on: bool,
    }

    #[derive(Deserialize, Debug, PartialEq, Default)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        #[default]
        Plain,
        Fancy,
    }

    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        count: u32,
        letter: char,
    }

    fn read_text(text: &str) -> (Option<Settings>, Vec<String>) {
        let environment = Environment::of(&[("N", "7"), ("ON", "true"), ("PW", "hunter2")]);
        let report = Report::new(&environment);
        let node = parse(text).unwrap();
        let settings = read(&report, "s", 1, &node, &[]);
        (settings, report.into_problems().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn settings_are_read_with_the_environment_put_in() {
        let (settings, problems) = read_text(
            "path: a-${N}\nsize: ${N}MiB\nshare: 1\nkind: fancy\nkeys: [x, '1']\n\
             inner: {count: '${N}', letter: ;}\ncolumns: {b: fancy, a: plain}\non: ${ON}\n",
        );
        assert_eq!(problems, Vec::<String>::new());
        let columns = [("a".to_owned(), Kind::Plain), ("b".to_owned(), Kind::Fancy)].into();
        assert_eq!(
            settings.unwrap(),
            Settings {
                path: "a-7".to_owned(),
                size: 7 << 20,
                share: Some(1.0),
                kind: Kind::Fancy,
                keys: vec!["x".to_owned(), "1".to_owned()],
                inner: Some(Inner { count: 7, letter: ';' }),
                columns,
                on: true,
            }
        );
    }

    #[test]
    fn all_mistakes_are_reported_with_their_lines_and_paths() {
        let (settings, problems) = read_text(
            "pth: a\n\
             size: many\n\
             share: [1]\n\
             kind: fany\n\
             keys:\n  - x\n  - 5\n\
             inner:\n  count: -1\n  letr: x\n\
             columns:\n  a: plain\n  b: odd\n\
             on: ${PW}\n\
             size: 1\n",
        );
        assert_eq!(settings, None);
        assert_eq!(
            problems,
            [
                "1: s.pth: unknown key; did you mean `path`?",
                "1: s: `path` is missing",
                "2: s.size: expected a whole number that isn't negative, found `many`",
                "3: s.share: expected a number, found a list",
                "4: s.kind: `fany` is unknown; did you mean `fancy`?",
                "7: s.keys[1]: expected text, found a number: put it in quotes",
                "9: s.inner.count: expected a whole number from 0 to 4294967295, found `-1`",
                "10: s.inner.letr: unknown key; did you mean `letter`?",
                "13: s.columns.b: `odd` is unknown; known are `plain`, `fancy`",
                "14: s.on: expected true or false, found `${PW}`",
                "15: s.size: is there twice, the first time on line 2",
            ]
        );
    }

    #[test]
    fn a_missing_variable_is_a_problem_of_its_setting() {
        let (_, problems) = read_text("path: ${NOPE}\nsize: 1\n");
        assert_eq!(
            problems,
            ["1: s.path: the environment variable NOPE is not set: set it, or write \
              `${NOPE:-default}`"]
        );
    }
}
