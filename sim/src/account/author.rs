//! The author's code: how often it is called, and which failures it had.

use super::{Account, Violation, broken};
use crate::message::Message;
use crate::rules::Verdict;
use crate::shape::{StepNumber, Trouble};

impl Account {
    /// A step's closure has got the message: how it fares, and for which part. Each delivery of a
    /// record calls it once (P16).
    pub fn called(
        &mut self,
        step: StepNumber,
        message: &Message,
        trouble: Trouble,
        troubled: bool,
    ) -> Result<(Verdict, u32), Violation> {
        for part in &message.parts {
            let calls = self.calls.entry((step, Self::result(*part))).or_default();
            *calls += 1;
            let deliveries = self.records.get(&part.record).map_or(0, |record| record.deliveries);
            if *calls > deliveries {
                return Err(broken(
                    "P16: a step is called once for each delivery",
                    format!("s{step} got {part:?} {calls} times, in {deliveries} deliveries"),
                ));
            }
        }
        Ok(self.judged(step, message, trouble, troubled))
    }

    /// How a message fares that may be looked at any number of times.
    pub fn judged(
        &mut self,
        step: StepNumber,
        message: &Message,
        trouble: Trouble,
        troubled: bool,
    ) -> (Verdict, u32) {
        if trouble == Trouble::default() {
            return (Verdict::Pass, 0);
        }
        let verdict = message.parts.iter().find_map(|part| {
            // A message that failed goes on to fail: a retry of its batch finds no other world.
            let question = (part.record, step, part.trail, part.delivery);
            let failed = self.verdicts.get(&question).copied();
            let verdict =
                failed.unwrap_or_else(|| self.scenario.judges(step, trouble, *part, troubled));
            (verdict != Verdict::Pass).then_some((question, verdict))
        });
        let Some((question, verdict)) = verdict else { return (Verdict::Pass, 0) };
        self.verdicts.insert(question, verdict);
        // A message that was made of several records fails as a whole.
        for part in &message.parts {
            self.troubles.insert((part.record, step, part.trail));
        }
        self.doomed.extend(message.fate.iter().map(|record| (*record, step)));
        (verdict, question.0)
    }
}
