//! A running `lyceum`, on a free port, with a data directory of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Output, Stdio};

use lyceum_testkit::{Connection, Request, Response};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{Duration, timeout};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server process. Dropping it kills it.
pub(crate) struct Lyceum {
    pub(crate) address: SocketAddr,
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    /// What it has printed so far.
    pub(crate) printed: Vec<String>,
}

/// The binary, free of this machine's settings, home and terminal: SIGHUP reloads, wherever the tests run.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_lyceum")]);
    command.args(arguments).env_clear().kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the binary to its end.
pub(crate) async fn run(arguments: &[&str]) -> Output {
    timeout(PATIENCE, command(arguments).output()).await.expect("it ends in time").unwrap()
}

impl Lyceum {
    /// Starts a server with `flags` and waits until it says where it is.
    pub(crate) async fn start(data: &Path, flags: &[&str]) -> Self {
        let mut command = command(&["serve", "--log", "warn"]);
        command.args(flags).stderr(Stdio::inherit());
        Self::spawn(command, data).await
    }

    /// Starts a server that has one of our processors.
    #[cfg(target_os = "linux")]
    pub(crate) async fn start_on_one_processor(data: &Path) -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let ours = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        let first = ours.trim().split(['-', ',']).next().unwrap();
        let mut command = Command::new("taskset");
        command.args(["-c", first, env!("CARGO_BIN_EXE_lyceum"), "serve", "--log", "warn"]);
        command.env_clear().kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Self::spawn(command, data).await
    }

    /// Starts a server that may have `soft` files open, and raise that to `hard`.
    #[cfg(unix)]
    pub(crate) async fn start_with_open_files(data: &Path, soft: u32, hard: u32) -> Self {
        let mut command = Command::new("/bin/sh");
        let script = format!("ulimit -n {hard}; ulimit -Sn {soft}; exec \"$0\" \"$@\"");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_lyceum"), "serve", "--log", "error"]);
        command.env_clear().kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Self::spawn(command, data).await
    }

    /// Starts a server that outlives the limits of [`Lyceum::limit_file_size`]: writes fail and no signal ends it.
    #[cfg(target_os = "linux")]
    pub(crate) async fn start_on_a_small_disk(data: &Path) -> Self {
        let mut command = Command::new("/bin/sh");
        let script = "trap '' XFSZ; exec \"$0\" \"$@\"";
        command.args(["-c", script, env!("CARGO_BIN_EXE_lyceum"), "serve", "--log", "off"]);
        command.env_clear().kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Self::spawn(command, data).await
    }

    /// Lets writes fail beyond so many bytes of a file.
    #[cfg(target_os = "linux")]
    pub(crate) fn limit_file_size(&self, bytes: Option<u64>) {
        use rustix::process::{Pid, Resource, Rlimit, prlimit};
        let pid = i32::try_from(self.child.id().expect("it runs")).unwrap();
        let limit = Rlimit { current: bytes, maximum: None };
        prlimit(Pid::from_raw(pid), Resource::Fsize, limit).unwrap();
    }

    /// Starts a server that logs everything there is to log, to `log`.
    pub(crate) async fn start_tracing(data: &Path, flags: &[&str], log: &Path) -> Self {
        Self::start_logging("trace", data, flags, log).await
    }

    /// Starts a server that logs to `log`.
    pub(crate) async fn start_logging(
        level: &str,
        data: &Path,
        flags: &[&str],
        log: &Path,
    ) -> Self {
        let mut command = command(&["serve", "--log", level]);
        command.args(flags).stderr(std::fs::File::create(log).unwrap());
        Self::spawn(command, data).await
    }

    async fn spawn(mut command: Command, data: &Path) -> Self {
        command.args(["--listen", "127.0.0.1:0"]).arg("--data").arg(data);
        Self::watch(command.spawn().unwrap()).await.expect("it prints where it listens")
    }

    /// Waits until a process says where it is; gives it back if it ends without having done so.
    pub(crate) async fn watch(mut child: Child) -> Result<Self, Child> {
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = timeout(PATIENCE, stdout.next_line()).await.expect("it starts in time");
        let Some(first) = first.unwrap() else { return Err(child) };
        let (_, rest) = first.split_once("http://").expect("a URL");
        let address = rest.split('/').next().unwrap().parse().unwrap();
        Ok(Self { address, child, stdout, printed: vec![first] })
    }

    /// Starts a server in a fresh data directory.
    pub(crate) async fn fresh(flags: &[&str]) -> (Self, TempDir) {
        let data = tempfile::tempdir().unwrap();
        (Self::start(data.path(), flags).await, data)
    }

    /// Sends one request on a connection of its own.
    pub(crate) async fn call(&self, request: &Request) -> Response {
        self.connect().await.call(request).await
    }

    pub(crate) async fn connect(&self) -> Connection {
        Connection::open(self.address).await
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// How many files the process may have open.
    #[cfg(target_os = "linux")]
    pub(crate) fn open_files_limit(&self) -> u64 {
        let pid = self.child.id().expect("it runs");
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// The memory the process holds.
    pub(crate) fn resident_mib(&self) -> u64 {
        self.status_mib("VmRSS:")
    }

    /// The most memory the process has held so far.
    pub(crate) fn peak_mib(&self) -> u64 {
        self.status_mib("VmHWM:")
    }

    fn status_mib(&self, name: &str) -> u64 {
        let pid = self.child.id().expect("it runs");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().split(' ').next().unwrap().parse::<u64>().unwrap() / 1024
    }

    /// Sends SIGTERM.
    pub(crate) async fn terminate(&self) {
        self.signal("-TERM").await;
    }

    /// Sends SIGHUP.
    pub(crate) async fn hang_up(&self) {
        self.signal("-HUP").await;
    }

    async fn signal(&self, signal: &str) {
        let pid = self.child.id().expect("it runs").to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().await.unwrap().success());
    }

    /// Sends SIGKILL and waits until the process is gone.
    pub(crate) async fn kill(&mut self) {
        timeout(PATIENCE, self.child.kill()).await.expect("it ends in time").unwrap();
    }

    /// Waits for the end and returns the exit code.
    pub(crate) async fn ended(&mut self) -> Option<i32> {
        let status = timeout(PATIENCE, self.child.wait()).await.expect("it ends in time").unwrap();
        while let Some(line) = self.stdout.next_line().await.unwrap() {
            self.printed.push(line);
        }
        status.code()
    }
}
