//! What the author's code asks the world: whether it fails now, and how long it takes.

use std::time::Duration;

use super::World;
use crate::message::Message;
use crate::rules::Verdict;
use crate::shape::{StepNumber, Trouble};
use crate::trace::Event;

impl World {
    /// A step's closure has got a message.
    pub fn call(
        &self,
        incarnation: u32,
        step: StepNumber,
        message: &Message,
        trouble: Trouble,
    ) -> Verdict {
        if !self.is_alive(incarnation) {
            return Verdict::Pass;
        }
        self.is_busy();
        let troubled = self.is_troubled();
        let judged = self.check(|account| account.called(step, message, trouble, troubled));
        let verdict = self.noted(incarnation, step, judged.unwrap_or((Verdict::Pass, 0)));
        if verdict != Verdict::Pass {
            self.cannot_go_on(incarnation);
        }
        verdict
    }

    /// A sink looks whether it takes a message.
    pub fn judge(
        &self,
        incarnation: u32,
        step: StepNumber,
        message: &Message,
        trouble: Trouble,
    ) -> Verdict {
        let troubled = self.is_troubled();
        let judged = self.ask(|account| account.judged(step, message, trouble, troubled));
        self.noted(incarnation, step, judged)
    }

    fn noted(
        &self,
        incarnation: u32,
        step: StepNumber,
        (verdict, record): (Verdict, u32),
    ) -> Verdict {
        if verdict != Verdict::Pass {
            self.note(&Event::Trouble {
                incarnation,
                step,
                record,
                panic: verdict == Verdict::Panic,
            });
            self.lock().tally.troubles += 1;
        }
        verdict
    }

    /// The engine hears of a message that failed; without dead letters it stops.
    pub fn cannot_go_on(&self, incarnation: u32) {
        if !self.scenario().dead_letters {
            // Not for certain: its partition may be given up just now.
            self.lock().life(incarnation).fatal.message = true;
        }
    }

    /// Waits as long as a call takes, and while the process stands still.
    pub async fn work(&self, incarnation: u32, step: StepNumber, of: &Message, longest: Duration) {
        let thousandths = self.scenario().delays(step, of.parts[0]);
        let time = longest * thousandths / 1000;
        if time >= Duration::from_millis(1) {
            tokio::time::sleep(time).await;
        }
        self.is_busy();
        // A dead process needs nothing any more; its call may as well go on.
        let _ = self.gate(incarnation).await;
    }
}
