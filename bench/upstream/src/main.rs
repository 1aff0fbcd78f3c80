//! The server behind the gateways: one tool that echoes, in both eras, over HTTP or lines.
//!
//! It does as little as an MCP server can, because it shares its core with the load and none of its
//! own time is measured. With `--bad` it goes wrong on purpose. Not an example of how to write one.

mod http;
mod lines;
mod message;

use std::net::SocketAddr;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use tokio::net::TcpListener;

#[derive(Debug, Parser)]
struct Cli {
    /// Serve HTTP here; without it, lines on standard input and output.
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Know nothing of 2026-07-28.
    #[arg(long)]
    legacy: bool,
    /// Never sleep, so that nobody has to wake it.
    #[arg(long)]
    awake: bool,
    /// How it goes wrong.
    #[arg(long, value_enum)]
    bad: Option<Bad>,
    /// What goes wrong.
    #[arg(long, value_enum, default_value = "calls")]
    when: When,
}

/// A way to go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Bad {
    /// Never answers.
    Hang,
    /// Answers with bytes that are no protocol.
    Garbage,
    /// Answers with an event that never ends.
    Endless,
    /// Ends.
    Crash,
    /// Answers with one byte a second.
    Slow,
}

/// Whether a bad server is bad at once, or only to those who call its tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum When {
    Always,
    Calls,
}

impl Cli {
    /// What goes wrong with this message, if anything does.
    fn trouble(&self, message: &[u8]) -> Option<Bad> {
        self.bad.filter(|_| self.when == When::Always || message::is_call(message))
    }
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let Some(address) = cli.listen else { return lines::serve(&cli) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        if cli.awake {
            tokio::spawn(stay_awake());
        }
        let listener =
            TcpListener::bind(address).await.with_context(|| format!("binding {address}"))?;
        http::serve(listener, cli).await
    })
}

/// Always has something to do, and lets everybody else on the core go first.
async fn stay_awake() {
    loop {
        tokio::task::yield_now().await;
        std::thread::yield_now();
    }
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
    fn a_server_with_bad_calls_shakes_hands_like_any_other() {
        let trouble = |arguments: &[&str], method: &str| {
            let cli = Cli::parse_from([&["upstream"], arguments].concat());
            cli.trouble(format!(r#"{{"id":1,"method":"{method}"}}"#).as_bytes())
        };
        assert_eq!(trouble(&[], "tools/call"), None);
        assert_eq!(trouble(&["--bad", "slow"], "tools/call"), Some(Bad::Slow));
        assert_eq!(trouble(&["--bad", "slow"], "initialize"), None);
        assert_eq!(trouble(&["--bad", "hang", "--when", "always"], "initialize"), Some(Bad::Hang));
    }
}
