//! A folder of its own for each test, and the command run in it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};

/// A folder in which the command runs. It is removed at the end.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file; returns its name.
    pub(crate) fn write<'n>(&self, name: &'n str, content: impl AsRef<[u8]>) -> &'n str {
        fs::write(self.path(name), content).unwrap();
        name
    }

    pub(crate) fn append(&self, name: &str, content: &str) {
        use std::io::Write as _;
        let mut file = fs::OpenOptions::new().append(true).open(self.path(name)).unwrap();
        file.write_all(content.as_bytes()).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        self.read(name).lines().map(str::to_owned).collect()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(args).current_dir(self.0.path()).stdin(Stdio::null());
        command.env_remove("TIDEGATE_LOG").env_remove("NO_COLOR");
        command
    }

    /// Runs the command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        self.command(args).output().unwrap().into()
    }

    /// Runs the pipeline to its end, which has to be a good one; returns its results.
    pub(crate) fn run_pipeline(&self, file: &str) -> Ended {
        let ended = self.run(&["run", file]);
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        ended
    }

    /// Starts the pipeline and leaves it running.
    pub(crate) fn start(&self, file: &str) -> Started {
        let mut command = self.command(&["run", file]);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Started { child, stdout, stderr }
    }

    /// All rows of a query, their columns joined by `|`.
    pub(crate) fn query(&self, database: &str, sql: &str) -> Vec<String> {
        let database = rusqlite::Connection::open(self.path(database)).unwrap();
        let mut statement = database.prepare(sql).unwrap();
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| {
            let column = |index| row.get::<_, rusqlite::types::Value>(index).map(shown);
            let columns: Result<Vec<_>, _> = (0..columns).map(column).collect();
            Ok(columns?.join("|"))
        });
        rows.unwrap().map(Result::unwrap).collect()
    }
}

fn shown(value: rusqlite::types::Value) -> String {
    use rusqlite::types::Value;
    match value {
        Value::Null => "null".to_owned(),
        Value::Integer(integer) => integer.to_string(),
        Value::Real(real) => real.to_string(),
        Value::Text(text) => text,
        Value::Blob(bytes) => format!("{} bytes", bytes.len()),
    }
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ended {
    /// The summary without the time: the last line that has one.
    pub(crate) fn summary(&self) -> &str {
        let lines = self.stdout.lines().rev().chain(self.stderr.lines().rev());
        let mut summaries = lines.filter(|line| line.starts_with("read="));
        let line = summaries.next().unwrap_or_else(|| panic!("no summary: {self:#?}"));
        let (counts, elapsed) = line.split_once(" elapsed=").unwrap();
        let seconds = elapsed.strip_suffix('s').unwrap();
        seconds.parse::<f64>().unwrap();
        counts
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        let mut counts = self.summary().split(' ').filter_map(|count| count.split_once('='));
        counts.find(|(key, _)| *key == name).unwrap().1.parse().unwrap()
    }
}

/// A command that is running.
pub(crate) struct Started {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
}

impl Started {
    /// Waits for the next line on standard output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Waits for a line on standard error that contains `text`.
    pub(crate) fn wait_for_log(&mut self, text: &str) -> String {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            let read = self.stderr.read_line(&mut line).unwrap();
            assert!(read > 0, "`{text}` was never logged, but:\n{seen}");
            if line.contains(text) {
                return line;
            }
            seen.push_str(&line);
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end; returns what it wrote since the last line that was waited for.
    pub(crate) fn wait(mut self) -> Ended {
        use std::io::Read as _;
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.stdout.read_to_string(&mut stdout).unwrap();
        self.stderr.read_to_string(&mut stderr).unwrap();
        Ended { code: self.child.wait().unwrap().code(), stdout, stderr }
    }
}

/// Whether the path exists.
pub(crate) fn exists(path: &Path) -> bool {
    path.try_exists().unwrap()
}
