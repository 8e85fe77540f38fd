//! The thread that owns the client.
//!
//! - One loop: requests of the source, events of the client, the rebalance that is under way, the
//!   commit that is under way, then records for empty slots. Then it waits until somebody wakes it.
//!   It never waits for the source, so the client is served whatever the pipeline does.
//! - Rebalances are answered one after another, in the order in which they came. While one is being
//!   drained the next waits.
//! - If the source is silent for longer than the group would wait for it, the reader leaves the
//!   group, so that others take over; it joins again when the source comes back.
//! - Blocking calls of the client have a time limit, and happen at an assignment only.

mod assign;
mod bounded;
mod commit;
mod fill;
mod rebalance;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tidegate_core::Partition;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::client::{Consumer, Kind, Layout, Probe, Rebalancing, Trouble};
use crate::config::{KafkaSourceConfig, OnMissingTopic};
use crate::connect::{self, Connected};
use crate::error::KafkaError;
use crate::handover::{Handover, Request};
use crate::holding::Holding;
use crate::wake::Wake;
use bounded::Bounded;
use commit::Commits;
use rebalance::Drain;

pub(crate) use commit::COMMIT_WITHIN;

/// The longest wait: the library counts a look at it as a sign of life.
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// How long one call over the network may take.
const CALL_WITHIN: Duration = Duration::from_secs(5);
/// How often the ends of partitions are noted, for the lag.
const NOTE_ENDS_EVERY: Duration = Duration::from_secs(1);
/// A topic that was there is missed for so long before the pipeline stops.
const MISSING_FOR: Duration = Duration::from_secs(10);
/// How often a cluster that is down is asked whether it is back.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Starts the thread.
pub(crate) fn start(
    config: KafkaSourceConfig,
    probe: Probe,
    handover: Arc<Handover>,
    wake: Arc<Wake>,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("tidegate-kafka".to_owned()).spawn(move || {
        wake.attach();
        let outcome = match connect::connect(&config, &probe, &handover, &wake) {
            Ok(Connected::Ready(layout)) => run(config, probe, &layout, &handover, wake),
            Ok(Connected::Closed(answer)) => Ok(answer),
            Err(error) => Err(error),
        };
        match outcome {
            Ok(answer) => {
                handover.stop(closed());
                // Nobody waits for it if the source was dropped.
                let _ = answer.map(|answer| answer.send(()));
            }
            Err(error) => handover.stop(error),
        }
    })
}

fn closed() -> KafkaError {
    KafkaError::Broken { reason: "the source was closed".to_owned() }
}

/// Whom to tell that the client has ended.
pub(crate) type CloseAnswer = Option<oneshot::Sender<()>>;

fn run(
    config: KafkaSourceConfig,
    probe: Probe,
    layout: &Layout,
    handover: &Arc<Handover>,
    wake: Arc<Wake>,
) -> Result<CloseAnswer, KafkaError> {
    let share = connect::share(&config, layout);
    let consumer = Consumer::new(&config, share, &wake)?;
    let mut reader = Reader::new(config, consumer, probe, share, Arc::clone(handover));
    let outcome = reader.begin(layout).and_then(|()| reader.serve(&wake));
    if outcome.is_ok() {
        reader.finish_notes(&wake);
    }
    // Whatever happened, the group is left properly.
    reader.consumer.close();
    outcome
}

struct Reader {
    config: KafkaSourceConfig,
    consumer: Consumer,
    probe: Probe,
    handover: Arc<Handover>,
    /// The most bytes of one run.
    share: usize,
    /// What the source has been told of.
    holdings: BTreeMap<Partition, Holding>,
    /// What the library reads or would read: the holdings, and what was let go but not given back.
    assigned: BTreeSet<Partition>,
    rebalances: VecDeque<Rebalancing>,
    drain: Option<Drain>,
    /// The assignment at the head of the queue is tried again then.
    assign_at: Option<Instant>,
    /// This member's id when it was assigned what it holds.
    member: Option<String>,
    /// Assignments so far, to tell generations of one group generation apart.
    assignments: u64,
    commits: Commits,
    bounded: Option<Bounded>,
    /// It left the group because the source was silent.
    is_absent: bool,
    /// All brokers are away; asked last at this time, with this result.
    down: Option<(Instant, Trouble)>,
    /// A topic seems to be missing.
    missing: Option<Missing>,
    ends_at: Option<Instant>,
    /// Reused by every look for empty slots.
    empty: Vec<Partition>,
}

