//! What the suite's result files say about one run.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::folders;
use crate::tally::Tally;

/// Scenarios that skip all their checks: one always does in this release of the suite, the others
/// when a server does not declare the skills extension.
const MAY_BE_SKIPPED: &[&str] = &[
    "tasks-status-notifications",
    "sep-2640-skills-directory",
    "sep-2640-skills-enumeration",
    "sep-2640-skills-manifest",
];

/// `-2026-11-15T21-30-49-300Z`, which the suite appends to a scenario's name.
const TIMESTAMP_LENGTH: usize = 25;

/// The outcome of one scenario.
#[derive(Debug, PartialEq)]
struct Scenario {
    name: String,
    n_passed: usize,
    failures: Vec<String>,
    warnings: Vec<String>,
    skipped: bool,
    /// It, or a part of it, cannot apply; what is left of it counts as no pass.
    excepted: bool,
}

/// A scenario that cannot apply to what is tested, or some of its checks.
#[derive(Debug)]
pub(crate) struct Exception {
    pub(crate) scenario: &'static str,
    /// The checks that cannot pass, by their ids; the others must. Empty: the whole scenario.
    pub(crate) checks: &'static [&'static str],
    pub(crate) reason: &'static str,
}

/// The outcome of one call of the suite.
#[derive(Debug)]
pub(crate) struct Verdict {
    scenarios: Vec<Scenario>,
    /// What was wrong apart from the checks.
    complaints: Vec<String>,
}

impl Verdict {
    /// What the suite found about a server.
    pub(crate) fn of_server(dir: &Path) -> Result<Self> {
        Self::read(dir, "server-")
    }

    /// Reads every `checks.json` below `dir`; `prefix` is what the suite puts before the name.
    pub(super) fn read(dir: &Path, prefix: &str) -> Result<Self> {
        let mut scenarios = Vec::new();
        for (group, folder) in scenario_folders(dir)? {
            let file = folder.join("checks.json");
            let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let name = name.strip_prefix(prefix).unwrap_or(name);
            let name = &name[..name.len().saturating_sub(TIMESTAMP_LENGTH)];
            let name = &format!("{group}{name}");
            // A scenario that does not apply leaves a folder without checks; then it has none
            // that passed, which is a failure below.
            let text = fs::read_to_string(&file).unwrap_or_else(|_| "[]".to_owned());
            let context = || format!("reading {}", file.display());
            scenarios.push(Scenario::parse(name, &text).with_context(context)?);
        }
        Ok(Self { scenarios, complaints: Vec::new() })
    }

    /// The same without the scenarios of these names.
    pub(super) fn without(mut self, names: &[&str]) -> Self {
        self.scenarios.retain(|one| !names.contains(&one.name.as_str()));
        self
    }

    /// The same with the failures taken away that an exception explains. An exception that explains
    /// nothing is a failure itself, so that a list of them stays true.
    pub(crate) fn except(mut self, exceptions: &[Exception]) -> Self {
        for exception in exceptions {
            let name = exception.scenario;
            match self.scenarios.iter_mut().find(|one| one.name == name) {
                Some(scenario) => scenario.except(exception),
                None => self.complaints.push(format!("{name} did not run, but is excepted")),
            }
        }
        self
    }

    /// Whether the suite itself should have been content.
    pub(super) fn is_clean(&self) -> bool {
        let is_clean = |one: &Scenario| one.failures.is_empty() && !one.excepted;
        !self.scenarios.is_empty() && self.scenarios.iter().all(is_clean)
    }

    pub(super) fn complain(&mut self, complaint: String) {
        self.complaints.push(complaint);
    }

    pub(super) fn summary(&self) -> String {
        let sum = |count: fn(&Scenario) -> usize| self.scenarios.iter().map(count).sum::<usize>();
        format!(
            "{} scenarios, {} of them with exceptions, {} checks passed, {} failed, {} warnings",
            self.scenarios.len(),
            sum(|one| usize::from(one.excepted)),
            sum(|one| one.n_passed),
            sum(|one| one.failures.len()),
            sum(|one| one.warnings.len())
        )
    }

