//! Connections that are opened and left idle, and the case in which nothing happens.

use anyhow::Result;

use crate::abuse::case::{AbuseCase, Attacker};
use crate::abuse::client::{AbusiveClient, Manner};
use crate::abuse::request::RequestBytes;

pub(super) const CASES: [AbuseCase; 4] = [
    AbuseCase::new("nothing", "no abuse: what the harness itself costs", |_| Ok(Vec::new()))
        .alone(),
    AbuseCase::new("idle-soft-256", "300 idle connections, soft limit of 256 files", |_| idle(300))
        .shell("ulimit -S -n 256")
        .alone()
        .quick(),
    AbuseCase::new("idle-hard-256", "300 idle connections, hard limit of 256 files", |_| idle(300))
        .shell("ulimit -n 256")
        .alone(),
    AbuseCase::new("idle-hard-1024", "1,100 idle connections, hard limit of 1,024 files", many)
        .shell("ulimit -n 1024")
        .alone(),
];

fn many(_: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    idle(1100)
}

/// Clients that open so many connections and say nothing on them.
fn idle(n: usize) -> Result<Vec<AbusiveClient>> {
    let silence = vec![RequestBytes::new(Vec::new())];
    Ok(vec![AbusiveClient::patient(silence).manner(Manner::Hold(n)).pause(0)])
}
