//! The settings of source and sink, as they stand in a pipeline's file.
//!
//! Unknown keys are refused. [`LocalSourceConfig::problems`] and [`LocalSinkConfig::problems`]
//! report everything that is wrong at once; opening a source or a sink checks it again, so an
//! unchecked setting never reaches the file.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::Problem;

/// The most partitions a topic may have.
pub const MAX_PARTITIONS: u32 = 10_000;

/// The largest value of [`LocalSinkConfig::max_record_bytes`]: SQLite stores at most
/// 1,000,000,000 bytes in a row.
pub const MAX_RECORD_BYTES: usize = 900_000_000;

const LONGEST_NAME: usize = 255;
const SHORTEST_SESSION: Duration = Duration::from_millis(100);

/// Where and how a group reads a topic.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalSourceConfig {
    /// The log file. It must exist, unless `on_missing_topic` is `wait`.
    pub path: PathBuf,
    /// The topic to read.
    pub topic: String,
    /// The consumer group. Its members share the topic's partitions, and it goes on at its last
    /// commit. The same name on another topic is another group.
    pub group: String,
    /// Where a group begins that has never joined this topic: `earliest` or `latest`. Default
    /// `earliest`: a new consumer sees everything, rather than missing what came before it.
    #[serde(default)]
    pub start: Start,
    /// What to do if the group's position is not in the log: `stop`, `earliest` or `latest`.
    /// Default `stop`: going on elsewhere skips or repeats records, which is for the operator to
    /// decide.
    #[serde(default)]
    pub on_out_of_range: OnOutOfRange,
    /// What to do if the file or the topic doesn't exist: `stop` or `wait`. Default `stop`: a
    /// name that is spelt wrongly would wait for ever.
    #[serde(default)]
    pub on_missing_topic: OnMissingTopic,
    /// Read up to where the topic ends when this source joins, then end. Default off. In a group
    /// of several, each member ends when the *group* has committed everything up to there; until
    /// then it stands by for the others.
    #[serde(default)]
    pub until_end: bool,
    /// How long a member may be silent before the others take its partitions. Default `10s`:
    /// longer than any pause of a healthy process, short enough to wait for. At least `100ms`.
    #[serde(default = "default_session_timeout", with = "tidegate_core::human_duration")]
    pub session_timeout: Duration,
    /// The member's name within the group. Default: made from the process id and a number that is
    /// never used twice. A member that joins under a name that is taken replaces the other, which
    /// then stops: a restarted process gets its partitions back at once.
    #[serde(default)]
    pub member: Option<String>,
    /// How long one call waits for the write lock. Default `5s`; never longer than half the
    /// session timeout. Longer waits are retried by the pipeline.
    #[serde(default = "default_lock_timeout", with = "tidegate_core::human_duration")]
    pub lock_timeout: Duration,
    /// The longest pause between two looks at the file when nothing happens. Default `50ms`: about
    /// a ten-thousandth of a core. After something happened it looks again after a fifth of it.
    #[serde(default = "default_poll_interval", with = "tidegate_core::human_duration")]
    pub poll_interval: Duration,
}

impl LocalSourceConfig {
    /// These three, and the default for everything else.
    pub fn new(
        path: impl Into<PathBuf>,
        topic: impl Into<String>,
        group: impl Into<String>,
    ) -> Self {
        Self {
            path: path.into(),
            topic: topic.into(),
            group: group.into(),
            start: Start::default(),
            on_out_of_range: OnOutOfRange::default(),
            on_missing_topic: OnMissingTopic::default(),
            until_end: false,
            session_timeout: default_session_timeout(),
            member: None,
            lock_timeout: default_lock_timeout(),
            poll_interval: default_poll_interval(),
        }
    }

    /// Everything that can't work; empty if the settings are usable.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        check_path(&self.path, &mut problems);
        check_name("topic", &self.topic, &mut problems);
        check_name("group", &self.group, &mut problems);
        if let Some(member) = &self.member {
            check_name("member", member, &mut problems);
        }
        if self.session_timeout < SHORTEST_SESSION {
            problems.push(Problem::new("session_timeout", "is shorter than 100ms"));
        }
        if self.poll_interval < Duration::from_millis(1) {
            problems.push(Problem::new("poll_interval", "is shorter than 1ms"));
        } else if self.poll_interval > self.session_timeout / 4 {
            problems.push(Problem::new(
                "poll_interval",
                "is longer than a quarter of session_timeout, so heartbeats would come too late",
            ));
        }
        if self.until_end && self.on_missing_topic == OnMissingTopic::Wait {
            problems.push(Problem::new(
                "until_end",
                "a topic that isn't there has no end: use on_missing_topic: stop with it",
            ));
        }
        problems
    }

    /// How often the member reports: often enough that two lost reports don't end the session.
    pub(crate) fn heartbeat_interval(&self) -> Duration {
        self.session_timeout / 4
    }

    pub(crate) fn effective_lock_timeout(&self) -> Duration {
        self.lock_timeout.min(self.session_timeout / 2)
    }
}

