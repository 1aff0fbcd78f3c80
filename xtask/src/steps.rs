//! The steps of `cargo xtask test`, in their order, and the run over them.
//!
//! A step that fails does not stop the others: one run tells everything that is wrong.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::abuse;
use crate::checks;
use crate::clients;
use crate::conformance;
use crate::everything;
use crate::fuzz;
use crate::gateway;
use crate::nginx;
use crate::stopwatch::{Stopwatch, human};
use crate::tally::Tally;
use crate::tidy;
use crate::workspace::Workspace;

/// One line of the plan.
struct Step {
    name: &'static str,
    about: &'static str,
    run: fn(&Workspace) -> Result<Tally>,
}

/// Cheap checks first, so that a small slip is told within a minute.
const STEPS: &[Step] = &[
    Step { name: "fmt", about: "formatting", run: checks::fmt },
    Step { name: "tidy", about: "house rules that no linter knows", run: tidy::run },
    Step { name: "locks", about: "lock files beside ours", run: checks::locks },
    Step { name: "clippy", about: "lints, every warning an error", run: checks::clippy },
    Step { name: "features", about: "libraries with fewer features", run: checks::features },
    Step { name: "sides", about: "lints of the benchmark", run: checks::sides },
    Step { name: "doc", about: "rustdoc, every warning an error", run: checks::doc },
    Step { name: "unit", about: "unit, integration and documentation tests", run: checks::unit },
    Step {
        name: "release",
        about: "release build of what is tested from outside",
        run: everything::build,
    },
    Step { name: "isolation", about: "tests that need optimized code", run: checks::release },
    Step { name: "abuse", about: "what abusive clients cost a bystander", run: abuse::briefly },
    Step { name: "conformance", about: "the official suite, both legs", run: conformance::run },
    Step { name: "clients", about: "the official SDKs as clients", run: clients::run },
    Step { name: "gateway", about: "both of these through the gateway", run: gateway::run },
    Step { name: "nginx", about: "streaming through a stock reverse proxy", run: nginx::run },
    Step { name: "fuzz", about: "a short run of every fuzz target", run: fuzz::briefly },
];

/// What the command line asks for.
#[derive(Debug, Default, PartialEq)]
struct Selection {
    list: bool,
    only: Vec<String>,
    skip: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode> {
    let selection = Selection::parse(args)?;
    let steps: Vec<&Step> = STEPS.iter().filter(|step| selection.wants(step.name)).collect();
    println!("plan:");
    for step in &steps {
        println!("  {:<12} {}", step.name, step.about);
    }
    if selection.list {
        return Ok(ExitCode::SUCCESS);
    }

    let watch = Stopwatch::start();
    let mut total = Tally::default();
    let mut table = Vec::new();
    for step in steps {
        let (line, tally) = run_step(workspace, step);
        table.push(line);
        total.absorb(step.name, tally);
    }
    summarize(&table, &total, &watch);
    Ok(if total.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_step(workspace: &Workspace, step: &Step) -> (String, Tally) {
    println!("\n=== {}: {}", step.name, step.about);
    let watch = Stopwatch::start();
    let tally = (step.run)(workspace).unwrap_or_else(|error| {
        let mut tally = Tally::default();
        tally.fail(format!("{error:#}"));
        tally
    });
    let verdict = if tally.failed.is_empty() { "ok" } else { "FAILED" };
    let line = format!(
        "{:<12} {verdict:<7} {:>4} passed, {} failed, {}",
        step.name,
        tally.passed,
        tally.failed.len(),
        human(watch.elapsed())
    );
    println!("--- {line}");
    for failure in &tally.failed {
        println!("    {failure}");
    }
    (line, tally)
}

fn summarize(table: &[String], total: &Tally, watch: &Stopwatch) {
    println!("\n=== summary ({})", human(watch.elapsed()));
    for line in table {
        println!("{line}");
    }
    for warning in &total.warnings {
        println!("warning: {warning}");
    }
    for failure in &total.failed {
        println!("failed: {failure}");
    }
    println!("{} passed, {} failed", total.passed, total.failed.len());
}

impl Selection {
    fn parse(args: &[String]) -> Result<Self> {
        let mut selection = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let list = match arg.as_str() {
                "--list" => {
                    selection.list = true;
                    continue;
                }
                "--only" => &mut selection.only,
                "--skip" => &mut selection.skip,
                _ => bail!("test: unknown argument {arg:?}; it takes --list, --only and --skip"),
            };
            match args.next() {
                Some(name) if STEPS.iter().any(|step| step.name == name) => list.push(name.clone()),
                other => {
                    let known: Vec<_> = STEPS.iter().map(|step| step.name).collect();
                    let other = other.map_or("nothing", String::as_str);
                    bail!("{arg} needs one of {}, not {other}", known.join(", "))
                }
            }
        }
        Ok(selection)
    }

    fn wants(&self, name: &str) -> bool {
        let among = |list: &[String]| list.iter().any(|entry| entry == name);
        (self.only.is_empty() || among(&self.only)) && !among(&self.skip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(args: &[&str]) -> Result<Vec<&'static str>> {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        let selection = Selection::parse(&args)?;
        Ok(STEPS.iter().map(|step| step.name).filter(|name| selection.wants(name)).collect())
    }

    #[test]
    fn only_and_skip_choose_steps_in_plan_order() {
        assert_eq!(wanted(&[]).unwrap().len(), STEPS.len());
        assert_eq!(wanted(&["--only", "unit", "--only", "fmt"]).unwrap(), ["fmt", "unit"]);
        assert_eq!(wanted(&["--skip", "unit"]).unwrap().len(), STEPS.len() - 1);
    }

    #[test]
    fn every_step_has_a_name_of_its_own() {
        for step in STEPS {
            assert_eq!(wanted(&["--only", step.name]).unwrap(), [step.name]);
        }
    }

    #[test]
    fn a_step_that_does_not_exist_is_refused() {
        wanted(&["--only", "units"]).unwrap_err();
        wanted(&["--only"]).unwrap_err();
        wanted(&["--fast"]).unwrap_err();
    }
}
