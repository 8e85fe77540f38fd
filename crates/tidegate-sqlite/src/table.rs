//! The table: which columns it has, which values they take, and the statements for it.
//!
//! - What is known of the table was read from the database or is about to be created there.
//! - An item becomes a [`Row`] or a reason why it can't; both before any statement runs.
//! - Names reach a statement only through [`quoted`].

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value as Json;

use crate::client::{Client, Failure, Fault, SqlValue};
use crate::columns::same_name;
use crate::{ColumnType, Columns, SqliteSinkConfig};

/// A table as the sink sees it.
#[derive(Debug)]
pub(crate) struct Table {
    name: String,
    columns: Vec<(String, ColumnType)>,
    /// Index into `columns` by name in lower case.
    by_name: HashMap<String, usize>,
    /// Index into `columns`.
    key: Vec<usize>,
}

/// An item as values for some of the columns, in the table's order.
#[derive(Debug, PartialEq)]
pub(crate) struct Row {
    columns: Vec<usize>,
    values: Vec<SqlValue>,
}

impl Row {
    /// The columns that it has values for.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The values, one for each of its columns.
    pub(crate) fn values(&self) -> &[SqlValue] {
        &self.values
    }
}

impl Table {
    /// Reads the table from the database; `None` if it isn't there.
    ///
    /// Fails if the settings ask for what the table doesn't have.
    pub(crate) fn read(
        client: &Client,
        config: &SqliteSinkConfig,
    ) -> Result<Option<Self>, Failure> {
        let sql = "SELECT name, type FROM pragma_table_info(?1)";
        let rows = client.rows(sql, &[SqlValue::Text(config.table.clone())])?;
        let columns = rows.into_iter().filter_map(|row| match <[SqlValue; 2]>::try_from(row) {
            Ok([SqlValue::Text(name), SqlValue::Text(declared)]) => {
                let kind = config.columns.get(&name);
                let kind = kind.unwrap_or_else(|| ColumnType::of_declared(&declared));
                Some((name, kind))
            }
            _ => None,
        });
        let columns: Vec<_> = columns.collect();
        if columns.is_empty() {
            return Ok(None);
        }
        let table = Self::new(config, columns)?;
        table.check_statements(client)?;
        Ok(Some(table))
    }

    /// Creates the table, unless another process was faster, and reads it.
    pub(crate) fn create(
        client: &Client,
        config: &SqliteSinkConfig,
        columns: &Columns,
    ) -> Result<Self, Failure> {
        client.run(&create_statement(config, columns))?;
        let absent =
            || Failure::new(Fault::Explained, "the table is gone right after its creation");
        Self::read(client, config)?.ok_or_else(absent)
    }

    fn new(config: &SqliteSinkConfig, columns: Vec<(String, ColumnType)>) -> Result<Self, Failure> {
        let named = columns.iter().enumerate();
        let by_name: HashMap<_, _> =
            named.map(|(index, (name, _))| (name.to_ascii_lowercase(), index)).collect();
        let find = |setting: &str, name: &str| {
            by_name.get(&name.to_ascii_lowercase()).copied().ok_or_else(|| {
                let table = &config.table;
                let message = format!(
                    "`{setting}` names column {name:?}, which table {table:?} does not have: \
                     add it to the table (ALTER TABLE … ADD COLUMN) or correct the setting"
                );
                Failure::new(Fault::Explained, message)
            })
        };
        for (name, _) in config.columns.iter() {
            find("columns", name)?;
        }
        let key = config.key.iter().map(|name| find("key", name)).collect::<Result<_, _>>()?;
        Ok(Self { name: config.table.clone(), columns, by_name, key })
    }

    /// Finds out before the first message whether rows can be written at all: the table may be a
    /// view, or lack the unique index that an upsert needs.
    fn check_statements(&self, client: &Client) -> Result<(), Failure> {
        let some: &[usize] = if self.key.is_empty() { &[0] } else { &self.key };
        match client.prepare(&self.insert_statement(some)) {
            Ok(_) => Ok(()),
            Err(failure) if failure.message.contains("ON CONFLICT clause does not match") => {
                let (table, key) = (quoted(&self.name), self.names(&self.key));
                let message = format!(
                    "table {table} has neither a primary key nor a unique index on exactly the \
                     columns of `key`: run CREATE UNIQUE INDEX … ON {table} ({key}), or name \
                     the columns of the index it has"
                );
                Err(Failure::new(Fault::Explained, message))
            }
            Err(failure) => Err(failure),
        }
    }

