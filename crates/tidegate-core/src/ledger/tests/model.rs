//! Random actions against a model that keeps everything and computes by brute force.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

const CAPACITY: usize = 12;

#[derive(Clone, Debug)]
enum Action {
    /// A batch; each number is the gap before the next position.
    Admit(Vec<u64>),
    Share(Index, u32),
    Bundle(Vec<Index>),
    Settle(Vec<Index>, Outcome),
    /// A run of neighbouring slots, as long as the duties allow.
    SettleRange(Index, Outcome),
    Divert(Index),
    Hold(Vec<Index>, u16),
    Fence,
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        20 => Just(Done),
        10 => Just(Filtered),
        10 => Just(Diverted),
        1 => Just(Failed),
        1 => Just(Abandoned),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    let some = |most| prop::collection::vec(any::<Index>(), 1..most);
    prop_oneof![
        30 => prop::collection::vec(0..3_u64, 0..5).prop_map(Action::Admit),
        10 => (any::<Index>(), 1..3_u32).prop_map(|(duty, more)| Action::Share(duty, more)),
        10 => some(4).prop_map(Action::Bundle),
        30 => (some(6), outcome()).prop_map(|(duties, outcome)| Action::Settle(duties, outcome)),
        15 => (any::<Index>(), outcome())
            .prop_map(|(first, outcome)| Action::SettleRange(first, outcome)),
        5 => any::<Index>().prop_map(Action::Divert),
        5 => (some(4), 1..9_u16).prop_map(|(duties, step)| Action::Hold(duties, step)),
        1 => Just(Action::Fence),
    ]
}

struct Message {
    position: Position,
    batch: usize,
    shares: u32,
    outcome: Outcome,
    holder: StepId,
    diverting: bool,
}

impl Message {
    fn is_settled(&self) -> bool {
        self.shares == 0 && self.outcome.is_settled()
    }
}

struct Together {
    members: Vec<Slot>,
    shares: u32,
    outcome: Outcome,
}

/// Everything that was ever admitted, and every answer that is still owed.
#[derive(Default)]
struct Model {
    messages: Vec<Message>,
    batches: Vec<Arc<RecordBatch>>,
    bundles: BTreeMap<Slot, Together>,
    duties: Vec<Slot>,
    counts: OutcomeCounts,
    fenced: bool,
}

impl Model {
    fn settled_prefix(&self) -> usize {
        self.messages.iter().take_while(|message| message.is_settled()).count()
    }

    fn frontier(&self) -> Option<Position> {
        let last = self.settled_prefix().checked_sub(1)?;
        Some(self.messages[last].position.next())
    }

    fn open(&self) -> usize {
        self.messages.iter().filter(|message| !message.is_settled()).count()
    }

    /// Those of them that somebody has to answer for.
    fn pending(&self) -> usize {
        self.messages.iter().filter(|message| message.shares > 0).count()
    }

    fn has_room(&self) -> bool {
        self.messages.len() - self.settled_prefix() < CAPACITY
    }

    fn bytes(&self) -> usize {
        let is_open = |batch: usize| {
            self.messages.iter().any(|message| message.batch == batch && !message.is_settled())
        };
        let open = (0..self.batches.len()).filter(|&batch| is_open(batch));
        open.map(|batch| self.batches[batch].bytes()).sum()
    }

    fn oldest(&self) -> Option<OldestOpen> {
        let message = self.messages.get(self.settled_prefix())?;
        let Message { position, holder, outcome, .. } = *message;
        Some(OldestOpen { position, holder, outcome })
    }

    /// The messages that a slot answers for.
    fn behind(&self, slot: Slot) -> Vec<usize> {
        match self.bundles.get(&slot) {
            Some(together) => together.members.iter().flat_map(|&m| self.behind(m)).collect(),
            None => vec![slot.sequence() as usize],
        }
    }

    fn answer(&mut self, slot: Slot, outcome: Outcome) {
        let (shares, worst) = match self.bundles.get_mut(&slot) {
            Some(together) => (&mut together.shares, &mut together.outcome),
            None => {
                let message = &mut self.messages[slot.sequence() as usize];
                (&mut message.shares, &mut message.outcome)
            }
        };
        *shares -= 1;
        *worst = outcome.max(*worst);
        let (shares, worst) = (*shares, *worst);
        if shares > 0 {
            return;
        }
        match self.bundles.remove(&slot) {
            Some(together) => together.members.into_iter().for_each(|m| self.answer(m, worst)),
            None => self.counts.add(worst, 1),
        }
    }

