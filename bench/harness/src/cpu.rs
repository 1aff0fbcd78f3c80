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
            let sample = |case: &Case| sample(case, duration, programs, waiting);
            let sampled = if case.is_baseline() {
                let sampled = sample(case);
                baselines.insert(case.name, sampled.as_ref().ok().map(|sample| sample.micros));
                sampled
            } else {
                // A case that is judged is compared with its neighbour in time.
                if case.budget().is_some() || !baselines.contains_key(case.baseline().name) {
                    let micros = sample(case.baseline()).ok().map(|sample| sample.micros);
                    baselines.insert(case.baseline().name, micros);
                }
                sample(case)
            };
            samples.push((sampled, baselines.get(case.baseline().name).copied().flatten()));
        }
    }
    samples.into_iter().map(summary).collect()
}

fn sample(
    case: &Case,
    duration: Duration,
    programs: &Programs,
    waiting: Waiting,
) -> anyhow::Result<Sample> {
    let server = Server::start(case.program, programs)?;
    echo::check(case, server.port())?;
    let requests: anyhow::Result<Vec<_>> =
        (0..CONNECTIONS).map(|_| echo::request_in_place(case, server.port())).collect();
    let mut load = Load::open(server.port(), requests?, waiting)?;
    load.run(WARM_UP)?;
    let (used_before, all_before) = (procfs::cpu_seconds(server.pid())?, busy_seconds()?);
    let own_before = procfs::cpu_seconds(std::process::id())? + server.cpu_seconds_behind()?;
    let tally = load.run(duration)?;
    let used = procfs::cpu_seconds(server.pid())? - used_before;
    let own = procfs::cpu_seconds(std::process::id())? + server.cpu_seconds_behind()? - own_before;
    let all = busy_seconds()? - all_before;
    let (answers, seconds) = (tally.answers as f64, tally.elapsed.as_secs_f64());
    ensure!(
        tally.answers > 0 && tally.failures as f64 <= answers * FAILURES,
        "{} of {} requests failed",
        tally.failures,
        tally.failures + tally.answers
    );
    Ok(Sample {
        micros: used / answers * 1e6,
        throughput: answers / seconds,
        strangers: ((all - used - own) / seconds / 2.0).max(0.0),
    })
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
