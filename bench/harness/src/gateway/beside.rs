//! Ten upstreams behind our gateway, five of them bad: what the callers of the good ones notice.
//!
//! The same ten are measured twice in each round, side by side in time: with all of them good, and with
//! five bad. Callers try those five at the same rate both times.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use memchr::memmem;
use serde_json::Value;

use super::front;
use crate::cli::Cli;
use crate::client::Client;
use crate::cpu::median;
use crate::load::{Load, Waiting};
use crate::pin::{SERVER_CORE, on_core};
use crate::programs::Programs;
use crate::server::Server;
use crate::{echo, report};

/// The most the good ones' 99th percentile may grow.
const BUDGET: f64 = 1.3;
const GOOD: usize = 5;
/// Over HTTP; the one that crashes is a process of the gateway's.
const BAD: [&str; 4] = ["hang", "garbage", "endless", "slow"];
const CRASH: &str = "crash";
/// Connections per good upstream, each with a call under way all the time.
const CONNECTIONS: usize = 2;
/// Callers per other upstream, and how long each waits after an answer.
const CALLERS: usize = 2;
const PAUSE: Duration = Duration::from_millis(100);
/// Seconds a call may hear nothing; short, so that a run sees many time out.
const CALL_TIMEOUT: u64 = 2;
const WARM_UP: Duration = Duration::from_secs(1);
const START: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(20);
const FAILURES: f64 = 0.001;

const COLUMNS: [&str; 8] = [
    "beside five bad upstreams",
    "calls/s",
    "p50 µs",
    "p99 µs",
    "p99 µs all good",
    "× p99",
    "budget",
    "",
];

/// What is bad about the five.
#[derive(Debug)]
pub(super) struct Scenario {
    name: &'static str,
    /// What they are told.
    when: &'static str,
    /// Whether the gateway gets to see their tools.
    shakes_hands: bool,
}

const SCENARIOS: [Scenario; 2] = [
    Scenario { name: "ours-beside-bad-calls", when: "calls", shakes_hands: true },
    Scenario { name: "ours-beside-bad-servers", when: "always", shakes_hands: false },
];

/// One run.
#[derive(Debug, Clone, Copy)]
struct Sample {
    rate: f64,
    p50: f64,
    p99: f64,
    /// Calls of the other five, and how many of them failed.
    tried: u64,
    refused: u64,
}

/// A scenario over all rounds: each run with the one next to it in which all were good.
type Pairs = Vec<(Sample, Sample)>;

pub(super) fn chosen(cli: &Cli) -> Vec<&'static Scenario> {
    SCENARIOS.iter().filter(|scenario| cli.selects(scenario.name)).collect()
}

/// Measures, prints, and says whether the budget was missed.
pub(super) fn measure(cli: &Cli, scenarios: &[&Scenario]) -> anyhow::Result<bool> {
    let (programs, rounds) = (cli.programs(), cli.rounds());
    let mut pairs: Vec<Pairs> = scenarios.iter().map(|_| vec![]).collect();
    for round in 1..=rounds {
        for (scenario, pairs) in scenarios.iter().zip(&mut pairs) {
            eprintln!("beside: round {round} of {rounds}: {}", scenario.name);
            let run = |scenario| sample(scenario, &programs, cli.beside_time());
            let good = run(None).context("ten good upstreams")?;
            let bad = run(Some(*scenario)).with_context(|| scenario.name)?;
            pairs.push((good, bad));
        }
    }
    println!(
        "gateway on core {SERVER_CORE} with ten upstreams; {} connections call five of them all the time, {} callers \
         the other five; {rounds} rounds of {:?}, medians\n",
        GOOD * CONNECTIONS,
        (BAD.len() + 1) * CALLERS,
        cli.beside_time()
    );
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    let mut missed = false;
    for (scenario, pairs) in scenarios.iter().zip(&pairs) {
        let (cells, over) = row(scenario.name, pairs);
        rows.push(cells);
        missed |= over;
    }
    report::print_table(&rows);
    for (scenario, pairs) in scenarios.iter().zip(&pairs) {
        let (tried, refused) =
            pairs.iter().fold((0, 0), |sum, (_, bad)| (sum.0 + bad.tried, sum.1 + bad.refused));
        println!(
            "- {}: {tried} calls of the bad ones ended, {refused} with an error",
            scenario.name
        );
    }
    Ok(missed)
}

