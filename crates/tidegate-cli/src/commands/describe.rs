//! A pipeline in words, for `tidegate check`.

use std::fmt::Write as _;

use crate::config::{
    DeadLettersKind, FlowConfig, FlowEnd, PipelineConfig, SinkConfig, SinkKind, SourceConfig,
    StepConfig, StepKind,
};
use crate::jq::Program;

/// One line for each part, in the order in which a message meets them; indented inside branches.
pub(super) fn describe(config: &PipelineConfig) -> Vec<String> {
    let mut lines = vec![source(&config.source)];
    flow(&config.flow, 0, &mut lines);
    lines.extend(config.dead_letters.as_ref().map(|dead_letters| match &dead_letters.kind {
        DeadLettersKind::File(file) => format!("dead_letters.file: {}", file.path),
        DeadLettersKind::Local(local) => {
            format!("dead_letters.local: topic {} of {}", local.topic, local.path.display())
        }
    }));
    let store = config.store.as_ref();
    lines.extend(store.map(|store| format!("store.sqlite: {}", store.path.display())));
    let mut commit = format!("commit: every {:?}", config.settings.commit.every);
    if let Some(count) = config.settings.commit.count {
        let _ = write!(commit, " or {count} messages");
    }
    lines.push(commit);
    lines
}

fn source(config: &SourceConfig) -> String {
    let format = config.format().name();
    match config {
        SourceConfig::File(file) => {
            let follow = if file.follow { ", and what is added to it" } else { "" };
            format!("source.file: {format} from {}{follow}", file.path)
        }
        SourceConfig::Local { config, .. } => {
            let (topic, path, group) = (&config.topic, config.path.display(), &config.group);
            format!("source.local: {format} from topic {topic} of {path}, as group {group}")
        }
    }
}

fn flow(flow: &FlowConfig, depth: usize, lines: &mut Vec<String>) {
    let mut add = |line: String| lines.push(format!("{}{line}", "  ".repeat(depth)));
    flow.steps.iter().map(step).for_each(&mut add);
    match &flow.end {
        FlowEnd::Sinks(sinks) => sinks.iter().map(sink).for_each(add),
        FlowEnd::Tee { ways, .. } => {
            for (index, way) in ways.iter().enumerate() {
                lines.push(format!("{}way {} of {}:", "  ".repeat(depth), index + 1, ways.len()));
                self::flow(way, depth + 1, lines);
            }
        }
        FlowEnd::Branch { name, arms, otherwise } => {
            for arm in arms {
                let indent = "  ".repeat(depth);
                lines.push(format!("{indent}{name}, when {}:", shortened(&arm.when)));
                self::flow(&arm.flow, depth + 1, lines);
            }
            let indent = "  ".repeat(depth);
            match otherwise {
                None => lines.push(format!("{indent}{name}, otherwise: filtered")),
                Some(otherwise) => {
                    lines.push(format!("{indent}{name}, otherwise:"));
                    self::flow(otherwise, depth + 1, lines);
                }
            }
        }
    }
}

fn step(step: &StepConfig) -> String {
    let what = match &step.kind {
        StepKind::Jq(program) => shortened(program),
        StepKind::Batch(limits) => {
            let mut text = format!("{} messages, or {:?}", limits.count, limits.every);
            if let Some(bytes) = limits.bytes {
                let _ = write!(text, ", or {bytes} bytes");
            }
            text
        }
        StepKind::Unbatch => "one message for each item".to_owned(),
        StepKind::Throttle { rate, per } => format!("{rate} messages in {per:?}"),
    };
    format!("{}: {what}", step.name)
}

fn sink(sink: &SinkConfig) -> String {
    let what = match &sink.kind {
        SinkKind::Sqlite(config) => {
            let (table, path) = (&config.table, config.path.display());
            match &config.key[..] {
                [] => format!("insert into {table} of {path}"),
                key => format!("upsert into {table} of {path} by {}", key.join(", ")),
            }
        }
        SinkKind::File(_) if sink.is_stdout() => "standard output".to_owned(),
        SinkKind::File(config) => config.path.clone(),
        SinkKind::Local(target) => {
            let (topic, path) = (&target.config.topic, target.config.path.display());
            match &target.key {
                None => format!("topic {topic} of {path}"),
                Some(key) => format!("topic {topic} of {path}, key {}", shortened(key)),
            }
        }
        SinkKind::Null => "nothing is kept".to_owned(),
    };
    format!("{}: {what}", sink.name)
}

/// The program on one line, cut where it gets long.
fn shortened(program: &Program) -> String {
    const LONGEST: usize = 70;
    let line = program.text().split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        None => line,
        Some((end, _)) => format!("{}...", &line[..end]),
    }
}
