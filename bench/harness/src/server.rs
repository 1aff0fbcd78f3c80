//! One server process: started on its core and a free port, stopped when dropped.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;

use crate::case::{Era, Program};
use crate::gateway::front;
use crate::pin::{LOAD_CORE, SERVER_CORE, on_core};
use crate::procfs;
use crate::programs::Programs;

const START: Duration = Duration::from_secs(60);
const STOP: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    port: u16,
    scratch: TempDir,
    /// What it passes requests on to.
    behind: Vec<Server>,
}

impl Server {
    /// Starts `program` and waits until it takes connections.
    pub(crate) fn start(program: Program, programs: &Programs) -> anyhow::Result<Self> {
        Self::start_under(&[], program, programs)
    }

    /// The same with a command such as valgrind in front of it.
    pub(crate) fn start_under(
        wrapper: &[String],
        program: Program,
        programs: &Programs,
    ) -> anyhow::Result<Self> {
        let line: Vec<String> = on_core(SERVER_CORE).into_iter().chain(wrapper.to_vec()).collect();
        let Program::Front(front, era) = program else {
            return Self::start_with(&line, |port, scratch| {
                command_line(program, programs, port, scratch)
            });
        };
        let legacy = (era == Era::Legacy).then_some("--legacy");
        let upstream = Self::start_upstream(legacy.into_iter().chain(["--awake"]))?;
        let server = Self::start_with(&line, |port, scratch| {
            front::command_line(front, programs, port, upstream.port(), scratch)
        })?;
        Ok(server.in_front_of(vec![upstream]))
    }

    /// Starts the cheap server for what stands in front of it; it shares the load's core.
    pub(crate) fn start_upstream<'a>(
        flags: impl IntoIterator<Item = &'a str>,
    ) -> anyhow::Result<Self> {
        Self::start_with(&on_core(LOAD_CORE), |port, _| {
            let listen = ["--listen".to_owned(), format!("127.0.0.1:{port}")];
            let flags = flags.into_iter().map(str::to_owned);
            Ok((Programs::sibling("upstream")?, listen.into_iter().chain(flags).collect()))
        })
    }

    /// With servers that run for as long as this one does.
    pub(crate) fn in_front_of(mut self, servers: Vec<Server>) -> Self {
        self.behind = servers;
        self
    }

    /// Starts what `command` names, given a free port and an empty directory, with `line` in front of it.
    pub(crate) fn start_with(
        line: &[String],
        command: impl FnOnce(u16, &Path) -> anyhow::Result<(PathBuf, Vec<String>)>,
    ) -> anyhow::Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let scratch = tempfile::tempdir()?;
        let (binary, arguments) = command(port, scratch.path())?;
        ensure!(binary.exists(), "{} is not built", binary.display());
        let log = File::create(scratch.path().join("log"))?;
        let child = Command::new(&line[0])
            .args(&line[1..])
            .arg(binary)
            .args(arguments)
            .env("RUST_LOG", "error")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {}", line.join(" ")))?;
        let mut server = Self { child, port, scratch, behind: vec![] };
        server.wait_until_up()?;
        Ok(server)
    }

    /// taskset and valgrind become the server, so this is the server's own id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Seconds of CPU time of what it passes requests on to.
    pub(crate) fn cpu_seconds_behind(&self) -> anyhow::Result<f64> {
        self.behind.iter().map(|server| procfs::cpu_seconds(server.pid())).sum()
    }

    /// Stops it, and what it passes requests on to, until it is to go on.
    pub(crate) fn pause(&self) -> anyhow::Result<()> {
        self.signal_all("STOP")
    }

    pub(crate) fn resume(&self) -> anyhow::Result<()> {
        self.signal_all("CONT")
    }

    fn signal_all(&self, name: &str) -> anyhow::Result<()> {
        self.behind.iter().try_for_each(|server| server.signal_all(name))?;
        signal(self.pid(), name)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Asks the server to end, waits for it and answers what it printed.
    pub(crate) fn stop(mut self) -> anyhow::Result<String> {
        signal(self.pid(), "TERM")?;
        let start = Instant::now();
        while self.child.try_wait()?.is_none() {
            ensure!(start.elapsed() < STOP, "the server did not end within {STOP:?}");
            thread::sleep(STEP);
        }
        self.log()
    }

    fn log(&self) -> anyhow::Result<String> {
        let log = fs::read(self.scratch.path().join("log"))?;
        Ok(String::from_utf8_lossy(&log).into_owned())
    }

    fn wait_until_up(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status}: {}", self.log()?.trim());
            }
            ensure!(start.elapsed() < START, "no connection within {START:?}: {}", self.log()?);
            thread::sleep(STEP);
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when the server has ended already, which is what is wanted.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Sends a signal by name, by way of `kill`.
pub(crate) fn signal(pid: u32, name: &str) -> anyhow::Result<()> {
    let status = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status()?;
    ensure!(status.success(), "kill -{name} {pid} failed");
    Ok(())
}

fn command_line(
    program: Program,
    programs: &Programs,
    port: u16,
    scratch: &Path,
) -> anyhow::Result<(PathBuf, Vec<String>)> {
    let mode = |mode: &str| vec!["--mode".to_owned(), mode.to_owned()];
    let (binary, more) = match program {
        Program::Hyper => (Programs::sibling("limit-hyper")?, vec![]),
        Program::Axum => (Programs::sibling("limit-axum")?, vec![]),
        Program::RmcpJson => (Programs::sibling("rmcp-server")?, mode("json")),
        Program::RmcpStateful => (Programs::sibling("rmcp-server")?, mode("stateful")),
        Program::Ours => {
            let data = scratch.join("data").display().to_string();
            (programs.everything.clone(), vec!["--data".to_owned(), data])
        }
        Program::Front(..) => bail!("nothing to pass requests on to"),
    };
    let listen = ["--listen".to_owned(), format!("127.0.0.1:{port}")];
    Ok((binary, listen.into_iter().chain(more).collect()))
}
