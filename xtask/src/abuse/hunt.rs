//! The hunt: every argument of every tool, route and method of the protocol with hostile values, one
//! request at a time, each held against limits of its own.
//!
//! A single request that takes seconds of the processor or hundreds of megabytes is a finding, as is
//! one that makes the server fail or that hurts the bystander.

mod probe;
mod schema;
mod value;

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use self::probe::Probe;
use super::bystander::Bystander;
use super::http::HttpConnection;
use super::measurement::MemoryWatchdog;
use super::memory_limit::MEMORY_MIB;
use super::report::{MOST_RATIO, ratio};
use super::request::{self, RequestBytes};
use super::server::{CorpusTemplate, LyceumServer, ServerSetup};
use super::usage;
use crate::stopwatch::Stopwatch;

/// The document that harmless arguments name.
const TARGET: &str = "abuse/target.md";

/// Processor seconds one request may take, what it leaves to the indexer included.
const CPU_LIMIT: f64 = 4.0;
/// Seconds until it must be answered.
const ANSWER_LIMIT: Duration = Duration::from_secs(4);
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(15);
/// Bytes of one answer, as `limits.answer_bytes` has them by default.
const ANSWER_BYTES: usize = 32 << 20;
/// Bytes of a refusal, which must not repeat what was sent.
const REFUSAL_BYTES: usize = 64 << 10;
/// How long a call of the bystander may take beside one probe, twice in a row. A busy machine delays
/// single calls, so this is no p99; a frozen server is far beyond it.
const BYSTANDER_LIMIT: Duration = Duration::from_millis(250);
/// How long the bystander is alone with the server before a group of probes.
const IDLE: Duration = Duration::from_secs(2);
/// How long it is watched after its answer, to see whether it left work behind.
const GLANCE: Duration = Duration::from_millis(40);
/// How long the server may work on after an answer.
const REST_LIMIT: Duration = Duration::from_secs(20);
/// Probes of the worst of each kind that are shown.
const SHOWN: usize = 12;

/// What one probe cost.
#[derive(Debug, Clone)]
struct ProbeCost {
    name: String,
    status: u16,
    cpu_seconds: f64,
    /// MiB at the peak, beyond what was resident before.
    peak_mib: f64,
    answered: Option<Duration>,
    answer_bytes: usize,
    is_refusal: bool,
    /// What the answer says, if it is an error of the server.
    internal: Option<String>,
    /// The longest call of the bystander meanwhile, and how many failed.
    bystander: (Duration, u64),
    /// Complaints in the server's log meanwhile.
    complaints: Vec<String>,
    /// Whether the server is no good any more.
    ruined: bool,
}

/// A server that is replaced when a probe has ruined it.
struct HuntingGround<'a> {
    template: &'a CorpusTemplate<'a>,
    server: LyceumServer,
    watchdog: MemoryWatchdog,
    findings: Vec<String>,
    costs: Vec<ProbeCost>,
    number: u64,
    /// Processor seconds a second that the bystander alone costs.
    bystander_share: f64,
}

/// Runs the hunt; every finding in words.
pub(super) fn run(template: &CorpusTemplate<'_>, quick: bool) -> Result<Vec<String>> {
    let mut ground = HuntingGround::new(template)?;
    let key = ground.server.keys.preparer.clone();
    let tools = ground.json(&request::rpc(&key, "tools/list", "", json!({})))?;
    let openapi = ground.json(&request::rest("GET", "/openapi.json", &key, ""))?;
    let groups = [
        ("tools", probe::of_tools(&tools["result"])),
        ("routes", probe::of_routes(&openapi)),
        ("protocol", probe::of_protocol()),
        ("documents", probe::of_documents()),
    ];
    for (name, probes) in groups {
        ensure!(!probes.is_empty(), "the server does not describe its {name}");
        // Documents are embedded, which takes longer than a quick run has.
        if quick && name == "documents" {
            continue;
        }
        let is_chosen = |probe: &Probe| match name {
            // Routes take the bodies that tools take as arguments, so a part of the values will do.
            "routes" if probe.has_body() => probe.value.quick && !quick,
            _ => probe.value.quick || !quick,
        };
        let chosen: Vec<Probe> = probes.into_iter().filter(is_chosen).collect();
        ground.group(name, &chosen)?;
    }
    ground.summarize();
    Ok(ground.findings)
}

impl<'a> HuntingGround<'a> {
    fn new(template: &'a CorpusTemplate<'a>) -> Result<Self> {
        let (server, watchdog) = prepared(template)?;
        let (findings, costs) = (Vec::new(), Vec::new());
        Ok(Self { template, server, watchdog, findings, costs, number: 0, bystander_share: 0.0 })
    }

    fn json(&self, request: &RequestBytes) -> Result<Value> {
        let answer = self.server.ask(request)?;
        serde_json::from_str(&answer.text).context("the server describes itself in JSON")
    }

