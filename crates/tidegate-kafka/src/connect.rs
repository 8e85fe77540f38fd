//! The first connection, and what is wrong when there is none.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::client::{Kind, Layout, Probe, Trouble};
use crate::config::{Connection, KafkaSourceConfig, OnMissingTopic};
use crate::error::KafkaError;
use crate::handover::{Handover, Request};
use crate::reader::CloseAnswer;
use crate::wake::Wake;

/// How long one attempt may take; requests of the source are looked at in between.
const ATTEMPT: Duration = Duration::from_secs(1);
/// How often a topic is looked for that isn't there.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A partition has at least this share of the buffer.
const LEAST_SHARE: usize = 64 << 10;

/// How the wait for the cluster ended.
pub(crate) enum Connected {
    Ready(Layout),
    Closed(CloseAnswer),
}

/// Waits until the cluster answers and has what is to be read.
pub(crate) fn connect(
    config: &KafkaSourceConfig,
    probe: &Probe,
    handover: &Arc<Handover>,
    wake: &Wake,
) -> Result<Connected, KafkaError> {
    let deadline = Instant::now() + config.connect_timeout;
    let mut reasons = Reasons::default();
    let mut has_answered = false;
    loop {
        for request in handover.take_requests() {
            match request {
                Request::Close(answer) => return Ok(Connected::Closed(Some(answer))),
                Request::Release(_, answer) => drop(answer.send(())),
                Request::Commit(frontiers, answer) => {
                    let refused = frontiers.into_iter().map(|f| f.partition).collect();
                    let _ = answer.send(Ok(tidegate_core::CommitReport { refused }));
                }
            }
        }
        if handover.is_abandoned() {
            return Ok(Connected::Closed(None));
        }
        match look(config, probe) {
            Ok(layout) => {
                let Some(missing) = missing(config, &layout)? else {
                    return Ok(Connected::Ready(layout));
                };
                if config.on_missing_topic == OnMissingTopic::Stop {
                    return Err(KafkaError::NoSuchTopic { topic: missing });
                }
                has_answered = true;
                wake.wait(LOOK_EVERY);
            }
            Err(trouble) => {
                judge(&trouble)?;
                reasons.returned(trouble);
                reasons.note_all(probe.take_troubles());
                if !has_answered && Instant::now() >= deadline {
                    return Err(reasons.unreachable(config.connection(), config.connect_timeout));
                }
            }
        }
    }
}

fn look(config: &KafkaSourceConfig, probe: &Probe) -> Result<Layout, Trouble> {
    if config.topics.iter().any(|topic| topic.starts_with('^')) {
        return probe.all_topics(ATTEMPT);
    }
    probe.topics(config.topic_names(), ATTEMPT)
}

/// A topic that isn't there; an error for a partition that isn't.
fn missing(config: &KafkaSourceConfig, layout: &Layout) -> Result<Option<String>, KafkaError> {
    if let Some(name) = config.topic_names().find(|name| !layout.topics.contains_key(*name)) {
        return Ok(Some(name.to_owned()));
    }
    for (topic, numbers) in config.partitions.iter().flatten() {
        let partitions = layout.topics.get(topic).copied().unwrap_or(0);
        if let Some(partition) = numbers.iter().copied().find(|number| *number >= partitions) {
            let topic = topic.clone();
            return Err(KafkaError::NoSuchPartition { topic, partition, partitions });
        }
    }
    Ok(None)
}

/// Errors of a first look that won't pass by themselves.
pub(crate) fn judge(trouble: &Trouble) -> Result<(), KafkaError> {
    match trouble.kind {
        Kind::TopicForbidden => {
            let topic = trouble.reason.split(':').next().unwrap_or_default();
            Err(may_not_read(topic))
        }
        Kind::ClusterForbidden | Kind::Fatal => {
            Err(KafkaError::Broken { reason: trouble.reason.clone() })
        }
        _ => Ok(()),
    }
}

/// How many bytes of the buffer a partition gets.
pub(crate) fn share(config: &KafkaSourceConfig, layout: &Layout) -> usize {
    let partitions: usize = match &config.partitions {
        Some(chosen) => chosen.values().map(Vec::len).sum(),
        None => layout.topics.values().map(|count| *count as usize).sum(),
    };
    (config.fetch_buffer / partitions.max(1)).max(LEAST_SHARE)
}