fn row(name: &str, pairs: &Pairs) -> (Vec<String>, bool) {
    let of = |figure: fn(&(Sample, Sample)) -> f64| {
        median(pairs.iter().map(figure).collect()).unwrap_or(f64::NAN)
    };
    let ratio = of(|(good, bad)| bad.p99 / good.p99);
    let over = ratio.is_nan() || ratio > BUDGET;
    let cells = vec![
        name.to_owned(),
        format!("{:.0}", of(|(_, bad)| bad.rate)),
        format!("{:.0}", of(|(_, bad)| bad.p50)),
        format!("{:.0}", of(|(_, bad)| bad.p99)),
        format!("{:.0}", of(|(good, _)| good.p99)),
        format!("{ratio:.2}"),
        format!("≤ {BUDGET}"),
        if over { "OVER" } else { "ok" }.to_owned(),
    ];
    (cells, over)
}

/// One run on a fresh gateway, with all upstreams good or with five bad ones.
fn sample(
    scenario: Option<&Scenario>,
    programs: &Programs,
    duration: Duration,
) -> anyhow::Result<Sample> {
    let server = start(scenario, programs)?;
    let port = server.port();
    let expected = if scenario.is_none_or(|scenario| scenario.shakes_hands) { 10 } else { GOOD };
    wait_until_up(port, expected)?;
    let callers = Callers::start(port);
    let requests = (0..GOOD * CONNECTIONS)
        .map(|n| echo::modern_call(port, "/mcp", &format!("good{}_echo", n % GOOD)));
    let mut load = Load::open(port, requests.collect(), Waiting::Asleep)?;
    load.run(WARM_UP)?;
    let mut tally = load.run(duration)?;
    let (tried, refused) = callers.stop()?;
    ensure!(
        tally.answers > 0 && tally.failures as f64 <= tally.answers as f64 * FAILURES,
        "{} of {} calls of good upstreams failed",
        tally.failures,
        tally.failures + tally.answers
    );
    ensure!(tried > 0, "nobody called the others");
    ensure!(
        (refused == tried) == scenario.is_some() && (refused == 0) == scenario.is_none(),
        "{refused} of {tried} calls of the other upstreams failed"
    );
    tally.latencies.sort_unstable();
    Ok(Sample {
        rate: tally.answers as f64 / tally.elapsed.as_secs_f64(),
        p50: micros(&tally.latencies, 0.5),
        p99: micros(&tally.latencies, 0.99),
        tried,
        refused,
    })
}

/// Microseconds that `share` of these sorted times are at most.
fn micros(sorted: &[Duration], share: f64) -> f64 {
    let at = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(at.saturating_sub(1)).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e6)
}

fn start(scenario: Option<&Scenario>, programs: &Programs) -> anyhow::Result<Server> {
    let good = Server::start_upstream([])?;
    let mut config = String::new();
    for n in 0..GOOD {
        // Every other one is spoken to as an older server would be.
        let era = if n % 2 == 0 { "modern" } else { "legacy" };
        config += &upstream(&format!("good{n}"), &good);
        config += &format!("era = \"{era}\"\n");
    }
    let mut upstreams = vec![good];
    let flags = |kind| scenario.map_or(vec![], |it| vec!["--bad", kind, "--when", it.when]);
    for kind in BAD {
        let bad = Server::start_upstream(flags(kind))?;
        config += &upstream(kind, &bad);
        upstreams.push(bad);
    }
    let program = std::path::absolute(Programs::sibling("upstream")?)?.display().to_string();
    let command = [&[program.as_str()], flags(CRASH).as_slice()].concat();
    // JSON's arrays of strings are TOML's too.
    let (command, allowed) =
        (serde_json::to_string(&command)?, serde_json::to_string(&[&program])?);
    config += &format!("[[upstream]]\nname = \"{CRASH}\"\ncommand = {command}\n");
    config += &format!("[stdio]\nallowed_commands = {allowed}\n");
    let server = Server::start_with(&on_core(SERVER_CORE), |port, scratch| {
        front::lyceum(programs, port, &config, scratch)
    })?;
    Ok(server.in_front_of(upstreams))
}

