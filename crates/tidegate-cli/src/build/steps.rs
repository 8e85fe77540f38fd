use std::sync::Arc;

use tidegate_core::BoxError;
use tidegate_runtime::{BatchLimits, Origin, Stream};

use super::flow::Context;
use crate::config::{Name, StepConfig, StepKind};
use crate::jq::{Outputs, Program, Val, approximate_bytes};

/// Adds a step to the stream.
pub(super) fn add<O: Origin>(
    values: Stream<O, Val>,
    step: StepConfig,
    context: &Context,
) -> Stream<O, Val> {
    let name = &step.name;
    match step.kind {
        StepKind::Jq(program) => jq(values, program, context).named(name),
        StepKind::Batch(limits) => batch(values, limits, name),
        StepKind::Unbatch => values.try_flat_map(items).named(name),
        StepKind::Throttle { rate, per } => values.throttle(rate, per).named(name),
    }
}

fn jq<O: Origin>(
    values: Stream<O, Val>,
    program: Arc<Program>,
    context: &Context,
) -> Stream<O, Val> {
    let limit = context.jq_outputs;
    values.try_flat_map(move |value| OrError::from(program.outputs(value, limit)))
}

/// A batch is a list from then on, so that programs can work on it.
fn batch<O: Origin>(values: Stream<O, Val>, limits: BatchLimits, name: &Name) -> Stream<O, Val> {
    let batches = match limits.bytes {
        None => values.batch(limits),
        Some(_) => values.batch_by_bytes(limits, approximate_bytes),
    };
    batches.named(name).map(Val::from_iter).named(name)
}

/// The items of a list.
fn items(list: Val) -> OrError<Outputs, BoxError> {
    Outputs::of_list(list)
        .map_err(|other| format!("unbatch takes lists, and this is {other}").into())
        .into()
}

/// All values, or one error and no value.
enum OrError<I, E> {
    Values(I),
    Error(Option<E>),
}

impl<I, E> From<Result<I, E>> for OrError<I, E> {
    fn from(result: Result<I, E>) -> Self {
        match result {
            Ok(values) => Self::Values(values),
            Err(error) => Self::Error(Some(error)),
        }
    }
}

impl<I: Iterator, E> Iterator for OrError<I, E> {
    type Item = Result<I::Item, E>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Values(values) => values.next().map(Ok),
            Self::Error(error) => error.take().map(Err),
        }
    }
}
