use std::fmt;

use tidegate_core::{BoxError, Partition, Position, SinkError, SourceError, error_chain};

/// Why a pipeline stopped by itself.
///
/// It prints the user's own error first among the causes, and says in which pipeline and step,
/// where that was built, and at which record.
pub struct PipelineError(Box<Inner>);

struct Inner {
    pipeline: String,
    kind: PipelineErrorKind,
}

/// What kind of failure stopped the pipeline.
#[derive(Debug)]
#[non_exhaustive]
pub enum PipelineErrorKind {
    /// The pipeline can't run as it was built; nothing was read.
    Settings(Vec<String>),
    /// A message failed in a step, and there are no dead letters to take it.
    Message {
        /// The step and where it was built.
        step: String,
        /// The message's partition.
        partition: Partition,
        /// The message's position, if it is still known.
        position: Option<Position>,
        /// How many times it was tried.
        attempt: u32,
        /// The error of the step or sink.
        error: BoxError,
    },
    /// A message was dropped without an answer while this step had it.
    Unanswered {
        /// The step and where it was built.
        step: String,
        /// The message's partition.
        partition: Partition,
        /// The message's position.
        position: Option<Position>,
        /// The panic's message, if that is why.
        panic: Option<String>,
    },
    /// The source failed.
    Source {
        /// What it was doing.
        during: &'static str,
        /// Its error.
        error: SourceError,
    },
    /// A sink failed, or the dead letters.
    Sink {
        /// The sink and where it was built.
        sink: String,
        /// Its error.
        error: SinkError,
    },
    /// A source or sink broke the rules of its trait.
    Contract {
        /// What it did.
        what: String,
    },
    /// A part of Tidegate itself, or a custom step, panicked outside of a message.
    Panicked {
        /// The part.
        part: String,
        /// The panic's message.
        message: String,
    },
}

impl PipelineError {
    pub(crate) fn new(pipeline: &str, kind: PipelineErrorKind) -> Self {
        Self(Box::new(Inner { pipeline: pipeline.to_owned(), kind }))
    }

    /// Says what the panic was, if this is of a message that was dropped by one.
    pub(crate) fn explain_panic(&mut self, message: String) {
        if let PipelineErrorKind::Unanswered { panic: Some(unknown), .. } = &mut self.0.kind
            && unknown.is_empty()
        {
            *unknown = message;
        }
    }

    /// The pipeline's name.
    pub fn pipeline(&self) -> &str {
        &self.0.pipeline
    }

    /// What kind of failure it was.
    pub fn kind(&self) -> &PipelineErrorKind {
        &self.0.kind
    }
}

/// `orders[3]@17`, or the bare partition.
fn place(partition: &Partition, position: Option<Position>) -> String {
    position.map_or_else(|| partition.to_string(), |at| format!("{partition}@{at}"))
}

/// The error and its causes.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

impl fmt::Display for PipelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pipeline {}: ", self.0.pipeline)?;
        match &self.0.kind {
            PipelineErrorKind::Settings(problems) => {
                write!(f, "it can't run as it is built: {}", problems.join("; "))
            }
            PipelineErrorKind::Message { step, partition, position, attempt, error } => write!(
                f,
                "step {step} failed at {}, attempt {attempt}: {}",
                place(partition, *position),
                error_chain(error)
            ),
            PipelineErrorKind::Unanswered { step, partition, position, panic: Some(message) } => {
                let place = place(partition, *position);
                write!(f, "step {step} panicked at {place}: {message}; nothing of it was committed")
            }
            PipelineErrorKind::Unanswered { step, partition, position, panic: None } => write!(
                f,
                "step {step} dropped the message at {} without an answer; nothing of it was \
                 committed",
                place(partition, *position)
            ),
            PipelineErrorKind::Source { during, error } => {
                write!(f, "the source failed while {during}: {}", chain(error))
            }
            PipelineErrorKind::Sink { sink, error } => {
                write!(f, "sink {sink} failed: {}", chain(error))
            }
            PipelineErrorKind::Contract { what } => write!(f, "{what}"),
            PipelineErrorKind::Panicked { part, message } => {
                write!(f, "{part} panicked: {message}")
            }
        }
    }
}

impl fmt::Debug for PipelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PipelineError({self})")
    }
}

impl std::error::Error for PipelineError {}
