//! Giving partitions up: was there time for everything, and was it in time?

use std::time::Duration;

use super::World;
use crate::account::Ended;

/// What virtual time may be off by.
const TICK: Duration = Duration::from_millis(1);

impl World {
    /// The source told the engine to give a partition up.
    pub fn revokes(&self, incarnation: u32, partition: u32, within: Option<Duration>) {
        let now = self.now();
        self.lock().life(incarnation).revoked.push((partition, now, within));
    }

    /// The engine lets a partition go: was there time to commit everything, and was it in time?
    pub fn releases(&self, incarnation: u32, partition: u32) {
        let deadline = self.deadline(incarnation, partition);
        self.check_lateness(incarnation, partition, deadline);
        self.lock().life(incarnation).revoked.retain(|(revoked, _, _)| *revoked != partition);
        self.lets_go(incarnation, partition, deadline);
    }

    /// The engine hears that the partition is gone.
    pub fn takes(&self, incarnation: u32, partition: u32) {
        self.lock().life(incarnation).revoked.retain(|(revoked, _, _)| *revoked != partition);
        self.check(|account| account.ended(incarnation, partition, Ended::Taken));
    }

    /// The pipeline has ended: what it didn't release, its source lets go of.
    pub(super) fn lets_go_of_all(&self, incarnation: u32) {
        for partition in self.ask(|account| account.owned(incarnation)) {
            let deadline = self.deadline(incarnation, partition);
            self.lets_go(incarnation, partition, deadline);
        }
    }

    fn lets_go(&self, incarnation: u32, partition: u32, deadline: Option<Duration>) {
        let now = self.now();
        let excused = {
            let mut state = self.lock();
            let taken = state.account.is_taken(incarnation, partition);
            let out_of_time = deadline.is_some_and(|deadline| deadline <= now + TICK);
            taken || out_of_time || state.life(incarnation).fatal.any()
        };
        self.check(|account| account.ended(incarnation, partition, Ended::Released { excused }));
    }

    /// By when the engine must have given the partition up.
    fn deadline(&self, incarnation: u32, partition: u32) -> Option<Duration> {
        let drain = self.scenario().settings.drain;
        let mut state = self.lock();
        let life = state.life(incarnation);
        let revoked = life.revoked.iter().filter(|(revoked, _, _)| *revoked == partition);
        let revoked = revoked.map(|(_, at, within)| *at + within.unwrap_or(drain).min(drain));
        revoked.chain(life.stopped_at.map(|at| at + drain)).min()
    }

    /// A drain has one deadline (P27). Commits and releases that take long or fail on the way may
    /// come on top.
    fn check_lateness(&self, incarnation: u32, partition: u32, deadline: Option<Duration>) {
        let Some(deadline) = deadline else { return };
        let faults = &self.scenario().faults;
        let [_, longest_pause, _] = self.scenario().settings.retry;
        let slack = faults.slowest * 8 + longest_pause * 4 + Duration::from_millis(200);
        let resumed = self.lock().life(incarnation).paused_until;
        if self.now() > deadline.max(resumed) + slack {
            self.violated(
                "P27: a drain has one deadline",
                format!(
                    "partition {partition} should have been given up at {:.3} s",
                    deadline.as_secs_f64()
                ),
            );
        }
    }
}
