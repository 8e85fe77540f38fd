use std::cell::RefCell;

use super::environment::Environment;
use super::node::{Key, Node};
use super::problem::{Problem, Problems};
use super::suggest::suggestion;

/// Collects what is wrong while a pipeline file is read.
pub(super) struct Report<'e> {
    pub(super) environment: &'e Environment,
    problems: RefCell<Vec<Problem>>,
}

impl<'e> Report<'e> {
    pub(super) fn new(environment: &'e Environment) -> Self {
        Self { environment, problems: RefCell::default() }
    }

    /// Adds a problem. Values from the environment are hidden in the message.
    pub(super) fn add(&self, line: u64, path: &str, message: &str) {
        let message = self.environment.redactor().apply(message);
        self.problems.borrow_mut().push(Problem::new(line, path, message));
    }

    /// Reports keys that are unknown or there twice.
    pub(super) fn check_keys(&self, path: &str, entries: &[(Key, Node)], known: &[&str]) {
        for (index, (key, _)) in entries.iter().enumerate() {
            let path =
                if path.is_empty() { key.name.clone() } else { format!("{path}.{}", key.name) };
            let first = entries[..index].iter().find(|(other, _)| other.name == key.name);
            if let Some((first, _)) = first {
                let message = format!("is there twice, the first time on line {}", first.line);
                self.add(key.line, &path, &message);
            } else if !known.contains(&&*key.name) {
                let message = format!("unknown key; {}", suggestion(&key.name, known));
                self.add(key.line, &path, &message);
            }
        }
    }

    pub(super) fn into_problems(self) -> Problems {
        Problems::new(self.problems.into_inner())
    }
}
