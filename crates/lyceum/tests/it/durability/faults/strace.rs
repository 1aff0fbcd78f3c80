//! The binary under strace, which lets chosen system calls fail.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::AsyncReadExt;
use tokio::process::Command;

use crate::lyceum::Lyceum;

/// Starts strace with one more file to watch: a draft that bears the number of the process, which strace passes on to
/// the server.
const START: &str = r#"draft="$1$$"; shift; exec strace -P "$draft" "$@""#;

/// Which calls fail, and how.
#[derive(Debug)]
pub(super) struct Fault<'a> {
    /// Names of system calls, with commas.
    pub(super) calls: &'static str,
    pub(super) error: &'static str,
    /// `n`: the n-th; `n+m`: from the n-th on every m-th. Each thread counts for itself.
    pub(super) when: String,
    /// Calls on these files of the data directory; `""` is the directory itself.
    pub(super) files: &'a [&'static str],
}

/// A server on a disk that fails.
pub(super) struct Tracee {
    pub(super) lyceum: Lyceum,
    log: PathBuf,
}

/// A server that did not start.
#[derive(Debug)]
pub(super) struct NotStarted {
    pub(super) message: String,
    pub(super) injected: usize,
}

impl Tracee {
    pub(super) async fn start(data: &Path, fault: &Fault<'_>) -> Result<Self, NotStarted> {
        let log = data.join("strace.log");
        match Lyceum::watch(command(data, &log, fault).spawn().unwrap()).await {
            Ok(lyceum) => Ok(Self { lyceum, log }),
            Err(mut child) => {
                let mut message = String::new();
                child.stderr.take().unwrap().read_to_string(&mut message).await.unwrap();
                let code = child.wait().await.unwrap().code();
                assert_ne!(code, Some(127), "install strace: apt-get install strace ({message})");
                assert_eq!(code, Some(1), "{message}");
                Err(NotStarted { message, injected: injected(&log) })
            }
        }
    }

    /// How many calls have failed so far.
    pub(super) fn injected(&self) -> usize {
        injected(&self.log)
    }
}

fn injected(log: &Path) -> usize {
    let log = std::fs::read(log).unwrap();
    String::from_utf8_lossy(&log).matches("(INJECTED)").count()
}

fn command(data: &Path, log: &Path, fault: &Fault<'_>) -> Command {
    let Fault { calls, error, when, files } = fault;
    let mut command = Command::new("sh");
    command.args(["-c", START, "sh"]).arg(data.join("seal.new."));
    // Detached: the server is our child and not strace's. Only calls that matter stop it.
    command.args(["-D", "-f", "--seccomp-bpf", "-qq", "-o"]).arg(log);
    for file in *files {
        command.arg("-P").arg(if file.is_empty() { data.to_owned() } else { data.join(file) });
    }
    command.arg("-e").arg(format!("trace={calls}"));
    command.arg("-e").arg(format!("inject={calls}:error={error}:when={when}"));
    command.arg(env!("CARGO_BIN_EXE_lyceum"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--log", "off", "--data"]).arg(data);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}
