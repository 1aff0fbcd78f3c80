//! What the two limit servers share: the answer, the command line and the runtime.
//!
//! Not an MCP implementation. A limit server answers one `tools/call` and nothing else.

use std::future::Future;
use std::net::SocketAddr;

use anyhow::{Context, ensure};
use tokio::net::TcpListener;

/// The answer to the harness's echo, byte for byte as a legacy MCP server would send it.
pub const ANSWER: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":""#,
    "sixty-four bytes of plain text, so that each answer is as large.",
    r#""}],"isError":false}}"#
);

/// Binds the address of `--listen ADDR` and runs `serve` on tokio's default runtime.
///
/// # Errors
///
/// When the command line is not `--listen ADDR`, or the address cannot be bound.
pub fn run<F, S>(serve: S) -> anyhow::Result<()>
where
    S: FnOnce(TcpListener) -> F,
    F: Future<Output = anyhow::Result<()>>,
{
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    ensure!(
        arguments.len() == 2 && arguments[0] == "--listen",
        "usage: --listen ADDR (got {arguments:?})"
    );
    let address: SocketAddr = arguments[1].parse().context("reading --listen")?;
    // Every server here is pinned to one core, where ours has one thread, too.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let listener =
            TcpListener::bind(address).await.with_context(|| format!("binding {address}"))?;
        serve(listener).await
    })
}
