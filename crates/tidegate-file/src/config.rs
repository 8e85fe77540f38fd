//! The settings of the source and of the sink.
//!
//! Plain values, checked once when the source or sink is made; every problem is reported, with
//! its key. Unknown keys are refused by serde.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{ConfigError, ConfigProblem};

/// The path that means standard input, or standard output for the sink.
pub(crate) const STANDARD: &str = "-";

/// A line may be no longer than this: what a batch can hold, with room to spare.
const LONGEST_LINE: usize = 1 << 30;

/// What the lines of a file are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileFormat {
    /// Each line is one JSON value. Blank lines are skipped.
    #[default]
    Json,
    /// Rows of comma-separated values, as in RFC 4180: a quoted field may hold line breaks.
    /// Empty lines are skipped.
    Csv,
    /// Each line is a text, an empty line too.
    Lines,
}

/// How a file is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Found out from the file's first bytes. A file that is named `.gz` or `.zst` and isn't
    /// that is refused.
    #[default]
    Auto,
    /// Not at all, whatever its name or first bytes are.
    None,
    /// gzip, of one or several members.
    Gzip,
    /// Zstandard, of one or several frames.
    Zstd,
}

/// How CSV is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CsvOptions {
    /// What stands between two fields: one ASCII character. Default `,`.
    #[serde(default = "comma")]
    pub delimiter: char,
    /// Whether a file's first row names the columns. Default `true`; without it the columns are
    /// called `column_1`, `column_2` and so on.
    #[serde(default = "yes")]
    pub header: bool,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self { delimiter: comma(), header: yes() }
    }
}

/// Settings of the file source.
///
/// ```
/// use tidegate_file::{FileFormat, FileSourceConfig};
/// let config = FileSourceConfig::new("data/*.jsonl.gz");
/// assert_eq!((config.format, config.follow), (FileFormat::Json, false));
/// assert!(config.validate().is_ok());
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSourceConfig {
    /// A file, a pattern (`data/*.jsonl`, `logs/**/*.log`), or `-` for standard input. A path
    /// that exists is taken as it is, even with `*`, `?` or `[` in it. As in a shell, `*` does
    /// not match a leading dot. Files are read in the order of their paths' bytes.
    pub path: String,
    /// What the lines are. Default `json`.
    #[serde(default)]
    pub format: FileFormat,
    /// How files are compressed. Default `auto`.
    #[serde(default)]
    pub compression: Compression,
    /// Whether to go on at the end of the files, with what is appended to them, with new files
    /// and with those that take their place (rotation). Default `false`: the source ends.
    #[serde(default)]
    pub follow: bool,
    /// The longest line, or CSV row, in bytes without its line break; at most 1 GiB. A longer one
    /// stops the source. It bounds the memory that a broken file can take. Default 16 MiB.
    #[serde(default = "default_max_line")]
    pub max_line: usize,
    /// How CSV is read; only with `format: csv`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csv: Option<CsvOptions>,
}

impl FileSourceConfig {
    /// The defaults, for this path.
    pub fn new(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            format: FileFormat::default(),
            compression: Compression::default(),
            follow: false,
            max_line: default_max_line(),
            csv: None,
        }
    }

    /// Checks the settings as far as that is possible without reading files.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let mut problems = Vec::new();
        let mut problem = |key: &str, text: String| problems.push(ConfigProblem::new(key, text));
        if self.path.is_empty() {
            problem("path", "is empty; give a file, a pattern, or - for standard input".into());
        } else if let Err(error) = glob::Pattern::new(&self.path)
            && !Path::new(&self.path).exists()
        {
            problem(
                "path",
                format!("is not a valid pattern, at byte {}: {}", error.pos, error.msg),
            );
        }
        if self.max_line == 0 || self.max_line > LONGEST_LINE {
            problem("max_line", format!("is {}; give 1 to {LONGEST_LINE} bytes", self.max_line));
        }
        if self.follow && self.path == STANDARD {
            problem(
                "follow",
                "standard input is read to its end anyway; leave `follow` out".into(),
            );
        }
        if self.follow && matches!(self.compression, Compression::Gzip | Compression::Zstd) {
            problem(
                "follow",
                "compressed files can't be followed; leave one of the two out".into(),
            );
        }
        match self.csv {
            Some(_) if self.format != FileFormat::Csv => {
                problem("csv", "is for `format: csv` only".into());
            }
            Some(options) if !is_delimiter(options.delimiter) => {
                problem("csv.delimiter", not_a_delimiter(options.delimiter));
            }
            _ => {}
        }
        ConfigError::unless_empty(problems)
    }

    pub(crate) fn csv_options(&self) -> CsvOptions {
        self.csv.unwrap_or_default()
    }
}

