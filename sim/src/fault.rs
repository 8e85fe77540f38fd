//! What goes wrong in a run, and when.
//!
//! All faults end at one time, [`Faults::calm_at`]. From then on everything must come to an end
//! within a bounded time.

use std::time::Duration;

use crate::rng::Rng;

/// A kind of call over the pipeline's border.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Call {
    /// The source brought an event.
    Next,
    /// A commit.
    Commit,
    /// A release of partitions.
    Release,
    /// A sink's write.
    Write,
    /// A write of the dead letters.
    Letter,
}

/// When in a call something happens.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Edge {
    /// Before it has had an effect.
    Before,
    /// After its effect, before its answer.
    After,
}

/// Something that is done to an instance, a partition or a sink.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// The process is killed.
    Crash(usize),
    /// The process is killed in one of its next calls of this kind.
    CrashIn {
        /// The instance.
        instance: usize,
        /// The kind of call.
        call: Call,
        /// In which of them, from 1.
        nth: u32,
        /// When in it.
        edge: Edge,
    },
    /// The process stands still for a time, perhaps longer than its session.
    Pause(usize, Duration),
    /// The pipeline is asked to stop; it is started again later.
    Stop(usize),
    /// The sink takes no write for a time.
    Stall(usize, Duration),
    /// Memory log: partitions move among the members. The time is the deadline for the drain.
    Reshuffle(Option<Duration>),
    /// Memory log: a partition's owner loses it and hears of it afterwards.
    Take(u32),
}

/// How often calls fail, in a thousand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rates {
    /// A write fails before anything is written, and may be repeated.
    pub write_refused: u32,
    /// A write fails when a part is written.
    pub write_torn: u32,
    /// All is written, but the answer says that it failed.
    pub write_reply_lost: u32,
    /// A write fails for good.
    pub write_fatal: u32,
    /// The sink panics.
    pub write_panic: u32,
    /// The sink answers for too few.
    pub write_short: u32,
    /// A sink doesn't open the first time.
    pub open_refused: u32,
    /// A commit fails and may be repeated.
    pub commit_refused: u32,
    /// A commit is made, but the answer says that it failed.
    pub commit_reply_lost: u32,
    /// A commit fails for good.
    pub commit_fatal: u32,
    /// Reading fails and may be repeated.
    pub next_refused: u32,
    /// Reading fails for good.
    pub next_fatal: u32,
    /// A release fails and may be repeated.
    pub release_refused: u32,
    /// A call takes long.
    pub slow: u32,
}

/// All that goes wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Faults {
    /// When it ends.
    pub calm_at: Duration,
    /// How often calls fail until then.
    pub rates: Rates,
    /// How long a slow call takes at most.
    pub slowest: Duration,
    /// What is done, in order.
    pub actions: Vec<(Duration, Action)>,
}

impl Faults {
    /// Random faults for so many instances and partitions.
    pub fn random(rng: &mut Rng, calm_at: Duration, instances: usize, partitions: u32) -> Self {
        let count = rng.pick(&[0, 1, 3, 8]);
        let end = calm_at.as_millis() as u64;
        let mut actions: Vec<_> =
            (0..count).map(|_| (rng.millis(1, end), action(rng, instances, partitions))).collect();
        actions.sort_by_key(|(at, _)| *at);
        let rates = if rng.chance(300) { Rates::default() } else { Rates::random(rng) };
        let slowest = Duration::from_millis(rng.pick(&[10, 300, 2500]));
        Self { calm_at, rates, slowest, actions }
    }
}

fn action(rng: &mut Rng, instances: usize, partitions: u32) -> Action {
    let instance = rng.below(instances);
    match rng.below(10) {
        0 => Action::Crash(instance),
        1..=3 => Action::CrashIn {
            instance,
            call: rng.pick(&[Call::Next, Call::Commit, Call::Release, Call::Write, Call::Letter]),
            nth: rng.between(1, 12) as u32,
            edge: rng.pick(&[Edge::Before, Edge::After]),
        },
        4 => Action::Pause(instance, rng.millis(10, 6000)),
        5 => Action::Stop(instance),
        6 => Action::Stall(rng.below(4), rng.millis(100, 4000)),
        7 | 8 => {
            let within = [Duration::ZERO, Duration::from_millis(20), Duration::from_millis(400)];
            Action::Reshuffle(rng.chance(600).then(|| rng.pick(&within)))
        }
        _ => Action::Take(rng.between(0, u64::from(partitions) - 1) as u32),
    }
}

impl Rates {
    fn random(rng: &mut Rng) -> Self {
        let often = |rng: &mut Rng| if rng.chance(400) { rng.pick(&[5, 40, 200]) } else { 0 };
        let seldom = |rng: &mut Rng| if rng.chance(150) { rng.pick(&[1, 10]) } else { 0 };
        Self {
            write_refused: often(rng),
            write_torn: often(rng),
            write_reply_lost: often(rng),
            write_fatal: seldom(rng),
            write_panic: seldom(rng),
            write_short: seldom(rng),
            open_refused: often(rng),
            commit_refused: often(rng),
            commit_reply_lost: often(rng),
            commit_fatal: seldom(rng),
            next_refused: often(rng),
            next_fatal: seldom(rng),
            release_refused: often(rng),
            slow: often(rng),
        }
    }
}
