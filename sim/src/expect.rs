//! What must come out of a record, computed without the engine.

use crate::message::{Part, child_trail};
use crate::rng::mix;
use crate::rules::Subject;
use crate::scenario::Scenario;
use crate::shape::{Chain, End, Kind, StepNumber};

/// One result that has to arrive in a sink.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expected {
    /// The sink's index.
    pub sink: usize,
    /// Which result it is.
    pub trail: u32,
    /// The steps that worked on it.
    pub digest: u64,
    /// All steps it passes, and as which result it comes there. If it failed in one of them, its
    /// record is among the dead letters instead.
    pub route: Vec<(StepNumber, u32)>,
}

/// All results of a record, if nothing fails.
pub fn expected(scenario: &Scenario, record: u32, partition: u32) -> Vec<Expected> {
    let mut walk = Walk { scenario, partition, found: Vec::new() };
    let part = Part { record, trail: 0, delivery: 1, digest: 0 };
    let at = At { part, route: Vec::new() };
    walk.step(&scenario.shape.intake.kind, scenario.shape.intake.number, false, vec![at])
        .into_iter()
        .for_each(|at| walk.chain(&scenario.shape.chain, at));
    walk.found
}

#[derive(Clone)]
struct At {
    part: Part,
    route: Vec<(StepNumber, u32)>,
}

struct Walk<'a> {
    scenario: &'a Scenario,
    partition: u32,
    found: Vec<Expected>,
}

impl Walk<'_> {
    fn chain(&mut self, chain: &Chain, at: At) {
        let mut all = vec![at];
        for step in &chain.steps {
            all = self.step(&step.kind, step.number, step.merged, all);
        }
        for at in all {
            self.end(&chain.end, at);
        }
    }

    fn step(&self, kind: &Kind, number: StepNumber, merged: bool, all: Vec<At>) -> Vec<At> {
        let mut out = Vec::with_capacity(all.len());
        for mut at in all {
            at.route.push((number, at.part.trail));
            let Part { record, trail, .. } = at.part;
            match *kind {
                Kind::Map | Kind::TryMap | Kind::Async { .. } => out.push(worked(at, number)),
                Kind::Filter(drop) => {
                    out.extend(self.scenario.keeps(number, drop, record, trail).then_some(at));
                }
                Kind::FilterMap(drop) => {
                    let kept = self.scenario.keeps(number, drop, record, trail);
                    out.extend(kept.then(|| worked(at, number)));
                }
                Kind::FlatMap(most) | Kind::TryFlatMap(most) => {
                    let subject = Subject::new(merged, self.partition, at.part);
                    for index in 0..self.scenario.fans(number, most, subject) {
                        let trail = child_trail(trail, index);
                        let part = Part { trail, ..at.part };
                        out.push(worked(At { part, route: at.route.clone() }, number));
                    }
                }
                Kind::Inspect | Kind::Batch { .. } | Kind::Throttle(_) | Kind::Hoard { .. } => {
                    out.push(at)
                }
            }
        }
        out
    }

    fn end(&mut self, end: &End, mut at: At) {
        match end {
            End::Sink(sink) => {
                at.route.push((self.scenario.shape.sinks[*sink].number, at.part.trail));
                let Part { trail, digest, .. } = at.part;
                self.found.push(Expected { sink: *sink, trail, digest, route: at.route });
            }
            End::Branch { number, merged, otherwise, ways, .. } => {
                at.route.push((*number, at.part.trail));
                let subject = Subject::new(*merged, self.partition, at.part);
                let way = self.scenario.chooses(*number, ways.len(), *otherwise, subject);
                if let Some(way) = ways.get(way) {
                    self.chain(way, at);
                }
            }
            End::Tee { ways, .. } => {
                for way in ways {
                    self.chain(way, at.clone());
                }
            }
        }
    }
}

fn worked(mut at: At, step: StepNumber) -> At {
    at.part.digest = mix(&[at.part.digest, u64::from(step)]);
    at
}
