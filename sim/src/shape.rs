//! A pipeline as data: which steps, which fan-outs, which sinks.
//!
//! Everything that a step decides is a function of the scenario's seed, the step's number and the
//! message (`rules`), so that what must come out can be computed apart from the engine (`expect`).
//!
//! Once a step has made one message of several records, later steps must not decide by what was
//! put together, which depends on the time. They decide for each part, or by the partition:
//! [`Step::merged`] says so.

use std::time::Duration;

use crate::rng::Rng;

/// A step's number within its pipeline. Sinks have one too.
pub type StepNumber = u16;

/// How often a step fails, in a thousand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Trouble {
    /// Messages that fail each time.
    pub poison: u32,
    /// Messages that fail in some of their deliveries.
    pub flaky: u32,
}

/// One step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its number.
    pub number: StepNumber,
    /// Whether a message may have been made from several records.
    pub merged: bool,
    /// What it does.
    pub kind: Kind,
    /// How often it fails.
    pub trouble: Trouble,
}

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// One for each; may panic.
    Map,
    /// One for each, or an error.
    TryMap,
    /// Keeps some; drops so many of a thousand.
    Filter(u32),
    /// Works on some; drops so many of a thousand.
    FilterMap(u32),
    /// Looks.
    Inspect,
    /// Up to so many for each.
    FlatMap(u32),
    /// Up to so many for each, or an error behind them.
    TryFlatMap(u32),
    /// One of several, as it is or taken apart again.
    Batch {
        /// The most messages in one.
        count: usize,
        /// The most bytes in one.
        bytes: Option<usize>,
        /// The longest time to wait.
        every: Duration,
        /// Whether it is taken apart again.
        unbatch: bool,
    },
    /// A call that takes a while.
    Async {
        /// In which order results leave.
        order: Order,
        /// Calls at a time in a partition.
        calls: usize,
        /// Calls at a time in the pipeline.
        in_pipeline: Option<usize>,
        /// The longest call.
        longest: Duration,
    },
    /// So many messages a second.
    Throttle(u32),
    /// A step of our own that keeps up to so many chunks for a time.
    Hoard {
        /// Chunks.
        chunks: usize,
        /// The longest time.
        every: Duration,
    },
}

/// Which order is kept. From the strictest to the least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Order {
    /// A partition's.
    Partition,
    /// A key's.
    Key,
    /// None.
    Free,
}

/// Steps one after another, and what comes behind them.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The steps.
    pub steps: Vec<Step>,
    /// What comes behind.
    pub end: End,
}

/// The end of a chain.
#[derive(Clone, Debug)]
pub enum End {
    /// The sink with this index.
    Sink(usize),
    /// Each message goes one way, or none if `otherwise` is off.
    Branch {
        /// Its number.
        number: StepNumber,
        /// See [`Step::merged`].
        merged: bool,
        /// How often a predicate fails.
        trouble: Trouble,
        /// Whether the last way takes everything that is left.
        otherwise: bool,
        /// The ways.
        ways: Vec<Chain>,
    },
    /// Each message goes all ways.
    Tee {
        /// Its number.
        number: StepNumber,
        /// The ways.
        ways: Vec<Chain>,
    },
}

/// A sink.
#[derive(Clone, Debug)]
pub struct SinkShape {
    /// Its number among the steps.
    pub number: StepNumber,
    /// The most messages in one write.
    pub max_items: usize,
    /// The order in which messages must arrive.
    pub order: Order,
    /// Whether several were made of a message of several records: then records are in order among
    /// the results of one kind, and not across them.
    pub mixed: bool,
    /// Messages that it refuses.
    pub trouble: Trouble,
}

/// A whole pipeline.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The first step, which makes messages of records.
    pub intake: Step,
    /// Everything behind it.
    pub chain: Chain,
    /// The sinks, by their index.
    pub sinks: Vec<SinkShape>,
}

impl Shape {
    /// A random pipeline. In a troubled one messages fail.
    pub fn random(rng: &mut Rng, troubled: bool) -> Self {
        let mut maker = Maker { rng, troubled, next: 0, sinks: Vec::new() };
        let kind = maker.rng.pick(&[Kind::Map, Kind::TryMap, Kind::FilterMap(150), Kind::Inspect]);
        let intake = maker.step(kind, false);
        let chain = maker.chain(Way {
            merged: false,
            mixed: false,
            order: Order::Partition,
            fans: 2,
            depth: 0,
        });
        Self { intake, chain, sinks: maker.sinks }
    }
}

impl Shape {
    /// How long one message may take that has the pipeline to itself.
    pub fn slowness(&self) -> Duration {
        self.chain.slowness() + Duration::from_millis(50)
    }

    /// Whether messages of several partitions wait for one another.
    pub fn has_throttle(&self) -> bool {
        self.chain.has_throttle()
    }
}

impl Chain {
    fn has_throttle(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.kind, Kind::Throttle(_)))
            || match &self.end {
                End::Sink(_) => false,
                End::Branch { ways, .. } | End::Tee { ways, .. } => {
                    ways.iter().any(Self::has_throttle)
                }
            }
    }

    fn slowness(&self) -> Duration {
        let steps: Duration = self.steps.iter().map(|step| step.kind.slowness()).sum();
        let ways: Duration = match &self.end {
            End::Sink(_) => Duration::ZERO,
            End::Branch { ways, .. } | End::Tee { ways, .. } => {
                ways.iter().map(Self::slowness).sum()
            }
        };
        steps + ways
    }
}

