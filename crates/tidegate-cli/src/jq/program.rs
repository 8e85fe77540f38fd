use std::fmt;
use std::sync::Arc;
use std::vec;

use jaq_core::load::{Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Filter, ValT as _, Vars};
use jaq_json::Val;
use tidegate_core::BoxError;

use super::library::Data;
use super::{ProgramProblem, encode_json, library};

/// A compiled program. Shared by all partitions; running it changes nothing in it.
pub(crate) struct Program {
    text: String,
    filter: Filter<Data>,
    variables: Vec<Val>,
}

/// What became of one record.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// The program's own `error(...)`, or something it tried that can't be done.
    #[error("jq: {0}")]
    Program(String),
    /// It made more outputs than allowed, perhaps without an end.
    #[error("jq: more than {limit} outputs from one record (the limit is limits.jq_outputs)")]
    TooManyOutputs {
        /// The limit.
        limit: usize,
    },
}

impl Program {
    /// Compiles a program that sees these variables, by their names without the `$`.
    pub(crate) fn compile(
        text: &str,
        variables: &[(String, Val)],
    ) -> Result<Self, Vec<ProgramProblem>> {
        let arena = Arena::default();
        let modules = Loader::new(library::definitions())
            .load(&arena, File { code: text, path: () })
            .map_err(|files| {
                let errors = files.into_iter().map(|(_, error)| error);
                errors.flat_map(|error| ProgramProblem::from_load(text, error)).collect::<Vec<_>>()
            })?;
        let names: Vec<_> = variables.iter().map(|(name, _)| format!("${name}")).collect();
        let filter = Compiler::default()
            .with_funs(library::functions())
            .with_global_vars(names.iter().map(String::as_str))
            .compile(modules)
            .map_err(|files| {
                let errors = files.into_iter().flat_map(|(_, errors)| errors);
                errors
                    .map(|(name, kind)| ProgramProblem::from_undefined(text, name, &kind))
                    .collect::<Vec<_>>()
            })?;
        let variables = variables.iter().map(|(_, value)| value.clone()).collect();
        Ok(Self { text: text.to_owned(), filter, variables })
    }

    /// The program's text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// All outputs for this input, or the first error. Outputs are pulled one by one, so that a
    /// program without end stops at the limit; one that loops without an output does not stop.
    pub(crate) fn outputs(&self, input: Val, limit: usize) -> Result<Outputs, RunError> {
        let mut outputs = self.run(input);
        let Some(first) = outputs.next().transpose()? else { return Ok(Outputs::None) };
        let Some(second) = outputs.next().transpose()? else { return Ok(Outputs::One(first)) };
        let mut all = vec![first, second];
        for output in outputs {
            if all.len() >= limit {
                return Err(RunError::TooManyOutputs { limit });
            }
            all.push(output?);
        }
        Ok(Outputs::Many(all.into_iter()))
    }

    fn first(&self, input: Val) -> Result<Option<Val>, RunError> {
        self.run(input).next().transpose()
    }

    /// The first output as a record's key: a text as it is, anything else as JSON. `None` if it
    /// is `null`, or if there is no output.
    pub(crate) fn key(&self, input: Val) -> Result<Option<Vec<u8>>, BoxError> {
        Ok(match self.first(input)? {
            None | Some(Val::Null) => None,
            Some(Val::TStr(text)) => Some(text.to_vec()),
            Some(other) => Some(encode_json(&other)?),
        })
    }

    /// Whether the first output is neither `false` nor `null`. No output means no.
    pub(crate) fn matches(&self, input: Val) -> Result<bool, RunError> {
        Ok(self.first(input)?.is_some_and(|output| output.as_bool()))
    }

    fn run(&self, input: Val) -> impl Iterator<Item = Result<Val, RunError>> {
        let variables = Vars::new(self.variables.iter().cloned());
        let context = Ctx::<Data>::new(&self.filter.lut, variables);
        self.filter.id.run((context, input)).map(|output| {
            output.map_err(|exception| {
                RunError::Program(match exception.get_err() {
                    Ok(error) => message_of(error.into_val()),
                    // Only `halt` and a stray `break` could get here, and neither compiles.
                    Err(exception) => format!("the program ended itself: {exception:?}"),
                })
            })
        })
    }
}

