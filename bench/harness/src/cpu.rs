//! CPU time per request: rounds over all cases, each with a fresh server, then medians.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::ensure;

use crate::case::Case;
use crate::load::{Load, Waiting};
use crate::pin::{LOAD_CORE, SERVER_CORE};
use crate::programs::Programs;
use crate::server::Server;
use crate::{echo, procfs};

const CONNECTIONS: usize = 16;
const WARM_UP: Duration = Duration::from_millis(500);
/// Turns that a judged case and its bare hyper take in a round.
const TURNS: u32 = 10;
/// A server that fails more often than this is not doing the work.
const FAILURES: f64 = 0.001;

/// One case in one round.
#[derive(Debug, Clone, Copy)]
struct Sample {
    micros: f64,
    throughput: f64,
    strangers: f64,
}

/// One case over all rounds.
#[derive(Debug)]
pub(crate) struct Cpu {
    /// Median µs of the server's CPU per request, with the least and the most seen.
    pub(crate) micros: f64,
    pub(crate) range: (f64, f64),
    /// Median of the ratios to bare hyper in the same round.
    pub(crate) ratio: Option<f64>,
    /// Requests per second.
    pub(crate) throughput: f64,
    /// Share of the two cores that went to other processes.
    pub(crate) strangers: f64,
}

/// Measures every case in every round, so that a drifting machine drifts under all of them.
pub(crate) fn measure(
    cases: &[&Case],
    rounds: usize,
    duration: Duration,
    programs: &Programs,
    waiting: Waiting,
) -> Vec<anyhow::Result<Cpu>> {
    let mut samples: Vec<Vec<(anyhow::Result<Sample>, Option<f64>)>> =
        cases.iter().map(|_| vec![]).collect();
    for round in 1..=rounds {
        let mut baselines = HashMap::new();
        for (case, samples) in cases.iter().zip(&mut samples) {
            if samples.last().is_some_and(|(sampled, _)| sampled.is_err()) {
                // What failed once will not be measured any more.
                continue;
            }
            eprintln!("cpu: round {round} of {rounds}: {}", case.name);
            let taken = |cases: &[&Case]| taken(cases, duration, programs, waiting);
            if case.budget().is_some() {
                samples.push(judged(taken(&[*case, case.baseline()])));
                continue;
            }
            let one = |case: &Case| taken(&[case]).map(|samples| samples[0]);
            let micros = |sample: &Sample| sample.micros;
            let sampled = if case.is_baseline() {
                let sampled = one(case);
                baselines.insert(case.name, sampled.as_ref().ok().map(micros));
                sampled
            } else {
                let baseline = case.baseline();
                let measure = || one(baseline).ok().as_ref().map(micros);
                baselines.entry(baseline.name).or_insert_with(measure);
                one(case)
            };
            samples.push((sampled, baselines.get(case.baseline().name).copied().flatten()));
        }
    }
    samples.into_iter().map(summary).collect()
}

/// A case that is judged and the bare hyper that was measured with it.
fn judged(both: anyhow::Result<Vec<Sample>>) -> (anyhow::Result<Sample>, Option<f64>) {
    match both {
        Ok(both) => (Ok(both[0]), Some(both[1].micros)),
        Err(error) => (Err(error), None),
    }
}

/// Measures cases at the same time: in turns so short that whatever slows the machine down slows down all.
fn taken(
    cases: &[&Case],
    duration: Duration,
    programs: &Programs,
    waiting: Waiting,
) -> anyhow::Result<Vec<Sample>> {
    let mut runs = Vec::with_capacity(cases.len());
    for case in cases {
        let mut run = Run::start(case, programs, waiting)?;
        run.load.run(WARM_UP)?;
        run.server.pause()?;
        run.before = run.used()?;
        runs.push(run);
    }
    let n_turns = if runs.len() > 1 { TURNS } else { 1 };
    for _ in 0..n_turns {
        for run in &mut runs {
            run.turn(duration / n_turns)?;
        }
    }
    runs.iter().map(Run::sample).collect()
}

/// A server under load, now and then. It is paused in between, and what it passes requests on to with it.
struct Run {
    server: Server,
    load: Load,
    /// Seconds of CPU time it had used before it was measured.
    before: f64,
    answers: u64,
    failures: u64,
    elapsed: Duration,
    /// Seconds of CPU time that others used during its turns.
    strangers: f64,
}

