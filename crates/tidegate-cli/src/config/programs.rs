//! The jq programs of a pipeline file. They are compiled here, so that a pipeline whose file was
//! read can't fail to compile at its first record.

use super::environment::is_name;
use super::field::Field;
use crate::jq::{Program, Val, from_json};

/// What the programs of one pipeline have in common.
pub(super) struct Programs {
    variables: Vec<(String, Val)>,
}

impl Programs {
    /// Reads `vars`, the variables that programs see. If there are problems with them, they are
    /// reported, and the programs can still be compiled as far as that is possible.
    pub(super) fn with_variables(field: Option<&Field<'_>>) -> Self {
        let table = field.and_then(Field::any_table);
        let variables = table.iter().flat_map(|table| table.fields());
        let variables = variables.map(|(name, field)| {
            if !is_name(name) {
                field.problem("a variable's name has letters, digits and `_` only");
            }
            (name.to_owned(), field.read().map_or(Val::Null, from_json))
        });
        Self { variables: variables.collect() }
    }

    /// Compiles the program in this setting.
    pub(super) fn compile(&self, field: &Field<'_>) -> Option<Program> {
        let (text, line) = field.raw_text()?;
        if let Some(start) = text.find("${") {
            let line = line + text[..start].matches('\n').count() as u64;
            field.report.add(
                line,
                &field.path,
                "`${...}` is not replaced inside a program, so that a value can't become part of \
                 it: write `name: ${...}` under `vars:` and use `$name` here",
            );
            return None;
        }
        self.compile_text(field, text, line)
    }

    /// Compiles the program for a key: `carrier` is short for `.carrier`.
    pub(super) fn compile_key(&self, field: &Field<'_>) -> Option<Program> {
        let (text, line) = field.raw_text()?;
        self.compile_text(field, &key_program(text), line)
    }

    fn compile_text(&self, field: &Field<'_>, text: &str, line: u64) -> Option<Program> {
        let problems = match Program::compile(text, &self.variables) {
            Ok(program) => return Some(program),
            Err(problems) => problems,
        };
        for problem in problems {
            // The text of a `|` block begins on the line behind its key, and keeps its lines.
            let line = line + problem.line.saturating_sub(1) as u64;
            field.report.add(line, &field.path, &problem.to_string());
        }
        None
    }
}

/// The program for a key: a bare name is a field.
pub(crate) fn key_program(text: &str) -> String {
    if is_name(text) { format!(".{text}") } else { text.to_owned() }
}
