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
            (true, true) => {
                "after a crash, or when a partition moves before its work is done, the \
                             messages since the last commit are handled again"
                    .to_owned()
            }
            (true, false) => "after a crash the messages since the last commit are handled again \
                              by the next run"
                .to_owned(),
        });
        for sink in sinks {
            let effect = if sink.capabilities.idempotent {
                "a repeated message leaves the same result as one"
            } else {
                "a repeated message shows twice"
            };
            lines.push(match sink.name.as_str() {
                "sink" => format!("sink: {effect}"),
                name => format!("sink {name}: {effect}"),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn report(source: SourceCapabilities, idempotent: bool, dead_letters: bool) -> String {
        let capabilities = SinkCapabilities::new().idempotent(idempotent);
        let sink = SinkFacts { name: "table".to_owned(), capabilities };
        Guarantee::of(source, &[sink], dead_letters).to_string()
    }

    /// P13
    #[test]
    fn it_says_what_a_crash_repeats_and_whether_a_repeat_shows() {
        let source = SourceCapabilities::new();
        let again = report(source, false, true);
        assert!(again.contains("every run starts from the beginning"), "{again}");
        assert!(again.contains("sink table: a repeated message shows twice"), "{again}");
        let goes_on = report(source.resumes(true), true, true);
        assert!(goes_on.contains("handled again by the next run"), "{goes_on}");
        assert!(goes_on.contains("sink table: a repeated message leaves the same"), "{goes_on}");
        let moves = report(source.resumes(true).rebalances(true), true, true);
        assert!(moves.contains("when a partition moves before its work is done"), "{moves}");
        for text in [again, goes_on, moves] {
            assert!(text.starts_with("- at least once: "), "{text}");
            assert!(!text.contains("  "), "one sentence a line: {text}");
        }
    }

    /// P41
    #[test]
    fn it_says_that_a_failed_message_stops_the_pipeline_unless_there_are_dead_letters() {
        let source = SourceCapabilities::new();
        assert!(report(source, false, false).contains("fails stops the pipeline"));
        assert!(report(source, false, true).contains("written to the dead letters before"));
    }
}
