//! `lyceum convert`: the other side of `conversion`, a process that may die of what it reads.

use std::io::{Read, Write};
use std::process::ExitCode;

use anyhow::Context;
use lyceum_kb::convert::{MAX_INPUT, Original, convert};

use crate::cli::ConvertOpts;
use crate::conversion::Answer;

/// Bytes of memory beyond those the process starts with. Files are at most 16 MiB, and what they
/// honestly hold is a few times that.
#[cfg(unix)]
const MAX_MEMORY: u64 = 512 << 20;
/// Seconds of work; the server's patience ends at about the same time.
#[cfg(unix)]
const MAX_SECONDS: u64 = 20;
/// Calls of others come first, however long a page takes.
#[cfg(unix)]
const NICENESS: i32 = 10;

pub(crate) fn run(opts: &ConvertOpts) -> anyhow::Result<ExitCode> {
    limit();
    let mut bytes = Vec::new();
    std::io::stdin()
        .take(MAX_INPUT as u64 + 1)
        .read_to_end(&mut bytes)
        .context("cannot read standard input")?;
    let answer = Answer::from(convert(&Original {
        bytes: &bytes,
        media_type: opts.media_type.as_deref(),
        name: opts.name.as_deref(),
        url: opts.url.as_deref(),
    }));
    std::io::stdout().write_all(&serde_json::to_vec(&answer)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Takes away what converting does not need, before the first byte is read.
#[cfg(unix)]
fn limit() {
    use rustix::process::{Resource, Rlimit, nice, setrlimit};
    // A system that refuses is no reason not to convert, here and below.
    let _ = nice(NICENESS);
    let limits = [
        (Resource::Data, memory_so_far() + MAX_MEMORY),
        (Resource::Cpu, MAX_SECONDS),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
    ];
    for (resource, limit) in limits {
        // It may know no such limit, or have a lower one.
        let _ = setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) });
    }
}

/// Bytes that count towards the limit already: the allocator takes some before it is asked.
#[cfg(unix)]
fn memory_so_far() -> u64 {
    let pages = || {
        let sizes = std::fs::read_to_string("/proc/self/statm").ok()?;
        sizes.split_whitespace().nth(5)?.parse::<u64>().ok()
    };
    pages().unwrap_or(0) * rustix::param::page_size() as u64
}

#[cfg(not(unix))]
fn limit() {}
