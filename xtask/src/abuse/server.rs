//! The server under attack: `lyceum serve` on a free port, with a copy of a small knowledge base
//! and the keys of all callers.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::client::AttackTarget;
use super::http::{HttpAnswer, HttpConnection};
use super::request::{self, RequestBytes};
use super::usage;
use crate::everything::{self, DataDir};
use crate::process::{self, Echo, Guarded};
use crate::stopwatch::Stopwatch;
use crate::workspace::Workspace;

/// Documents of the small corpus.
pub(super) const DOCUMENTS: usize = 300;
/// Seconds the server gives running calls when it is told to stop.
pub(super) const DRAIN: Duration = Duration::from_secs(3);

const START_LIMIT: Duration = Duration::from_secs(60);
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
const CALL_LIMIT: Duration = Duration::from_secs(60);
/// How long the indexer may take to come to rest.
const REST_LIMIT: Duration = Duration::from_secs(90);
/// Bytes of an answer to the harness itself.
const MOST_ANSWER: usize = 64 << 20;

/// Callers that attack. The first is the one whose key is revoked.
const ABUSERS: [&str; 4] = ["abuser", "abuser-2", "abuser-3", "abuser-4"];

/// The keys of all who call.
#[derive(Debug, Clone)]
pub(super) struct CallerKeys {
    abusers: Vec<String>,
    pub(super) bystander: String,
    /// Prepares what a case needs.
    pub(super) preparer: String,
}

/// A data directory with keys and an indexed corpus, copied for every case.
#[derive(Debug)]
pub(super) struct CorpusTemplate<'a> {
    workspace: &'a Workspace,
    program: PathBuf,
    data: DataDir,
    keys: CallerKeys,
}

/// A running server; killed, and its data removed, when dropped.
#[derive(Debug)]
pub(super) struct LyceumServer {
    pub(super) address: SocketAddr,
    pub(super) keys: CallerKeys,
    // Fields are dropped in order: the process is gone before its data goes.
    process: Guarded,
    data: DataDir,
    program: PathBuf,
    log: LogTally,
}

/// What the server had to complain about.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct LogTally {
    pub(super) warnings: usize,
    pub(super) errors: usize,
    /// The last few of both.
    pub(super) lines: Vec<String>,
}

/// How a server is started.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ServerSetup<'a> {
    /// Shell commands before the server in its process, such as a `ulimit`.
    pub(super) shell: Option<&'a str>,
    /// The text of its configuration file.
    pub(super) config: Option<&'a str>,
}

impl CallerKeys {
    /// The key that is revoked under attack.
    pub(super) fn abuser(&self) -> &str {
        &self.abusers[0]
    }

    /// The key of the n-th case; cases that attack together take turns.
    pub(super) fn abuser_of(&self, n: usize) -> &str {
        &self.abusers[n % self.abusers.len()]
    }
}

impl<'a> CorpusTemplate<'a> {
    pub(super) fn create(workspace: &'a Workspace, program: &Path) -> Result<Self> {
        let data = DataDir::create(workspace)?;
        let key = |name: &str| create_key(program, data.path(), name);
        let keys = CallerKeys {
            abusers: ABUSERS.into_iter().map(key).collect::<Result<_>>()?,
            bystander: key("bystander")?,
            preparer: key("preparer")?,
        };
        let lines: Vec<String> = (0..DOCUMENTS).map(|n| corpus_line(n).to_string()).collect();
        let corpus = data.path().join("corpus.jsonl");
        fs::write(&corpus, lines.join("\n")).context("writing the corpus")?;
        run(Command::new(program).args(["import", "--data"]).arg(data.path()).arg(&corpus))?;
        fs::remove_file(&corpus)?;
        // A server embeds the corpus once, so that no case has to wait for that.
        let mut server = serve(program, data, keys, ServerSetup::default())?;
        server.wait_until_quiet()?;
        ensure!(server.terminate()?.is_some(), "the server does not stop when told to");
        let LyceumServer { keys, data, program, .. } = server;
        Ok(Self { workspace, program, data, keys })
    }