impl Kind {
    fn slowness(self) -> Duration {
        match self {
            Self::Batch { every, .. } | Self::Hoard { every, .. } => every,
            Self::Async { longest, .. } => longest,
            Self::Throttle(messages) => Duration::from_secs(1) / messages,
            _ => Duration::ZERO,
        }
    }
}

/// What is so far, on the way from the source.
#[derive(Clone, Copy)]
struct Way {
    merged: bool,
    mixed: bool,
    order: Order,
    /// How many more fan-outs there may be.
    fans: u32,
    depth: u32,
}

struct Maker<'a> {
    rng: &'a mut Rng,
    troubled: bool,
    next: StepNumber,
    sinks: Vec<SinkShape>,
}

impl Maker<'_> {
    fn number(&mut self) -> StepNumber {
        self.next += 1;
        self.next - 1
    }

    fn trouble(&mut self) -> Trouble {
        if !self.troubled || self.rng.chance(600) {
            return Trouble::default();
        }
        Trouble { poison: self.rng.pick(&[0, 10, 60]), flaky: self.rng.pick(&[0, 10, 50]) }
    }

    fn step(&mut self, kind: Kind, merged: bool) -> Step {
        let can_fail = match kind {
            // What measures a message is the author's code.
            Kind::Batch { bytes, .. } => bytes.is_some(),
            Kind::Throttle(_) | Kind::Hoard { .. } => false,
            _ => true,
        };
        let trouble = if can_fail { self.trouble() } else { Trouble::default() };
        Step { number: self.number(), merged, kind, trouble }
    }

    fn chain(&mut self, mut way: Way) -> Chain {
        let length = if way.depth == 0 { self.rng.below(5) } else { self.rng.below(3) };
        let steps = (0..length).map(|_| self.next_step(&mut way)).collect();
        Chain { steps, end: self.end(way) }
    }

    fn next_step(&mut self, way: &mut Way) -> Step {
        let merged = way.merged;
        let kind = self.kind(way);
        match kind {
            Kind::FlatMap(_) | Kind::TryFlatMap(_) => {
                way.fans -= 1;
                way.mixed |= merged;
            }
            Kind::Batch { unbatch: false, .. } => way.merged = true,
            // With several records in a message the key is the partition's.
            Kind::Async { order: Order::Key, .. } if merged => {}
            Kind::Async { order, .. } => way.order = way.order.max(order),
            _ => {}
        }
        self.step(kind, merged)
    }

    fn kind(&mut self, way: &Way) -> Kind {
        let rng = &mut *self.rng;
        match rng.below(14) {
            0 => Kind::Map,
            1 => Kind::TryMap,
            2 => Kind::Filter(rng.pick(&[50, 500, 1000])),
            3 => Kind::FilterMap(rng.pick(&[50, 300])),
            4 => Kind::Inspect,
            5 if way.fans > 0 => Kind::FlatMap(rng.pick(&[1, 3, 700])),
            6 if way.fans > 0 => Kind::TryFlatMap(rng.pick(&[2, 3])),
            5..=8 => Kind::Batch {
                count: rng.pick(&[1, 2, 7, 20, 1000]),
                bytes: rng.chance(300).then_some(rng.pick(&[1, 100, 1000])),
                every: rng.pick_millis(&[5, 100, 1500]),
                unbatch: rng.chance(500),
            },
            9..=11 => Kind::Async {
                order: rng.pick(&[Order::Partition, Order::Key, Order::Free]),
                calls: rng.pick(&[1, 2, 5, 50]),
                in_pipeline: rng.chance(300).then_some(rng.pick(&[1, 3, 10])),
                longest: rng.pick_millis(&[0, 5, 80, 3000]),
            },
            12 => Kind::Throttle(rng.pick(&[40, 300, 5000])),
            _ => {
                Kind::Hoard { chunks: rng.pick(&[1, 2, 5]), every: rng.pick_millis(&[1, 60, 700]) }
            }
        }
    }

    fn end(&mut self, way: Way) -> End {
        if way.depth >= 2 || self.rng.chance(700) {
            return self.sink(way);
        }
        let count = 1 + self.rng.below(3);
        let number = self.number();
        let (branch, otherwise) = (self.rng.chance(500), self.rng.chance(500));
        let trouble = if branch { self.trouble() } else { Trouble::default() };
        let below = Way { depth: way.depth + 1, ..way };
        let ways = (0..count).map(|_| self.chain(below)).collect();
        if branch {
            End::Branch { number, merged: way.merged, trouble, otherwise, ways }
        } else {
            End::Tee { number, ways }
        }
    }

    fn sink(&mut self, way: Way) -> End {
        let sink = SinkShape {
            number: self.number(),
            max_items: self.rng.pick(&[1, 3, 10, 10_000]),
            order: way.order,
            mixed: way.mixed,
            trouble: self.trouble(),
        };
        self.sinks.push(sink);
        End::Sink(self.sinks.len() - 1)
    }
}
