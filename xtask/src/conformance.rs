//! The official conformance suite, both legs: its server scenarios against `everything`, its
//! client scenarios on the conformance client.
//!
//! There is no list of expected failures. Each scenario's `checks.json` decides, not the suite's
//! exit code, which forgives whatever a requirement set does not score. The number of scenarios is
//! asserted too, so that a run that silently became shorter fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::everything::{self, Everything};
use crate::process::{self, Echo};
use crate::tally::Tally;
use crate::tools;
use crate::workspace::Workspace;

mod verdict;

pub(crate) use verdict::{Exception, Verdict};

/// A leg is some fifty scenarios of at most 30 s; a healthy one ends within ten seconds.
const LEG_LIMIT: Duration = Duration::from_secs(10 * 60);

/// One call of the suite.
struct Leg {
    name: &'static str,
    args: &'static [&'static str],
    n_scenarios: usize,
}

/// The requirement sets hold the scored scenarios and the pending, extension and later ones.
/// The skills extension is in neither set, so its scenarios are named.
const SERVER_LEGS: &[Leg] = &[
    Leg { name: "2026-07-28", args: &["--requirements", "2026-07-28"], n_scenarios: 50 },
    Leg { name: "2025-11-25", args: &["--requirements", "2025-11-25"], n_scenarios: 33 },
    Leg {
        name: "2025-06-18",
        args: &["--suite", "all", "--spec-version", "2025-06-18"],
        n_scenarios: 27,
    },
    Leg {
        name: "2025-03-26",
        args: &["--suite", "all", "--spec-version", "2025-03-26"],
        n_scenarios: 1,
    },
    Leg {
        name: "skills-directory",
        args: &["--scenario", "sep-2640-skills-directory"],
        n_scenarios: 1,
    },
    Leg {
        name: "skills-enumeration",
        args: &["--scenario", "sep-2640-skills-enumeration"],
        n_scenarios: 1,
    },
    Leg {
        name: "skills-manifest",
        args: &["--scenario", "sep-2640-skills-manifest"],
        n_scenarios: 1,
    },
];

/// The same for the client, authorization included.
const CLIENT_LEGS: &[Leg] = &[
    Leg { name: "client-2026-07-28", args: &["--requirements", "2026-07-28"], n_scenarios: 35 },
    Leg { name: "client-2025-11-25", args: &["--requirements", "2025-11-25"], n_scenarios: 21 },
    Leg {
        name: "client-2025-03-26-metadata",
        args: &["--scenario", "auth/2025-03-26-oauth-metadata-backcompat"],
        n_scenarios: 1,
    },
    Leg {
        name: "client-2025-03-26-fallback",
        args: &["--scenario", "auth/2025-03-26-oauth-endpoint-fallback"],
        n_scenarios: 1,
    },
];

/// Client scenarios of extensions that the client does not have. A requirement set runs them along
/// and does not score them; they are in no count here.
const NOT_OURS: &[&str] = &[
    // Proofs of possession (SEP-1932, a draft).
    "auth/dpop",
    "auth/dpop-nonce",
    // Tokens traded with an identity provider of the user's employer (SEP-990).
    "auth/enterprise-managed-authorization",
    // Tokens of the platform a workload runs on (SEP-1933, a draft).
    "auth/wif-jwt-bearer",
];

pub(crate) fn run(workspace: &Workspace) -> Result<Tally> {
    let suite = Suite::install(workspace)?;
    let mut tally = Tally::default();
    server_legs(&suite, &mut tally)?;
    client_legs(&suite, &mut tally)?;
    Ok(tally)
}

fn server_legs(suite: &Suite<'_>, tally: &mut Tally) -> Result<()> {
    let mut server = Everything::start(suite.workspace)?;
    for leg in SERVER_LEGS {
        let mut command = suite.command("server");
        command.args(["--url", &server.url]).args(leg.args);
        let verdict = suite.run(&mut command, leg.name, Verdict::of_server)?;
        verdict.expect_scenarios(leg.name, leg.n_scenarios, tally);
        server.ensure_alive()?;
    }
    Ok(())
}

fn client_legs(suite: &Suite<'_>, tally: &mut Tally) -> Result<()> {
    let client = everything::client(suite.workspace)?;
    for leg in CLIENT_LEGS {
        let mut command = suite.command("client");
        command.arg("--command").arg(&client).args(leg.args);
        let read = |dir: &Path| Ok(Verdict::read(dir, "")?.without(NOT_OURS));
        let verdict = suite.run(&mut command, leg.name, read)?;
        verdict.expect_scenarios(leg.name, leg.n_scenarios, tally);
    }
    Ok(())
}

/// The installed suite.
pub(crate) struct Suite<'a> {
    workspace: &'a Workspace,
    node: PathBuf,
    entry: PathBuf,
}

impl<'a> Suite<'a> {
    pub(crate) fn install(workspace: &'a Workspace) -> Result<Self> {
        let node = tools::node(workspace)?;
        let entry = tools::conformance(workspace)?;
        Ok(Self { workspace, node, entry })
    }

    pub(crate) fn command(&self, leg: &str) -> Command {
        let mut command = Command::new(&self.node);
        command.arg(&self.entry).arg(leg);
        command
    }

    /// Runs one call into a fresh folder, keeps its log there, and reads the checks.
    pub(crate) fn run(
        &self,
        command: &mut Command,
        name: &str,
        read: impl FnOnce(&Path) -> Result<Verdict>,
    ) -> Result<Verdict> {
        let dir = self.workspace.target().join("conformance").join(name);
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("removing {}", dir.display()))?;
        }
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        let finished = process::capture(command.arg("-o").arg(&dir), Echo::Hide, LEG_LIMIT)?;
        fs::write(dir.join("log.txt"), &finished.text)?;
        let mut verdict = read(&dir)?;
        println!("{name}: {}", verdict.summary());
        if !finished.status.success() && verdict.is_clean() {
            println!("{}", tail(&finished.text));
            verdict.complain(format!("the suite ended with {} all the same", finished.status));
        }
        Ok(verdict)
    }
}

/// The end of a log, enough to see why a program gave up.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(25)..].join("\n")
}

/// Results are folders; anything else below the output directory is ours.
fn folders(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}
