//! From a pipeline file to a pipeline of the library.
//!
//! One value type travels from the first step to the sinks; each part's file turns a part of the
//! file into the library's part, and nothing else. Settings are validated when the file is read,
//! so that only what needs the outside world can fail here: opening the source and the store.

mod decode;
mod dead_letters;
mod flow;
mod null;
mod sink;
mod source;
mod steps;

pub(crate) use decode::decode;
pub(crate) use source::{PlannedSource, open_source, source_capabilities};

use tidegate_core::Source;
use tidegate_runtime::{Flow, Label, Pipeline, Top};

use crate::config::PipelineConfig;

/// The pipeline, ready to be started. `source` is the one that the file declares, or a stand-in
/// that only knows what it can do.
pub(crate) fn pipeline(config: PipelineConfig, source: impl Source) -> Flow<Top> {
    let PipelineConfig { name, settings, dead_letters, flow, jq_outputs, .. } = config;
    let format = config.source.format();
    let mut pipeline = Pipeline::new(name).settings(settings);
    if let Some(config) = dead_letters {
        pipeline = dead_letters::add(pipeline, config);
    }
    let values = pipeline.source(source).try_map(move |record| decode(record, format));
    let decode = format!("decode {}", format.name());
    let values = values.named(Label::new(decode).at("source"));
    flow::end(values, flow, &flow::Context { jq_outputs })
}
