//! Random chunks through random sequences of every operation, against a model.
//!
//! The values of a chunk are numbers of the model's nodes. A node is a message or a bundle of
//! nodes; it is owed as many answers as there are shares of it. What a guard should hold is kept
//! beside it, so a lost or a doubled value shows at once.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::Index;
use tidegate_core::{BoxError, Chunk, Message, Outcome, Position, Rejected, SharedLedger};

use crate::recorder::{Recorder, STEP, batch, by_outcome, ledger, quiet_panic};

/// What happens to each value, by its index in the chunk; repeated if there are more values.
type Fates = Vec<u8>;

#[derive(Clone, Debug)]
enum Operation {
    Admit(u64, Fates),
    Map(Index, Fates),
    TryFilterMap(Index, Fates),
    /// Chunks of at most so many results, and how many of them are asked for.
    FlatMap(Index, Fates, usize, usize),
    PartitionBy(Index, Fates, usize),
    Duplicate(Index, usize),
    Bundle(Index),
    Append(Index, Index),
    Split(Index, usize),
    Messages(Index, Fates),
    SettleExcept(Index, Fates),
    Settle(Index, Outcome),
    Divert(Index),
    Drop(Index),
    Fence,
}
use Operation::*;

fn operation() -> impl Strategy<Value = Operation> {
    let guard = any::<Index>;
    let fates = || prop::collection::vec(any::<u8>(), 1..6);
    let settled = prop_oneof![
        Just(Outcome::Done),
        Just(Outcome::Filtered),
        Just(Outcome::Diverted),
        Just(Outcome::Failed)
    ];
    prop_oneof![
        20 => (0..6_u64, fates()).prop_map(|(messages, f)| Admit(messages, f)),
        5 => (guard(), fates()).prop_map(|(g, f)| Map(g, f)),
        5 => (guard(), fates()).prop_map(|(g, f)| TryFilterMap(g, f)),
        8 => (guard(), fates(), 1..4_usize, 0..7_usize)
            .prop_map(|(g, f, max, chunks)| FlatMap(g, f, max, chunks)),
        5 => (guard(), fates(), 0..4_usize).prop_map(|(g, f, ways)| PartitionBy(g, f, ways)),
        5 => (guard(), 1..4_usize).prop_map(|(g, count)| Duplicate(g, count)),
        6 => guard().prop_map(Bundle),
        8 => (guard(), guard()).prop_map(|(g, other)| Append(g, other)),
        5 => (guard(), 0..4_usize).prop_map(|(g, count)| Split(g, count)),
        5 => (guard(), fates()).prop_map(|(g, f)| Messages(g, f)),
        5 => (guard(), fates()).prop_map(|(g, f)| SettleExcept(g, f)),
        8 => (guard(), settled).prop_map(|(g, outcome)| Settle(g, outcome)),
        5 => guard().prop_map(Divert),
        1 => guard().prop_map(Drop),
        1 => Just(Fence),
    ]
}

struct Node {
    /// The message's position; `None` for a bundle.
    position: Option<u64>,
    members: Vec<usize>,
    shares: usize,
    outcome: Outcome,
    diverting: bool,
}

#[derive(Default)]
struct Model {
    nodes: Vec<Node>,
    ended: [u64; 5],
    next_position: u64,
    fenced: bool,
}

impl Model {
    fn add(&mut self, position: Option<u64>, members: Vec<usize>) -> usize {
        let outcome = Outcome::Filtered;
        self.nodes.push(Node { position, members, shares: 1, outcome, diverting: false });
        self.nodes.len() - 1
    }

    fn answer(&mut self, node: usize, outcome: Outcome) {
        if self.fenced {
            return;
        }
        let it = &mut self.nodes[node];
        it.shares -= 1;
        it.outcome = outcome.max(it.outcome);
        if it.shares > 0 {
            return;
        }
        let outcome = it.outcome;
        if it.position.is_some() {
            self.ended[outcome as usize] += 1;
        }
        for member in std::mem::take(&mut it.members) {
            self.answer(member, outcome);
        }
    }

    fn answer_all(&mut self, nodes: &[usize], outcome: Outcome) {
        nodes.iter().for_each(|&node| self.answer(node, outcome));
    }