    /// Takes the chosen duties, each at most once, out of those that are owed.
    fn take(&mut self, chosen: &[Index]) -> Vec<Slot> {
        let mut taken = Vec::new();
        for index in chosen {
            if !self.duties.is_empty() {
                taken.push(self.duties.swap_remove(index.index(self.duties.len())));
            }
        }
        taken
    }

    /// Takes duties for as many neighbours as there are, from a chosen one on.
    fn take_run(&mut self, first: Index) -> Range<u64> {
        let mut singles: Vec<_> = self.duties.iter().filter(|s| s.as_bundle().is_none()).collect();
        singles.sort_unstable();
        let Some(first) = (!singles.is_empty()).then(|| first.get(&singles).sequence()) else {
            return 0..0;
        };
        let mut end = first;
        while let Some(duty) = self.duties.iter().position(|&duty| duty == Slot::single(end)) {
            self.duties.swap_remove(duty);
            end += 1;
        }
        first..end
    }
}

/// The ledger and its model, which do the same and must agree.
struct Pair {
    ledger: Ledger,
    model: Model,
}

impl Pair {
    fn act(&mut self, action: Action) {
        let Self { ledger, model } = self;
        match action {
            Action::Admit(gaps) => self.admit(&gaps),
            Action::Share(duty, more) if !model.duties.is_empty() => {
                let slot = *duty.get(&model.duties);
                ledger.share([(slot, more)]);
                model.duties.extend((0..more).map(|_| slot));
                match model.bundles.get_mut(&slot) {
                    Some(together) => together.shares += more,
                    None => model.messages[slot.sequence() as usize].shares += more,
                }
            }
            Action::Bundle(chosen) if !model.fenced => {
                let members = model.take(&chosen);
                let slot = ledger.bundle(members.clone());
                let together = Together { members, shares: 1, outcome: Filtered };
                assert!(model.bundles.insert(slot, together).is_none(), "its place was free");
                model.duties.push(slot);
            }
            Action::Settle(chosen, outcome) => {
                let slots = model.take(&chosen);
                self.settle(outcome, &slots, |ledger| ledger.settle(&slots, outcome));
            }
            Action::SettleRange(first, outcome) => {
                let range = model.take_run(first);
                let slots: Vec<_> = range.clone().map(Slot::single).collect();
                self.settle(outcome, &slots, |ledger| ledger.settle_range(range, outcome));
            }
            Action::Divert(duty) if !model.duties.is_empty() => self.divert(duty),
            Action::Hold(chosen, step) => {
                let slots = model.take(&chosen);
                ledger.hold(&slots, StepId::new(step));
                let held: Vec<_> = slots.iter().flat_map(|&slot| model.behind(slot)).collect();
                for message in held {
                    model.messages[message].holder = StepId::new(step);
                }
                model.duties.extend(slots);
            }
            Action::Fence => {
                let bytes = if model.fenced { 0 } else { model.bytes() };
                assert_eq!(ledger.fence(), bytes);
                model.fenced = true;
            }
            Action::Share(..) | Action::Bundle(_) | Action::Divert(_) => {}
        }
        self.check();
    }

    fn admit(&mut self, gaps: &[u64]) {
        let Self { ledger, model } = self;
        let mut position = model.messages.last().map_or(0, |m| m.position.get() + 1);
        let mut positions = Vec::new();
        for gap in gaps {
            positions.push(position + gap);
            position += gap + 1;
        }
        let records = batch(&positions);
        let admitted = ledger.admit(&records);
        if model.fenced {
            let slots = admitted.unwrap();
            assert_eq!(slots.end - slots.start, positions.len() as u64, "slots that don't count");
            return;
        }
        if !model.has_room() {
            let open = model.messages.len() - model.settled_prefix();
            assert_eq!(admitted, Err(LedgerFull { open, capacity: CAPACITY }));
            return;
        }
        let first = model.messages.len() as u64;
        let slots = first..first + positions.len() as u64;
        assert_eq!(admitted, Ok(slots.clone()));
        model.duties.extend(slots.map(Slot::single));
        model.messages.extend(positions.into_iter().map(|position| Message {
            position: Position::new(position),
            batch: model.batches.len(),
            shares: 1,
            outcome: Filtered,
            holder: StepId::SOURCE,
            diverting: false,
        }));
        model.batches.push(records);
    }

