//! Resident memory per idle stream, and whether the server keeps them all.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::case::Idle;
use crate::pin::{LOAD_CORE, on_core};
use crate::programs::Programs;
use crate::server::Server;
use crate::{hold, procfs};

#[derive(Debug, PartialEq)]
pub(crate) struct Memory {
    pub(crate) streams: usize,
    /// Of the server before and with the streams.
    pub(crate) before_kib: f64,
    pub(crate) with_kib: f64,
    pub(crate) dropped: usize,
}

impl Memory {
    pub(crate) fn kib_per_stream(&self) -> f64 {
        (self.with_kib - self.before_kib) / self.streams as f64
    }
}

struct Holder {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Opens `streams` idle streams, keeps them for `duration` and looks at both ends.
pub(crate) fn measure(
    idle: &Idle,
    streams: usize,
    duration: Duration,
    programs: &Programs,
) -> anyhow::Result<Memory> {
    eprintln!("memory: {} with {streams} streams", idle.name);
    let server = Server::start(idle.program, programs)?;
    // What the first session and stream set up once is not the price of each.
    drop(hold::open(server.port(), idle.path, idle.session)?);
    let before_kib = procfs::resident_kib(server.pid())?;
    let mut holder = Holder::start(idle, server.port(), streams)?;
    let opened = procfs::resident_kib(server.pid())?;
    thread::sleep(duration);
    let dropped = holder.dropped()?;
    let with_kib = procfs::resident_kib(server.pid())?.max(opened);
    hold::open(server.port(), idle.path, idle.session)
        .context("the full server takes no more clients")?;
    holder.stop()?;
    Ok(Memory { streams, before_kib, with_kib, dropped })
}

impl Holder {
    fn start(idle: &Idle, port: u16, streams: usize) -> anyhow::Result<Self> {
        let pinned = on_core(LOAD_CORE);
        let mut command = Command::new(&pinned[0]);
        command.args(&pinned[1..]).arg(std::env::current_exe()?);
        command.args(["hold", "--path", idle.path]);
        command.args(["--port", &port.to_string(), "--streams", &streams.to_string()]);
        if idle.session {
            command.arg("--sessions");
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().context("the holder has no standard input")?;
        let output = child.stdout.take().context("the holder has no standard output")?;
        let mut holder = Self { child, input, output: BufReader::new(output) };
        let ready = holder.line()?;
        ensure!(ready == format!("ready {streams}"), "the holder could not open all streams");
        Ok(holder)
    }

    fn dropped(&mut self) -> anyhow::Result<usize> {
        self.input.write_all(b"\n")?;
        let line = self.line()?;
        let dropped = line.rsplit(' ').next().and_then(|count| count.parse().ok());
        dropped.with_context(|| format!("the holder said {line:?}"))
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    fn stop(self) -> anyhow::Result<()> {
        let Self { mut child, input, .. } = self;
        drop(input);
        ensure!(child.wait()?.success(), "the holder failed");
        Ok(())
    }
}
