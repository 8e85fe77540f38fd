//! The only place that writes to standard output and standard error (but for the logs).
//!
//! A reader that has gone away (`| head`) is no failure of the command: what can't be written is
//! dropped.

use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _, stderr, stdout};

/// Writes a line to standard output.
pub(crate) fn result(line: impl Display) {
    let _ = writeln!(stdout().lock(), "{line}");
}

/// Writes a line to standard error.
pub(crate) fn notice(line: impl Display) {
    let _ = writeln!(stderr().lock(), "{line}");
}

/// Writes an error to standard error.
pub(crate) fn error(message: impl Display) {
    let (bold, plain) = if is_coloured() { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
    notice(format_args!("{bold}error:{plain} {message}"));
}

/// Whether a person looks at standard error.
pub(crate) fn is_interactive() -> bool {
    stderr().is_terminal()
}

/// Whether results go to a terminal.
pub(crate) fn is_result_interactive() -> bool {
    stdout().is_terminal()
}

/// Whether standard error takes colours: on a terminal, unless NO_COLOR is set.
pub(crate) fn is_coloured() -> bool {
    is_interactive() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
