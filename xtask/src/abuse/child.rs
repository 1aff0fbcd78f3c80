//! Processes of the program beside the server: `lyceum stdio` and `lyceum convert`, fed with bytes made
//! beforehand.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::client::{AnswerCounts, AttackTarget};
use super::usage;
use crate::stopwatch::Stopwatch;

/// How long a process may go on before it is ended.
const LONGEST: Duration = Duration::from_secs(30);
/// How often its memory is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// A command of the program and what is done with its output.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ChildCommand {
    pub(super) args: &'static [&'static str],
    /// Whether it gets the server's data directory.
    pub(super) shares_data: bool,
    /// Whether its output is read. The harness ends a process whose output it does not read after a while.
    pub(super) is_read: bool,
}

/// Ends the process when dropped.
struct EndedChild(Child);

impl Drop for EndedChild {
    fn drop(&mut self) {
        // Ending a child that has ended already is an error without consequence.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the command with this input to its end, or until `stop`; whether it ended by itself.
pub(super) fn feed(
    command: ChildCommand,
    target: &AttackTarget,
    input: Vec<u8>,
    stop: &AtomicBool,
    counts: &AnswerCounts,
) -> Result<bool> {
    let mut process = Command::new(&target.program);
    process.args(command.args);
    if command.shares_data {
        process.arg("--data").arg(&target.data);
    }
    // As the server does for its conversions.
    process.env("MIMALLOC_ARENA_EAGER_COMMIT", "0");
    process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = EndedChild(process.spawn().context("cannot start lyceum")?);
    let mut stdin = child.0.stdin.take().context("its input is piped")?;
    // Writing waits for a process that does not read; it fails when the process has ended.
    thread::spawn(move || stdin.write_all(&input));
    let mut stdout = child.0.stdout.take().context("its output is piped")?;
    let unread = if command.is_read {
        thread::spawn(move || while matches!(stdout.read(&mut [0; 1 << 16]), Ok(1..)) {});
        None
    } else {
        Some(stdout)
    };
    let watch = Stopwatch::start();
    while !stop.load(Ordering::Relaxed) && !watch.is_past(LONGEST) {
        if let Ok(memory) = usage::memory(child.0.id()) {
            counts.note_child(memory.peak_mib);
        }
        if child.0.try_wait()?.is_some() {
            return Ok(true);
        }
        thread::sleep(LOOK);
    }
    drop(unread);
    Ok(false)
}
