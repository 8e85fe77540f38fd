use tidegate_file::{FileFormat, FileSourceConfig};
use tidegate_local::LocalSourceConfig;

use super::field::Field;

/// Where records come from.
pub(crate) enum SourceConfig {
    /// Files or standard input.
    File(FileSourceConfig),
    /// A topic of the embedded log.
    Local {
        /// The topic and the group.
        config: LocalSourceConfig,
        /// What the payloads are.
        format: PayloadFormat,
    },
}

/// What a payload is, and so what the first step gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PayloadFormat {
    /// A JSON value.
    Json,
    /// A row of a CSV file: an object of texts.
    Csv,
    /// A text.
    Lines,
}

impl PayloadFormat {
    /// Its name in the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Lines => "lines",
        }
    }
}

impl SourceConfig {
    /// What the payloads are.
    pub(crate) fn format(&self) -> PayloadFormat {
        match self {
            Self::File(config) => match config.format {
                FileFormat::Json => PayloadFormat::Json,
                FileFormat::Csv => PayloadFormat::Csv,
                FileFormat::Lines => PayloadFormat::Lines,
            },
            Self::Local { format, .. } => *format,
        }
    }

    /// Whether its positions are kept in the pipeline's store.
    pub(crate) fn uses_store(&self) -> bool {
        matches!(self, Self::File(_))
    }
}

pub(super) fn read(field: &Field<'_>) -> Option<SourceConfig> {
    let chosen = field.one_of(&["file", "local"], &[])?;
    let field = &chosen.field;
    match chosen.kind {
        "file" => field
            .settings(&[], |config: &FileSourceConfig| {
                let problems = config.validate().err().map(|error| error.problems().to_vec());
                let problems = problems.unwrap_or_default().into_iter();
                problems.map(|problem| (problem.key, problem.message))
            })
            .map(SourceConfig::File),
        _ => {
            let format = match field.get("format") {
                None => Some(PayloadFormat::Json),
                Some(field) => field.word(&["json", "lines"]).map(|word| match word {
                    "json" => PayloadFormat::Json,
                    _ => PayloadFormat::Lines,
                }),
            };
            let config = field.settings(&["format"], |config: &LocalSourceConfig| {
                let problems = config.problems().into_iter();
                problems.map(|problem| (problem.key.to_owned(), problem.message))
            });
            Some(SourceConfig::Local { config: config?, format: format? })
        }
    }
}
