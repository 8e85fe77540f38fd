use tidegate_core::{
    BoxError, BoxPositionStore, BoxSource, Commit, CommitReport, Demand, Partition, Source,
    SourceCapabilities, SourceError, SourceEvent,
};
use tidegate_file::FileSource;
use tidegate_local::LocalSource;
use tidegate_sqlite::SqliteStore;

use crate::config::{PipelineConfig, SourceConfig};

/// The source or the store can't be opened. The cause says why, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {cause}")]
pub(crate) struct OpenError {
    what: &'static str,
    cause: BoxError,
    /// Another process is in the way: it may work a little later.
    pub(crate) is_retryable: bool,
}

/// Opens the source, and the store if it needs one.
pub(crate) fn open_source(config: &PipelineConfig) -> Result<BoxSource, OpenError> {
    let failed = |what, cause, is_retryable| OpenError { what, cause, is_retryable };
    match &config.source {
        SourceConfig::File(file) => {
            let store = match &config.store {
                None => None,
                Some(store) => Some(BoxPositionStore::new(
                    SqliteStore::open(store, &config.name).map_err(|error| {
                        let is_retryable = error.is_retryable();
                        failed("store.sqlite", error.into(), is_retryable)
                    })?,
                )),
            };
            let source = FileSource::new(file.clone(), store)
                .map_err(|error| failed("source.file", error.into(), false))?;
            Ok(BoxSource::new(source))
        }
        SourceConfig::Local { config, .. } => {
            let source = LocalSource::open(config.clone()).map_err(|error| {
                let is_retryable = error.is_retryable();
                failed("source.local", error.into(), is_retryable)
            })?;
            Ok(BoxSource::new(source))
        }
    }
}

/// What the source will be able to do, without opening it.
pub(crate) fn source_capabilities(config: &PipelineConfig) -> SourceCapabilities {
    let capabilities = SourceCapabilities::new();
    match &config.source {
        SourceConfig::File(file) => {
            let resumes = config.store.is_some() && file.path != "-";
            capabilities.bounded(!file.follow).resumes(resumes)
        }
        SourceConfig::Local { config, .. } => {
            capabilities.bounded(config.until_end).resumes(true).rebalances(true)
        }
    }
}

/// Stands for a source that isn't opened, where only its capabilities matter. It has no records.
pub(crate) struct PlannedSource(pub(crate) SourceCapabilities);

impl Source for PlannedSource {
    fn capabilities(&self) -> SourceCapabilities {
        self.0
    }

    async fn next(&mut self, _demand: &Demand) -> Result<SourceEvent, SourceError> {
        Ok(SourceEvent::Ended)
    }

    async fn commit(&mut self, _commit: Commit<'_>) -> Result<CommitReport, SourceError> {
        Ok(CommitReport::default())
    }

    async fn release(&mut self, _partitions: &[Partition]) -> Result<(), SourceError> {
        Ok(())
    }

    async fn close(&mut self) -> Result<(), SourceError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tidegate_local::{Admin, Retention};

    use super::*;
    use crate::config::{Environment, parse};

    #[test]
    fn the_capabilities_without_opening_are_those_of_the_opened_source() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let log = path("q.db");
        let mut admin = Admin::create(log.as_ref()).unwrap();
        admin.create_topic("t", 1, &Retention::default()).unwrap();
        let store = format!("store: {{sqlite: {{path: {}}}}}", path("s.db"));
        for (source, store) in [
            ("file: {path: a}".to_owned(), ""),
            ("file: {path: a, follow: true}".to_owned(), ""),
            ("file: {path: a}".to_owned(), &*store),
            ("file: {path: '-'}".to_owned(), &*store),
            (format!("local: {{path: {log}, topic: t, group: g}}"), ""),
            (format!("local: {{path: {log}, topic: t, group: g, until_end: true}}"), ""),
        ] {
            let text = format!("name: n\nsource: {{{source}}}\nsink: {{null: {{}}}}\n{store}\n");
            let config = parse(&text, &Environment::of_process());
            let config = config.unwrap_or_else(|problems| panic!("{text}{problems:?}"));
            let opened = open_source(&config).unwrap();
            assert_eq!(source_capabilities(&config), opened.capabilities(), "{text}");
        }
    }
}
