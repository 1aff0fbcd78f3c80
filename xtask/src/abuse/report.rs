//! The table of what was measured, and the verdict on each row.

use std::time::Duration;

use super::bystander::{Experience, OPERATIONS};
use super::case::CaseLimits;
use super::measurement::Measurement;
use super::server::DRAIN;

/// The bystander's p99 under attack may be so many times its p99 without.
pub(super) const MOST_RATIO: f64 = 10.0;
/// The same in every test run, where the noise of a busy machine must not decide: a server that freezes is far beyond it.
pub(super) const FREEZE_RATIO: f64 = 100.0;
/// A p99 below this counts as this, so that the noise of a tiny number does not decide.
const IDLE_FLOOR_MS: f64 = 2.0;
/// Processors that others may take before latencies say little.
const MOST_FOREIGN_CPU: f64 = 0.3;
/// The bystander must be served as before so long after the abusive clients hung up.
pub(super) const RECOVERY_LIMIT: Duration = Duration::from_secs(15);
/// The server must have ended so long after SIGTERM.
const STOP_LIMIT: Duration = Duration::from_secs(DRAIN.as_secs() + 5);
/// `lyceum keys revoke` must be done in this time, on processors that are busy,
const REVOKE_COMMAND_LIMIT: Duration = Duration::from_secs(5);
/// and the key refused so long after it.
const REVOKE_LIMIT: Duration = Duration::from_secs(1);

/// A row of the table with its faults.
#[derive(Debug)]
pub(super) struct CaseReport {
    pub(super) name: String,
    pub(super) measurement: Measurement,
    /// Every limit that was exceeded, in words.
    pub(super) faults: Vec<String>,
    most_ratio: f64,
}

impl CaseReport {
    pub(super) fn judge(
        name: &str,
        measurement: Measurement,
        limits: CaseLimits,
        most_ratio: f64,
    ) -> Self {
        let faults = faults(&measurement, limits, most_ratio);
        Self { name: name.to_owned(), measurement, faults, most_ratio }
    }

    pub(super) const HEADER: &'static str = "\
case              sent  ok/refused/cut  CPU s (own, foreign)  peak+ kept+ child MiB  \
p99 ms get/search/upload idle -> attacked  ratio  errors  recover  stop  revoke  warn/err  verdict";

    pub(super) fn line(&self) -> String {
        let Measurement { requests: [sent, done, refused, cut], log, .. } = &self.measurement;
        let measured = &self.measurement;
        let p99 = format!("{} -> {}", p99s(&measured.idle), p99s(&measured.attacked));
        let errors: usize = measured.attacked.iter().map(|calls| calls.errors).sum();
        let revoke = match measured.revocation {
            None => "-".to_owned(),
            Some(revocation) => seconds(revocation.effect),
        };
        format!(
            "{:<16} {sent:>5}  {:<14} {:>6.1} {:>5.1} {:>7.1} {:>8.0} {:>5.0} {:>5.0}      {p99:<40}  {:>5.1}  {errors:>6}  {:>7} {:>5}  {revoke:>6}  {:>8}  {}",
            self.name,
            format!("{done}/{refused}/{cut}"),
            measured.cpu_seconds,
            measured.own_cpu_seconds,
            measured.foreign_cpu_seconds,
            measured.peak_mib,
            measured.kept_mib,
            measured.child_mib,
            ratio(&measured.idle, &measured.attacked),
            seconds(measured.recovery),
            seconds(measured.stop),
            format!("{}/{}", log.warnings, log.errors),
            if self.faults.is_empty() { "ok" } else { "FAILED" },
        )
    }

    /// Whether nothing but the bystander's p99 is wrong, which a busy machine can be the cause of.
    pub(super) fn may_be_noise(&self) -> bool {
        let ratio = ratio(&self.measurement.idle, &self.measurement.attacked);
        self.faults.len() == 1 && ratio < 5.0 * self.most_ratio && ratio > self.most_ratio
    }

    /// What deserves a look besides the numbers: faults, errors in words, complaints in the log.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks: Vec<String> =
            self.faults.iter().map(|fault| format!("FAILED: {fault}")).collect();
        for (name, calls) in OPERATIONS.iter().zip(&self.measurement.attacked) {
            remarks.extend(calls.words.iter().map(|words| format!("{name}: {words}")));
        }
        let foreign = self.measurement.foreign_cpu_seconds;
        if foreign > MOST_FOREIGN_CPU * self.measurement.attack.as_secs_f64() {
            remarks.push("other processes kept the machine busy; latencies say little".to_owned());
        }
        remarks.extend(self.measurement.log.lines.iter().map(|line| format!("log: {line}")));
        remarks
    }
}

