//! The command line. Plain data; nothing here measures.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::programs::Programs;

/// Measures MCP servers against bare hyper and ours against its budgets.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", version)]
pub(crate) struct Cli {
    /// Something other than measuring.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Fewer and shorter rounds, fewer requests, 1,000 streams only.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only cases whose name contains this (may be given again); the bare hyper they are compared
    /// with always runs.
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,
    /// Only this part of the measurement (may be given again).
    #[arg(long, value_enum)]
    pub(crate) part: Vec<Part>,
    /// Rounds over all cases; the figures are medians [default: 7, quick: 3].
    #[arg(long)]
    pub(crate) rounds: Option<usize>,
    /// Seconds of load per case and round [default: 1.5, quick: 1], beside bad upstreams [default: 4,
    /// quick: 2], and per operation on the knowledge base [default: 4, quick: 1].
    #[arg(long)]
    pub(crate) seconds: Option<f64>,
    /// Print the table and succeed even when a budget is missed.
    #[arg(long)]
    pub(crate) report_only: bool,
    /// Our server.
    #[arg(
        long,
        value_name = "PATH",
        default_value = "target/dist/examples/everything",
        global = true
    )]
    pub(crate) product: PathBuf,
    /// Our program, for the gateway and the knowledge base.
    #[arg(long, value_name = "PATH", default_value = "target/dist/lyceum", global = true)]
    pub(crate) lyceum: PathBuf,
    /// Where a gateway of other people's was installed: `mcp-proxy`, `fastmcp` (a Python that has it)
    /// or `nginx` (may be given again).
    #[arg(long, value_name = "NAME=PATH", value_parser = pair)]
    peer: Vec<(String, String)>,
    /// Why one could not be installed (may be given again).
    #[arg(long, value_name = "NAME=REASON", value_parser = pair)]
    no_peer: Vec<(String, String)>,
    /// Documents in the knowledge base, 2.5 chunks each (may be given again) [default: 10000, 40000 and
    /// 100000, quick: 10000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    documents: Vec<u32>,
    /// Keep the knowledge bases in this directory, as they were before anything was measured, and use copies
    /// of those that are there.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Shows which functions of a server a request spends its instructions in.
    Profile(Profile),
    /// Prints the names of the gateways of other people's that a run would start.
    #[command(hide = true)]
    Peers,
    /// Opens idle streams and keeps them until standard input closes.
    #[command(hide = true)]
    Hold(Hold),
}

/// What a measurement is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// CPU time per request and its ratio to bare hyper.
    Cpu,
    /// User instructions per request, by callgrind.
    Instructions,
    /// System calls per request, by strace.
    Syscalls,
    /// Resident memory per idle session and stream.
    Memory,
    /// The gateway: what passing a call on costs, beside others, and how good upstreams fare next to
    /// bad ones.
    Gateway,
    /// The knowledge base: lists, reads, searches and writes with many documents.
    Kb,
}

#[derive(Debug, Args)]
pub(crate) struct Profile {
    /// The case, by its whole name.
    pub(crate) case: String,
    /// How many functions to show.
    #[arg(long, default_value_t = 40)]
    pub(crate) top: usize,
    /// Count a function together with everything it calls.
    #[arg(long)]
    pub(crate) inclusive: bool,
    /// How many requests to average over.
    #[arg(long, default_value_t = 1000)]
    pub(crate) requests: u64,
}

#[derive(Debug, Args)]
pub(crate) struct Hold {
    /// The server's port on the loopback interface.
    #[arg(long)]
    pub(crate) port: u16,
    /// The path of the endpoint.
    #[arg(long)]
    pub(crate) path: String,
    /// How many streams.
    #[arg(long)]
    pub(crate) streams: usize,
    /// Open a legacy session for each stream first.
    #[arg(long)]
    pub(crate) sessions: bool,
}

impl Cli {
    pub(crate) fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 3 } else { 7 }).max(1)
    }

    pub(crate) fn duration(&self) -> Duration {
        let seconds = self.seconds.unwrap_or(if self.quick { 1.0 } else { 1.5 });
        Duration::from_secs_f64(seconds.clamp(0.1, 600.0))
    }

    /// Seconds of load beside bad upstreams.
    pub(crate) fn beside_time(&self) -> Duration {
        let seconds = self.seconds.unwrap_or(if self.quick { 2.0 } else { 4.0 });
        Duration::from_secs_f64(seconds.clamp(0.1, 600.0))
    }

    /// Seconds of load per operation on the knowledge base.
    pub(crate) fn kb_time(&self) -> Duration {
        let seconds = self.seconds.unwrap_or(if self.quick { 1.0 } else { 4.0 });
        Duration::from_secs_f64(seconds.clamp(0.1, 600.0))
    }

    pub(crate) fn documents(&self) -> Vec<usize> {
        match &self.documents[..] {
            [] if self.quick => vec![10_000],
            [] => vec![10_000, 40_000, 100_000],
            given => given.iter().map(|n| *n as usize).collect(),
        }
    }

    pub(crate) fn programs(&self) -> Programs {
        let installed = self.peer.iter().map(|(name, path)| (name.clone(), Ok(path.into())));
        let absent = self.no_peer.iter().map(|(name, why)| (name.clone(), Err(why.clone())));
        Programs {
            everything: self.product.clone(),
            lyceum: self.lyceum.clone(),
            peers: installed.chain(absent).collect(),
        }
    }

    pub(crate) fn wants(&self, part: Part) -> bool {
        self.part.is_empty() || self.part.contains(&part)
    }

    pub(crate) fn selects(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn verify_cli() {
        Cli::command().debug_assert();
    }

    #[test]
    fn only_selects_by_part_of_the_name_and_nothing_given_selects_all() {
        let cli = |arguments: &[&str]| Cli::parse_from([&["bench"], arguments].concat());
        assert!(cli(&[]).selects("ours-legacy-json"));
        assert!(cli(&["--only", "ours", "--only", "rmcp"]).selects("rmcp-json"));
        assert!(!cli(&["--only", "ours"]).selects("rmcp-json"));
    }
}
