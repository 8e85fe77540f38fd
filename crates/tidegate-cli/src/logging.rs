use std::io::{self, Write};

use indicatif::MultiProgress;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::console;

/// Logs to standard error, around the progress line.
pub(crate) fn start(lines: &MultiProgress) {
    let filter = EnvFilter::try_from_env("TIDEGATE_LOG").unwrap_or_else(|_| "info".into());
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(console::is_coloured())
        .with_writer(Lines(lines.clone()));
    // It fails only if there is one already, which then does the logging.
    let _ = subscriber.try_init();
}

/// Standard error; the progress line is out of the way while something is written.
struct Lines(MultiProgress);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(&self.0)
    }
}

struct Line<'a>(&'a MultiProgress);

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.suspend(|| io::stderr().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
