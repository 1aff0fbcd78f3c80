//! The clients: threads with a connection each, that ask, wait for the whole answer, and ask again.
//!
//! They are few and the calls are not small, so a thread per client costs nothing that would show.

use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use memchr::memmem;

use super::operation::Operation;
use super::outcome::Outcome;
use super::request::Requests;
use crate::answer::Answer;
use crate::client::Client;
use crate::procfs;
use crate::server::Server;

/// Before anything counts: caches fill and statements are prepared.
const WARM_UP: Duration = Duration::from_millis(300);

/// Keeps these clients, which nobody else may be, asking for `duration`.
///
/// # Errors
///
/// When any answer is not one: the figures would be those of something else.
pub(super) fn run(
    operation: &Operation,
    clients: Range<usize>,
    server: &Server,
    documents: usize,
    duration: Duration,
) -> anyhow::Result<Outcome> {
    let (port, used_before) = (server.port(), procfs::cpu_seconds(server.pid())?);
    let clients: Vec<_> = clients
        .map(|client| {
            let mut requests = Requests::new(operation.ask, client, port, documents);
            let expects = operation.expects;
            thread::spawn(move || ask(&mut requests, expects, port, duration))
        })
        .collect();
    let mut latencies = vec![];
    let mut calls = 0;
    for client in clients {
        let asked = client.join().map_err(|_| anyhow!("a client panicked"))?;
        let (some, mut measured) = asked.with_context(|| operation.name)?;
        calls += some;
        latencies.append(&mut measured);
    }
    let cpu = (procfs::cpu_seconds(server.pid())? - used_before) / calls as f64;
    Ok(Outcome::new(latencies, duration).with_cpu(Duration::from_secs_f64(cpu)))
}

/// Answers how many calls there were, and how long those that count took.
fn ask(
    requests: &mut Requests,
    expects: &str,
    port: u16,
    duration: Duration,
) -> anyhow::Result<(u64, Vec<Duration>)> {
    let mut client = Client::connect(port)?;
    let start = Instant::now() + WARM_UP;
    let mut latencies = vec![];
    for calls in 1.. {
        let request = requests.next();
        let sent = Instant::now();
        let answer = client.call(&request)?;
        let answered = Instant::now();
        check(&answer, expects)?;
        requests.answered(&answer);
        if answered > start + duration {
            return Ok((calls, latencies));
        }
        if answered > start {
            latencies.push(answered - sent);
        }
    }
    unreachable!("the duration passes before the numbers end")
}

/// Requires a result with the text, and not one that tells of an error.
pub(super) fn check(answer: &Answer, expects: &str) -> anyhow::Result<()> {
    let has = |text: &str| memmem::find(&answer.body, text.as_bytes()).is_some();
    let good = answer.status == 200 && has(expects) && !has(r#""isError":true"#);
    ensure!(good, "answered {} without {expects}: {}", answer.status, answer.text());
    Ok(())
}
