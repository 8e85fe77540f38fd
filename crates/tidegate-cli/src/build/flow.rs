use std::sync::Arc;

use tidegate_runtime::{Flow, Origin, Stream};

use super::{sink, steps};
use crate::config::{ArmConfig, FlowConfig, FlowEnd, Name};
use crate::jq::{Program, RunError, Val};

/// What all steps of a pipeline have in common.
#[derive(Clone, Copy)]
pub(super) struct Context {
    /// The most outputs of one record in one step.
    pub(super) jq_outputs: usize,
}

/// Adds the steps to the stream and ends it.
pub(super) fn end<O: Origin>(
    values: Stream<O, Val>,
    flow: FlowConfig,
    context: &Context,
) -> Flow<O> {
    let values =
        flow.steps.into_iter().fold(values, |values, step| steps::add(values, step, context));
    match flow.end {
        FlowEnd::Sinks(mut sinks) if sinks.len() == 1 => sink::end(values, sinks.remove(0)),
        FlowEnd::Sinks(sinks) => values.tee(|ways| {
            sinks.into_iter().fold(ways, |ways, config| ways.to(|values| sink::end(values, config)))
        }),
        FlowEnd::Tee { name, ways: flows } => values
            .tee(|ways| {
                flows
                    .into_iter()
                    .fold(ways, |ways, flow| ways.to(|values| end(values, flow, context)))
            })
            .named(&name),
        FlowEnd::Branch { name, arms, otherwise } => {
            branch(values, &name, arms, otherwise.map(|flow| *flow), context)
        }
    }
}

/// A value and the branch that takes it.
struct Routed {
    /// The branch's number; the number behind the last one for `otherwise`.
    branch: usize,
    value: Val,
}

/// The predicates run in a step of their own, so that one that fails is that message's error.
fn branch<O: Origin>(
    values: Stream<O, Val>,
    name: &Name,
    arms: Vec<ArmConfig>,
    otherwise: Option<FlowConfig>,
    context: &Context,
) -> Flow<O> {
    let (predicates, mut flows): (Vec<_>, Vec<_>) =
        arms.into_iter().map(|arm| (arm.when, arm.flow)).unzip();
    // Without it the messages that are left match no branch, and are filtered.
    flows.extend(otherwise);
    let routed = values.try_map(move |value| route(value, &predicates)).named(name);
    let flow = routed.branch(|branches| {
        flows.into_iter().enumerate().fold(branches, |branches, (index, flow)| {
            branches.when(
                move |routed: &Routed| routed.branch == index,
                |routed| end(routed.map(|routed| routed.value).named(name), flow, context),
            )
        })
    });
    flow.named(name)
}

fn route(value: Val, predicates: &[Arc<Program>]) -> Result<Routed, RunError> {
    for (branch, predicate) in predicates.iter().enumerate() {
        if predicate.matches(value.clone())? {
            return Ok(Routed { branch, value });
        }
    }
    Ok(Routed { branch: predicates.len(), value })
}