/// Where a new group begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// At the first record that the log still has.
    #[default]
    Earliest,
    /// Behind the last record at the time the group first joins. The place is noted for all
    /// partitions then, so nothing that comes later is skipped.
    Latest,
}

/// What to do if the group's position is not in the log: records were deleted by retention before
/// they were read, or the file was replaced by an older copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnOutOfRange {
    /// Stop the pipeline with an error that says what is missing.
    #[default]
    Stop,
    /// Go on at the first record that the log has, with a warning.
    Earliest,
    /// Go on behind the last record, with a warning.
    Latest,
}

/// What a source does if the file or the topic doesn't exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnMissingTopic {
    /// Fail at once.
    #[default]
    Stop,
    /// Create the file if need be, and wait until a producer creates the topic.
    Wait,
}

/// Where and how records are written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalSinkConfig {
    /// The log file; created if it doesn't exist.
    pub path: PathBuf,
    /// The topic to append to.
    pub topic: String,
    /// Create the topic if it doesn't exist. Default on.
    #[serde(default = "yes")]
    pub create: bool,
    /// How many partitions the topic has. Default: 4 for a topic that is created, so that a few
    /// processes can share it; whatever it has otherwise. If it is given and the topic has another
    /// number, opening fails. At most 10,000.
    #[serde(default)]
    pub partitions: Option<u32>,
    /// What a topic that is created keeps. Default: everything. A topic that exists keeps its own
    /// retention.
    #[serde(default)]
    pub retention: Retention,
    /// The largest record, in bytes of key, payload and headers. Larger ones are refused one by
    /// one. Default 268,435,456 (256 MiB), at most 900,000,000.
    #[serde(default = "default_max_record_bytes")]
    pub max_record_bytes: usize,
    /// How long one write waits for the write lock. Default `5s`. Longer waits are retried by the
    /// pipeline.
    #[serde(default = "default_lock_timeout", with = "tidegate_core::human_duration")]
    pub lock_timeout: Duration,
    /// Where the writing is done: `pool` or `inline`. Default `pool`.
    #[serde(default)]
    pub blocking: Blocking,
}

impl LocalSinkConfig {
    /// These two, and the default for everything else.
    pub fn new(path: impl Into<PathBuf>, topic: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            topic: topic.into(),
            create: true,
            partitions: None,
            retention: Retention::default(),
            max_record_bytes: default_max_record_bytes(),
            lock_timeout: default_lock_timeout(),
            blocking: Blocking::default(),
        }
    }

    /// Everything that can't work; empty if the settings are usable.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        check_path(&self.path, &mut problems);
        check_name("topic", &self.topic, &mut problems);
        if let Some(partitions) = self.partitions {
            check_partitions(partitions, &mut problems);
        }
        if !(1..=MAX_RECORD_BYTES).contains(&self.max_record_bytes) {
            problems.push(Problem::new(
                "max_record_bytes",
                format!("is not between 1 and {MAX_RECORD_BYTES}"),
            ));
        }
        self.retention.check(&mut problems);
        problems
    }
}

/// What a topic keeps. Each limit is by itself enough to delete a record; without a limit
/// everything is kept.
///
/// Only the oldest records of a partition go, positions are never used twice, and consumers have
/// no say in it unless `keep_uncommitted` is set: a group that is too slow finds its position out
/// of range. Producers and consumers delete a bounded number of records along with their own work.
/// The file doesn't shrink, the space is used again.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// How long a record is kept after it was appended; the record's own timestamp doesn't count.
    #[serde(
        default,
        with = "tidegate_core::human_duration::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub max_age: Option<Duration>,
    /// How many records each partition keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_records: Option<u64>,
    /// How many bytes of keys, payloads and headers each partition keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// Delete nothing that a group which ever joined the topic has not committed. Default off,
    /// because a group that is gone for good then keeps everything for ever.
    #[serde(default)]
    pub keep_uncommitted: bool,
}

impl Retention {
    /// Whether it deletes nothing, ever.
    pub fn keeps_everything(&self) -> bool {
        self.max_age.is_none() && self.max_records.is_none() && self.max_bytes.is_none()
    }