/// The text of `error("...")` as it is, any other value as JSON.
fn message_of(value: Val) -> String {
    match value {
        Val::TStr(text) => String::from_utf8_lossy(&text).into_owned(),
        other => other.to_string(),
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({})", self.text)
    }
}

/// A record's outputs, in order. One output, the usual case, costs no allocation.
#[derive(Debug)]
pub(crate) enum Outputs {
    /// No output: the record is filtered.
    None,
    /// One output.
    One(Val),
    /// Two or more.
    Many(vec::IntoIter<Val>),
}

impl Outputs {
    /// The items of a list; anything else comes back.
    pub(crate) fn of_list(list: Val) -> Result<Self, Val> {
        match list {
            Val::Arr(items) => {
                let items = Arc::try_unwrap(items).unwrap_or_else(|shared| (*shared).clone());
                Ok(Self::Many(items.into_iter()))
            }
            other => Err(other),
        }
    }
}

impl Iterator for Outputs {
    type Item = Val;

    fn next(&mut self) -> Option<Val> {
        match self {
            Self::None => None,
            Self::One(value) => {
                let value = std::mem::take(value);
                *self = Self::None;
                Some(value)
            }
            Self::Many(values) => values.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::decode_json;
    use super::*;

    fn val(text: &str) -> Val {
        decode_json(text.as_bytes()).unwrap()
    }

    fn run(program: &str, input: &str) -> Result<Vec<String>, RunError> {
        let program = Program::compile(program, &[]).unwrap();
        Ok(program.outputs(val(input), 1_000)?.map(|output| output.to_string()).collect())
    }

    fn problems(program: &str) -> String {
        let problems = Program::compile(program, &[]).unwrap_err();
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_program_is_shared_between_threads_and_so_are_its_values() {
        fn is_shared<T: Send + Sync>() {}
        is_shared::<Program>();
        is_shared::<Val>();
        is_shared::<Outputs>();
    }

    #[test]
    fn a_record_gives_no_one_or_many_outputs_in_order() {
        assert!(run("select(.a > 1)", r#"{"a":1}"#).unwrap().is_empty());
        assert_eq!(run("select(.a > 0)", r#"{"a":1}"#).unwrap(), [r#"{"a":1}"#]);
        assert_eq!(run(".[] * 2", "[1,2,3]").unwrap(), ["2", "4", "6"]);
    }

    #[test]
    fn the_programs_own_error_is_the_records_error() {
        let error = run(r#"if .a then . else error("a is missing") end"#, "{}").unwrap_err();
        assert_eq!(error.to_string(), "jq: a is missing");
        let error = run(".a + 1", r#"{"a":"x"}"#).unwrap_err();
        assert_eq!(error.to_string(), r#"jq: cannot calculate "x" + 1"#);
    }

    #[test]
    fn no_output_of_a_failed_record_gets_out() {
        assert!(run(r#"1, error("late")"#, "null").is_err());
        assert!(run(r#"1, 2, 3, error("late")"#, "null").is_err());
    }

    #[test]
    fn a_program_without_end_stops_at_the_limit() {
        let error = run("repeat(1)", "null").unwrap_err();
        assert_eq!(
            error.to_string(),
            "jq: more than 1000 outputs from one record (the limit is limits.jq_outputs)"
        );
        let program = Program::compile("repeat(1)", &[]).unwrap();
        assert!(program.matches(Val::Null).unwrap(), "a predicate needs the first output only");
    }

    #[test]
    fn a_predicate_is_true_unless_its_first_output_is_false_null_or_missing() {
        for (program, truth) in
            [("true", true), ("0", true), ("false", false), ("null", false), ("empty", false)]
        {
            let program = Program::compile(program, &[]).unwrap();
            assert_eq!(program.matches(Val::Null).unwrap(), truth);
        }
    }

    #[test]
    fn the_standard_functions_are_there() {
        for (program, input, output) in [
            ("[.[] | select(. != null) | not]", "[null, false, 1]", "[true,false]"),
            ("del(.a) | .b //= null", r#"{"a":1,"b":false}"#, r#"{"b":null}"#),
            ("[paths(type == \"number\")]", r#"{"a":[1]}"#, r#"[["a",0]]"#),
            ("map_values(if . == true then empty else . end)", r#"{"a":true,"b":2}"#, r#"{"b":2}"#),
            ("split(\",\") | map(tonumber) | add", r#""1,2.5""#, "3.5"),
            ("gsub(\"[0-9]+\"; \"-\")", r#""a1b22""#, r#""a-b-""#),
            ("fromdateiso8601 | strftime(\"%Y\")", r#""2013-01-01T10:00:00Z""#, r#""2013""#),
            ("reduce .[] as $x (null; . + $x)", "[1,2]", "3"),
            ("to_entries[0].key + (.a | @base64)", r#"{"a":"x"}"#, r#""aeA==""#),
        ] {
            assert_eq!(run(program, input).unwrap()[0], output, "{program}");
        }
    }

    #[test]
    fn a_key_is_a_text_as_it_is_or_json_or_missing() {
        let key = |program: &str, input: &str| {
            let program = Program::compile(program, &[]).unwrap();
            program.key(val(input)).unwrap().map(|key| String::from_utf8(key).unwrap())
        };
        assert_eq!(key(".a", r#"{"a":"x y"}"#).as_deref(), Some("x y"));
        assert_eq!(key(".a", r#"{"a":[1,"x"]}"#).as_deref(), Some(r#"[1,"x"]"#));
        assert_eq!(key(".a", r#"{"a":7}"#).as_deref(), Some("7"));
        assert_eq!(key(".a", "{}"), None);
        assert_eq!(key("empty", "{}"), None);
    }

    #[test]
    fn variables_are_values_and_never_program_text() {
        let variables = [("limit".to_owned(), val(r#""1) | error(\"in""#))];
        let program = Program::compile("{l: $limit}", &variables).unwrap();
        assert_eq!(
            program.first(Val::Null).unwrap().unwrap().to_string(),
            r#"{"l":"1) | error(\"in"}"#
        );
    }

    #[test]
    fn a_mistake_is_shown_at_its_place() {
        assert_eq!(
            problems("select(.a == 1"),
            "at 1:15 of the program: expected closing parenthesis, found the end of the program\n  \
             | select(.a == 1\n  |               ^"
        );
        assert_eq!(
            problems(".a |\n  fo(.b) | $x"),
            "at 2:3 of the program: there is no function `fo` with 1 argument\n  \
             |   fo(.b) | $x\n  |   ^^\n\
             at 2:12 of the program: there is no variable `$x`; variables are set under `vars:`\n  \
             |   fo(.b) | $x\n  |            ^^"
        );
        assert_eq!(
            problems("{a: 1,, b}"),
            "at 1:7 of the program: expected key, found `,`\n  | {a: 1,, b}\n  |       ^"
        );
        assert_eq!(
            problems(""),
            "at 1:1 of the program: expected term, found the end of the program\n  | \n  | ^"
        );
        assert_eq!(
            problems("\"ü\" + §"),
            "at 1:7 of the program: expected token, found `§`\n  | \"ü\" + §\n  |       ^"
        );
    }

    #[test]
    fn a_program_reaches_nothing_beyond_its_record() {
        for (program, why) in [
            ("env.HOME", "can't see the environment"),
            ("$ENV.HOME", "can't see the environment"),
            ("input", "one record at a time"),
            ("[inputs]", "one record at a time"),
            ("debug", "can't print"),
            ("stderr", "can't print"),
            ("halt", "can't end the pipeline"),
            ("halt_error", "can't end the pipeline"),
            (r#"include "x"; ."#, "can't import files"),
            (r#"import "x" as x; ."#, "can't import files"),
        ] {
            let problems = problems(program);
            assert!(problems.contains(why), "{program}: {problems}");
        }
    }

    #[test]
    fn nested_text_cannot_end_the_process() {
        let deep = format!("\"{}\"", "[".repeat(1_000_000));
        let error = run("fromjson", &deep).unwrap_err().to_string();
        assert!(error.contains("more than 256 nested"), "{error}");
        assert_eq!(run("fromjson", r#""[1]""#).unwrap(), ["[1]"]);
        assert_eq!(run("tonumber", r#""1.50""#).unwrap(), ["1.50"]);
    }
}
