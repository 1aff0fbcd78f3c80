//! `cargo xtask abuse`: attacks a real server and measures what that costs an innocent bystander.
//!
//! Each case starts a server of its own, measures it idle, lets the abusive clients loose while the
//! bystander goes on, and holds processor time, memory, the bystander's p99 and errors, the
//! recovery, the revocation of the abuser's key and the end by SIGTERM against limits. The cases are
//! a table (`cases`); the hunt makes requests out of the server's own schemas (`hunt`).

mod bystander;
mod case;
mod cases;
mod child;
mod client;
mod http;
mod http2;
mod hunt;
mod measurement;
mod memory_limit;
mod report;
mod request;
mod server;
mod usage;
mod zip_bomb;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use self::case::{AbuseCase, CaseLimits};
use self::measurement::{Schedule, measure};
use self::memory_limit::ALL_CALLERS;
use self::report::{CaseReport, FREEZE_RATIO, MOST_RATIO};
use self::server::CorpusTemplate;
use crate::everything;
use crate::tally::Tally;
use crate::workspace::Workspace;

/// The names of what is not in the table of cases.
const TOGETHER: &str = "together";
const HUNT: &str = "hunt";

/// What the command line asks for.
#[derive(Debug, Default, PartialEq)]
struct AbuseOptions {
    quick: bool,
    list: bool,
    only: Vec<String>,
    /// Seconds of each attack.
    seconds: Option<u64>,
    program: Option<PathBuf>,
    /// Only all cases at once, or those of `only`.
    together: bool,
}

pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode> {
    let options = AbuseOptions::parse(args)?;
    if options.list {
        list();
        return Ok(ExitCode::SUCCESS);
    }
    let tally = attack(workspace, &options)?;
    for failure in &tally.failed {
        println!("failed: {failure}");
    }
    println!("{} passed, {} failed", tally.passed, tally.failed.len());
    Ok(if tally.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The fast subset, as a step of `cargo xtask test`.
pub(crate) fn briefly(workspace: &Workspace) -> Result<Tally> {
    attack(workspace, &AbuseOptions { quick: true, ..AbuseOptions::default() })
}

fn list() {
    for case in cases::all() {
        let quick = if case.quick { "quick" } else { "" };
        println!("{:<17} {quick:<6} {}", case.name, case.about);
    }
    println!("{HUNT:<17}        every argument of every tool and route, with hostile values");
    println!("{TOGETHER:<17}        all cases at once");
}

fn attack(workspace: &Workspace, options: &AbuseOptions) -> Result<Tally> {
    let program = match &options.program {
        Some(program) => program.clone(),
        None => everything::lyceum(workspace)?,
    };
    let template = CorpusTemplate::create(workspace, &program)?;
    let cases = cases::all();
    let mut tally = Tally::default();
    println!("{}", CaseReport::HEADER);
    for case in cases.iter().filter(|case| options.wants_case(case)) {
        let attempt = || {
            let measured = measure(&template, &[case], options.schedule());
            measured
                .map(|found| CaseReport::judge(case.name, found, case.limits, options.most_ratio()))
        };
        let report = match attempt() {
            Ok(report) if report.may_be_noise() => {
                println!(
                    "{}\n    once more, because others may have kept the machine busy",
                    report.line()
                );
                attempt()
            }
            report => report,
        };
        conclude(&mut tally, case.name, report);
    }
    if options.wants(HUNT, false) {
        let findings = hunt::run(&template, options.quick)?;
        tally.passed += usize::from(findings.is_empty());
        for finding in findings {
            tally.fail(format!("{HUNT}: {finding}"));
        }
    }
    if options.wants(TOGETHER, false) {
        let all: Vec<&AbuseCase> = cases.iter().filter(|case| options.joins(case)).collect();
        let measured = measure(&template, &all, options.schedule_of_all());
        let limits = CaseLimits { memory: ALL_CALLERS, ..CaseLimits::USUAL };
        let report = measured.map(|found| CaseReport::judge(TOGETHER, found, limits, MOST_RATIO));
        conclude(&mut tally, TOGETHER, report);
    }
    Ok(tally)
}

/// Prints a row and counts it.
fn conclude(tally: &mut Tally, name: &str, report: Result<CaseReport>) {
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            println!("{name:<16} not measured: {error:#}");
            tally.fail(format!("{name}: {error:#}"));
            return;
        }
    };
    println!("{}", report.line());
    for remark in report.remarks() {
        println!("    {remark}");
    }
    if report.faults.is_empty() {
        tally.passed += 1;
    }
    for fault in report.faults {
        tally.fail(format!("{name}: {fault}"));
    }
}

