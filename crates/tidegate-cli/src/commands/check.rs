use std::path::Path;

use serde_json::json;

use super::Failure;
use super::describe::describe;
use super::file::{Unusable, load};
use crate::build::{PlannedSource, pipeline, source_capabilities};
use crate::cli::CheckArgs;
use crate::config::{Environment, PipelineConfig, Problems};
use crate::console;

/// Validates a pipeline file and shows what it would do.
pub(super) fn check(args: &CheckArgs) -> Result<(), Failure> {
    let environment = Environment::of_process();
    let config = match load(&args.file, &environment) {
        Ok(config) => config,
        Err(Unusable::Unreadable(why)) => return Err(Failure::Failed(why)),
        Err(Unusable::Invalid(problems)) => {
            if args.json {
                console::result(problems_json(&problems));
            } else {
                show_problems(&args.file, &problems);
            }
            return Err(Failure::Invalid);
        }
    };
    let redactor = environment.redactor();
    let redacted = |lines: Vec<String>| -> Vec<String> {
        lines.iter().map(|line| redactor.apply(line)).collect()
    };
    let name = redactor.apply(&config.name);
    let plan = redacted(describe(&config));
    let guarantee = redacted(guarantee(config));
    if args.json {
        let valid = json!({"valid": true, "name": name, "plan": plan, "guarantee": guarantee});
        console::result(valid);
        return Ok(());
    }
    console::result(format_args!("{} is valid.\n\nPipeline {name}:", args.file.display()));
    plan.iter().for_each(|line| console::result(format_args!("  {line}")));
    console::result("\nWhat it guarantees:");
    guarantee.iter().for_each(|line| console::result(format_args!("  - {line}")));
    Ok(())
}

/// Shows each problem as `file:line: setting: problem` on standard error.
pub(super) fn show_problems(path: &Path, problems: &Problems) {
    for problem in problems.iter() {
        console::notice(format_args!("{}:{problem}", path.display()));
    }
    let count = problems.iter().count();
    let problems = if count == 1 { "problem" } else { "problems" };
    console::error(format_args!("{} has {count} {problems}", path.display()));
}

fn problems_json(problems: &Problems) -> serde_json::Value {
    let problems: Vec<_> = problems
        .iter()
        .map(|p| json!({"line": p.line(), "setting": p.path(), "message": p.message()}))
        .collect();
    json!({"valid": false, "problems": problems})
}

/// What the library says of the pipeline as it is built, without opening anything.
fn guarantee(config: PipelineConfig) -> Vec<String> {
    let source = PlannedSource(source_capabilities(&config));
    pipeline(config, source).guarantee().lines().to_vec()
}
