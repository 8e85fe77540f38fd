//! What the author's code decides, as pure functions: which messages are kept, how many are made
//! of one, which way they go, which fail.

use crate::message::Part;
use crate::rng::mix;
use crate::scenario::Scenario;
use crate::shape::{StepNumber, Trouble};

/// Which decision is asked for; keeps the answers apart.
#[derive(Clone, Copy)]
enum Question {
    Keep,
    Fan,
    Choose,
    Poison,
    Flaky,
    Delay,
}

/// What a decision is about: a single result, or the partition if several may have been put
/// together.
#[derive(Clone, Copy, Debug)]
pub enum Subject {
    /// One result of one record.
    Part(u32, u32),
    /// Everything of one partition.
    Partition(u32),
}

impl Subject {
    /// Of a message whose first part is this.
    pub fn new(merged: bool, partition: u32, first: Part) -> Self {
        if merged { Self::Partition(partition) } else { Self::Part(first.record, first.trail) }
    }
}

/// How a message fares in a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It passes.
    Pass,
    /// An error.
    Fail,
    /// A panic.
    Panic,
}

impl Scenario {
    /// Whether a filter keeps this part; it drops so many of a thousand.
    pub fn keeps(&self, step: StepNumber, drop: u32, record: u32, trail: u32) -> bool {
        self.ask(step, Question::Keep, Subject::Part(record, trail)) % 1000 >= u64::from(drop)
    }

    /// How many are made of one, at most `most`; seldom, and of few records only, very many: they
    /// don't fit into one chunk.
    pub fn fans(&self, step: StepNumber, most: u32, subject: Subject) -> u32 {
        let asked = self.ask(step, Question::Fan, subject);
        if most > 3 && self.records.len() <= 20 && (asked >> 40).is_multiple_of(8) {
            return most;
        }
        (asked % (u64::from(most.min(3)) + 1)) as u32
    }

    /// Which of `ways` a message goes; `ways` itself is none of them.
    pub fn chooses(
        &self,
        step: StepNumber,
        ways: usize,
        otherwise: bool,
        subject: Subject,
    ) -> usize {
        let chosen = (self.ask(step, Question::Choose, subject) % (ways as u64 + 1)) as usize;
        if otherwise { chosen.min(ways - 1) } else { chosen }
    }

    /// Whether this part fails. `troubled` says whether what fails in some deliveries does so now.
    pub fn judges(
        &self,
        step: StepNumber,
        trouble: Trouble,
        part: Part,
        troubled: bool,
    ) -> Verdict {
        let subject = Subject::Part(part.record, part.trail);
        let poison = self.ask(step, Question::Poison, subject);
        let flaky = mix(&[self.ask(step, Question::Flaky, subject), u64::from(part.delivery)]);
        // Without dead letters the operator has to mend the code at last.
        let poisoned = (troubled || self.dead_letters) && poison % 1000 < u64::from(trouble.poison);
        let unlucky = troubled && flaky % 1000 < u64::from(trouble.flaky);
        if !poisoned && !unlucky {
            Verdict::Pass
        } else if (poison ^ flaky) >> 32 & 1 == 0 {
            Verdict::Fail
        } else {
            Verdict::Panic
        }
    }

    /// How long a call takes, in thousandths of the longest.
    pub fn delays(&self, step: StepNumber, part: Part) -> u32 {
        let asked = self.ask(step, Question::Delay, Subject::Part(part.record, part.trail));
        // Most are quick, a few take all the time there is.
        let thousandths = (asked % 1000) as u32;
        if asked >> 40 & 7 == 0 { thousandths } else { thousandths / 10 }
    }

    fn ask(&self, step: StepNumber, question: Question, subject: Subject) -> u64 {
        let (record, trail) = match subject {
            Subject::Part(record, trail) => (u64::from(record), u64::from(trail)),
            Subject::Partition(partition) => (u64::MAX, u64::from(partition)),
        };
        mix(&[self.seed, u64::from(step), question as u64, record, trail])
    }
}
