//! User instructions per request, by callgrind: two runs of different length and their difference.
//!
//! Start, shutdown and warm-up cancel out. Repeats to well under one percent on a busy machine;
//! says nothing of the kernel's work.

use anyhow::Context;

use crate::case::Case;
use crate::client::Client;
use crate::programs::Programs;
use crate::server::Server;
use crate::{echo, tool};

/// Instructions of one request of `case`, averaged over `requests`.
pub(crate) fn measure(case: &Case, requests: u64, programs: &Programs) -> anyhow::Result<f64> {
    tool::require("valgrind")?;
    eprintln!("instructions: {}", case.name);
    let warm_up = requests / 5;
    let short = count(case, warm_up, programs)?;
    let long = count(case, warm_up + requests, programs)?;
    Ok((long as f64 - short as f64) / requests as f64)
}

fn count(case: &Case, requests: u64, programs: &Programs) -> anyhow::Result<u64> {
    let wrapper = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"];
    let server = Server::start_under(&wrapper.map(str::to_owned), case.program, programs)?;
    echo::check(case, server.port())?;
    let request = echo::request_in_place(case, server.port())?;
    Client::connect(server.port())?.repeat(&request, requests)?;
    let log = server.stop()?;
    parse(&log).with_context(|| format!("valgrind counted nothing: {}", log.trim()))
}

fn parse(log: &str) -> Option<u64> {
    let line = log.lines().find(|line| line.contains("Collected"))?;
    line.rsplit(' ').next()?.replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_with_or_without_separators() {
        assert_eq!(parse("==7== Events    : Ir\n==7== Collected : 16,500\n"), Some(16_500));
        assert_eq!(parse("==7== \n==7== Collected : 16500\n==7==\n"), Some(16_500));
        assert_eq!(parse("==7== terminated\n"), None);
    }
}
