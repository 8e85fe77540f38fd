//! Declared columns: names with types, in the order in which they were written down.
//!
//! SQLite compares names of columns without regard to ASCII case, and so does everything here.

use std::fmt;

use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::ColumnType;

/// Columns and their types, in order. In settings it is a map from name to type; a name that
/// comes twice is refused.
///
/// ```
/// use tidegate_sqlite::{ColumnType, Columns};
/// let columns = Columns::from_iter([("id", ColumnType::Text), ("delay", ColumnType::Integer)]);
/// assert_eq!(columns.get("Delay"), Some(ColumnType::Integer));
/// ```
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Columns(Vec<(String, ColumnType)>);

impl Columns {
    /// The type of the column with this name, in whichever case.
    pub fn get(&self, name: &str) -> Option<ColumnType> {
        self.0.iter().find(|(other, _)| same_name(other, name)).map(|(_, kind)| *kind)
    }

    /// All columns in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, ColumnType)> {
        self.0.iter().map(|(name, kind)| (name.as_str(), *kind))
    }

    /// Whether none is declared.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a column; false, and nothing added, if there is one with this name.
    fn add(&mut self, name: String, kind: ColumnType) -> bool {
        let is_new = self.get(&name).is_none();
        if is_new {
            self.0.push((name, kind));
        }
        is_new
    }
}

/// Whether SQLite takes both for the same column.
pub(crate) fn same_name(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// Of columns with the same name the first one counts.
impl<N: Into<String>> FromIterator<(N, ColumnType)> for Columns {
    fn from_iter<I: IntoIterator<Item = (N, ColumnType)>>(columns: I) -> Self {
        let mut all = Self::default();
        for (name, kind) in columns {
            all.add(name.into(), kind);
        }
        all
    }
}

impl fmt::Debug for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for Columns {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Columns {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ColumnsVisitor;

        impl<'de> Visitor<'de> for ColumnsVisitor {
            type Value = Columns;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from column name to type")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Columns, M::Error> {
                let mut columns = Columns::default();
                while let Some((name, kind)) = map.next_entry::<String, ColumnType>()? {
                    if !columns.add(name.clone(), kind) {
                        let message = format!("column {name:?} is declared twice");
                        return Err(M::Error::custom(message));
                    }
                }
                Ok(columns)
            }
        }

        from.deserialize_map(ColumnsVisitor)
    }
}
