//! The settings of source and sink, as they stand in a pipeline's file.
//!
//! Unknown keys are refused. [`KafkaSourceConfig::problems`] and [`KafkaSinkConfig::problems`]
//! report everything that is wrong at once; making a source or a sink checks it again. Passwords
//! are never printed.

mod properties;
mod security;
mod rfc3339;
mod sink;
mod source;

use std::time::Duration;

use crate::error::Problem;

pub use properties::Properties;
pub use security::{Mechanism, Sasl, Secret, Tls};
pub use sink::{Compression, KafkaSinkConfig, Partitioner};
pub use source::{
    Isolation, KafkaSourceConfig, Offsets, OnMissingTopic, OnOutOfRange, Rebalance, Start, Stop,
};

/// How to reach the brokers: what source and sink have in common.
#[derive(Clone, Copy)]
pub(crate) struct Connection<'a> {
    pub(crate) brokers: &'a str,
    pub(crate) tls: Option<&'a Tls>,
    pub(crate) sasl: Option<&'a Sasl>,
    pub(crate) client: &'a str,
    pub(crate) properties: &'a Properties,
}

impl Connection<'_> {
    pub(crate) fn check(&self, problems: &mut Vec<Problem>) {
        check_brokers(self.brokers, problems);
        if let Some(tls) = self.tls {
            tls.check(problems);
        }
        if let Some(sasl) = self.sasl {
            sasl.check(problems);
        }
        for (name, _) in self.properties.iter() {
            if let Some(instead) = properties::own(name) {
                problems.push(Problem::new(
                    "properties",
                    format!("`{name}` can't be set here: {instead}"),
                ));
            }
        }
    }
}

fn check_brokers(brokers: &str, problems: &mut Vec<Problem>) {
    if brokers.trim().is_empty() {
        problems.push(Problem::new("brokers", "is empty: give at least one `host:port`"));
    }
    for broker in brokers.split(',').map(str::trim).filter(|broker| !broker.is_empty()) {
        let port = broker.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        if !matches!(port, Some(Ok(_))) {
            problems.push(Problem::new(
                "brokers",
                format!("`{broker}` is not `host:port`; Kafka's usual port is 9092"),
            ));
        }
    }
}

/// The rules for a topic's name that the broker has, too.
fn check_topic(key: &'static str, topic: &str, problems: &mut Vec<Problem>) {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if topic.is_empty() {
        problems.push(Problem::new(key, "is empty"));
    } else if topic.len() > 249 || !topic.chars().all(is_legal) || matches!(topic, "." | "..") {
        problems.push(Problem::new(
            key,
            format!(
                "`{topic}` is not a topic's name: at most 249 letters, digits, `.`, `_` and `-`"
            ),
        ));
    }
}

fn check_longer(key: &'static str, value: Duration, least: Duration, problems: &mut Vec<Problem>) {
    if value < least {
        problems.push(Problem::new(key, format!("is shorter than {least:?}")));
    }
}

/// The client's properties take milliseconds as a 32-bit number.
fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

pub(crate) fn millis_text(duration: Duration) -> String {
    millis(duration).to_string()
}