impl AbuseOptions {
    fn parse(args: &[String]) -> Result<Self> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--quick" => options.quick = true,
                "--list" => options.list = true,
                "--together" => options.together = true,
                "--only" => options.only.push(known(value()?)?),
                "--seconds" => {
                    let seconds = value()?.parse().context("--seconds takes a number")?;
                    options.seconds = Some(seconds);
                }
                "--program" => options.program = Some(value()?.into()),
                _ => bail!(
                    "abuse: unknown argument {arg:?}; it takes --quick, --only CASE, --list, \
                     --seconds N, --program PATH and --together"
                ),
            }
        }
        Ok(options)
    }

    fn wants(&self, name: &str, quick: bool) -> bool {
        if self.together {
            return name == TOGETHER;
        }
        if self.only.is_empty() {
            quick || !self.quick
        } else {
            self.only.iter().any(|only| only == name)
        }
    }

    /// Whether a case takes part when all attack at once.
    fn joins(&self, case: &AbuseCase) -> bool {
        let chosen = !self.together || self.only.is_empty();
        case.together && (chosen || self.only.iter().any(|only| only == case.name))
    }

    fn most_ratio(&self) -> f64 {
        if self.quick { FREEZE_RATIO } else { MOST_RATIO }
    }

    fn wants_case(&self, case: &AbuseCase) -> bool {
        self.wants(case.name, case.quick)
    }

    fn schedule(&self) -> Schedule {
        let (idle, attack) = if self.quick { (1000, 3) } else { (3000, 6) };
        Schedule {
            idle: Duration::from_millis(idle),
            attack: Duration::from_secs(self.seconds.unwrap_or(attack)),
            stop_under_attack: false,
        }
    }

    /// All attack for a minute, and the server is told to stop while they do.
    fn schedule_of_all(&self) -> Schedule {
        Schedule {
            idle: Duration::from_secs(5),
            attack: Duration::from_secs(self.seconds.unwrap_or(60)),
            stop_under_attack: true,
        }
    }
}

fn known(name: &str) -> Result<String> {
    let all = cases::all();
    let mut names: Vec<&str> = all.iter().map(|case| case.name).collect();
    names.extend([HUNT, TOGETHER]);
    if !names.contains(&name) {
        bail!("--only needs one of {}, not {name}", names.join(", "));
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<AbuseOptions> {
        AbuseOptions::parse(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn by_itself_it_runs_everything_and_quick_runs_a_part() {
        let all = parsed(&[]).unwrap();
        assert!(all.wants("listen", false) && all.wants(TOGETHER, false));
        let quick = parsed(&["--quick"]).unwrap();
        assert!(quick.wants("diffs", true) && !quick.wants(TOGETHER, false));
    }

    #[test]
    fn only_and_together_choose() {
        let only = parsed(&["--only", "diffs", "--seconds", "3"]).unwrap();
        assert!(only.wants("diffs", true) && !only.wants("listen", false));
        assert_eq!(only.schedule().attack, Duration::from_secs(3));
        let some = parsed(&["--together", "--only", "diffs"]).unwrap();
        let all = cases::all();
        let joining: Vec<_> = all.iter().filter(|case| some.joins(case)).collect();
        assert!(joining.len() == 1 && joining[0].name == "diffs");
        let together = parsed(&["--together"]).unwrap();
        assert!(together.wants(TOGETHER, false) && !together.wants("diffs", true));
    }

    #[test]
    fn what_does_not_exist_is_refused() {
        parsed(&["--only", "differences"]).unwrap_err();
        parsed(&["--fast"]).unwrap_err();
        parsed(&["--seconds"]).unwrap_err();
    }
}
