use std::fmt;

use crate::{SinkCapabilities, SourceCapabilities};

/// What the guarantee report needs to know of one sink.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SinkFacts {
    /// The sink's name.
    pub name: String,
    /// What it can do.
    pub capabilities: SinkCapabilities,
}

/// What a pipeline promises, in words, before it starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Guarantee {
    lines: Vec<String>,
}

impl Guarantee {
    /// What this source and these sinks give together.
    pub fn of(source: SourceCapabilities, sinks: &[SinkFacts], dead_letters: bool) -> Self {
        let mut lines = vec![
            "at least once: the source may forget a message only after every sink has confirmed \
             everything made from it"
                .to_owned(),
        ];
        lines.push(match (source.resumes, source.rebalances) {
            (false, _) => "the source keeps no position: every run starts from the beginning, and \
                           repeats what earlier runs wrote"
                .to_owned(),
            (true, true) => "after a crash, or when a partition moves before its work is done, the \
                             messages since the last commit are handled again"
                .to_owned(),
            (true, false) => "after a crash the messages since the last commit are handled again \
                              by the next run"
                .to_owned(),
        });
        for sink in sinks {
            lines.push(if sink.capabilities.idempotent {
                format!("sink {}: a repeated message leaves the same result as one", sink.name)
            } else {
                format!("sink {}: a repeated message shows twice", sink.name)
            });
        }
        lines.push(
            if dead_letters {
                "a message that fails is written to the dead letters before the source may forget \
                 it; if that write fails, the pipeline stops"
            } else {
                "a message that fails stops the pipeline (no dead letters are configured)"
            }
            .to_owned(),
        );
        Self { lines }
    }

    /// One sentence each.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "- {line}"))
    }
}