/// What was reported while nothing worked.
#[derive(Default)]
pub(crate) struct Reasons {
    latest: Option<Trouble>,
    /// What a call returned, which says less than what the library reports meanwhile.
    returned: Option<Trouble>,
}

impl Reasons {
    pub(crate) fn returned(&mut self, trouble: Trouble) {
        self.returned = Some(trouble);
    }

    fn note(&mut self, trouble: Trouble) {
        if self.latest.as_ref().is_none_or(|latest| weight(latest) <= weight(&trouble)) {
            self.latest = Some(trouble);
        }
    }

    pub(crate) fn note_all(&mut self, troubles: Vec<Trouble>) {
        troubles.into_iter().for_each(|trouble| self.note(trouble));
    }

    pub(crate) fn unreachable(self, connection: Connection<'_>, waited: Duration) -> KafkaError {
        let told = self.latest.or(self.returned);
        let reason = told.map_or_else(|| "no answer".to_owned(), |trouble| trouble.reason);
        KafkaError::Unreachable {
            brokers: connection.brokers.to_owned(),
            waited,
            advice: advice(&reason, &connection),
            reason,
        }
    }
}

/// The error that tells most, of several.
pub(crate) fn telling(troubles: Vec<Trouble>) -> Option<Trouble> {
    let mut reasons = Reasons::default();
    reasons.note_all(troubles);
    reasons.latest
}

/// How much an error tells: "all down" says less than why a connection failed.
fn weight(trouble: &Trouble) -> u8 {
    match trouble.kind {
        Kind::Identity => 3,
        Kind::Connection => 2,
        Kind::AllDown => 1,
        _ => 0,
    }
}

/// What to do, by what the library says.
fn advice(reason: &str, connection: &Connection<'_>) -> &'static str {
    let says = |words: &[&str]| words.iter().any(|word| reason.contains(word));
    if says(&["Connection refused"]) {
        "Nothing listens there: check host and port in `brokers`, and that the broker runs"
    } else if says(&["Failed to resolve", "resolution failure"]) {
        "The name is not known: check it in `brokers`, and the network's name service"
    } else if says(&["SASL authentication error", "SASL mechanism", "mechanism handshake"]) {
        "Check the user, the password and the mechanism in `sasl`, and that the broker knows them"
    } else if says(&["certificate verify failed", "verification failed"]) {
        "The client does not trust the broker's certificate: give the certificate of the authority \
         that signed it in `tls.ca`, and connect by the name that the certificate is for"
    } else if says(&["certificate required", "bad certificate", "handshake failure"]) {
        "The broker asks for a certificate of the client: set `tls.certificate` and `tls.key`"
    } else if connection.tls.is_some()
        && connection.sasl.is_none()
        && says(&["state UP"])
        && !says(&["handshake"])
    {
        "TLS works, but the broker hangs up; if it asks for a password, set `sasl`"
    } else if connection.tls.is_some() && says(&["SSL", "ssl", "wrong version number"]) {
        "If the broker's port does not speak TLS, use the one that does, or remove `tls`"
    } else if connection.tls.is_none() && says(&["SSL listener", "ApiVersion", "Disconnected"]) {
        "If the broker's port speaks TLS, set `tls: {}`; if it asks for a password, set `sasl`"
    } else {
        "Check `brokers`, `tls` and `sasl`, and that the brokers can be reached from here. The \
         first connection may work while the addresses that the brokers advertise can't be reached"
    }
}

pub(crate) fn may_not_read(topic: &str) -> KafkaError {
    let resource = format!("topic {topic}");
    KafkaError::Forbidden { operation: "read", resource, acl: "Read and Describe on the topic" }
}

pub(crate) fn may_not_join(group: &str) -> KafkaError {
    let resource = format!("group {group}");
    KafkaError::Forbidden { operation: "join", resource, acl: "Read on the group" }
}

/// Which topic an error's text is about: the library names it in the text only.
pub(crate) fn topic_in<'a>(reason: &str, topics: impl Iterator<Item = &'a str>) -> String {
    let mut named: Vec<&str> = topics.filter(|topic| reason.contains(topic)).collect();
    named.sort_by_key(|topic| topic.len());
    named.last().map_or_else(|| reason.to_owned(), |topic| (*topic).to_owned())
}
