use std::fmt;
use std::ops::Deref;

use tidegate_runtime::Label;

/// What errors call a step or a sink, and the line on which it begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Name {
    text: String,
    line: u64,
}

impl Name {
    pub(super) fn new(text: String, line: u64) -> Self {
        Self { text, line }
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<&Name> for Label {
    fn from(name: &Name) -> Self {
        Self::new(&*name.text).at(format!("line {}", name.line))
    }
}