/// The worst of all operations: p99 under attack divided by p99 without, which counts as 2 ms at
/// least.
pub(super) fn ratio(idle: &Experience, attacked: &Experience) -> f64 {
    let ratios = idle.iter().zip(attacked).map(|(idle, attacked)| {
        attacked.percentile(0.99) / idle.percentile(0.99).max(IDLE_FLOOR_MS)
    });
    ratios.fold(0.0, f64::max)
}

/// The p99 of each operation, in milliseconds.
fn p99s(experience: &Experience) -> String {
    experience.each_ref().map(|calls| format!("{:.1}", calls.percentile(0.99))).join("/")
}

/// Every limit that was exceeded, in words.
fn faults(measured: &Measurement, limits: CaseLimits, most_ratio: f64) -> Vec<String> {
    let mut faults = Vec::new();
    if let Some(death) = &measured.death {
        faults.push(format!("the server did not survive: {death}"));
        return faults;
    }
    faults.extend(limits.memory.fault(measured.idle_mib, measured.peak_mib));
    if measured.child_mib > limits.child_mib {
        let (child, limit) = (measured.child_mib, limits.child_mib);
        faults.push(format!("a process beside the server took {child:.0} MiB; limit {limit:.0}"));
    }
    let share = measured.cpu_seconds / measured.attack.as_secs_f64().max(0.001);
    if share > limits.cpu_share {
        let limit = limits.cpu_share;
        faults.push(format!("took {share:.2} processors; it may take {limit:.2}"));
    }
    let errors: usize = measured.attacked.iter().map(|calls| calls.errors).sum();
    if errors > 0 {
        faults.push(format!("the bystander got {errors} errors"));
    }
    let ratio = ratio(&measured.idle, &measured.attacked);
    if ratio > most_ratio {
        faults.push(format!("the bystander's p99 was {ratio:.1} times that of an idle server"));
    }
    if measured.recovery.is_none() {
        faults.push(format!("no recovery within {} s", RECOVERY_LIMIT.as_secs()));
    }
    if measured.stop.is_none_or(|took| took > STOP_LIMIT) {
        faults.push(format!("SIGTERM took {} s; limit {STOP_LIMIT:?}", seconds(measured.stop)));
    }
    if let Some(revocation) = measured.revocation {
        let done = revocation.command.is_some_and(|took| took <= REVOKE_COMMAND_LIMIT);
        if !done || revocation.effect.is_none_or(|took| took > REVOKE_LIMIT) {
            let (command, effect) = (seconds(revocation.command), seconds(revocation.effect));
            faults.push(format!("revoking took {command} s and {effect} s to take effect"));
        }
    }
    faults
}

fn seconds(duration: Option<Duration>) -> String {
    duration.map_or("never".to_owned(), |duration| format!("{:.1}", duration.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abuse::bystander::Latencies;
    use crate::abuse::measurement::Revocation;

    fn experience(millis: u64) -> Experience {
        std::array::from_fn(|_| {
            let mut calls = Latencies::default();
            calls.note(Duration::from_millis(millis));
            calls
        })
    }

    fn sound() -> Measurement {
        Measurement {
            idle: experience(2),
            attacked: experience(19),
            recovery: Some(Duration::ZERO),
            stop: Some(Duration::from_secs(1)),
            attack: Duration::from_secs(10),
            cpu_seconds: 4.9,
            peak_mib: 299.0,
            ..Measurement::default()
        }
    }

    const LIMITS: CaseLimits = CaseLimits { cpu_share: 0.5, ..CaseLimits::USUAL };

    #[test]
    fn a_measurement_within_all_limits_has_no_fault() {
        assert_eq!(faults(&sound(), LIMITS, MOST_RATIO), Vec::<String>::new());
    }

    #[test]
    fn a_tiny_idle_p99_counts_as_the_floor() {
        assert_eq!(ratio(&experience(1), &experience(20)), 10.0);
        assert_eq!(ratio(&experience(20), &experience(50)), 2.5);
    }

    #[test]
    fn every_limit_is_a_fault_of_its_own() {
        let slow = Revocation { command: Some(Duration::ZERO), effect: None };
        let mut broken: [Measurement; 9] = std::array::from_fn(|_| sound());
        broken[0].peak_mib = 301.0;
        broken[1].attacked = experience(21);
        broken[2].attacked[1].errors = 1;
        broken[3].recovery = None;
        broken[4].stop = None;
        broken[5].revocation = Some(slow);
        broken[6].death = Some("killed".to_owned());
        broken[7].cpu_seconds = 5.1;
        broken[8].child_mib = 601.0;
        for measurement in broken {
            assert_eq!(faults(&measurement, LIMITS, MOST_RATIO).len(), 1, "{measurement:?}");
        }
    }
}