    /// The messages behind a node, in the order in which they were bundled.
    fn behind(&self, node: usize) -> Vec<usize> {
        match self.nodes[node].position {
            Some(_) => vec![node],
            None => self.nodes[node].members.iter().flat_map(|&m| self.behind(m)).collect(),
        }
    }

    fn lowest(&self, node: usize) -> Option<u64> {
        self.behind(node).into_iter().filter_map(|message| self.nodes[message].position).min()
    }

    fn messages(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.position.is_some())
    }

    fn frontier(&self) -> Option<u64> {
        let settled = |node: &&Node| node.shares == 0 && node.outcome.is_settled();
        self.messages().take_while(settled).last().map(|node| node.position.unwrap() + 1)
    }
}

enum Guard {
    Chunk(Chunk<usize>, Vec<usize>),
    Rejected(Rejected, Vec<usize>),
}

struct World {
    ledger: SharedLedger,
    recorder: Arc<Recorder>,
    model: Model,
    guards: Vec<Guard>,
    /// The frontier when the generation ended.
    frozen: Option<Option<u64>>,
}

fn fate(fates: &Fates, index: usize) -> u8 {
    fates[index % fates.len()]
}

/// A fate for each value that comes by.
fn in_turn(fates: &Fates) -> impl FnMut() -> u8 {
    let mut index = 0;
    move || {
        index += 1;
        fate(fates, index - 1)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kept {
    Yes,
    No,
    Error,
    Panic,
}

fn kept(fate: u8) -> Kept {
    match fate % 8 {
        0 => Kept::Panic,
        1 => Kept::Error,
        2 | 3 => Kept::No,
        _ => Kept::Yes,
    }
}

/// How many results a value has in a flat map, and what comes behind the last.
fn results(fate: u8) -> (usize, Kept) {
    let end = match fate / 4 % 6 {
        0 => Kept::Error,
        1 => Kept::Panic,
        _ => Kept::Yes,
    };
    (usize::from(fate % 4), end)
}

impl World {
    fn new() -> Self {
        let (ledger, recorder) = ledger();
        Self { ledger, recorder, model: Model::default(), guards: Vec::new(), frozen: None }
    }

    fn take_chunk(&mut self, guard: Index) -> Option<(Chunk<usize>, Vec<usize>)> {
        if self.guards.is_empty() {
            return None;
        }
        match self.guards.swap_remove(guard.index(self.guards.len())) {
            Guard::Chunk(chunk, nodes) => Some((chunk, nodes)),
            rejected @ Guard::Rejected(..) => {
                self.guards.push(rejected);
                None
            }
        }
    }

    /// Keeps the parts, if they hold what they should.
    fn keep(&mut self, chunk: Chunk<usize>, nodes: Vec<usize>) {
        assert_eq!(chunk.values(), nodes);
        assert_eq!((chunk.len(), chunk.is_empty()), (nodes.len(), nodes.is_empty()));
        self.guards.push(Guard::Chunk(chunk, nodes));
    }

    fn keep_rejected(&mut self, rejected: Rejected, nodes: Vec<usize>) {
        assert_eq!((rejected.len(), rejected.is_empty()), (nodes.len(), nodes.is_empty()));
        if let (Some((position, _)), false) = (rejected.first(), self.model.fenced) {
            assert_eq!(position.map(Position::get), self.model.lowest(nodes[0]));
        }
        self.guards.push(Guard::Rejected(rejected, nodes));
    }

    /// Parts the nodes by what was to happen to them: those that go on, and those that failed.
    /// The others are filtered.
    fn sort(&mut self, nodes: &[usize], fates: &Fates) -> (Vec<usize>, Vec<usize>) {
        let (mut on, mut failed) = (Vec::new(), Vec::new());
        for (index, &node) in nodes.iter().enumerate() {
            match kept(fate(fates, index)) {
                Kept::Yes => on.push(node),
                Kept::No => self.model.answer(node, Outcome::Filtered),
                Kept::Error | Kept::Panic => failed.push(node),
            }
        }
        (on, failed)
    }

    fn perform(&mut self, operation: Operation) {
        match operation {
            Admit(messages, fates) => self.admit(messages, &fates),
            Map(guard, fates) => {
                let Some((chunk, nodes)) = self.take_chunk(guard) else { return };
                let mut turn = in_turn(&fates);
                let out = chunk
                    .map(|node| if turn().is_multiple_of(4) { quiet_panic("map") } else { node });
                let panics = |index: &usize| fate(&fates, *index).is_multiple_of(4);
                let (failed, on): (Vec<_>, Vec<_>) = (0..nodes.len()).partition(panics);
                let node = |index| nodes[index];
                self.keep(out.chunk, on.into_iter().map(node).collect());
                self.keep_rejected(out.rejected, failed.into_iter().map(node).collect());
            }
            TryFilterMap(guard, fates) => {
                let Some((chunk, nodes)) = self.take_chunk(guard) else { return };
                let mut turn = in_turn(&fates);
                let out = chunk.try_filter_map(|node| match kept(turn()) {
                    Kept::Yes => Ok(Some(node)),
                    Kept::No => Ok(None),
                    Kept::Error => Err("try".into()),
                    Kept::Panic => quiet_panic("try"),
                });
                let (on, failed) = self.sort(&nodes, &fates);
                self.keep(out.chunk, on);
                self.keep_rejected(out.rejected, failed);
            }
            FlatMap(guard, fates, max, chunks) => self.flat_map(guard, &fates, max, chunks),
            PartitionBy(guard, fates, ways) => self.partition_by(guard, &fates, ways),
            Duplicate(guard, count) => {
                let Some((chunk, nodes)) = self.take_chunk(guard) else { return };
                nodes.iter().for_each(|&node| self.model.nodes[node].shares += count - 1);
                let copies = chunk.duplicate(count);
                assert_eq!(copies.len(), count);
                copies.into_iter().for_each(|copy| self.keep(copy, nodes.clone()));
            }
            Bundle(guard) => {
                let Some((chunk, nodes)) = self.take_chunk(guard) else { return };
                let Some(bundle) = chunk.bundle() else { return assert!(nodes.is_empty()) };
                assert_eq!(bundle.values(), [nodes.as_slice()]);
                let node = self.model.add(None, nodes);
                self.keep(bundle.map(|_| node).chunk, vec![node]);
            }
            Append(guard, other) => {
                let Some((mut chunk, mut nodes)) = self.take_chunk(guard) else { return };
                if let Some((more, more_nodes)) = self.take_chunk(other) {
                    chunk.append(more);
                    nodes.extend(more_nodes);
                }
                self.keep(chunk, nodes);
            }
            Split(guard, count) => {
                let Some((mut chunk, mut nodes)) = self.take_chunk(guard) else { return };
                let front = chunk.split_front(count);
                let later = nodes.split_off(count.min(nodes.len()));
                self.keep(front, nodes);
                self.keep(chunk, later);
            }
            Messages(guard, fates) => self.messages(guard, &fates),
            SettleExcept(guard, fates) => {
                let Some((chunk, nodes)) = self.take_chunk(guard) else { return };
                let mut values = Vec::new();
                let duty = chunk.unload(&mut values);
                assert_eq!(values, nodes);
                let refused = |index: &usize| fate(&fates, *index).is_multiple_of(3);
                let (failed, done): (Vec<_>, Vec<_>) = (0..nodes.len()).partition(refused);
                let report = failed.iter().map(|&index| (index, "no".into())).collect();
                let rejected = duty.settle_except(report);
                done.into_iter().for_each(|index| self.model.answer(nodes[index], Outcome::Done));
                self.keep_rejected(rejected, failed.into_iter().map(|i| nodes[i]).collect());
            }
            Settle(guard, outcome) if !self.guards.is_empty() => {
                let guard = self.guards.swap_remove(guard.index(self.guards.len()));
                self.settle(guard, outcome);
            }
            Divert(guard) if !self.guards.is_empty() => self.divert(guard),
            Drop(guard) if !self.guards.is_empty() => {
                match self.guards.swap_remove(guard.index(self.guards.len())) {
                    Guard::Chunk(_chunk, nodes) => {
                        self.model.answer_all(&nodes, Outcome::Abandoned)
                    }
                    Guard::Rejected(_rejected, nodes) => {
                        self.model.answer_all(&nodes, Outcome::Abandoned);
                    }
                }
            }
            Fence => {
                self.frozen = self.frozen.or(Some(self.model.frontier()));
                self.model.fenced = true;
                self.ledger.fence();
            }
            Settle(..) | Divert(_) | Drop(_) => {}
        }
    }

    fn admit(&mut self, messages: u64, fates: &Fates) {
        let first = self.model.next_position + u64::from(fates[0] % 3);
        let step = 1 + u64::from(fates[0] % 2);
        let positions: Vec<_> = (0..messages).map(|message| first + message * step).collect();
        self.model.next_position = first + messages * step;
        let nodes: Vec<_> =
            positions.iter().map(|p| self.model.add(Some(*p), Vec::new())).collect();

        let delivery = self.ledger.admit(batch(positions)).unwrap();
        assert_eq!((delivery.len(), delivery.is_empty()), (nodes.len(), nodes.is_empty()));
        let (mut turn, mut values) = (in_turn(fates), nodes.iter());
        let out = delivery.transform(STEP, |_| {
            let node = *values.next().unwrap();
            match kept(turn()) {
                Kept::Yes => Ok(Some(node)),
                Kept::No => Ok(None),
                Kept::Error => Err("transform".into()),
                Kept::Panic => quiet_panic("transform"),
            }
        });
        let (on, failed) = self.sort(&nodes, fates);
        self.keep(out.chunk, on);
        self.keep_rejected(out.rejected, failed);
    }

    fn flat_map(&mut self, guard: Index, fates: &Fates, max: usize, chunks: usize) {
        let Some((chunk, nodes)) = self.take_chunk(guard) else { return };
        // What happens in order: results, each with a share of its own, and ends, which answer for
        // the message's own share.
        let mut events = Vec::new();
        for (index, &node) in nodes.iter().enumerate() {
            let (count, end) = results(fate(fates, index));
            events.extend((0..count).map(|_| (node, None)));
            events.push((node, Some(end)));
        }
        let mut events = events.into_iter().peekable();

        let mut turn = in_turn(fates);
        let mut asked = chunk.flat_map(|node| {
            let (count, end) = results(turn());
            let behind_the_last = std::iter::once_with(move || match end {
                Kept::Error => Some(Err(BoxError::from("flat"))),
                Kept::Panic => quiet_panic("flat"),
                Kept::Yes | Kept::No => None,
            });
            (0..count).map(move |_| Ok(node)).chain(behind_the_last.flatten())
        });
        for _ in 0..chunks {
            let Some(out) = asked.next_chunk(max) else {
                assert!(events.peek().is_none(), "it has nothing more to give");
                break;
            };
            let (mut on, mut failed) = (Vec::new(), Vec::new());
            while on.len() < max {
                match events.next() {
                    Some((node, None)) => {
                        self.model.nodes[node].shares += 1;
                        on.push(node);
                    }
                    Some((node, Some(Kept::Error | Kept::Panic))) => failed.push(node),
                    Some((node, Some(_))) => self.model.answer(node, Outcome::Filtered),
                    None => break,
                }
            }
            self.keep(out.chunk, on);
            self.keep_rejected(out.rejected, failed);
        }
        drop(asked);
        // Whatever has not come to its end is abandoned.
        for (node, _) in events.filter(|(_, end)| end.is_some()) {
            self.model.answer(node, Outcome::Abandoned);
        }
    }

    fn partition_by(&mut self, guard: Index, fates: &Fates, ways: usize) {
        let Some((chunk, nodes)) = self.take_chunk(guard) else { return };
        let choice = |fate: u8| (!fate.is_multiple_of(5)).then_some(usize::from(fate % 4));
        let mut turn = in_turn(fates);
        let (parts, rejected) = chunk.partition_by(ways, |_| match turn() {
            fate if fate > 220 => quiet_panic("choose"),
            fate => choice(fate),
        });
        let mut expected = vec![Vec::new(); ways];
        let mut failed = Vec::new();
        for (index, &node) in nodes.iter().enumerate() {
            let fate = fate(fates, index);
            match choice(fate).and_then(|way| expected.get_mut(way)) {
                _ if fate > 220 => failed.push(node),
                Some(part) => part.push(node),
                None => self.model.answer(node, Outcome::Filtered),
            }
        }
        assert_eq!(parts.len(), ways);
        parts.into_iter().zip(expected).for_each(|(part, nodes)| self.keep(part, nodes));
        self.keep_rejected(rejected, failed);
    }

    fn messages(&mut self, guard: Index, fates: &Fates) {
        let Some((chunk, nodes)) = self.take_chunk(guard) else { return };
        let mut messages = chunk.into_messages();
        let (mut on, mut on_nodes) = (Vec::new(), Vec::new());
        for (index, &node) in nodes.iter().enumerate() {
            if fate(fates, index) % 16 == 15 {
                drop(messages);
                self.model.answer_all(&nodes[index..], Outcome::Abandoned);
                break;
            }
            let Message { value, receipt } = messages.next().unwrap();
            assert_eq!(value, node);
            match fate(fates, index) % 6 {
                0 => {
                    receipt.settle(Outcome::Filtered);
                    self.model.answer(node, Outcome::Filtered);
                }
                1 => {
                    let rejected = receipt.reject("no").unwrap();
                    self.keep_rejected(rejected, vec![node]);
                }
                2 => {
                    receipt.share().settle(Outcome::Diverted);
                    self.model.nodes[node].shares += 1;
                    self.model.answer(node, Outcome::Diverted);
                    on.push(Message { value, receipt });
                    on_nodes.push(node);
                }
                _ => {
                    on.push(Message { value, receipt });
                    on_nodes.push(node);
                }
            }
        }
        match Chunk::from_messages(on) {
            Some(chunk) => self.keep(chunk, on_nodes),
            None => assert!(on_nodes.is_empty()),
        }
    }

    fn settle(&mut self, guard: Guard, outcome: Outcome) {
        let nodes = match guard {
            Guard::Chunk(chunk, nodes) => {
                chunk.settle(outcome);
                nodes
            }
            Guard::Rejected(rejected, nodes) => {
                rejected.settle(outcome);
                nodes
            }
        };
        self.model.answer_all(&nodes, outcome);
    }

    fn divert(&mut self, guard: Index) {
        let guard = self.guards.swap_remove(guard.index(self.guards.len()));
        if let Guard::Rejected(rejected, nodes) = &guard {
            for ((_, originals), &node) in rejected.begin_diversion().iter().zip(nodes) {
                let found: Vec<_> = originals
                    .iter()
                    .map(|original| original.batch.get(original.row).position().get())
                    .collect();
                let behind = if self.model.fenced { Vec::new() } else { self.model.behind(node) };
                let mut expected = Vec::new();
                for message in behind {
                    let message = &mut self.model.nodes[message];
                    if !std::mem::replace(&mut message.diverting, true) {
                        expected.extend(message.position);
                    }
                }
                assert_eq!(found, expected);
            }
        }
        self.settle(guard, Outcome::Diverted);
    }

    fn check(&self) {
        assert_eq!(by_outcome(&self.recorder.heard().counts), self.model.ended);
        let frontier = self.frozen.unwrap_or_else(|| self.model.frontier());
        assert_eq!(self.ledger.frontier().map(Position::get), frontier);
    }
}

proptest! {
    /// P1, P2, P9, P36, P43, P50
    #[test]
    fn every_message_ends_once_whatever_happens_to_its_guards(
        operations in prop::collection::vec(operation(), 1..60),
    ) {
        let mut world = World::new();
        for operation in operations {
            world.perform(operation);
            world.check();
        }

        for guard in std::mem::take(&mut world.guards) {
            world.settle(guard, Outcome::Done);
        }
        world.check();
        let World { ledger, recorder, model, .. } = world;
        if model.fenced {
            return Ok(());
        }
        let heard = recorder.heard();
        prop_assert_eq!(heard.counts.total() as usize, model.messages().count());
        prop_assert_eq!(ledger.pending(), 0);
        let unsettled = heard.counts.get(Outcome::Failed) + heard.counts.get(Outcome::Abandoned);
        prop_assert_eq!(ledger.open() as u64, unsettled);
        let was_abandoned = heard.counts.get(Outcome::Abandoned) > 0;
        prop_assert_eq!(!heard.abandoned.is_empty(), was_abandoned);
    }
}