/// When a topic that seems to be missing is looked for, and when it is believed.
struct Missing {
    look_at: Instant,
    believe_at: Instant,
}

impl Missing {
    fn new(now: Instant) -> Self {
        Self { look_at: now, believe_at: now + MISSING_FOR }
    }
}

impl Reader {
    fn new(
        config: KafkaSourceConfig,
        consumer: Consumer,
        probe: Probe,
        share: usize,
        handover: Arc<Handover>,
    ) -> Self {
        Self {
            config,
            consumer,
            probe,
            handover,
            share,
            holdings: BTreeMap::new(),
            assigned: BTreeSet::new(),
            rebalances: VecDeque::new(),
            drain: None,
            assign_at: None,
            member: None,
            assignments: 0,
            commits: Commits::default(),
            bounded: None,
            is_absent: false,
            down: None,
            missing: None,
            ends_at: None,
            empty: Vec::new(),
        }
    }

    /// Joins the group, or takes the partitions that were chosen by hand.
    fn begin(&mut self, layout: &Layout) -> Result<(), KafkaError> {
        self.bounded = self.find_ends(layout)?;
        match self.config.partitions.clone() {
            None => self.join(),
            Some(chosen) => {
                let partitions = chosen.iter().flat_map(|(topic, numbers)| {
                    numbers.iter().map(|number| Partition::new(topic.as_str(), *number))
                });
                let partitions: BTreeSet<_> = partitions.collect();
                self.rebalances.push_back(Rebalancing::Assign(partitions.into_iter().collect()));
                Ok(())
            }
        }
    }

    fn join(&mut self) -> Result<(), KafkaError> {
        self.is_absent = false;
        self.consumer
            .subscribe(&self.config.topics)
            .map_err(|trouble| KafkaError::Broken { reason: trouble.reason })
    }

    fn serve(&mut self, wake: &Wake) -> Result<CloseAnswer, KafkaError> {
        loop {
            for request in self.handover.take_requests() {
                match request {
                    Request::Commit(frontiers, answer) => {
                        self.commit_requested(frontiers, answer)?
                    }
                    Request::Release(partitions, answer) => self.release(&partitions, answer)?,
                    Request::Close(answer) => return Ok(Some(answer)),
                }
            }
            if self.handover.is_abandoned() {
                return Ok(None);
            }
            let now = Instant::now();
            self.look_at_source(now)?;
            self.hear()?;
            self.serve_rebalances(now)?;
            self.serve_commits(now)?;
            let is_busy = self.fill()?;
            self.conclude(now)?;
            self.note_ends(now);
            if !is_busy {
                wake.wait(self.next_wait(now));
            }
        }
    }

    /// Takes in what the client has to say.
    fn hear(&mut self) -> Result<(), KafkaError> {
        let heard = self.consumer.poll();
        self.rebalances.extend(heard.rebalances);
        for trouble in heard.troubles {
            self.heed(trouble)?;
        }
        self.ask_whether_back();
        self.look_for_missing()
    }

    /// An error that concerns no partition's records.
    fn heed(&mut self, trouble: Trouble) -> Result<(), KafkaError> {
        let Trouble { kind, reason } = &trouble;
        match kind {
            Kind::AllDown | Kind::Identity => {
                self.down.get_or_insert((Instant::now(), trouble));
            }
            Kind::Fatal => return Err(KafkaError::Broken { reason: reason.clone() }),
            Kind::Fenced => return Err(self.replaced()),
            Kind::Missing if self.config.on_missing_topic == OnMissingTopic::Stop => {
                self.missing.get_or_insert_with(|| Missing::new(Instant::now()));
            }
            Kind::TopicForbidden => {
                let topic = connect::topic_in(reason, self.config.topic_names());
                return Err(connect::may_not_read(&topic));
            }
            Kind::GroupForbidden => return Err(connect::may_not_join(&self.config.group)),
            Kind::ClusterForbidden => {
                return Err(KafkaError::Broken { reason: reason.clone() });
            }
            _ => tracing::debug!(reason, "the client reports"),
        }
        Ok(())
    }

