//! The command line. Its doc comments are the help texts.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand};

/// Stream consumers that never lose a message.
///
/// A pipeline is declared in a YAML file: where records come from, what happens to them, where the
/// results go. The source may forget a record only after everything made from it is durable.
#[derive(Parser)]
#[command(name = "tidegate", version, propagate_version = true)]
#[command(after_help = "Examples:
  tidegate check flights.yaml
  tidegate run flights.yaml
  tidegate produce --db q.db --topic orders --key customer orders.jsonl
  tidegate topics --db q.db

Exit codes: 0 done, 1 failed, 2 wrong usage or an invalid file, 130 stopped by a second signal.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Run(RunArgs),
    Check(CheckArgs),
    Produce(ProduceArgs),
    Topics(TopicsArgs),
}

/// Run a pipeline
///
/// Runs until the source ends, a signal comes, or something fails. The first SIGINT (Ctrl-C) or
/// SIGTERM reads no more, finishes and commits what is in flight within the `drain` time, and
/// exits with 0. The second one exits at once with 130: what wasn't committed comes again in the
/// next run.
///
/// Relative paths in the file are relative to the working directory.
///
/// The last line is a summary in a stable format, on standard output (on standard error if a sink
/// writes to standard output):
///
///   read=N written=N filtered=N diverted=N failed=N committed=N elapsed=N.NNNs
///
/// On a terminal a line shows the progress; otherwise it is logged every 10 seconds. The
/// environment variable TIDEGATE_LOG sets what is logged (warn, info, debug; default info).
#[derive(Args)]
#[command(after_help = "Examples:
  tidegate run flights.yaml
  zcat old.jsonl.gz | tidegate run from-stdin.yaml
  tidegate run flights.yaml --json > summary.json")]
pub(crate) struct RunArgs {
    /// The pipeline file
    pub(crate) file: PathBuf,

    /// Write the summary as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Check a pipeline file without running it
///
/// Validates every setting, compiles the jq programs, and shows the plan and what it guarantees.
/// Nothing is opened, read or written. All problems are shown together, each as
/// `file:line: setting: problem`. Values from the environment are shown as ${NAME}.
#[derive(Args)]
#[command(after_help = "Examples:
  tidegate check flights.yaml
  tidegate check flights.yaml --json | jq -r '.problems[].message'")]
pub(crate) struct CheckArgs {
    /// The pipeline file
    pub(crate) file: PathBuf,

    /// Write the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Write lines into a local topic
///
/// Each line of the file or of standard input becomes a record; empty lines are left out. Files
/// may be compressed (.gz, .zst), and a pattern takes several. The topic is created if it isn't
/// there. A record is durable before it is counted; if the command is stopped or fails, what was
/// counted is there, and running it again writes it again.
#[derive(Args)]
#[command(after_help = "Examples:
  tidegate produce --db q.db --topic orders orders.jsonl
  tidegate produce --db q.db --topic orders --key customer --partitions 8 'orders-*.jsonl.gz'
  echo '{\"id\": 1}' | tidegate produce --db q.db --topic orders --key '.id % 10'")]
pub(crate) struct ProduceArgs {
    /// The log file of the local topics; created if it isn't there
    #[arg(long, value_name = "PATH")]
    pub(crate) db: PathBuf,

    /// The topic
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) topic: String,

    /// A field of the JSON lines, or a jq program, that gives the record's key
    ///
    /// Records with the same key stay in order in the same partition. A key that is a text is
    /// taken as it is, anything else as JSON; null is no key. Without a key the partitions take
    /// turns.
    #[arg(long, value_name = "FIELD|JQ", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) key: Option<String>,

    /// How many partitions the topic has [default for a new topic: 4]
    #[arg(long, value_name = "N")]
    pub(crate) partitions: Option<u32>,

    /// Write the count as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// A file, a pattern, or - for standard input
    #[arg(default_value = "-")]
    pub(crate) file: String,
}

/// Show local topics, their groups and how far these are
#[derive(Args)]
#[command(after_help = "Examples:
  tidegate topics --db q.db
  tidegate topics --db q.db --json | jq '.groups[] | {group, lag}'")]
pub(crate) struct TopicsArgs {
    /// The log file of the local topics
    #[arg(long, value_name = "PATH")]
    pub(crate) db: PathBuf,

    /// Write everything there is to know as JSON, partition by partition
    #[arg(long)]
    pub(crate) json: bool,
}
