//! System calls per request, by strace: attached to a warm server with an open connection.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::case::Case;
use crate::client::Client;
use crate::programs::Programs;
use crate::server::{Server, signal};
use crate::{echo, procfs, tool};

const ATTACH: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(10);

#[derive(Debug, PartialEq)]
pub(crate) struct Syscalls {
    pub(crate) per_request: f64,
    /// Name and number per request of those that matter, the most frequent first.
    pub(crate) each: Vec<(String, f64)>,
}

/// System calls of one request of `case`, averaged over `requests` on one connection.
pub(crate) fn measure(case: &Case, requests: u64, programs: &Programs) -> anyhow::Result<Syscalls> {
    tool::require("strace")?;
    eprintln!("syscalls: {}", case.name);
    let server = Server::start(case.program, programs)?;
    echo::check(case, server.port())?;
    let request = echo::request_in_place(case, server.port())?;
    let mut client = Client::connect(server.port())?;
    client.repeat(&request, 100)?;

    let scratch = tempfile::tempdir()?;
    let counts = scratch.path().join("counts");
    let mut strace = Command::new("strace")
        .args(["-f", "-c", "-o"])
        .arg(&counts)
        .args(["-p", &server.pid().to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let traced = wait_until_traced(server.pid()).and_then(|()| client.repeat(&request, requests));
    // strace writes its counts when interrupted; it must not outlive a failed run either.
    let stopped = signal(strace.id(), "INT");
    strace.wait()?;
    traced.and(stopped)?;
    let counts = fs::read_to_string(counts).context("strace wrote no counts")?;
    Ok(parse(&counts, requests as f64))
}

fn wait_until_traced(pid: u32) -> anyhow::Result<()> {
    let start = Instant::now();
    while !procfs::is_traced(pid)? {
        ensure!(start.elapsed() < ATTACH, "strace may not trace processes here");
        thread::sleep(STEP);
    }
    Ok(())
}

fn parse(counts: &str, requests: f64) -> Syscalls {
    // Columns: % time, seconds, usecs/call, calls, errors (often empty), name.
    let row = |line: &str| -> Option<(String, f64)> {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let name = columns.last().filter(|name| **name != "total")?;
        Some(((*name).to_owned(), columns.get(3)?.parse::<f64>().ok()? / requests))
    };
    let mut each: Vec<_> = counts.lines().filter_map(row).collect();
    let per_request = each.iter().map(|(_, count)| count).sum();
    each.retain(|(_, count)| *count > 0.02);
    each.sort_by(|a, b| b.1.total_cmp(&a.1));
    Syscalls { per_request, each }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_divided_by_requests_and_the_total_is_not_counted_twice() {
        let counts = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 50.00    0.000200           2       100           sendto
 40.00    0.000100           2       150        50 recvfrom
 10.00    0.000100           2         1           futex
------ ----------- ----------- --------- --------- ----------------
100.00    0.000400           2       251        50 total
";
        let syscalls = parse(counts, 100.0);
        let each = vec![("recvfrom".to_owned(), 1.5), ("sendto".to_owned(), 1.0)];
        assert_eq!(syscalls, Syscalls { per_request: 2.51, each });
    }
}