    fn replaced(&self) -> KafkaError {
        KafkaError::MemberReplaced {
            group: self.config.group.clone(),
            member: self.config.member.clone().unwrap_or_default(),
        }
    }

    /// While all brokers are away, the source hears of it again and again, so that the pipeline's
    /// own limit decides how long to go on.
    fn ask_whether_back(&mut self) {
        let now = Instant::now();
        let Some((asked, trouble)) = &mut self.down else { return };
        if now.saturating_duration_since(*asked) < ASK_AGAIN_AFTER {
            return;
        }
        let names: Vec<&str> = self.config.topic_names().take(1).collect();
        match self.probe.topics(names, ASK_AGAIN_AFTER) {
            Ok(_) => {
                self.down = None;
                self.handover.recovered();
            }
            Err(_) => {
                if let Some(latest) = connect::telling(self.probe.take_troubles()) {
                    *trouble = latest;
                }
                *asked = Instant::now();
                self.handover.failed(KafkaError::Unavailable {
                    brokers: self.config.brokers.clone(),
                    reason: trouble.reason.clone(),
                });
            }
        }
    }

    /// A broker that has just started may not know a topic that is there, so a topic is believed to
    /// be missing only when it stays so.
    fn look_for_missing(&mut self) -> Result<(), KafkaError> {
        let now = Instant::now();
        let Some(missing) = &mut self.missing else { return Ok(()) };
        if now < missing.look_at || self.down.is_some() {
            return Ok(());
        }
        missing.look_at = now + ASK_AGAIN_AFTER;
        let is_over = now >= missing.believe_at;
        let Ok(layout) = self.probe.topics(self.config.topic_names(), CALL_WITHIN) else {
            return Ok(());
        };
        match self.config.topic_names().find(|name| !layout.topics.contains_key(*name)) {
            None => self.missing = None,
            Some(topic) if is_over => {
                return Err(KafkaError::NoSuchTopic { topic: topic.to_owned() });
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Leaves the group while nobody reads, and comes back.
    fn look_at_source(&mut self, now: Instant) -> Result<(), KafkaError> {
        if self.config.partitions.is_some() {
            return Ok(());
        }
        let is_silent = self.handover.silent_for(now) >= self.config.rebalance_timeout;
        if is_silent && !self.is_absent {
            tracing::warn!(
                group = self.config.group,
                "the pipeline has not asked for records for {:?}; leaves the group until it does",
                self.config.rebalance_timeout
            );
            self.is_absent = true;
            self.drain = None;
            self.lose_all();
            self.rebalances.clear();
            self.consumer.unsubscribe();
        } else if !is_silent && self.is_absent {
            self.join()?;
        }
        Ok(())
    }

    fn lose_all(&mut self) {
        let lost: Vec<_> = std::mem::take(&mut self.holdings).into_keys().collect();
        self.handover.lost(lost);
    }

    fn note_ends(&mut self, now: Instant) {
        if self.ends_at.is_some_and(|at| now < at) {
            return;
        }
        self.ends_at = Some(now + NOTE_ENDS_EVERY);
        let end = |(partition, holding): (&Partition, &Holding)| {
            let end = self.consumer.known_end(partition)?;
            Some((partition.clone(), holding.until.map_or(end, |until| until.min(end))))
        };
        let ends = self.holdings.iter().filter_map(end).collect();
        self.handover.set_ends(ends);
    }

    fn next_wait(&self, now: Instant) -> Duration {
        let drain = self.drain.as_ref().map(|drain| drain.deadline);
        let due = [drain, self.assign_at, self.commits.due()];
        let due = due.into_iter().flatten().map(|at| at.saturating_duration_since(now));
        due.min().unwrap_or(LONGEST_WAIT).clamp(Duration::from_millis(1), LONGEST_WAIT)
    }
}
