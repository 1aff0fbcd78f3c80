//! A server with one of everything: the fixtures of the official conformance suite, and `echo`.
//!
//! It is what the test run, the benchmark and the SDK clients talk to; it is not a model of what a
//! useful server offers.

mod asking;
mod changes;
mod content;
mod prompts;
mod resources;
mod rounds;
mod schemas;
mod tasks;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Parser;
use http::Response;
use hyper::body::Incoming;
use lyceum_http::{AnswerBody, Dialect, Endpoint, Sealer, ServeOptions, Site, serve};
use lyceum_server::{Builder, Server, stdio};
use lyceum_wire::RevisionSet;
use tokio::net::TcpListener;

// As in the product, so that the benchmark measures what people run.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A server with one of everything.
#[derive(Debug, Parser)]
struct Cli {
    /// Where to listen; port 0 picks one.
    #[arg(long, default_value = "127.0.0.1:8808")]
    listen: SocketAddr,
    /// Where to keep the sealing key and ended sessions, so that sessions survive a restart.
    #[arg(long)]
    data: Option<PathBuf>,
    /// How Accept headers are read: standard, agent-data, knox, turul or strict.
    #[arg(long, default_value = "standard")]
    dialect: Dialect,
    /// Never answer with an event stream.
    #[arg(long)]
    no_sse: bool,
    /// Serve the revisions with a handshake only.
    #[arg(long, conflicts_with = "modern_only")]
    legacy_only: bool,
    /// Serve the revisions without a handshake only.
    #[arg(long)]
    modern_only: bool,
    /// Serve standard input and output instead of HTTP.
    #[arg(long)]
    stdio: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(filter).init();
    let server = everything()?;
    let served = cli.served();
    if cli.stdio {
        let options = stdio::Options { served, ..stdio::Options::default() };
        return Ok(stdio::serve(server, options).await?);
    }
    listen(&cli, server, served).await
}

/// The server itself. The first tool takes no arguments: the suite calls it without any.
fn everything() -> anyhow::Result<Server> {
    let server = Server::builder("lyceum-everything", env!("CARGO_PKG_VERSION"))
        .title("Everything")
        .description("The fixtures of the MCP conformance suite.")
        .instructions("For tests: every tool is described by its name.");
    let parts: [fn(Builder) -> anyhow::Result<Builder>; 8] = [
        |server| Ok(content::add(server)),
        |server| Ok(asking::add(server)?),
        |server| Ok(rounds::add(server)),
        |server| Ok(changes::add(server)),
        |server| Ok(schemas::add(server)?),
        |server| Ok(tasks::add(server)),
        |server| Ok(resources::add(server)?),
        |server| Ok(prompts::add(server)),
    ];
    let server = parts.into_iter().try_fold(server, |server, add| add(server))?;
    Ok(server.build())
}

async fn listen(cli: &Cli, server: Server, served: RevisionSet) -> anyhow::Result<()> {
    let mut endpoint = Endpoint::builder("/mcp", server.clone())
        .dialect(cli.dialect)
        .sse(!cli.no_sse)
        .revisions(served);
    if let Some(data) = &cli.data {
        endpoint = endpoint.sealer(sealer(data)?).revocations(data.join("ended-sessions"));
    }
    let endpoint = endpoint.build().context("opening the data directory")?;
    let mut site: Site<Incoming> = Site::new()
        .endpoint(endpoint.clone())
        .handle("/health", |_| Box::pin(async { Ok(Response::new(AnswerBody::whole("ok\n"))) }));
    if served.contains(lyceum_wire::Revision::V2024_11_05) && !cli.no_sse {
        site = site.http_sse("/sse", endpoint.http_sse("/messages"));
    }
    let listener = TcpListener::bind(cli.listen).await;
    let listener = listener.with_context(|| format!("listening on {}", cli.listen))?;
    announce(&format!("http://{}/mcp", listener.local_addr()?));
    let options = ServeOptions::default();
    let stop = async {
        shutdown().await;
        server.close();
        endpoint.close_streams();
    };
    serve(listener, site, options, stop).await.context("serving")
}

impl Cli {
    fn served(&self) -> RevisionSet {
        match (self.legacy_only, self.modern_only) {
            (true, _) => RevisionSet::LEGACY,
            (_, true) => RevisionSet::MODERN,
            _ => RevisionSet::ALL,
        }
    }
}

fn sealer(data: &Path) -> anyhow::Result<Arc<Sealer>> {
    std::fs::create_dir_all(data).with_context(|| format!("creating {}", data.display()))?;
    let path = data.join("seal.key");
    let sealer = Sealer::from_file(&path);
    Ok(Arc::new(sealer.with_context(|| format!("reading {}", path.display()))?))
}

#[expect(clippy::print_stdout, reason = "scripts read the address from here")]
fn announce(url: &str) {
    println!("{url}");
}

/// Completes when the process is asked to end.
async fn shutdown() {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let Ok(mut terminate) = signal(SignalKind::terminate()) else {
            return drop(interrupt.await);
        };
        tokio::select! {
            _ = interrupt => {}
            _ = terminate.recv() => {}
        }
    }
    #[cfg(not(unix))]
    drop(interrupt.await);
}
