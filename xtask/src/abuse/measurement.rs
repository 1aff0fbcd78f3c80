//! One case from the start of its server to its end: idle, under attack, after it.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use super::bystander::{Bystander, Experience};
use super::case::{AbuseCase, Attacker};
use super::client::{AbusiveClient, AnswerCounts, Assault};
use super::report::{RECOVERY_LIMIT, ratio};
use super::request;
use super::server::{CorpusTemplate, LogTally, LyceumServer, ServerSetup};
use super::usage;
use crate::process;
use crate::stopwatch::Stopwatch;

/// A server that grows beyond this is ended, before the machine suffers.
const DEADLY_MIB: f64 = 3072.0;

/// How long each part of a case takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schedule {
    pub(super) idle: Duration,
    pub(super) attack: Duration,
    /// Whether the server is told to stop while it is still attacked.
    pub(super) stop_under_attack: bool,
}

/// What was measured.
#[derive(Debug, Clone, Default)]
pub(super) struct Measurement {
    pub(super) cpu_seconds: f64,
    /// Processor seconds of this process meanwhile, which the server and the bystander had not.
    pub(super) own_cpu_seconds: f64,
    /// The same of everything else on the machine. If that is much, latencies say little.
    pub(super) foreign_cpu_seconds: f64,
    /// How long the attack took, the revocation included.
    pub(super) attack: Duration,
    /// MiB of the idle server.
    pub(super) idle_mib: f64,
    /// MiB at the peak, beyond what the idle server had.
    pub(super) peak_mib: f64,
    /// MiB at the peak of the largest process beside the server.
    pub(super) child_mib: f64,
    /// MiB that were still resident after the recovery, beyond what the idle server had.
    pub(super) kept_mib: f64,
    pub(super) idle: Experience,
    pub(super) attacked: Experience,
    /// Until the bystander was served as before; `None` if that took too long.
    pub(super) recovery: Option<Duration>,
    /// Until the server had ended after SIGTERM; `None` if it had to be killed.
    pub(super) stop: Option<Duration>,
    pub(super) revocation: Option<Revocation>,
    pub(super) log: LogTally,
    /// Requests the abusive clients sent, and those answered, refused, cut off.
    pub(super) requests: [u64; 4],
    /// Why there was no server any more.
    pub(super) death: Option<String>,
}

/// How fast a key was revoked under attack; `None` where it never was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Revocation {
    pub(super) command: Option<Duration>,
    pub(super) effect: Option<Duration>,
}

/// Ends the server when it takes too much memory.
#[derive(Debug)]
pub(super) struct MemoryWatchdog {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Watched>,
}

/// What the watchdog saw.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Watched {
    /// Whether it had to end the server.
    pub(super) killed: bool,
    /// MiB of the largest process that the server started.
    pub(super) child_mib: f64,
}

/// Runs one case, or several at once on one server.
pub(super) fn measure(
    template: &CorpusTemplate<'_>,
    cases: &[&AbuseCase],
    schedule: Schedule,
) -> Result<Measurement> {
    let config = match cases.iter().find_map(|case| case.config) {
        Some(config) => Some(config(&template.hostile_upstream()?)),
        None => None,
    };
    let shell = cases.iter().find_map(|case| case.shell);
    let mut server = template.start(ServerSetup { shell, config: config.as_deref() })?;
    let clients = prepare(&server, cases)?;
    server.wait_until_quiet()?;

    let mut found =
        Measurement { idle: Bystander::observe(&server, schedule.idle), ..Measurement::default() };
    found.idle_mib = usage::memory(server.pid())?.resident_mib;
    let idle_cpu = usage::cpu_seconds(server.pid())?;
    let own_cpu = usage::cpu_seconds(std::process::id())?;
    let machine_cpu = usage::machine_cpu_seconds()?;
    usage::reset_peak(server.pid())?;

    let watchdog = MemoryWatchdog::start(server.pid())?;
    let bystander = Bystander::start(&server);
    let attack = Stopwatch::start();
    let assault = Assault::start(&server.target(), &clients);
    thread::sleep(schedule.attack);
    if cases.iter().any(|case| case.revoke) {
        found.revocation = Some(revoke(&server));
    }
    found.own_cpu_seconds = usage::cpu_seconds(std::process::id())? - own_cpu;
    found.attacked = bystander.stop();
    found.attack = attack.elapsed();
    let server_cpu = usage::cpu_seconds(server.pid()).map_or(0.0, |now| now - idle_cpu);
    let machine_cpu = usage::machine_cpu_seconds()? - machine_cpu;
    found.foreign_cpu_seconds = (machine_cpu - server_cpu - found.own_cpu_seconds).max(0.0);
    let after = Aftermath { idle_cpu, assault, schedule };
    after.record(&mut server, &mut found);
    let watched = watchdog.stop();
    found.child_mib = found.child_mib.max(watched.child_mib);
    if watched.killed {
        found.death = Some(format!("killed at {DEADLY_MIB} MiB over idle"));
    }
    found.log = server.log();
    Ok(found)
}

