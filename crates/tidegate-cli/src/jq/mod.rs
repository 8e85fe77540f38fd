//! The jq language as steps: programs, the values that travel between steps, and JSON in and out.
//!
//! - A program is compiled once and shared by all partitions; it keeps nothing between records.
//! - A program sees its record and its variables, and nothing else: no files, no environment, no
//!   other record. What it makes of a record depends on the record alone (and on `now`).
//! - Either all outputs of a record count, or the record failed: no output of a failed record
//!   gets out.

mod decode;
mod encode;
mod library;
mod problem;
mod program;
mod size;

pub(crate) use decode::{DecodeError, decode_json, from_json};
pub(crate) use encode::{Json, encode_json, to_json_value};
pub(crate) use problem::ProgramProblem;
pub(crate) use program::{Outputs, Program, RunError};
pub(crate) use size::approximate_bytes;

/// The value that travels from step to step. Cheap to clone.
pub(crate) use jaq_json::Val;