    /// Adds each scenario to the tally and holds their number against what a full run has.
    pub(crate) fn expect_scenarios(&self, run: &str, n_expected: usize, tally: &mut Tally) {
        let n_found = self.scenarios.len();
        if n_found != n_expected {
            tally.fail(format!("{run}: {n_found} scenarios ran, not {n_expected}"));
        }
        for complaint in &self.complaints {
            tally.fail(format!("{run}: {complaint}"));
        }
        for scenario in &self.scenarios {
            let name = &scenario.name;
            for failure in &scenario.failures {
                tally.fail(format!("{run} {name}: {failure}"));
            }
            for warning in &scenario.warnings {
                tally.warn(format!("{run} {name}: {warning}"));
            }
            let counts = !scenario.skipped && !scenario.excepted && self.complaints.is_empty();
            tally.passed += usize::from(counts && scenario.failures.is_empty());
        }
    }
}

/// The folder of each scenario, with the group that its name begins with: scenarios called
/// `auth/…` lie one level deeper.
fn scenario_folders(dir: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for folder in folders(dir)? {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_group = name.len() <= TIMESTAMP_LENGTH;
        match is_group {
            true => found.extend(folders(&folder)?.into_iter().map(|at| (format!("{name}/"), at))),
            false => found.push((String::new(), folder)),
        }
    }
    Ok(found)
}

impl Scenario {
    fn parse(name: &str, text: &str) -> Result<Self> {
        let mut scenario = Self {
            name: name.to_owned(),
            n_passed: 0,
            failures: Vec::new(),
            warnings: Vec::new(),
            skipped: false,
            excepted: false,
        };
        let may_be_skipped = MAY_BE_SKIPPED.contains(&name);
        let checks: Vec<Value> = serde_json::from_str(text)?;
        for check in &checks {
            match check["status"].as_str().unwrap_or_default() {
                "SUCCESS" => scenario.n_passed += 1,
                "FAILURE" => scenario.failures.push(describe(check)),
                "WARNING" => scenario.warnings.push(describe(check)),
                "SKIPPED" if may_be_skipped => scenario.skipped = true,
                "SKIPPED" => scenario.warnings.push(format!("skipped: {}", describe(check))),
                "INFO" => {}
                other => bail!("a check has the unknown status {other:?}"),
            }
        }
        if scenario.n_passed == 0 && scenario.failures.is_empty() && !scenario.skipped {
            scenario.failures.push("no check ran".to_owned());
        }
        Ok(scenario)
    }

    fn except(&mut self, exception: &Exception) {
        self.excepted = true;
        let mut stale = Vec::new();
        if exception.checks.is_empty() {
            if self.failures.is_empty() {
                stale.push("it passes".to_owned());
            }
            self.failures.clear();
        }
        for check in exception.checks {
            let is_other = |line: &String| line.split_once(": ").is_none_or(|(id, _)| id != *check);
            let n_before = self.failures.len() + self.warnings.len();
            self.failures.retain(is_other);
            self.warnings.retain(is_other);
            if self.failures.len() + self.warnings.len() == n_before {
                stale.push(format!("{check} passes"));
            }
        }
        let reason = exception.reason;
        let told = stale.iter().map(|what| format!("{what} although it cannot apply: {reason}"));
        self.failures.extend(told);
    }
}

