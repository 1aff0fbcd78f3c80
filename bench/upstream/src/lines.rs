//! One message per line on standard input and output.

use std::io::{self, BufRead, Write};
use std::thread;
use std::time::Duration;

use crate::{Bad, Cli, When, message};

const PAUSE: Duration = Duration::from_secs(1);
const CHUNK: usize = 8 * 1024;

/// Answers until the input ends.
pub(crate) fn serve(cli: &Cli) -> anyhow::Result<()> {
    if cli.bad == Some(Bad::Crash) && cli.when == When::Always {
        std::process::exit(3);
    }
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line?;
        if let Some(bad) = cli.trouble(line.as_bytes()) {
            misbehave(&mut out, bad)?;
        } else if let Some(answer) = message::answer(line.as_bytes(), cli.legacy) {
            writeln!(out, "{answer}")?;
            out.flush()?;
        }
    }
    Ok(())
}

fn misbehave(out: &mut impl Write, bad: Bad) -> io::Result<()> {
    match bad {
        Bad::Hang => loop {
            thread::park();
        },
        Bad::Garbage => out.write_all(b"\x00\xff this is no JSON \n"),
        Bad::Endless => loop {
            out.write_all(&[b'x'; CHUNK])?;
        },
        Bad::Crash => std::process::exit(3),
        Bad::Slow => loop {
            thread::sleep(PAUSE);
            out.write_all(b" ")?;
            out.flush()?;
        },
    }
}
