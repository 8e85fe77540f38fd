//! Properties of the client library that would undermine what source and sink promise, or that
//! have a setting of their own.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Properties of the client library by name, as in its documentation. Values whose names speak of
/// secrets are not printed.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Properties(BTreeMap<String, String>);

impl Properties {
    /// Sets a property.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_secret = |name: &str| {
            ["password", "secret", "token", "pem", "key", "sasl.oauthbearer.config"]
                .iter()
                .any(|word| name.contains(word))
        };
        let shown =
            self.iter().map(|(name, value)| (name, if is_secret(name) { "***" } else { value }));
        f.debug_map().entries(shown).finish()
    }
}

/// Why this property can't be set, and what can; `None` if it is passed through.
pub(super) fn own(name: &str) -> Option<&'static str> {
    Some(match name {
        "bootstrap.servers" | "metadata.broker.list" => "use `brokers`",
        "security.protocol" => "it follows from `tls` and `sasl`",
        "ssl.ca.location"
        | "ssl.certificate.location"
        | "ssl.key.location"
        | "ssl.key.password" => "use `tls`",
        "sasl.mechanism" | "sasl.mechanisms" | "sasl.username" | "sasl.password" => "use `sasl`",
        "client.id" => "use `client`",
        "group.id" => "use `group`",
        "group.instance.id" => "use `member`",
        "group.protocol" | "partition.assignment.strategy" => "use `rebalance`",
        "session.timeout.ms" => "use `session_timeout`",
        "max.poll.interval.ms" => "use `rebalance_timeout`",
        "auto.offset.reset" => "use `start` and `on_out_of_range`",
        "isolation.level" => "use `isolation`",
        "queued.max.messages.kbytes" | "queued.min.messages" => "use `fetch_buffer`",
        "enable.auto.commit"
        | "auto.commit.enable"
        | "auto.commit.interval.ms"
        | "enable.auto.offset.store"
        | "offset.store.method" => "only the pipeline knows what may be committed",
        "enable.partition.eof" => "`stop` says where a run ends",
        "allow.auto.create.topics" => "topics are created on purpose, not by a name spelt wrongly",
        "enable.idempotence"
        | "acks"
        | "request.required.acks"
        | "retries"
        | "message.send.max.retries"
        | "max.in.flight.requests.per.connection"
        | "max.in.flight" => {
            "the sink is always idempotent, so that a retry of the client repeats nothing"
        }
        "transactional.id" => "the sink is not transactional",
        "delivery.timeout.ms" | "message.timeout.ms" => "use `delivery_timeout`",
        "compression.type" | "compression.codec" => "use `compression`",
        "partitioner" => "use `partitioner`",
        "linger.ms" | "queue.buffering.max.ms" => "use `linger`",
        "message.max.bytes" => "use `max_record_bytes`",
        "queue.buffering.max.messages" | "queue.buffering.max.kbytes" => "use `buffer`",
        _ => return None,
    })
}