/// `check-id: why`, in one line.
fn describe(check: &Value) -> String {
    let id = check["id"].as_str().unwrap_or("unnamed check");
    let why = [&check["errorMessage"], &check["details"]["message"], &check["description"]]
        .into_iter()
        .find_map(Value::as_str)
        .unwrap_or("no reason given");
    let mut line = format!("{id}: {}", why.replace('\n', " "));
    if let Some(violations) = check["details"].get("violations") {
        line.push_str(&format!(" {violations}"));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tallies one scenario with the given checks, as `[status]` lists.
    fn check(name: &str, statuses: &[&str], passed: usize, failed: usize, warned: usize) {
        let checks: Vec<Value> = statuses
            .iter()
            .map(|status| serde_json::json!({"id": "c", "status": status, "errorMessage": "why"}))
            .collect();
        let text = serde_json::to_string(&checks).unwrap();
        let verdict = Verdict {
            scenarios: vec![Scenario::parse(name, &text).unwrap()],
            complaints: Vec::new(),
        };
        let mut tally = Tally::default();
        verdict.expect_scenarios("run", 1, &mut tally);
        let found = (tally.passed, tally.failed.len(), tally.warnings.len());
        assert_eq!(found, (passed, failed, warned), "{tally:?}");
    }

    #[test]
    fn one_failed_check_fails_a_scenario() {
        check("ping", &["SUCCESS", "SUCCESS"], 1, 0, 0);
        check("ping", &["SUCCESS", "FAILURE"], 0, 1, 0);
        check("ping", &["SUCCESS", "WARNING", "INFO"], 1, 0, 1);
    }

    #[test]
    fn a_scenario_without_a_passed_check_fails() {
        check("ping", &[], 0, 1, 0);
        check("ping", &["INFO"], 0, 1, 0);
        check("ping", &["SKIPPED"], 0, 1, 1);
    }

    #[test]
    fn a_scenario_the_suite_always_skips_neither_passes_nor_fails() {
        check("tasks-status-notifications", &["SKIPPED"], 0, 0, 0);
    }

    /// What is left of a scenario with these failed checks under one exception.
    fn excepted(failed: &[&str], scenario: &'static str, checks: &'static [&'static str]) -> Tally {
        let mut ping = Scenario::parse("ping", r#"[{"id":"c","status":"SUCCESS"}]"#).unwrap();
        ping.failures = failed.iter().map(|id| format!("{id}: why")).collect();
        let exception = Exception { scenario, checks, reason: "it is old" };
        let verdict = Verdict { scenarios: vec![ping], complaints: Vec::new() };
        let mut tally = Tally::default();
        verdict.except(&[exception]).expect_scenarios("run", 1, &mut tally);
        assert_eq!(tally.passed, 0, "what is excepted is no pass");
        tally
    }

    #[test]
    fn an_exception_explains_only_what_it_names() {
        assert!(excepted(&["a", "b"], "ping", &[]).failed.is_empty());
        assert!(excepted(&["a", "b"], "ping", &["a", "b"]).failed.is_empty());
        assert_eq!(excepted(&["a", "b"], "ping", &["a"]).failed, ["run ping: b: why"]);
    }

    #[test]
    fn an_exception_that_explains_nothing_fails() {
        let stale = "although it cannot apply: it is old";
        assert_eq!(excepted(&[], "ping", &[]).failed, [format!("run ping: it passes {stale}")]);
        let half = excepted(&["a"], "ping", &["a", "b"]);
        assert_eq!(half.failed, [format!("run ping: b passes {stale}")]);
        let gone = excepted(&[], "pong", &[]);
        assert_eq!(gone.failed, ["run: pong did not run, but is excepted"]);
    }

    #[test]
    fn a_shorter_run_fails() {
        let mut tally = Tally::default();
        Verdict { scenarios: Vec::new(), complaints: Vec::new() }.expect_scenarios(
            "2025-11-25",
            33,
            &mut tally,
        );
        assert_eq!(tally.failed, ["2025-11-25: 0 scenarios ran, not 33"]);
    }

    #[test]
    fn an_unknown_status_is_an_error() {
        Scenario::parse("ping", r#"[{"id":"c","status":"MAYBE"}]"#).unwrap_err();
        Scenario::parse("ping", "{").unwrap_err();
    }
}
