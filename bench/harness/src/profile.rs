//! Which functions a request spends its instructions in, by callgrind and its annotator.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::case::{CASES, HOPS};
use crate::cli::Profile;
use crate::client::Client;
use crate::programs::Programs;
use crate::server::Server;
use crate::{echo, tool};

pub(crate) fn run(profile: &Profile, programs: &Programs) -> anyhow::Result<()> {
    tool::require("valgrind")?;
    let cases = || CASES.iter().chain(HOPS);
    let case = cases().find(|case| case.name == profile.case).with_context(|| {
        let names: Vec<&str> = cases().map(|case| case.name).collect();
        format!("no case is named {}; there are {}", profile.case, names.join(", "))
    })?;
    let scratch = tempfile::tempdir()?;
    let counts = scratch.path().join("callgrind");
    let out = format!("--callgrind-out-file={}", counts.display());
    let wrapper = ["valgrind".to_owned(), "--tool=callgrind".to_owned(), out];
    let server = Server::start_under(&wrapper, case.program, programs)?;
    echo::check(case, server.port())?;
    let request = echo::request_in_place(case, server.port())?;
    let mut client = Client::connect(server.port())?;
    client.repeat(&request, 100)?;
    forget_counts(server.pid())?;
    client.repeat(&request, profile.requests)?;
    drop(client);
    server.stop()?;
    print(&counts, profile)
}

/// Sets every count to zero, so that the start of the server is not in the profile.
fn forget_counts(pid: u32) -> anyhow::Result<()> {
    let status = Command::new("callgrind_control")
        .args(["-z", &pid.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("running callgrind_control")?;
    ensure!(status.success(), "callgrind_control could not reach the server");
    Ok(())
}

fn print(counts: &Path, profile: &Profile) -> anyhow::Result<()> {
    let inclusive = if profile.inclusive { "--inclusive=yes" } else { "--inclusive=no" };
    let output = Command::new("callgrind_annotate")
        .args(["--auto=no", "--show-percs=no", "--threshold=100", inclusive])
        .arg(counts)
        .output()
        .context("running callgrind_annotate")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let mut rows = text.lines().filter_map(row);
    let (total, _) = rows.next().context("callgrind_annotate printed no total")?;
    let per_request = |count: u64| count as f64 / profile.requests as f64;
    println!("{:>9.0}  all, per request", per_request(total));
    // Functions that were running when the counts were set to zero are credited with everything.
    let rows = rows.filter(|(count, _)| profile.inclusive || *count < total);
    for (count, name) in rows.take(profile.top) {
        println!("{:>9.0}  {name}", per_request(count));
    }
    Ok(())
}

/// A line such as `12,345  file.rs:function [binary]`.
fn row(line: &str) -> Option<(u64, &str)> {
    let (count, name) = line.trim().split_once(' ')?;
    let count = count.replace(',', "").parse().ok()?;
    let name = name.split(" [").next()?.trim();
    Some((count, name.strip_prefix("???:").unwrap_or(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_count_and_a_function() {
        assert_eq!(row(" 12,345  ???:memcpy [libc.so]"), Some((12_345, "memcpy")));
        assert_eq!(row("99  PROGRAM TOTALS"), Some((99, "PROGRAM TOTALS")));
        assert_eq!(row("Profile data file 'x'"), None);
        assert_eq!(row("-----"), None);
    }
}