    /// Sends all probes of a group beside a bystander.
    fn group(&mut self, name: &str, probes: &[Probe]) -> Result<()> {
        let watch = Stopwatch::start();
        let idle_cpu = usage::cpu_seconds(self.server.pid())?;
        let idle = Bystander::observe(&self.server, IDLE);
        let used = usage::cpu_seconds(self.server.pid())? - idle_cpu;
        self.bystander_share = used / watch.elapsed().as_secs_f64();
        let before = usage::memory(self.server.pid())?.resident_mib;
        let mut bystander = Bystander::start(&self.server);
        for probe in probes {
            let mut cost = self.send(probe, &bystander);
            if cost.as_ref().is_ok_and(ProbeCost::may_be_noise) {
                cost = self.send(probe, &bystander);
            }
            let ruined = cost.as_ref().map_or(true, |cost| cost.ruined);
            match cost {
                Ok(cost) => {
                    cost.faults().into_iter().for_each(|fault| self.find(fault));
                    self.costs.push(cost);
                }
                Err(error) => self.find(format!("{}: {error:#}", probe.name())),
            }
            if ruined {
                bystander.stop();
                self.replace_server()?;
                bystander = Bystander::start(&self.server);
            }
        }
        let attacked = bystander.stop();
        let ratio = ratio(&idle, &attacked);
        let errors: usize = attacked.iter().map(|calls| calls.errors).sum();
        let kept = usage::memory(self.server.pid())?.resident_mib - before;
        println!(
            "hunt: {name}: {} probes in {:.0} s, bystander p99 {ratio:.1} times idle, {errors} errors, {kept:.0} MiB kept",
            probes.len(),
            watch.elapsed().as_secs_f64()
        );
        if ratio > MOST_RATIO || errors > 0 {
            self.find(format!("{name}: bystander p99 {ratio:.1} times idle, {errors} errors"));
        }
        if kept > MEMORY_MIB {
            self.find(format!("{name}: {kept:.0} MiB are kept afterwards"));
        }
        Ok(())
    }

    /// Tells a finding at once and keeps it.
    fn find(&mut self, finding: String) {
        println!("hunt: FAILED: {finding}");
        self.findings.push(finding);
    }

    /// Sends one probe beside the bystander; what it cost.
    fn send(&mut self, probe: &Probe, bystander: &Bystander) -> Result<ProbeCost> {
        let pid = self.server.pid();
        self.number += 1;
        let request = probe.request(self.server.keys.abuser()).whole(self.number);
        let n_complaints = self.server.log().n_complaints();
        let before = usage::memory(pid)?.resident_mib;
        bystander.take_worst();
        let cpu = usage::cpu_seconds(pid)?;
        usage::reset_peak(pid)?;
        let watch = Stopwatch::start();
        let answer = HttpConnection::open(self.server.address, PATIENCE)
            .map_err(anyhow::Error::from)
            .and_then(|mut connection| connection.exchange(&request, 256 << 20, PATIENCE));
        let answered = answer.as_ref().ok().map(|_| watch.elapsed());
        // Work that goes on after the answer belongs to the request as well.
        let at_answer = usage::cpu_seconds(pid)?;
        thread::sleep(GLANCE);
        let mut ruined = false;
        if answered.is_none() || usage::cpu_seconds(pid)? - at_answer > 0.5 * GLANCE.as_secs_f64() {
            ruined = self.server.busy_after(REST_LIMIT)?;
        }
        let bystander_cpu = self.bystander_share * watch.elapsed().as_secs_f64();
        let cpu_seconds = (usage::cpu_seconds(pid)? - cpu - bystander_cpu).max(0.0);
        let peak_mib = usage::memory(pid)?.peak_mib - before;
        let log = self.server.log();
        let is_new = log.n_complaints() > n_complaints;
        let answer = answer.ok();
        Ok(ProbeCost {
            name: probe.name(),
            status: answer.as_ref().map_or(0, |answer| answer.status),
            cpu_seconds,
            peak_mib,
            answered,
            answer_bytes: answer.as_ref().map_or(0, |answer| answer.length),
            is_refusal: answer.as_ref().is_some_and(|answer| !answer.is_success()),
            internal: answer.and_then(|answer| internal(&answer.text, answer.status)),
            bystander: bystander.take_worst(),
            complaints: if is_new { log.lines } else { Vec::new() },
            ruined: ruined || peak_mib > MEMORY_MIB,
        })
    }

    fn replace_server(&mut self) -> Result<()> {
        let (server, watchdog) = prepared(self.template)?;
        self.server = server;
        std::mem::replace(&mut self.watchdog, watchdog).stop();
        Ok(())
    }

    /// Shows the most expensive probes, by processor, by memory and by time.
    fn summarize(&mut self) {
        type Order = fn(&ProbeCost) -> f64;
        let orders: [(&str, Order); 5] = [
            ("processor time", |cost| cost.cpu_seconds),
            ("memory", |cost| cost.peak_mib),
            ("time", |cost| cost.answered.unwrap_or(PATIENCE).as_secs_f64()),
            ("bytes of the answer", |cost| cost.answer_bytes as f64),
            ("delay of the bystander", |cost| cost.bystander.0.as_secs_f64()),
        ];
        for (name, order) in orders {
            self.costs.sort_by(|a, b| order(b).total_cmp(&order(a)));
            println!("hunt: most {name}:");
            for cost in self.costs.iter().take(SHOWN) {
                println!("    {}", cost.line());
            }
        }
    }
}

