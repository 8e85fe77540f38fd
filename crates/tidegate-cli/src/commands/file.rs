//! Reads a pipeline file.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::config::{Environment, MAX_BYTES, PipelineConfig, Problem, Problems, parse};

/// Why there is no pipeline.
#[derive(Debug)]
pub(crate) enum Unusable {
    /// The file can't be read.
    Unreadable(String),
    /// The file has problems.
    Invalid(Problems),
}

/// Reads and validates the file.
pub(crate) fn load(path: &Path, environment: &Environment) -> Result<PipelineConfig, Unusable> {
    let text = read(path)?;
    parse(&text, environment).map_err(Unusable::Invalid)
}

fn read(path: &Path) -> Result<String, Unusable> {
    let unreadable = |why: &dyn std::fmt::Display| {
        Unusable::Unreadable(format!("cannot read {}: {why}", path.display()))
    };
    let file = File::open(path).map_err(|error| unreadable(&error))?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(unreadable(&"it is a directory; name a pipeline file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(unreadable(&format_args!("it has more than {MAX_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|byte| **byte == b'\n').count() as u64;
        Unusable::Invalid(Problems::new(vec![Problem::new(line, "", "not valid UTF-8")]))
    })
}
