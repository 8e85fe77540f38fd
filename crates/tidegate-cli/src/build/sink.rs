use std::sync::Arc;

use tidegate_core::BoxError;
use tidegate_file::FileSink;
use tidegate_local::{LocalRecord, LocalSink};
use tidegate_runtime::{Flow, Origin, Stream};
use tidegate_sqlite::SqliteSink;

use super::null::NullSink;
use crate::config::{LocalTarget, SinkConfig, SinkKind, VALIDATED};
use crate::jq::{Json, Program, Val, encode_json, to_json_value};

/// Ends the stream in this sink, behind a step that makes of each value what the sink takes.
pub(super) fn end<O: Origin>(values: Stream<O, Val>, config: SinkConfig) -> Flow<O> {
    let SinkConfig { name, kind } = config;
    let flow = match kind {
        SinkKind::Sqlite(config) => {
            values.try_map(|value| to_json_value(&value)).named(&name).sink(SqliteSink::new(config))
        }
        SinkKind::File(config) => {
            values.map(Json).named(&name).sink(FileSink::new(config).expect(VALIDATED))
        }
        SinkKind::Local(LocalTarget { config, key }) => values
            .try_map(move |value| record(value, key.as_ref()))
            .named(&name)
            .sink(LocalSink::new(config).expect(VALIDATED)),
        SinkKind::Null => values.sink(NullSink::new()),
    };
    flow.named(&name)
}

/// A record with the value as JSON; with a key, if the program makes one.
fn record(value: Val, key: Option<&Arc<Program>>) -> Result<LocalRecord, BoxError> {
    let record = LocalRecord::new(encode_json(&value)?);
    Ok(match key.map(|program| program.key(value)).transpose()?.flatten() {
        Some(key) => record.with_key(key),
        None => record,
    })
}
