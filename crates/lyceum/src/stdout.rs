//! What commands print. Data goes to stdout; talk goes to stderr by way of `tracing`.

use std::fmt::Display;
use std::io::{self, Write};

/// Prints `text` and a line end. A reader that went away has seen enough.
pub(crate) fn print(text: impl Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
