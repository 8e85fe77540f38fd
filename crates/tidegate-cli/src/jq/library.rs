//! Which functions a program may call.
//!
//! Everything that the language offers, but for what reaches beyond the record: the environment,
//! other inputs, the standard streams and the end of the process.

use jaq_core::Error;
use jaq_core::data::JustLut;
use jaq_core::load::parse::Def;
use jaq_core::native::{Fun, bome, run, v};
use jaq_json::Val;

use super::decode_json;

/// What programs work on: values and nothing beside them.
pub(super) type Data = JustLut<Val>;

/// What is left out, with the reason a message gives.
const WITHHELD: &[(&str, &str)] = &[
    ("env", "a program can't see the environment: put the value under `vars:`"),
    ("input", "a program sees one record at a time"),
    ("inputs", "a program sees one record at a time"),
    ("debug", "a program can't print"),
    ("debug_empty", "a program can't print"),
    ("stderr", "a program can't print"),
    ("stderr_empty", "a program can't print"),
    ("halt", "a program can't end the pipeline: `error(\"...\")` fails the record"),
    ("halt_error", "a program can't end the pipeline: `error(\"...\")` fails the record"),
];

/// Why a function of this name isn't there, if it was left out on purpose.
pub(super) fn why_withheld(name: &str) -> Option<&'static str> {
    WITHHELD.iter().find(|(withheld, _)| *withheld == name).map(|(_, reason)| *reason)
}

/// The functions that are written in jq themselves.
pub(super) fn definitions() -> impl Iterator<Item = Def<&'static str>> {
    jaq_core::defs()
        .chain(jaq_std::defs())
        .chain(jaq_json::defs())
        .filter(|definition| why_withheld(definition.name).is_none())
        .filter(|definition| !CONSTANTS.contains(&definition.name))
}

/// The functions that are written in Rust.
pub(super) fn functions() -> impl Iterator<Item = Fun<Data>> {
    jaq_core::funs()
        .chain(jaq_std::funs())
        .chain(jaq_json::funs())
        .filter(|(name, ..)| why_withheld(name).is_none() && *name != "fromjson")
        .chain([from_json()])
        .chain(constants())
}

/// The language defines these in itself (`null` is `[][0]`), which costs a microsecond each time.
const CONSTANTS: [&str; 3] = ["null", "true", "false"];

fn constants() -> [Fun<Data>; 3] {
    [
        run(("null", v(0), |_| bome(Ok(Val::Null)))),
        run(("true", v(0), |_| bome(Ok(Val::Bool(true))))),
        run(("false", v(0), |_| bome(Ok(Val::Bool(false))))),
    ]
}

/// The library's own `fromjson` follows nested brackets until the stack ends, which would end the
/// process; this one has a limit.
fn from_json() -> Fun<Data> {
    run(("fromjson", v(0), |(_, input)| {
        bome(match &input {
            Val::TStr(text) => {
                decode_json(text).map_err(|error| Error::str(format_args!("fromjson: {error}")))
            }
            _ => Err(Error::typ(input, "string")),
        })
    }))
}