impl ProbeCost {
    fn line(&self) -> String {
        format!(
            "{:>6.2} CPU s {:>6.0} MiB {:>7.2} s {:>9} bytes {:>5.0} ms  {:>3}  {}",
            self.cpu_seconds,
            self.peak_mib,
            self.answered.map_or(f64::INFINITY, |took| took.as_secs_f64()),
            self.answer_bytes,
            self.bystander.0.as_secs_f64() * 1000.0,
            self.status,
            self.name
        )
    }

    /// Whether nothing but the bystander's delay is wrong, which a busy machine can be the cause of.
    fn may_be_noise(&self) -> bool {
        self.bystander.0 > BYSTANDER_LIMIT && self.bystander.1 == 0 && self.faults().len() == 1
    }

    /// Every limit the probe exceeded, in words.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |words: String| faults.push(format!("{}: {words}", self.name));
        if self.cpu_seconds > CPU_LIMIT {
            fault(format!("{:.1} s of the processor", self.cpu_seconds));
        }
        if self.peak_mib > MEMORY_MIB {
            fault(format!("{:.0} MiB", self.peak_mib));
        }
        match self.answered {
            None => fault(format!("not answered in {} s", PATIENCE.as_secs())),
            Some(took) if took > ANSWER_LIMIT => fault(format!("answered in {took:.1?}")),
            Some(_) => {}
        }
        let most = if self.is_refusal { REFUSAL_BYTES } else { ANSWER_BYTES };
        if self.answer_bytes > most {
            fault(format!("an answer of {} bytes", self.answer_bytes));
        }
        if let Some(words) = &self.internal {
            fault(format!("an error of the server: {words}"));
        }
        let (delay, errors) = self.bystander;
        if delay > BYSTANDER_LIMIT || errors > 0 {
            fault(format!("a call of the bystander took {delay:.1?}, {errors} failed"));
        }
        if !self.complaints.is_empty() {
            fault(format!("the log complains: {}", self.complaints.join("; ")));
        }
        faults
    }
}

/// A server with the document that harmless arguments name.
fn prepared(template: &CorpusTemplate<'_>) -> Result<(LyceumServer, MemoryWatchdog)> {
    let server = template.start(ServerSetup::default())?;
    server.upload(TARGET, "# A target\n\nBy the river.\n\n## Below\n\nMore.\n")?;
    server.wait_until_quiet()?;
    let watchdog = MemoryWatchdog::start(server.pid())?;
    Ok((server, watchdog))
}

/// What an answer says if it blames the server. To be busy is no blame, as long as it says so.
fn internal(text: &str, status: u16) -> Option<String> {
    let busy = status == 503 && text.contains("UNAVAILABLE");
    let blames = status >= 500 && status != 501 && !busy
        || text.contains("-32603")
        || text.contains("\"INTERNAL\"");
    blames.then(|| text.chars().take(200).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost() -> ProbeCost {
        ProbeCost {
            name: "t a = b".to_owned(),
            status: 400,
            cpu_seconds: 0.1,
            peak_mib: 50.0,
            answered: Some(Duration::from_millis(20)),
            answer_bytes: 100,
            is_refusal: false,
            internal: None,
            bystander: (Duration::from_millis(9), 0),
            complaints: Vec::new(),
            ruined: false,
        }
    }

    #[test]
    fn a_probe_within_all_limits_has_no_fault() {
        assert_eq!(cost().faults(), Vec::<String>::new());
    }

    #[test]
    fn every_limit_of_a_probe_is_a_fault() {
        let broken = [
            ProbeCost { cpu_seconds: 9.0, ..cost() },
            ProbeCost { peak_mib: 900.0, ..cost() },
            ProbeCost { answered: None, ..cost() },
            ProbeCost { answered: Some(Duration::from_secs(9)), ..cost() },
            ProbeCost { answer_bytes: 1 << 30, ..cost() },
            ProbeCost { answer_bytes: 1 << 20, is_refusal: true, ..cost() },
            ProbeCost { bystander: (Duration::from_secs(1), 0), ..cost() },
            ProbeCost { bystander: (Duration::ZERO, 1), ..cost() },
            ProbeCost { complaints: vec!["WARN a".to_owned()], ..cost() },
            ProbeCost { internal: internal("no", 503), ..cost() },
            ProbeCost { internal: internal("{\"code\":-32603}", 200), ..cost() },
        ];
        for cost in broken {
            assert_eq!(cost.faults().len(), 1, "{cost:?}");
        }
        assert_eq!(internal("{\"code\":\"UNAVAILABLE\"}", 503), None);
    }
}