    fn settle(
        &mut self,
        outcome: Outcome,
        slots: &[Slot],
        settle: impl FnOnce(&mut Ledger) -> Completed,
    ) {
        let model = &mut self.model;
        let (frontier, bytes) = (model.frontier(), model.bytes());
        let completed = settle(&mut self.ledger);
        if model.fenced {
            assert_eq!(completed, Completed::default());
            return;
        }
        model.counts = OutcomeCounts::default();
        for &slot in slots {
            model.answer(slot, outcome);
        }
        let expected = Completed {
            counts: model.counts,
            freed_bytes: bytes - model.bytes(),
            frontier_moved: frontier != model.frontier(),
            drained: model.pending() == 0,
        };
        assert_eq!(completed, expected);
    }

    fn divert(&mut self, duty: Index) {
        let Self { ledger, model } = self;
        let slot = *duty.get(&model.duties);
        let diversions = ledger.begin_diversion(slot);
        let found: Vec<_> = diversions.iter().map(|d| d.batch.get(d.row).position()).collect();
        let mut expected = Vec::new();
        for message in if model.fenced { Vec::new() } else { model.behind(slot) } {
            let message = &mut model.messages[message];
            if !std::mem::replace(&mut message.diverting, true) {
                expected.push(message.position);
            }
        }
        assert_eq!(found, expected);
    }

    fn check(&self) {
        let Self { ledger, model } = self;
        if model.fenced {
            assert_eq!((ledger.open(), ledger.bytes(), ledger.oldest()), (0, 0, None));
            assert_eq!(ledger.frontier(), model.frontier(), "as it was");
            return;
        }
        assert_eq!(ledger.frontier(), model.frontier());
        assert_eq!(ledger.open(), model.open());
        assert_eq!(ledger.pending(), model.pending());
        assert_eq!(ledger.passed(), model.settled_prefix() as u64);
        assert_eq!(ledger.bytes(), model.bytes());
        assert_eq!(ledger.has_room(), model.has_room());
        assert_eq!(ledger.oldest(), model.oldest());
        for &duty in &model.duties {
            let mut positions: Vec<_> =
                model.behind(duty).into_iter().map(|m| model.messages[m].position).collect();
            positions.sort_unstable();
            positions.dedup();
            assert_eq!(ledger.positions(duty), positions);
        }
        for (index, batch) in model.batches.iter().enumerate() {
            let kept = model.messages.iter().any(|m| m.batch == index && !m.is_settled());
            assert_eq!(Arc::strong_count(batch), 1 + usize::from(kept), "batch {index}");
        }
    }
}

proptest! {
    /// P1, P2, P5, P22, P36
    #[test]
    fn the_ledger_agrees_with_a_model_that_counts_everything_anew(
        actions in prop::collection::vec(action(), 1..80),
    ) {
        let mut pair = Pair { ledger: Ledger::new(CAPACITY), model: Model::default() };
        let mut frontier = None;
        for action in actions {
            pair.act(action);
            prop_assert!(pair.ledger.frontier() >= frontier, "the frontier went back");
            frontier = pair.ledger.frontier();
        }

        // Whatever is still owed is answered: everything settles but what failed for good.
        let owed = std::mem::take(&mut pair.model.duties);
        pair.settle(Done, &owed, |ledger| ledger.settle(&owed, Done));
        pair.check();
        let failed = pair.model.messages.iter().any(|m| !m.outcome.is_settled());
        if !pair.model.fenced && !failed {
            prop_assert_eq!((pair.ledger.open(), pair.ledger.bytes()), (0, 0));
            let end = pair.model.messages.last().map(|message| message.position.next());
            prop_assert_eq!(pair.ledger.frontier(), end);
        }
    }
}