    /// The item as a row, or why it can't be one.
    pub(crate) fn row<T: Serialize>(&self, item: &T) -> Result<Row, String> {
        let json = serde_json::to_value(item).map_err(|error| error.to_string())?;
        let Json::Object(members) = json else {
            return Err(format!("a row is made from an object, not from {}", kind_of(&json)));
        };
        let mut cells = Vec::with_capacity(members.len());
        for (name, value) in members {
            let column = self.find(&name)?;
            let value = self.columns[column].1.fit(value);
            cells.push((column, value.map_err(|misfit| format!("column {name:?} {misfit}"))?));
        }
        cells.sort_unstable_by_key(|(column, _)| *column);
        if let Some(twice) = cells.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(format!("column {:?} is given twice", self.columns[twice[0].0].0));
        }
        let (columns, values): (Vec<_>, Vec<_>) = cells.into_iter().unzip();
        for &column in &self.key {
            let name = &self.columns[column].0;
            match columns.binary_search(&column).map(|at| &values[at]) {
                Ok(SqlValue::Null) => return Err(format!("key column {name:?} is null")),
                Ok(_) => (),
                Err(_) => return Err(format!("key column {name:?} is missing")),
            }
        }
        Ok(Row { columns, values })
    }

    fn find(&self, name: &str) -> Result<usize, String> {
        let found = self.by_name.get(name);
        let found = found.or_else(|| self.by_name.get(&name.to_ascii_lowercase()));
        found.copied().ok_or_else(|| {
            let short: String = name.chars().take(60).collect();
            format!("table {:?} has no column {short:?}", self.name)
        })
    }

    /// The statement that writes a row with these columns.
    ///
    /// `OR ABORT` overrides what the table's own constraints may say: with `ON CONFLICT IGNORE`
    /// there, a row would vanish and count as written; with `ROLLBACK`, its neighbours would.
    pub(crate) fn insert_statement(&self, columns: &[usize]) -> String {
        let table = quoted(&self.name);
        if columns.is_empty() {
            return format!("INSERT OR ABORT INTO {table} DEFAULT VALUES");
        }
        let places = vec!["?"; columns.len()].join(", ");
        let names = self.names(columns);
        let insert = format!("INSERT OR ABORT INTO {table} ({names}) VALUES ({places})");
        if self.key.is_empty() {
            return insert;
        }
        let others = columns.iter().filter(|column| !self.key.contains(column));
        let updates: Vec<_> = others
            .map(|&column| quoted(&self.columns[column].0))
            .map(|name| format!("{name} = excluded.{name}"))
            .collect();
        let update = match updates.is_empty() {
            true => "NOTHING".to_owned(),
            false => format!("UPDATE SET {}", updates.join(", ")),
        };
        format!("{insert} ON CONFLICT ({}) DO {update}", self.names(&self.key))
    }

    fn names(&self, columns: &[usize]) -> String {
        let names: Vec<_> = columns.iter().map(|&column| quoted(&self.columns[column].0)).collect();
        names.join(", ")
    }
}

/// The columns that occur in these items, in the order of their first appearance. A column with
/// values of different types, or with nothing but nulls, takes anything.
pub(crate) fn columns_of<T: Serialize>(items: &[T]) -> Columns {
    let mut seen: Vec<(String, Option<ColumnType>)> = Vec::new();
    for item in items {
        // An item that can't be a row is refused later; it has no say in the table's shape.
        let Ok(Json::Object(members)) = serde_json::to_value(item) else { continue };
        for (name, value) in members {
            let kind = ColumnType::of_value(&value);
            match seen.iter_mut().find(|(other, _)| same_name(other, &name)) {
                Some((_, known)) => match (*known, kind) {
                    (None, kind) => *known = kind,
                    (Some(one), Some(other)) if one != other => *known = Some(ColumnType::Any),
                    _ => (),
                },
                None if name.is_empty() || name.contains('\0') => (),
                None => seen.push((name, kind)),
            }
        }
    }
    seen.into_iter().map(|(name, kind)| (name, kind.unwrap_or(ColumnType::Any))).collect()
}

fn create_statement(config: &SqliteSinkConfig, columns: &Columns) -> String {
    let is_key = |name: &str| config.key.iter().any(|key| same_name(key, name));
    // A key column that no item has must be there all the same; every such item is refused.
    let missing = config.key.iter().filter(|key| columns.get(key).is_none());
    let all = columns.iter().chain(missing.map(|key| (key.as_str(), ColumnType::Any)));
    let mut parts: Vec<_> = all
        .map(|(name, kind)| {
            let not_null = if is_key(name) { " NOT NULL" } else { "" };
            format!("{} {}{not_null}", quoted(name), kind.declaration())
        })
        .collect();
    if !config.key.is_empty() {
        let key: Vec<_> = config.key.iter().map(|name| quoted(name)).collect();
        parts.push(format!("PRIMARY KEY ({})", key.join(", ")));
    }
    format!("CREATE TABLE IF NOT EXISTS {} ({})", quoted(&config.table), parts.join(", "))
}

/// A name as SQL takes it, whatever characters it has.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn kind_of(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "true or false",
        Json::Number(_) => "a number",
        Json::String(_) => "a text",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    }
}
