//! Why a program doesn't compile, with the place in its text.

use std::fmt;

use jaq_core::compile::Undefined;
use jaq_core::load;

use super::library;

/// One problem of a program's text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProgramProblem {
    /// What is wrong.
    message: String,
    /// The line in the program, from 1.
    pub(crate) line: usize,
    /// The character in the line, from 1.
    column: usize,
    /// The line itself.
    source: String,
    /// How many characters the problem is about, at least 1.
    width: usize,
}

impl ProgramProblem {
    /// A problem at `part`, which is a slice of `program`.
    fn at(program: &str, part: &str, message: String) -> Self {
        let span = load::span(program, part);
        let line_start = program[..span.start].rfind('\n').map_or(0, |newline| newline + 1);
        let source = program[line_start..].lines().next().unwrap_or_default();
        let width = part.lines().next().unwrap_or_default().chars().count().max(1);
        Self {
            message,
            line: program[..line_start].matches('\n').count() + 1,
            column: program[line_start..span.start].chars().count() + 1,
            source: source.to_owned(),
            width,
        }
    }

    /// What the loader found.
    pub(super) fn from_load(program: &str, error: load::Error<&str>) -> Vec<Self> {
        match error {
            load::Error::Io(imports) => imports
                .into_iter()
                .map(|(part, _)| Self::at(program, part, "a program can't import files".to_owned()))
                .collect(),
            load::Error::Lex(errors) => errors
                .into_iter()
                .map(|(expected, part)| {
                    // What was found is all of the rest: only its beginning says something.
                    let found = &part[..part.chars().next().map_or(0, char::len_utf8)];
                    Self::expected(program, expected.as_str(), found)
                })
                .collect(),
            load::Error::Parse(errors) => errors
                .into_iter()
                .map(|(expected, part)| Self::expected(program, expected.as_str(), part))
                .collect(),
        }
    }

    /// What the compiler found.
    pub(super) fn from_undefined(program: &str, name: &str, kind: &Undefined) -> Self {
        let message = match (kind, library::why_withheld(name)) {
            (Undefined::Filter(_), Some(reason)) => format!("`{name}` is not available: {reason}"),
            (Undefined::Filter(0), None) => format!("there is no function `{name}`"),
            (Undefined::Filter(count), None) => {
                let arguments = if *count == 1 { "argument" } else { "arguments" };
                format!("there is no function `{name}` with {count} {arguments}")
            }
            (Undefined::Var, _) if name == "$ENV" => {
                "a program can't see the environment: put the value under `vars:`".to_owned()
            }
            (Undefined::Var, _) => {
                format!("there is no variable `{name}`; variables are set under `vars:`")
            }
            (kind, _) => format!("there is no {} `{name}`", kind.as_str()),
        };
        Self::at(program, name, message)
    }

    fn expected(program: &str, expected: &str, found: &str) -> Self {
        let found_text = match found.lines().next() {
            None | Some("") => "the end of the program".to_owned(),
            Some(line) => format!("`{line}`"),
        };
        Self::at(program, found, format!("expected {expected}, found {found_text}"))
    }
}

/// The message with its place, then the line with the place marked below it.
impl fmt::Display for ProgramProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "at {}:{} of the program: {}", self.line, self.column, self.message)?;
        writeln!(f, "  | {}", self.source)?;
        // Tabs stay tabs, so that the mark is where the terminal shows the place.
        let indent: String = self
            .source
            .chars()
            .take(self.column - 1)
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        write!(f, "  | {indent}{}", "^".repeat(self.width))
    }
}