    pub(crate) fn check(&self, problems: &mut Vec<Problem>) {
        if self.max_age.is_some_and(|age| age < Duration::from_millis(1)) {
            problems.push(Problem::new("retention.max_age", "is shorter than 1ms"));
        }
        for (key, limit) in
            [("retention.max_records", self.max_records), ("retention.max_bytes", self.max_bytes)]
        {
            if limit.is_some_and(|limit| i64::try_from(limit).is_err()) {
                problems.push(Problem::new(key, "is larger than 9223372036854775807"));
            }
        }
    }
}

/// Where a sink does its writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Blocking {
    /// On tokio's blocking threads, so that a slow disk doesn't hold up other tasks.
    #[default]
    Pool,
    /// Right in the call. Holds up the thread for as long as the disk takes; the order of events
    /// then depends on nothing but the program, which is what a simulation needs.
    Inline,
}

pub(crate) fn check_partitions(partitions: u32, problems: &mut Vec<Problem>) {
    if !(1..=MAX_PARTITIONS).contains(&partitions) {
        problems.push(Problem::new("partitions", format!("is not between 1 and {MAX_PARTITIONS}")));
    }
}

pub(crate) fn check_name(key: &'static str, name: &str, problems: &mut Vec<Problem>) {
    if name.is_empty() {
        problems.push(Problem::new(key, "is empty"));
    } else if name.len() > LONGEST_NAME {
        problems.push(Problem::new(key, format!("is longer than {LONGEST_NAME} bytes")));
    } else if name.chars().any(char::is_control) {
        problems.push(Problem::new(key, "contains a control character"));
    }
}

fn check_path(path: &std::path::Path, problems: &mut Vec<Problem>) {
    if path.as_os_str().is_empty() {
        problems.push(Problem::new("path", "is empty"));
    }
}

fn yes() -> bool {
    true
}

fn default_session_timeout() -> Duration {
    Duration::from_secs(10)
}

fn default_lock_timeout() -> Duration {
    Duration::from_secs(5)
}

fn default_poll_interval() -> Duration {
    Duration::from_millis(50)
}

fn default_max_record_bytes() -> usize {
    256 << 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_needs_only_what_has_no_default() {
        let json = r#"{"path": "q.db", "topic": "t", "group": "g", "session_timeout": "3s"}"#;
        let config: LocalSourceConfig = serde_json::from_str(json).unwrap();
        let expected = LocalSourceConfig {
            session_timeout: Duration::from_secs(3),
            ..LocalSourceConfig::new("q.db", "t", "g")
        };
        assert_eq!(config, expected);
        let json = r#"{"path": "q.db", "topic": "t", "retention": {"max_age": "7d"}}"#;
        let config: LocalSinkConfig = serde_json::from_str(json).unwrap();
        assert_eq!(config.retention.max_age, Some(Duration::from_secs(7 * 86_400)));
        assert!(config.create && config.problems().is_empty());
    }

    #[test]
    fn unknown_keys_and_wrong_durations_are_refused() {
        let unknown = r#"{"path": "q.db", "topic": "t", "grup": "g"}"#;
        let error = serde_json::from_str::<LocalSourceConfig>(unknown).unwrap_err();
        assert!(error.to_string().contains("grup"), "{error}");
        let wrong = r#"{"path": "q.db", "topic": "t", "retention": {"max_age": "a week"}}"#;
        let error = serde_json::from_str::<LocalSinkConfig>(wrong).unwrap_err();
        assert!(error.to_string().contains("`a week` is not a duration"), "{error}");
    }

    #[test]
    fn every_problem_is_reported_with_its_key() {
        let mut source = LocalSourceConfig::new("", "", "g\n");
        source.session_timeout = Duration::from_millis(1);
        source.until_end = true;
        source.on_missing_topic = OnMissingTopic::Wait;
        let keys: Vec<_> = source.problems().into_iter().map(|problem| problem.key).collect();
        let expected = ["path", "topic", "group", "session_timeout", "poll_interval", "until_end"];
        assert_eq!(keys, expected);

        let mut sink = LocalSinkConfig::new("q.db", "t".repeat(256));
        sink.partitions = Some(0);
        sink.max_record_bytes = usize::MAX;
        sink.retention.max_records = Some(u64::MAX);
        let keys: Vec<_> = sink.problems().into_iter().map(|problem| problem.key).collect();
        assert_eq!(keys, ["topic", "partitions", "max_record_bytes", "retention.max_records"]);
    }
}
