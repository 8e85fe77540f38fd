//! Builds the engine's pipeline from its shape.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{BoxError, Record};
use tidegate_local::LocalSink;
use tidegate_runtime::{
    BatchLimits, CommitPolicy, Concurrency, Flow, Limits, Origin, Pipeline, RetryPolicy, Settings,
    Stream, Threads, Top,
};

use crate::hoard::Hoard;
use crate::message::{Message, Part, decode};
use crate::mutant::Mutant;
use crate::rules::{Subject, Verdict};
use crate::shape::{Chain, End, Kind, Order, Step, StepNumber, Trouble};
use crate::sink::BorderSink;
use crate::source::BorderSource;
use crate::world::World;

/// The pipeline of one incarnation. `logs` has what the sinks write with, by their index.
pub fn build(
    world: &World,
    incarnation: u32,
    source: BorderSource,
    mut logs: Vec<Option<LocalSink>>,
) -> Flow<Top> {
    let author = Author { world: world.clone(), incarnation };
    let scenario = Arc::clone(world.scenario());
    let mut pipeline = Pipeline::new("sim").settings(settings(world));
    if scenario.dead_letters {
        pipeline = pipeline.dead_letters(BorderSink::letters(world.clone(), incarnation));
    }
    let intake = &scenario.shape.intake;
    let records = pipeline.source(source);
    let stream = match intake.kind {
        Kind::TryMap => {
            let (author, step) = (author.clone(), intake.clone());
            records.try_map(move |record| author.pass(&step, author.message(record)))
        }
        Kind::FilterMap(drop) => {
            let (author, step) = (author.clone(), intake.clone());
            records.filter_map(move |record| {
                let mut message = author.message(record);
                author.must_pass(step.number, &message, step.trouble);
                author.keep(step.number, drop, &mut message).then(|| author.worked(&step, message))
            })
        }
        Kind::Inspect => {
            let (author, step) = (author.clone(), intake.clone());
            records.records().map(move |record| {
                let message = author.message(record.get());
                author.must_pass(step.number, &message, step.trouble);
                message
            })
        }
        _ => {
            let (author, step) = (author.clone(), intake.clone());
            records.map(move |record| {
                let message = author.message(record);
                author.must_pass(step.number, &message, step.trouble);
                author.worked(&step, message)
            })
        }
    };
    chain(&author, stream.named(name(intake.number)), &scenario.shape.chain, &mut logs)
}

fn settings(world: &World) -> Settings {
    let plan = world.scenario().settings;
    let [first, longest, give_up_after] = plan.retry;
    Settings {
        commit: CommitPolicy { every: plan.commit_every, count: plan.commit_count },
        limits: Limits {
            bytes: plan.bytes,
            messages_per_partition: plan.messages,
            chunk_messages: plan.chunk_messages,
            chunk_bytes: plan.chunk_bytes,
        },
        retry: RetryPolicy { first, longest, give_up_after },
        drain: plan.drain,
        stall_after: plan.stall_after,
        threads: Threads::Current,
        clock: world.clock(),
    }
}

fn name(step: StepNumber) -> String {
    format!("s{step}")
}

type Logs = Vec<Option<LocalSink>>;

fn chain<O: Origin>(
    author: &Author,
    mut stream: Stream<O, Message>,
    chain: &Chain,
    logs: &mut Logs,
) -> Flow<O> {
    for step in &chain.steps {
        stream = add(author, stream, step).named(name(step.number));
    }
    end(author, stream, &chain.end, logs)
}

fn add<O: Origin>(author: &Author, stream: Stream<O, Message>, step: &Step) -> Stream<O, Message> {
    let (author, step) = (author.clone(), step.clone());
    match step.kind {
        Kind::Map => stream.map(move |message| {
            author.must_pass(step.number, &message, step.trouble);
            author.worked(&step, message)
        }),
        Kind::TryMap => stream.try_map(move |message| author.pass(&step, message)),
        Kind::Filter(drop) if !step.merged => stream.filter(move |message| {
            author.must_pass(step.number, message, step.trouble);
            author.keep(step.number, drop, &mut message.clone())
        }),
        // One of several records keeps some of them.
        Kind::Filter(drop) => stream.filter_map(move |mut message| {
            author.must_pass(step.number, &message, step.trouble);
            author.keep(step.number, drop, &mut message).then_some(message)
        }),
        Kind::FilterMap(drop) => stream.filter_map(move |mut message| {
            author.must_pass(step.number, &message, step.trouble);
            author.keep(step.number, drop, &mut message).then(|| author.worked(&step, message))
        }),
        Kind::Inspect => stream.inspect(move |message| {
            author.must_pass(step.number, message, step.trouble);
        }),
        Kind::FlatMap(most) => stream.flat_map(move |message| {
            author.must_pass(step.number, &message, step.trouble);
            author.children(&step, most, &message)
        }),
        Kind::TryFlatMap(most) => stream.try_flat_map(move |message| {
            let failed = author.pass(&step, message.clone()).err();
            let children = author.children(&step, most, &message).into_iter().map(Ok);
            children.chain(failed.map(Err)).collect::<Vec<Result<Message, BoxError>>>()
        }),
        Kind::Batch { count, bytes, every, unbatch } => {
            let mut limits = BatchLimits::count(count).every(every);
            let batches = match bytes {
                Some(bytes) => {
                    limits = limits.bytes(bytes);
                    stream
                        .batch_by_bytes(limits, move |message: &Message| {
                            author.must_pass(step.number, message, step.trouble);
                            message.bytes
                        })
                        .named(name(step.number))
                }
                None => stream.batch(limits).named(name(step.number)),
            };
            let batches = batches.map(Message::bundle);
            if unbatch { batches.unbatch() } else { batches.filter_map(Message::merge) }
        }
        Kind::Async { order, calls, in_pipeline, longest } => {
            let mut concurrency = match order {
                Order::Partition => Concurrency::ordered(calls),
                Order::Key if step.merged => Concurrency::key_ordered(calls, |_: &Message| 0),
                Order::Key => {
                    let (author, step) = (author.clone(), step.clone());
                    Concurrency::key_ordered(calls, move |message: &Message| {
                        author.may_panic(step.number, message, step.trouble);
                        message.key
                    })
                }
                Order::Free => Concurrency::unordered(calls),
            };
            if let Some(calls) = in_pipeline {
                concurrency = concurrency.in_pipeline(calls);
            }
            stream.map_async(concurrency, move |message| {
                let (author, step) = (author.clone(), step.clone());
                async move {
                    let (world, life) = (author.world.clone(), author.incarnation);
                    world.work(life, step.number, &message, longest).await;
                    author.pass(&step, message)
                }
            })
        }
        Kind::Throttle(messages) => stream.throttle(messages, Duration::from_secs(1)),
        Kind::Hoard { chunks, every } => {
            let drops = author.world.has(Mutant::DropMessage);
            stream.step(move || Hoard::new(chunks, every, drops))
        }
    }
}

