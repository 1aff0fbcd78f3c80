//! What the doctor found, as a table for people and as JSON for programs.

use std::fmt;

use serde::Serialize;

use crate::terminal::one_line;

/// How well the server does on one point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// As the specification has it.
    Ok,
    /// Allowed, but some clients will stumble.
    Warn,
    /// Against the specification, or unsafe.
    Bad,
}

/// One probe's outcome.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Finding {
    pub(crate) check: &'static str,
    pub(crate) seen: String,
    pub(crate) verdict: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<&'static str>,
}

/// Everything the doctor found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) url: String,
    pub(crate) findings: Vec<Finding>,
}

impl Report {
    /// Whether nothing is bad.
    pub(crate) fn is_healthy(&self) -> bool {
        self.findings.iter().all(|finding| finding.verdict != Verdict::Bad)
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.findings.iter().filter(|finding| finding.verdict == verdict).count()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Bad => "bad",
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |text: fn(&Finding) -> usize| self.findings.iter().map(text).max().unwrap_or(0);
        let check = width(|finding| finding.check.chars().count());
        let seen = width(|finding| one_line(&finding.seen).chars().count());
        writeln!(f, "{}\n", self.url)?;
        writeln!(f, "{:check$}  {:seen$}  verdict", "check", "seen")?;
        for finding in &self.findings {
            let Finding { check: name, verdict, .. } = finding;
            let what = one_line(&finding.seen);
            writeln!(f, "{name:check$}  {what:seen$}  {verdict}")?;
        }
        let fixes = self.findings.iter().filter_map(|finding| Some((finding, finding.fix?)));
        for (number, (finding, fix)) in fixes.enumerate() {
            if number == 0 {
                writeln!(f, "\nwhat to fix")?;
            }
            writeln!(f, "  {} {}: {fix}", finding.verdict, finding.check)?;
        }
        let [ok, warn, bad] = [Verdict::Ok, Verdict::Warn, Verdict::Bad].map(|v| self.count(v));
        write!(f, "\n{ok} ok, {warn} warn, {bad} bad")
    }
}