/// Prepares all cases; the clients of all of them.
fn prepare(server: &LyceumServer, cases: &[&AbuseCase]) -> Result<Vec<AbusiveClient>> {
    let mut clients = Vec::new();
    let mut prepared = Vec::new();
    for (n, case) in cases.iter().enumerate() {
        // Several cases attack the same documents.
        if !prepared.contains(&(case.prepare as usize)) {
            (case.prepare)(server).with_context(|| format!("preparing {}", case.name))?;
            prepared.push(case.prepare as usize);
        }
        // Several callers, so that fairness between callers hides no bottleneck of the whole server.
        let attacker = Attacker { server, key: server.keys.abuser_of(n) };
        let made = (case.clients)(&attacker);
        clients.extend(made.with_context(|| format!("making {}", case.name))?);
    }
    Ok(clients)
}

/// What is left to do when the attack's time is over.
struct Aftermath {
    idle_cpu: f64,
    assault: Assault,
    schedule: Schedule,
}

impl Aftermath {
    /// Ends the attack and the server, in the order the schedule says, and measures both.
    fn record(self, server: &mut LyceumServer, found: &mut Measurement) {
        if self.schedule.stop_under_attack {
            read_usage(server, found, self.idle_cpu);
            found.recovery = Some(Duration::ZERO);
            found.stop = server.terminate().ok().flatten();
            count(&self.assault.stop(), found);
            return;
        }
        count(&self.assault.stop(), found);
        found.recovery = recover(server, &found.idle);
        read_usage(server, found, self.idle_cpu);
        if let Err(error) = server.ensure_alive() {
            found.death = Some(format!("{error:#}").lines().next().unwrap_or_default().to_owned());
            return;
        }
        found.stop = server.terminate().ok().flatten();
    }
}

fn read_usage(server: &LyceumServer, found: &mut Measurement, idle_cpu: f64) {
    if let Ok(memory) = usage::memory(server.pid()) {
        found.peak_mib = (memory.peak_mib - found.idle_mib).max(0.0);
        found.kept_mib = (memory.resident_mib - found.idle_mib).max(0.0);
    }
    found.cpu_seconds = usage::cpu_seconds(server.pid()).map_or(0.0, |now| now - idle_cpu);
}

fn count(counts: &AnswerCounts, found: &mut Measurement) {
    found.requests = [&counts.sent, &counts.done, &counts.refused, &counts.cut]
        .map(|count| count.load(Ordering::Relaxed));
    found.child_mib = counts.child_mib();
}

/// Waits until the bystander is served about as well as before.
fn recover(server: &LyceumServer, idle: &Experience) -> Option<Duration> {
    const WINDOW: Duration = Duration::from_millis(400);
    let watch = Stopwatch::start();
    while !watch.is_past(RECOVERY_LIMIT) {
        let start = watch.elapsed();
        let now = Bystander::observe(server, WINDOW);
        let served = now.iter().all(|calls| calls.errors == 0 && calls.n_calls() > 2);
        if served && ratio(idle, &now) <= 3.0 {
            return Some(start);
        }
        // A server that is gone does not recover.
        usage::memory(server.pid()).ok()?;
    }
    None
}

/// Revokes the abuser's key and waits until it is refused.
fn revoke(server: &LyceumServer) -> Revocation {
    const LIMIT: Duration = Duration::from_secs(20);
    let Ok(command) = server.revoke_abuser() else {
        return Revocation { command: None, effect: None };
    };
    let probe = request::rpc(server.keys.abuser(), "tools/list", "", json!({}));
    let watch = Stopwatch::start();
    while !watch.is_past(LIMIT) {
        if server.ask(&probe).is_ok_and(|answer| answer.status == 401) {
            return Revocation { command: Some(command), effect: Some(watch.elapsed()) };
        }
        thread::sleep(Duration::from_millis(50));
    }
    Revocation { command: Some(command), effect: None }
}

impl MemoryWatchdog {
    pub(super) fn start(pid: u32) -> Result<Self> {
        let most_mib = usage::memory(pid)?.resident_mib + DEADLY_MIB;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut watched = Watched::default();
            while !stopped.load(Ordering::Relaxed) {
                watched.child_mib = watched.child_mib.max(usage::largest_child_mib(pid));
                match usage::memory(pid) {
                    Ok(memory) if memory.resident_mib > most_mib => {
                        let mut kill = Command::new("kill");
                        let killed = process::run(kill.args(["-KILL", &pid.to_string()])).is_ok();
                        return Watched { killed, ..watched };
                    }
                    Ok(_) => thread::sleep(Duration::from_millis(25)),
                    Err(_) => break,
                }
            }
            watched
        });
        Ok(Self { stop, thread })
    }

    pub(super) fn stop(self) -> Watched {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}