/// What the sink writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SinkFormat {
    /// One JSON value a line.
    #[default]
    Json,
    /// Rows of comma-separated values below a row with the columns' names.
    Csv,
}

/// How CSV is written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CsvSinkOptions {
    /// What stands between two fields: one ASCII character. Default `,`.
    #[serde(default = "comma")]
    pub delimiter: char,
    /// The columns, in order. Default: those of the file that is appended to, else the keys of
    /// the first item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
}

impl Default for CsvSinkOptions {
    fn default() -> Self {
        Self { delimiter: comma(), columns: None }
    }
}

/// Settings of the file sink.
///
/// ```
/// use tidegate_file::FileSinkConfig;
/// assert!(FileSinkConfig::new("out.jsonl").validate().is_ok());
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSinkConfig {
    /// The file, which is appended to, or `-` for standard output. Its directory must exist.
    pub path: String,
    /// What to write. Default `json`.
    #[serde(default)]
    pub format: SinkFormat,
    /// How CSV is written; only with `format: csv`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csv: Option<CsvSinkOptions>,
}

impl FileSinkConfig {
    /// The defaults, for this path.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), format: SinkFormat::default(), csv: None }
    }

    /// JSON lines on standard output.
    pub fn stdout() -> Self {
        Self::new(STANDARD)
    }

    /// Checks the settings as far as that is possible without looking at the file.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let mut problems = Vec::new();
        let mut problem = |key: &str, text: String| problems.push(ConfigProblem::new(key, text));
        if self.path.is_empty() {
            problem("path", "is empty; give a file, or - for standard output".into());
        }
        if let Some(options) = &self.csv {
            if self.format != SinkFormat::Csv {
                problem("csv", "is for `format: csv` only".into());
            }
            if !is_delimiter(options.delimiter) {
                problem("csv.delimiter", not_a_delimiter(options.delimiter));
            }
            if let Some(columns) = &options.columns {
                if columns.is_empty() {
                    problem("csv.columns", "is empty; name at least one column".into());
                }
                if let Some(twice) = first_repeated(columns) {
                    problem("csv.columns", format!("`{twice}` is there twice"));
                }
            }
        }
        ConfigError::unless_empty(problems)
    }
}

/// The first name that was there before.
pub(crate) fn first_repeated(names: &[String]) -> Option<&String> {
    let mut seen = std::collections::HashSet::new();
    names.iter().find(|name| !seen.insert(name.as_str()))
}

fn is_delimiter(c: char) -> bool {
    c.is_ascii() && !matches!(c, '"' | '\r' | '\n' | '\0')
}

fn not_a_delimiter(c: char) -> String {
    format!("is {c:?}; give one ASCII character that is not a quote or a line break")
}

fn default_max_line() -> usize {
    16 << 20
}

fn comma() -> char {
    ','
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_reported_with_its_key() {
        let config = FileSourceConfig {
            path: "a/***".into(),
            format: FileFormat::Lines,
            compression: Compression::Gzip,
            follow: true,
            max_line: 0,
            csv: Some(CsvOptions::default()),
        };
        let error = config.validate().unwrap_err();
        let keys: Vec<_> = error.problems().iter().map(|p| p.key.as_str()).collect();
        assert_eq!(keys, ["path", "max_line", "follow", "csv"]);
        assert!(error.to_string().contains("; max_line: is 0; give 1 to 1073741824 bytes; "));
    }

    #[test]
    fn settings_are_read_with_defaults_and_unknown_keys_refused() {
        let config: FileSourceConfig =
            serde_json::from_str(r#"{"path":"x.csv","format":"csv","csv":{"delimiter":";"}}"#)
                .unwrap();
        assert_eq!(config.csv_options(), CsvOptions { delimiter: ';', header: true });
        assert_eq!((config.compression, config.max_line), (Compression::Auto, 16 << 20));
        let error = serde_json::from_str::<FileSourceConfig>(r#"{"path":"x","fllow":true}"#);
        assert!(error.unwrap_err().to_string().contains("unknown field `fllow`"));
    }

    #[test]
    fn the_sinks_columns_must_be_there_and_differ() {
        let mut config = FileSinkConfig::new("out.csv");
        config.csv = Some(CsvSinkOptions {
            delimiter: 'é',
            columns: Some(vec!["a".into(), "b".into(), "a".into()]),
        });
        let error = config.validate().unwrap_err();
        assert_eq!(
            error.to_string(),
            "csv: is for `format: csv` only; csv.delimiter: is 'é'; give one ASCII character that \
             is not a quote or a line break; csv.columns: `a` is there twice"
        );
    }
}
