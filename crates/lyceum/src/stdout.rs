//! What commands print. Data goes to stdout; talk goes to stderr by way of `tracing` or [`crate::terminal::say`].

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use crate::terminal;

/// Prints `text` and a line end; on a terminal, with whatever controls terminals spelled out. A reader that went away
/// has seen enough.
pub(crate) fn print(text: impl Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let printed = if out.is_terminal() {
        writeln!(out, "{}", terminal::lines(&text.to_string()))
    } else {
        writeln!(out, "{text}")
    };
    match printed.and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