fn end<O: Origin>(
    author: &Author,
    stream: Stream<O, Message>,
    end: &End,
    logs: &mut Logs,
) -> Flow<O> {
    match end {
        End::Sink(sink) => {
            let number = author.world.scenario().shape.sinks[*sink].number;
            let (world, log) = (author.world.clone(), logs[*sink].take());
            let border = BorderSink::sink(world, author.incarnation, *sink, log);
            stream.sink(border).named(name(number))
        }
        End::Branch { number, merged, trouble, otherwise, ways } => {
            let flow = stream.branch(|mut branches| {
                for (index, way) in ways.iter().enumerate() {
                    let (author, deeper, count) = (author.clone(), author, ways.len());
                    let (number, merged, trouble, otherwise) =
                        (*number, *merged, *trouble, *otherwise);
                    let matches = move |message: &Message| {
                        if index == 0 {
                            author.must_pass(number, message, trouble);
                        }
                        let subject = Subject::new(merged, message.partition, message.parts[0]);
                        let scenario = author.world.scenario();
                        scenario.chooses(number, count, otherwise, subject) == index
                    };
                    branches = branches.when(matches, |stream| chain(deeper, stream, way, logs));
                }
                branches
            });
            flow.named(name(*number))
        }
        End::Tee { number, ways } => {
            let flow = stream.tee(|mut tee| {
                for way in ways {
                    tee = tee.to(|stream| chain(author, stream, way, logs));
                }
                tee
            });
            flow.named(name(*number))
        }
    }
}

/// The author's code: what the closures of one incarnation's steps do.
#[derive(Clone)]
struct Author {
    world: World,
    incarnation: u32,
}

impl Author {
    fn message(&self, record: Record<'_>) -> Message {
        let partition = record.partition().index().unwrap_or(u32::MAX);
        let number = decode(record.payload()).unwrap_or(u32::MAX);
        let key = record.key().and_then(|key| key.try_into().ok()).map_or(0, u64::from_le_bytes);
        let (ownership, delivery) = self.world.ask(|account| {
            (account.ownership(self.incarnation, partition), account.deliveries(number))
        });
        Message {
            partition,
            ownership,
            key,
            bytes: record.payload().len(),
            parts: vec![Part { record: number, trail: 0, delivery, digest: 0 }],
            fate: Vec::new(),
        }
    }

    fn verdict(&self, step: StepNumber, message: &Message, trouble: Trouble) -> Verdict {
        self.world.call(self.incarnation, step, message, trouble)
    }

    /// Where code can't fail it panics.
    fn must_pass(&self, step: StepNumber, message: &Message, trouble: Trouble) {
        if self.verdict(step, message, trouble) != Verdict::Pass {
            panic();
        }
    }

    /// What is asked beside the step itself: it panics where the step would.
    fn may_panic(&self, step: StepNumber, message: &Message, trouble: Trouble) {
        if self.world.judge(self.incarnation, step, message, trouble) == Verdict::Panic {
            self.world.cannot_go_on(self.incarnation);
            panic();
        }
    }

    fn pass(&self, step: &Step, message: Message) -> Result<Message, BoxError> {
        match self.verdict(step.number, &message, step.trouble) {
            Verdict::Pass => Ok(self.worked(step, message)),
            Verdict::Fail => Err("injected error".into()),
            Verdict::Panic => panic(),
        }
    }

    fn worked(&self, step: &Step, mut message: Message) -> Message {
        message.work(step.number);
        if self.world.has(Mutant::WorkTwice) && message.parts[0].record % 5 == 4 {
            message.work(step.number);
        }
        message
    }

    /// Leaves out what isn't kept; false if nothing is left.
    fn keep(&self, step: StepNumber, drop: u32, message: &mut Message) -> bool {
        let scenario = self.world.scenario();
        message.parts.retain(|part| scenario.keeps(step, drop, part.record, part.trail));
        !message.parts.is_empty()
    }

    fn children(&self, step: &Step, most: u32, message: &Message) -> Vec<Message> {
        let subject = Subject::new(step.merged, message.partition, message.parts[0]);
        let count = self.world.scenario().fans(step.number, most, subject);
        (0..count).map(|index| self.worked(step, message.child(index))).collect()
    }
}

/// Panics without a word on the terminal.
fn panic() -> ! {
    std::panic::resume_unwind(Box::new("injected panic".to_owned()))
}