    /// Starts a server on a copy.
    pub(super) fn start(&self, setup: ServerSetup<'_>) -> Result<LyceumServer> {
        let data = DataDir::create(self.workspace)?;
        copy(self.data.path(), data.path())?;
        serve(&self.program, data, self.keys.clone(), setup)
    }

    /// The upstream whose tools mean harm, built beside the program.
    pub(super) fn hostile_upstream(&self) -> Result<PathBuf> {
        let folder = self.program.parent().context("the program is in a folder")?;
        let upstream = fs::canonicalize(folder.join("examples/upstream"));
        upstream.context(
            "no examples/upstream beside the program: cargo build --release -p lyceum-gateway \
             --example upstream",
        )
    }
}

impl LyceumServer {
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Where an attack on it goes.
    pub(super) fn target(&self) -> AttackTarget {
        let (program, data) = (self.program.clone(), self.data.path().to_owned());
        AttackTarget { address: self.address, program, data }
    }

    /// Sends one request of the harness itself and reads the whole answer.
    pub(super) fn ask(&self, request: &RequestBytes) -> Result<HttpAnswer> {
        let mut connection = HttpConnection::open(self.address, CALL_LIMIT)?;
        connection.exchange(&request.whole(0), MOST_ANSWER, CALL_LIMIT)
    }

    /// Calls a tool to prepare something; a failure is an error with the server's words.
    pub(super) fn prepare(&self, tool: &str, arguments: &Value) -> Result<()> {
        let answer = self.ask(&request::call(&self.keys.preparer, tool, arguments))?;
        let excerpt: String = answer.text.chars().take(300).collect();
        ensure!(answer.is_success(), "cannot prepare with {tool}: {} {excerpt}", answer.status);
        Ok(())
    }

    /// Uploads a document to prepare something.
    pub(super) fn upload(&self, path: &str, content: &str) -> Result<()> {
        let arguments = json!({ "path": path, "content": content, "upsert": true });
        self.prepare("upload_document", &arguments)
    }

    /// Waits until the server does nothing, such as embedding what was prepared.
    pub(super) fn wait_until_quiet(&self) -> Result<Duration> {
        self.quiet_within(REST_LIMIT, 0.08)?.context("the server does not come to rest")
    }

    /// Whether the server is still at work so long after the last request, a bystander apart.
    pub(super) fn busy_after(&self, limit: Duration) -> Result<bool> {
        Ok(self.quiet_within(limit, 0.4)?.is_none())
    }

    /// How long it took until the server used no more than this share of a processor; `None` if
    /// that is longer than the limit.
    fn quiet_within(&self, limit: Duration, share: f64) -> Result<Option<Duration>> {
        const LOOK: Duration = Duration::from_millis(250);
        let watch = Stopwatch::start();
        let (mut before, mut quiet) = (usage::cpu_seconds(self.pid())?, 0);
        while !watch.is_past(limit) {
            thread::sleep(LOOK);
            let now = usage::cpu_seconds(self.pid())?;
            quiet = if now - before <= share * LOOK.as_secs_f64() { quiet + 1 } else { 0 };
            before = now;
            if quiet == 2 {
                return Ok(Some(watch.elapsed().saturating_sub(2 * LOOK)));
            }
        }
        Ok(None)
    }

    /// Revokes the first abuser's key with the command; how long the command took.
    pub(super) fn revoke_abuser(&self) -> Result<Duration> {
        let watch = Stopwatch::start();
        let mut command = Command::new(&self.program);
        run(command.args(["keys", "revoke", ABUSERS[0], "--data"]).arg(self.data.path()))?;
        Ok(watch.elapsed())
    }

    pub(super) fn ensure_alive(&mut self) -> Result<()> {
        self.read_log();
        self.process.ensure_alive()
    }

    /// Tells the server to stop; how long it took, or `None` when it did not in time.
    pub(super) fn terminate(&mut self) -> Result<Option<Duration>> {
        let watch = Stopwatch::start();
        run(Command::new("kill").args(["-TERM", &self.pid().to_string()]))?;
        let ended = self.process.wait_for_end(DRAIN + Duration::from_secs(15))?;
        let took = ended.map(|_| watch.elapsed());
        self.read_log();
        Ok(took)
    }

