//! Running other programs: to the end, to the end with their output kept, or as a server that is
//! stopped when its guard goes.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::stopwatch::{Stopwatch, human};

/// A program that ran to its end.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    /// Everything it wrote, both streams, line by line as they came.
    pub(crate) text: String,
}

/// A child that does not outlive this value.
#[derive(Debug)]
pub(crate) struct Guarded {
    child: Child,
    lines: Receiver<String>,
    name: String,
}

/// Whether the lines of a child are shown while they come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Echo {
    Show,
    Hide,
}

/// Runs to the end with its output shown; anything but exit code 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let name = name(command);
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("cannot start {name}"))?;
    ensure!(status.success(), "{name}: {status}");
    Ok(())
}

/// Runs to the end and keeps what it wrote; the exit code is the caller's to judge.
pub(crate) fn capture(command: &mut Command, echo: Echo, limit: Duration) -> Result<Finished> {
    let mut guarded = Guarded::spawn(command)?;
    let watch = Stopwatch::start();
    let mut text = String::new();
    let mut ended = false;
    loop {
        match guarded.lines.recv_timeout(Duration::from_millis(200)) {
            Ok(line) => {
                if echo == Echo::Show {
                    println!("{line}");
                }
                text.push_str(&line);
                text.push('\n');
            }
            Err(RecvTimeoutError::Disconnected) => break,
            // A grandchild may hold the pipes open after the child has ended, so closed pipes are
            // not waited for: one silent turn after its end is enough.
            Err(RecvTimeoutError::Timeout) if ended => break,
            Err(RecvTimeoutError::Timeout) => ended = guarded.child.try_wait()?.is_some(),
        }
        if watch.is_past(limit) {
            bail!("{} was stopped: not done after {}\n{text}", guarded.name, human(limit));
        }
    }
    while guarded.child.try_wait()?.is_none() {
        ensure!(!watch.is_past(limit), "{} closed its output and hangs", guarded.name);
        thread::sleep(Duration::from_millis(10));
    }
    let status = guarded.child.wait().with_context(|| format!("waiting for {}", guarded.name))?;
    Ok(Finished { status, text })
}

impl Guarded {
    /// Starts it with no input and both outputs read line by line.
    pub(crate) fn spawn(command: &mut Command) -> Result<Self> {
        let name = name(command);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let (sender, lines) = mpsc::channel();
        pump(child.stdout.take().expect("stdout is piped"), sender.clone());
        pump(child.stderr.take().expect("stderr is piped"), sender);
        Ok(Self { child, lines, name })
    }

    /// Reads lines until `pick` answers; gives up at the limit or when the child ends.
    pub(crate) fn wait_for<T>(
        &self,
        limit: Duration,
        pick: impl Fn(&str) -> Option<T>,
    ) -> Result<T> {
        let watch = Stopwatch::start();
        let mut seen = String::new();
        loop {
            let left = limit.saturating_sub(watch.elapsed());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    if let Some(found) = pick(&line) {
                        return Ok(found);
                    }
                    seen.push_str(&line);
                    seen.push('\n');
                }
                Err(RecvTimeoutError::Timeout) => bail!(
                    "{} did not get ready within {}; it wrote:\n{seen}",
                    self.name,
                    human(limit)
                ),
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("{} ended before it was ready; it wrote:\n{seen}", self.name)
                }
            }
        }
    }

    /// The lines written since the last look.
    pub(crate) fn written(&self) -> String {
        self.lines.try_iter().map(|line| line + "\n").collect()
    }

    /// The process id, for signals and for what the system knows of it.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the child ends; `None` when it has not at the limit.
    pub(crate) fn wait_for_end(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let watch = Stopwatch::start();
        loop {
            match self.child.try_wait()? {
                None if !watch.is_past(limit) => thread::sleep(Duration::from_millis(20)),
                status => return Ok(status),
            }
        }
    }

    /// Fails when the child has ended although it should go on serving.
    pub(crate) fn ensure_alive(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} ended by itself: {status}\n{}", self.name, self.written());
        }
        Ok(())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // Killing a child that has ended already is an error nobody needs to hear of.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program and its arguments, as a person would type them.
pub(crate) fn name(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut words = vec![program.file_name().unwrap_or(program.as_os_str()).to_string_lossy()];
    words.extend(command.get_args().map(|word| word.to_string_lossy()));
    words.join(" ")
}

fn pump(stream: impl Read + Send + 'static, lines: Sender<String>) {
    thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        while matches!(reader.read_until(b'\n', &mut line), Ok(n) if n > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned();
            line.clear();
            // Nobody listens any more once the guard is gone; the pipe is still drained, so that
            // the child never blocks on it.
            let _ = lines.send(text);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_outputs_are_kept() {
        let script = "echo out; echo err >&2; exit 3";
        let finished = capture(&mut shell(script), Echo::Hide, Duration::from_secs(20)).unwrap();
        assert_eq!(finished.status.code(), Some(3));
        assert!(finished.text.contains("out\n") && finished.text.contains("err\n"));
    }

    #[test]
    fn a_child_past_its_limit_is_stopped() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let watch = Stopwatch::start();
        capture(&mut command, Echo::Hide, Duration::from_millis(50)).unwrap_err();
        assert!(!watch.is_past(Duration::from_secs(30)));
    }

    #[test]
    fn a_child_that_ends_early_is_told_with_its_words() {
        let guarded = Guarded::spawn(&mut shell("echo no such port")).unwrap();
        let error = guarded.wait_for(Duration::from_secs(20), |_| None::<()>).unwrap_err();
        assert!(format!("{error:#}").contains("no such port"));
    }

    #[test]
    fn a_failing_program_is_named() {
        let error = run(&mut shell("exit 7")).unwrap_err();
        assert!(format!("{error:#}").contains("sh -c exit 7"));
    }
}
