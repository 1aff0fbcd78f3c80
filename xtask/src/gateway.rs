//! The gateway from outside: the official conformance suite, the official SDKs and a server of other
//! people, each with `lyceum serve` in between.
//!
//! The suite's two requirement sets run in front of `everything` over HTTP and over stdio, and in
//! front of builds of it that know only the other era. What cannot apply there is in `exceptions`.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result};
use serde_json::json;

use crate::clients;
use crate::conformance::{Exception, Suite, Verdict};
use crate::everything::{self, Everything};
use crate::stopwatch::{Stopwatch, human};
use crate::tally::Tally;
use crate::tools;
use crate::versions;
use crate::workspace::Workspace;

mod exceptions;
mod front;

use exceptions::{OF_A_LEGACY_SERVER, OF_ANY_SERVER};
use front::Front;

/// Legs wait more than they work, most of all where a scenario cannot apply.
const N_WORKERS: usize = 3;

/// The endpoint in front of `everything`: its tools and no others, under their own names, because
/// the suite and the scripts ask for them by name.
const EVERYTHING_ALONE: &str = r#"
[[endpoint]]
path = "/mcp"
http_sse = true
tools = [
    "confirm_delete", "echo", "failing_job", "greet", "json_schema_*", "multi_input",
    "protocol_error_job", "slow_compute", "test_*",
]

[[upstream]]
name = "everything"
prefix = ""
"#;

/// How the gateway reaches `everything`.
#[derive(Clone, Copy, Debug)]
enum Reach {
    Http,
    Stdio,
}

/// One requirement set through the gateway.
struct Leg {
    name: &'static str,
    reach: Reach,
    flags: &'static [&'static str],
    requirements: &'static str,
    n_scenarios: usize,
    exceptions: &'static [Exception],
}

/// Those that take longest first.
const LEGS: [Leg; 8] = [
    leg("http legacy-only", Reach::Http, &["--legacy-only"], MODERN, OF_A_LEGACY_SERVER),
    leg("stdio legacy-only", Reach::Stdio, &["--legacy-only"], MODERN, OF_A_LEGACY_SERVER),
    leg("http", Reach::Http, &[], MODERN, &[]),
    leg("stdio", Reach::Stdio, &[], MODERN, &[]),
    leg("http", Reach::Http, &[], LEGACY, OF_ANY_SERVER),
    leg("stdio", Reach::Stdio, &[], LEGACY, OF_ANY_SERVER),
    leg("http modern-only", Reach::Http, &["--modern-only"], LEGACY, OF_ANY_SERVER),
    leg("stdio modern-only", Reach::Stdio, &["--modern-only"], LEGACY, OF_ANY_SERVER),
];

/// A requirement set and how many scenarios it has.
const MODERN: (&str, usize) = ("2026-07-28", 50);
const LEGACY: (&str, usize) = ("2025-11-25", 33);

const fn leg(
    name: &'static str,
    reach: Reach,
    flags: &'static [&'static str],
    (requirements, n_scenarios): (&'static str, usize),
    exceptions: &'static [Exception],
) -> Leg {
    Leg { name, reach, flags, requirements, n_scenarios, exceptions }
}

/// What every part of the step needs.
struct Setup<'a> {
    workspace: &'a Workspace,
    everything: PathBuf,
    lyceum: PathBuf,
}

pub(crate) fn run(workspace: &Workspace) -> Result<Tally> {
    let suite = Suite::install(workspace)?;
    let everything = everything::server(workspace)?;
    let lyceum = everything::lyceum(workspace)?;
    let setup = Setup { workspace, everything, lyceum };
    let mut tally = Tally::default();
    setup.suite(&suite, &mut tally);
    setup.sdks(&mut tally)?;
    setup.reference_server(&mut tally)?;
    Ok(tally)
}

impl Setup<'_> {
    /// Every leg, several at a time; one that cannot run fails for itself.
    fn suite(&self, suite: &Suite<'_>, tally: &mut Tally) {
        let waiting = Mutex::new(LEGS.iter());
        let shared = Mutex::new(tally);
        thread::scope(|scope| {
            for _ in 0..N_WORKERS {
                scope.spawn(|| {
                    loop {
                        let next = waiting.lock().expect("no worker panics").next();
                        let Some(leg) = next else { break };
                        let mut outcome = Tally::default();
                        if let Err(error) = self.run_leg(suite, leg, &mut outcome) {
                            outcome.fail(format!("{error:#}"));
                        }
                        let origin = format!("{} {}", leg.name, leg.requirements);
                        shared.lock().expect("no worker panics").absorb(&origin, outcome);
                    }
                });
            }
        });
    }

    fn run_leg(&self, suite: &Suite<'_>, leg: &Leg, tally: &mut Tally) -> Result<()> {
        let watch = Stopwatch::start();
        let name = format!("gateway-{}-{}", leg.name.replace(' ', "-"), leg.requirements);
        let (_server, mut front) = self.everything_behind(leg.reach, leg.flags)?;
        let mut command = suite.command("server");
        command.args(["--url", &front.url, "--requirements", leg.requirements]);
        let read = |dir: &Path| Ok(Verdict::of_server(dir)?.except(leg.exceptions));
        let verdict = suite.run(&mut command, &name, read)?;
        verdict.expect_scenarios("suite", leg.n_scenarios, tally);
        println!("{name}: took {}", human(watch.elapsed()));
        front.ensure_alive()
    }

    /// The scripts that test `everything` directly.
    fn sdks(&self, tally: &mut Tally) -> Result<()> {
        let (_server, mut front) = self.everything_behind(Reach::Http, &[])?;
        for script in &clients::scripts(self.workspace)? {
            tally.absorb(&script.name, script.against(&front.url, None)?);
            front.ensure_alive()?;
        }
        Ok(())
    }

    /// A server that shares no code with ours, over stdio, for a client of the other era.
    fn reference_server(&self, tally: &mut Tally) -> Result<()> {
        let node = tools::node(self.workspace)?;
        let entry = tools::reference_server(self.workspace)?;
        let command = command_setting(&[text(&node)?, text(&entry)?, "stdio"]);
        let config = format!("[[upstream]]\nname = \"reference\"\n{command}\n");
        let mut front = Front::start(self.workspace, &self.lyceum, &config)?;
        let mut script = clients::python(self.workspace, versions::PYTHON_SDK_2, "reference.py")?;
        script.name = format!("reference server {}", versions::REFERENCE_SERVER);
        let outcome = script.run(script.command().args(["--url", &front.url]))?;
        tally.absorb(&script.name, outcome);
        front.ensure_alive()
    }

    /// A gateway in front of `everything`, and the latter where it is a server of its own.
    fn everything_behind(
        &self,
        reach: Reach,
        flags: &[&str],
    ) -> Result<(Option<Everything>, Front)> {
        let (server, target) = match reach {
            Reach::Http => {
                let server = Everything::start_with(self.workspace, &self.everything, flags)?;
                let target = format!("url = {}", json!(server.url));
                (Some(server), target)
            }
            Reach::Stdio => {
                let command = [&[text(&self.everything)?, "--stdio"], flags].concat();
                (None, command_setting(&command))
            }
        };
        let config = format!("{EVERYTHING_ALONE}{target}\n");
        Ok((server, Front::start(self.workspace, &self.lyceum, &config)?))
    }
}

/// JSON's arrays of strings are TOML's too.
fn command_setting(words: &[&str]) -> String {
    format!("command = {}", json!(words))
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}
