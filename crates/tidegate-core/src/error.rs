//! What goes wrong at the boundaries, and what is to be done about it.

use std::error::Error;
use std::fmt::{self, Write as _};

/// Any error of user code or of a driver.
pub type BoxError = Box<dyn Error + Send + Sync + 'static>;

/// The error and what caused it, joined with `: `, each said once.
///
/// ```
/// let error = "disk full".into();
/// assert_eq!(tidegate_core::error_chain(&error), "disk full");
/// ```
pub fn error_chain(error: &BoxError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            let _ = write!(text, ": {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// User code panicked; the text is the panic's message.
#[derive(Debug, thiserror::Error)]
#[error("panicked: {0}")]
pub struct Panicked(pub String);

impl Panicked {
    /// The panic's message, from what `catch_unwind` returned.
    pub fn from_payload(payload: Box<dyn std::any::Any + Send>) -> Self {
        let text = match payload.downcast::<String>() {
            Ok(text) => *text,
            Err(payload) => match payload.downcast::<&'static str>() {
                Ok(text) => (*text).to_owned(),
                Err(payload) => {
                    // Its destructor is the author's code and may panic again, past the guard
                    // that caught this one.
                    std::mem::forget(payload);
                    "(no message)".to_owned()
                }
            },
        };
        Self(text)
    }
}

/// The pipeline is stopping; whatever is held will be released, not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the pipeline is stopping")]
pub struct Stopped;

/// What the runtime does about an error of a connector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    Retry,
    Stop,
}

/// What the three error types share; each says it in its own words.
struct Failure {
    action: Action,
    message: String,
    source: Option<BoxError>,
}

impl Failure {
    fn fmt_debug(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{name}({:?}: {}", self.action, self.message)?;
        if let Some(source) = &self.source {
            write!(f, ": {}", error_chain(source))?;
        }
        f.write_str(")")
    }
}

macro_rules! boundary_error {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub struct $name(Box<Failure>);

        impl $name {
            /// It may pass: the same call is made again after a pause, under a named limit.
            pub fn retry(message: impl Into<String>) -> Self {
                Self::new(Action::Retry, message.into())
            }

            /// It will not pass by itself: the pipeline stops with this message, which says
            /// what happened and what the operator can do.
            pub fn stop(message: impl Into<String>) -> Self {
                Self::new(Action::Stop, message.into())
            }

            fn new(action: Action, message: String) -> Self {
                Self(Box::new(Failure { action, message, source: None }))
            }

            /// Adds the driver's own error.
            #[must_use]
            pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
                self.0.source = Some(source.into());
                self
            }

            /// Whether the call may be made again.
            pub fn is_retryable(&self) -> bool {
                self.0.action == Action::Retry
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0.message)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt_debug(stringify!($name), f)
            }
        }

        impl Error for $name {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                self.0.source.as_deref().map(|source| source as _)
            }
        }
    };
}

boundary_error! {
    /// A source could not read, commit or release. Nothing was forgotten: what wasn't committed
    /// comes again.
    SourceError
}
boundary_error! {
    /// A sink could not write or flush, and answers for no item of the batch: any of them may or
    /// may not have been written, so a retry can repeat them.
    SinkError
}
boundary_error! {
    /// A store could not load or save. A failed save counts as not made.
    StoreError
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<BoxError>,
    }

    fn layers(texts: &[&'static str]) -> BoxError {
        let (text, rest) = texts.split_first().unwrap();
        let source = (!rest.is_empty()).then(|| layers(rest));
        Box::new(Layer { text, source })
    }

    /// P48
    #[test]
    fn a_chain_names_every_cause_once_the_outermost_first() {
        let cases: [(&[&'static str], &str); 3] = [
            (&["can't write", "disk full"], "can't write: disk full"),
            (&["can't write: disk full", "disk full"], "can't write: disk full"),
            (&["a", "b", "b", "c"], "a: b: c"),
        ];
        for (texts, expected) in cases {
            assert_eq!(error_chain(&layers(texts)), expected);
        }
    }

    #[test]
    fn an_error_says_whether_the_call_may_be_made_again_and_keeps_its_cause() {
        let error = SinkError::retry("table is locked").with_source(layers(&["busy", "pid 7"]));
        assert!(error.is_retryable());
        assert_eq!(format!("{error:?}"), "SinkError(Retry: table is locked: busy: pid 7)");
        let error: BoxError = error.into();
        assert_eq!(error_chain(&error), "table is locked: busy: pid 7");
        let error = StoreError::stop("no such folder");
        assert!(!error.is_retryable() && error.source().is_none());
        assert_eq!(format!("{error:?}"), "StoreError(Stop: no such folder)");
    }
}