fn upstream(name: &str, server: &Server) -> String {
    let port = server.port();
    format!(
        "[[upstream]]\nname = \"{name}\"\nurl = \"http://127.0.0.1:{port}/mcp\"\ncall_timeout = {CALL_TIMEOUT}\n"
    )
}

fn wait_until_up(port: u16, expected: usize) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        let answer = Client::connect(port)?.call(&echo::get(port, "/health"))?;
        let health: Value = serde_json::from_slice(&answer.body).context("reading /health")?;
        let upstreams = health["upstreams"].as_object().context("/health has no upstreams")?;
        let is_up = |name: &String| upstreams[name]["status"] == "up";
        let good = upstreams.keys().filter(|name| name.starts_with("good"));
        if upstreams.keys().filter(|name| is_up(name)).count() >= expected
            && good.into_iter().all(is_up)
        {
            return Ok(());
        }
        ensure!(start.elapsed() < START, "only some upstreams are up: {}", answer.text());
        thread::sleep(STEP);
    }
}

/// Clients of the other five upstreams, each with one call under way or pausing after one.
struct Callers {
    stop: Arc<AtomicBool>,
    counts: Arc<Counts>,
    threads: Vec<JoinHandle<anyhow::Result<()>>>,
}

#[derive(Debug, Default)]
struct Counts {
    tried: AtomicU64,
    refused: AtomicU64,
}

impl Callers {
    fn start(port: u16) -> Self {
        let (stop, counts) = (Arc::<AtomicBool>::default(), Arc::<Counts>::default());
        let names = BAD.into_iter().chain([CRASH]);
        let threads = names
            .flat_map(|name| [name; CALLERS])
            .map(|name| {
                let (stop, counts) = (Arc::clone(&stop), Arc::clone(&counts));
                thread::spawn(move || {
                    call(port, name, &stop, &counts).with_context(|| format!("calling {name}"))
                })
            })
            .collect();
        Self { stop, counts, threads }
    }

    /// How many calls ended, and how many of them with an error.
    fn stop(self) -> anyhow::Result<(u64, u64)> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().map_err(|_| anyhow!("a caller panicked"))??;
        }
        Ok((self.counts.tried.load(Ordering::Relaxed), self.counts.refused.load(Ordering::Relaxed)))
    }
}

fn call(port: u16, name: &str, stop: &AtomicBool, counts: &Counts) -> anyhow::Result<()> {
    let request = echo::modern_call(port, "/mcp", &format!("{name}_echo"));
    let mut client = Client::connect(port)?;
    while !stop.load(Ordering::Relaxed) {
        let answer = client.call(&request)?;
        let has = |text: &str| memmem::find(&answer.body, text.as_bytes()).is_some();
        let good = answer.status == 200 && has(echo::TEXT) && !has(r#""isError":true"#);
        counts.tried.fetch_add(1, Ordering::Relaxed);
        counts.refused.fetch_add(u64::from(!good), Ordering::Relaxed);
        thread::sleep(PAUSE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(good: f64, bad: f64) -> (Sample, Sample) {
        let sample = |p99| Sample { rate: 1.0, p50: 1.0, p99, tried: 1, refused: 1 };
        (sample(good), sample(bad))
    }

    #[test]
    fn a_run_is_held_against_its_neighbour_in_time() {
        // The machine was slower in the last round, with and without bad upstreams.
        let kept = vec![pair(100.0, 120.0), pair(100.0, 130.0), pair(300.0, 390.0)];
        assert!(!row("x", &kept).1);
        let missed = vec![pair(100.0, 131.0), pair(100.0, 140.0), pair(300.0, 390.0)];
        assert!(row("x", &missed).1);
        assert!(row("x", &vec![]).1, "what was not measured is not kept");
    }

    #[test]
    fn percentiles_are_of_what_was_seen() {
        let sorted: Vec<Duration> = (1..=100).map(Duration::from_micros).collect();
        assert!((micros(&sorted, 0.5) - 50.0).abs() < 1e-9);
        assert!((micros(&sorted, 0.99) - 99.0).abs() < 1e-9);
        assert!(micros(&[], 0.99).is_nan());
    }
}
