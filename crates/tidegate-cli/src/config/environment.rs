//! Values from the environment, written as `${NAME}` or `${NAME:-default}`.
//!
//! They are put into text that is parsed already, so a value can't become YAML. What came from
//! the environment is not printed: messages show `${NAME}` in its place.

use std::cell::RefCell;
use std::fmt;

/// Looks up one variable.
type Lookup = Box<dyn Fn(&str) -> Result<Option<String>, NotUnicode>>;

/// A variable's value isn't UTF-8.
#[derive(Debug)]
pub(crate) struct NotUnicode;

/// Where variables come from, and which values were handed out.
pub(crate) struct Environment {
    lookup: Lookup,
    redactor: RefCell<Redactor>,
}

impl Environment {
    /// The environment of the process.
    pub(crate) fn of_process() -> Self {
        Self::from_fn(|name| match std::env::var_os(name) {
            None => Ok(None),
            Some(value) => value.into_string().map(Some).map_err(|_| NotUnicode),
        })
    }

    fn from_fn(lookup: impl Fn(&str) -> Result<Option<String>, NotUnicode> + 'static) -> Self {
        Self { lookup: Box::new(lookup), redactor: RefCell::default() }
    }

    /// These variables and no others.
    #[cfg(test)]
    pub(super) fn of(variables: &'static [(&'static str, &'static str)]) -> Self {
        Self::from_fn(move |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            Ok(found.map(|(_, value)| (*value).to_owned()))
        })
    }

    /// Puts the variables' values into the text; `$${` stands for `${` itself. The error says
    /// what is wrong with the text or which variable is missing.
    pub(super) fn expand(&self, text: &str) -> Result<String, String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            if rest[..start].ends_with('$') {
                out.push_str(&rest[..start - 1]);
                out.push_str("${");
                rest = &rest[start + 2..];
                continue;
            }
            out.push_str(&rest[..start]);
            let (reference, behind) = rest[start + 2..]
                .split_once('}')
                .ok_or("`${` has no `}`: write `$${` for the two characters themselves")?;
            out.push_str(&self.value(reference)?);
            rest = behind;
        }
        out.push_str(rest);
        Ok(out)
    }

    fn value(&self, reference: &str) -> Result<String, String> {
        let (name, default) = match reference.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (reference, None),
        };
        if !is_name(name) {
            return Err(format!(
                "`${{{reference}}}` is not `${{NAME}}` or `${{NAME:-default}}`: write `$${{` for \
                 the two characters themselves"
            ));
        }
        match ((self.lookup)(name), default) {
            (Ok(Some(value)), default) if !value.is_empty() || default.is_none() => {
                self.redactor.borrow_mut().add(name, &value);
                Ok(value)
            }
            (Ok(_), Some(default)) => Ok(default.to_owned()),
            (Ok(_), None) => Err(format!(
                "the environment variable {name} is not set: set it, or write \
                 `${{{name}:-default}}`"
            )),
            (Err(NotUnicode), _) => {
                Err(format!("the environment variable {name} is not valid UTF-8"))
            }
        }
    }

    /// Hides the values that were handed out so far.
    pub(crate) fn redactor(&self) -> Redactor {
        self.redactor.borrow().clone()
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}

/// Whether it is a name as variables have them: letters, digits and `_`, not beginning with a
/// digit.
pub(super) fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Whether a setting or variable of this name holds a secret.
pub(super) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["password", "passwd", "secret", "token", "credential", "api_key", "apikey", "private_key"]
        .iter()
        .any(|word| name.contains(word))
}

/// Replaces values of the environment in messages by `${NAME}`.
#[derive(Clone, Default)]
pub(crate) struct Redactor {
    /// The longest first, so that no part of a longer value stays.
    values: Vec<(String, String)>,
}

impl Redactor {
    fn add(&mut self, name: &str, value: &str) {
        // A short value is found in any text, and hides nothing but what the text says.
        const SHORTEST: usize = 4;
        let is_hidden = value.len() >= SHORTEST || (is_secret(name) && !value.is_empty());
        if is_hidden && !self.values.iter().any(|(known, _)| known == value) {
            self.values.push((value.to_owned(), name.to_owned()));
            self.values.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        }
    }

    /// Only what has a secret's name. For messages of a running pipeline, which have to show
    /// paths and topics.
    pub(crate) fn secrets_only(mut self) -> Self {
        self.values.retain(|(_, name)| is_secret(name));
        self
    }

    /// The text without the values.
    pub(crate) fn apply(&self, text: &str) -> String {
        self.values.iter().fold(text.to_owned(), |text, (value, name)| {
            text.replace(value.as_str(), &format!("${{{name}}}"))
        })
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} values)", self.values.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str) -> Result<String, String> {
        Environment::of(&[("A", "1"), ("EMPTY", ""), ("_Long2", "x: [")]).expand(text)
    }

    #[test]
    fn variables_are_put_in_with_their_defaults() {
        for (text, expanded) in [
            ("plain $A and {A} $", "plain $A and {A} $"),
            ("<${A}${A}>", "<11>"),
            ("${_Long2}", "x: ["),
            ("${MISSING:-a-b:-c}", "a-b:-c"),
            ("${EMPTY:-d}", "d"),
            ("${EMPTY}.${MISSING:-}", "."),
            ("$${A} is ${A}", "${A} is 1"),
        ] {
            assert_eq!(expand(text).unwrap(), expanded, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_put_in_is_an_error() {
        for (text, message) in [
            ("${MISSING}", "the environment variable MISSING is not set"),
            ("${A", "`${` has no `}`"),
            ("${}", "`${}` is not `${NAME}`"),
            ("${1A}", "`${1A}` is not `${NAME}`"),
            ("${A B}", "`${A B}` is not `${NAME}`"),
        ] {
            let error = expand(text).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }

    #[test]
    fn a_value_that_was_handed_out_is_hidden_by_its_name() {
        let environment = Environment::of(&[("DB_PASSWORD", "hunter22"), ("SHORT", "hunter")]);
        environment.expand("${SHORT} ${DB_PASSWORD}").unwrap();
        let text = "cannot log in with hunter22 as hunter";
        assert_eq!(
            environment.redactor().apply(text),
            "cannot log in with ${DB_PASSWORD} as ${SHORT}"
        );
        assert_eq!(
            environment.redactor().secrets_only().apply(text),
            "cannot log in with ${DB_PASSWORD} as hunter"
        );
        assert!(!format!("{:?}", environment.redactor()).contains("hunter"));
    }
}
