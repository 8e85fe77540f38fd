//! A first look at the cluster: whether it can be reached, and which topics it has. Done with a
//! client of its own, so that what is wrong is known before a group is joined or a record sent.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::metadata::Metadata;

use super::context::Context;
use super::properties;
use super::trouble::{Kind, Trouble, kind};
use super::{refused, trouble};
use crate::config::Connection;
use crate::error::KafkaError;

/// How many partitions each topic has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Layout {
    pub(crate) topics: BTreeMap<String, u32>,
}

/// A client that only asks.
pub(crate) struct Probe {
    consumer: BaseConsumer<Context>,
}

impl Probe {
    /// Makes the client, which checks the properties; connects to nothing yet.
    pub(crate) fn new(what: &'static str, connection: Connection<'_>) -> Result<Self, KafkaError> {
        let properties: ClientConfig = properties::of_probe(connection);
        let consumer = properties
            .create_with_context(Context::default())
            .map_err(|error| refused(what, &error))?;
        Ok(Self { consumer })
    }

    /// The topics with these names; those that don't exist are left out. Goes over the network.
    pub(crate) fn topics<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
        within: Duration,
    ) -> Result<Layout, Trouble> {
        let mut layout = Layout::default();
        for name in names {
            let metadata = self.consumer.fetch_metadata(Some(name), within);
            self.serve();
            layout.add(&metadata.map_err(trouble)?)?;
        }
        Ok(layout)
    }

    /// All topics but the cluster's own. Goes over the network.
    pub(crate) fn all_topics(&self, within: Duration) -> Result<Layout, Trouble> {
        let metadata = self.consumer.fetch_metadata(None, within);
        self.serve();
        let mut layout = Layout::default();
        layout.add(&metadata.map_err(trouble)?)?;
        Ok(layout)
    }

    /// What went wrong since the last call; the newest last.
    pub(crate) fn take_troubles(&self) -> Vec<Trouble> {
        self.serve();
        self.consumer.context().take_troubles().into()
    }

    fn serve(&self) {
        // A probe reads nothing, so what comes is told to the context.
        let _ = self.consumer.poll(Duration::ZERO);
    }
}

impl Layout {
    fn add(&mut self, metadata: &Metadata) -> Result<(), Trouble> {
        for topic in metadata.topics() {
            let error = topic.error().map(Into::into);
            match error {
                Some(code) if kind(code) == Kind::Missing => continue,
                Some(code) => {
                    let mut trouble = Trouble::of_code(code);
                    trouble.reason = format!("{}: {}", topic.name(), trouble.reason);
                    return Err(trouble);
                }
                None if topic.name().starts_with("__") => {}
                None => {
                    let partitions = u32::try_from(topic.partitions().len()).unwrap_or(u32::MAX);
                    self.topics.insert(topic.name().to_owned(), partitions);
                }
            }
        }
        Ok(())
    }
}