    /// Complaints since the start.
    pub(super) fn log(&mut self) -> LogTally {
        self.read_log();
        self.log.clone()
    }

    fn read_log(&mut self) {
        for line in self.process.written().lines() {
            self.log.count(line);
        }
    }
}

impl LogTally {
    const SHOWN: usize = 3;

    pub(super) fn n_complaints(&self) -> usize {
        self.warnings + self.errors
    }

    fn count(&mut self, line: &str) {
        // The level is the second word: `2026-11-18T01:02:03Z  WARN lyceum: …`. A panic has none.
        match line.split_whitespace().nth(1) {
            Some("WARN") => self.warnings += 1,
            Some("ERROR") => self.errors += 1,
            _ if line.contains("panicked at") => self.errors += 1,
            _ => return,
        }
        // The newest are the ones that the last request is to blame for, and errors come first.
        if self.lines.len() == Self::SHOWN {
            let oldest = self.lines.iter().position(|line| line.starts_with("WARN"));
            self.lines.remove(oldest.unwrap_or(0));
        }
        let words = line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
        self.lines.push(words.chars().take(200).collect());
    }
}

fn serve(
    program: &Path,
    data: DataDir,
    keys: CallerKeys,
    setup: ServerSetup<'_>,
) -> Result<LyceumServer> {
    let mut command = Command::new("sh");
    // `exec` keeps the process id, so that what is measured and killed is the server.
    let script = format!("{}\nexec \"$0\" \"$@\"", setup.shell.unwrap_or_default());
    command.arg("-c").arg(script).arg(program);
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data.path());
    if let Some(config) = setup.config {
        let file = data.path().join("abuse.toml");
        fs::write(&file, config).with_context(|| format!("writing {}", file.display()))?;
        command.arg("--config").arg(file);
    }
    command.env("LYCEUM_LIMITS_DRAIN_SECONDS", DRAIN.as_secs().to_string());
    let process = Guarded::spawn(&mut command)?;
    let url = process.wait_for(START_LIMIT, everything::url_in)?;
    let address = everything::address_of(&url)?;
    let (program, log) = (program.to_owned(), LogTally::default());
    Ok(LyceumServer { address, keys, process, data, program, log })
}

fn create_key(program: &Path, data: &Path, name: &str) -> Result<String> {
    let mut command = Command::new(program);
    command.args(["keys", "create", name, "--data"]).arg(data);
    let output = command.output().context("cannot start lyceum keys")?;
    ensure!(output.status.success(), "lyceum keys: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout).context("a key is text")?.trim().to_owned())
}

/// A document as `lyceum import` reads it from a `.jsonl` file.
fn corpus_line(n: usize) -> Value {
    const WORDS: [&str; 12] = [
        "river", "harbour", "ledger", "granite", "lantern", "orchard", "signal", "timber",
        "copper", "meadow", "engine", "archive",
    ];
    let word = |k: usize| WORDS[(n * 7 + k * 5 + k * k) % WORDS.len()];
    let sentence = |from: usize| (from..from + 9).map(word).collect::<Vec<_>>().join(" ");
    let body = format!(
        "# Note {n}\n\n{}.\n\n## Details\n\n{}. {}.\n",
        sentence(n % 5),
        sentence(n % 7),
        sentence(n % 11)
    );
    let (path, title) = (format!("notes/{n:03}.md"), format!("Note {n}"));
    json!({ "path": path, "title": title, "mime_type": "text/markdown", "content": body })
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<()> {
    let name = process::name(command);
    let finished = process::capture(command, Echo::Hide, COMMAND_LIMIT)?;
    ensure!(finished.status.success(), "{name}: {}\n{}", finished.status, finished.text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_counted_by_level() {
        let mut log = LogTally::default();
        for line in ["2026Z  WARN a: b", "2026Z ERROR a: c", "2026Z  INFO WARN", "", "WARN"] {
            log.count(line);
        }
        log.count("thread 'main' panicked at a.rs:1:2:");
        assert_eq!((log.warnings, log.errors), (1, 2));
        assert_eq!(log.lines, ["WARN a: b", "ERROR a: c", "'main' panicked at a.rs:1:2:"]);
    }
}