impl Run {
    fn start(case: &Case, programs: &Programs, waiting: Waiting) -> anyhow::Result<Run> {
        let server = Server::start(case.program, programs)?;
        echo::check(case, server.port())?;
        let requests: anyhow::Result<Vec<_>> =
            (0..CONNECTIONS).map(|_| echo::request_in_place(case, server.port())).collect();
        let load = Load::open(server.port(), requests?, waiting)?;
        let (before, strangers, elapsed) = (0.0, 0.0, Duration::ZERO);
        Ok(Run { server, load, before, answers: 0, failures: 0, elapsed, strangers })
    }

    fn turn(&mut self, duration: Duration) -> anyhow::Result<()> {
        let ours = |run: &Run| -> anyhow::Result<f64> {
            let load = procfs::cpu_seconds(std::process::id())?;
            Ok(run.used()? + load + run.server.cpu_seconds_behind()?)
        };
        let (all_before, ours_before) = (busy_seconds()?, ours(self)?);
        self.server.resume()?;
        let tally = self.load.run(duration)?;
        self.server.pause()?;
        self.answers += tally.answers;
        self.failures += tally.failures;
        self.elapsed += tally.elapsed;
        self.strangers += busy_seconds()? - all_before - (ours(self)? - ours_before);
        Ok(())
    }

    fn used(&self) -> anyhow::Result<f64> {
        procfs::cpu_seconds(self.server.pid())
    }

    fn sample(&self) -> anyhow::Result<Sample> {
        let (answers, seconds) = (self.answers as f64, self.elapsed.as_secs_f64());
        ensure!(
            self.answers > 0 && self.failures as f64 <= answers * FAILURES,
            "{} of {} requests failed",
            self.failures,
            self.failures + self.answers
        );
        Ok(Sample {
            micros: (self.used()? - self.before) / answers * 1e6,
            throughput: answers / seconds,
            strangers: (self.strangers / seconds / 2.0).max(0.0),
        })
    }
}

fn busy_seconds() -> anyhow::Result<f64> {
    Ok(procfs::core_seconds(SERVER_CORE)? + procfs::core_seconds(LOAD_CORE)?)
}

/// Each round with the µs of its bare hyper, if that was measured.
fn summary(rounds: Vec<(anyhow::Result<Sample>, Option<f64>)>) -> anyhow::Result<Cpu> {
    let (samples, baselines): (Vec<_>, Vec<_>) = rounds.into_iter().unzip();
    let samples: Vec<Sample> = samples.into_iter().collect::<anyhow::Result<_>>()?;
    let of = |figure: fn(&Sample) -> f64| samples.iter().map(figure).collect::<Vec<f64>>();
    let micros = of(|sample| sample.micros);
    let ratios = micros.iter().zip(baselines).filter_map(|(micros, base)| Some(micros / base?));
    Ok(Cpu {
        range: micros.iter().fold((f64::MAX, 0.0), |(low, high), &micros| {
            (f64::min(low, micros), f64::max(high, micros))
        }),
        ratio: median(ratios.collect()),
        micros: median(micros).unwrap_or(f64::NAN),
        throughput: median(of(|sample| sample.throughput)).unwrap_or(f64::NAN),
        strangers: median(of(|sample| sample.strangers)).unwrap_or(f64::NAN),
    })
}

pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    fn rounds(micros: &[(f64, Option<f64>)]) -> Vec<(anyhow::Result<Sample>, Option<f64>)> {
        let sample = |micros| Ok(Sample { micros, throughput: 1.0, strangers: 0.0 });
        micros.iter().map(|(micros, baseline)| (sample(*micros), *baseline)).collect()
    }

    #[test]
    fn the_ratio_is_the_median_over_rounds_not_the_ratio_of_medians() {
        // The machine ran at half speed in the last round; the ratio of that round still counts.
        let rounds = rounds(&[(10.0, Some(10.0)), (11.0, Some(10.0)), (24.0, Some(20.0))]);
        let cpu = summary(rounds).unwrap();
        assert_eq!((cpu.micros, cpu.ratio, cpu.range), (11.0, Some(1.1), (10.0, 24.0)));
    }

    #[test]
    fn one_failed_round_is_a_case_not_measured() {
        let mut rounds = rounds(&[(10.0, Some(10.0))]);
        rounds.push((Err(anyhow!("5 of 10 requests failed")), Some(10.0)));
        assert!(summary(rounds).is_err());
    }

    #[test]
    fn a_lost_baseline_leaves_no_ratio() {
        assert_eq!(summary(rounds(&[(10.0, None)])).unwrap().ratio, None);
    }
}
