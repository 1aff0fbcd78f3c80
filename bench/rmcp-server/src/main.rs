//! The same echo tool on rmcp, the official Rust SDK, behind axum.
//!
//! `--listen ADDR --mode json` answers stateless JSON, `--mode stateful` is rmcp's own default:
//! sessions and event streams. One tool router serves every call; rebuilding it per call, as the
//! macro's default does, costs several times more and would flatter us.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, bail};
use axum::serve::ListenerExt;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ServerHandler, tool, tool_handler, tool_router};
use tokio::net::TcpListener;

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    /// The text to send back.
    text: String,
}

#[derive(Clone)]
struct Peer {
    router: Arc<ToolRouter<Self>>,
}

#[tool_router]
impl Peer {
    #[tool(description = "Echoes the text.")]
    fn echo(&self, Parameters(echo): Parameters<Echo>) -> String {
        echo.text
    }
}

#[tool_handler(router = self.router)]
impl ServerHandler for Peer {}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, address, flag, mode] = arguments.as_slice() else {
        bail!("usage: --listen ADDR --mode json|stateful (got {arguments:?})");
    };
    if listen != "--listen" || flag != "--mode" {
        bail!("usage: --listen ADDR --mode json|stateful (got {arguments:?})");
    }
    let address: SocketAddr = address.parse().context("reading --listen")?;
    let config = match mode.as_str() {
        "json" => StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true),
        "stateful" => StreamableHttpServerConfig::default(),
        other => bail!("unknown mode {other}: json or stateful"),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(address, config))
}

async fn serve(address: SocketAddr, config: StreamableHttpServerConfig) -> anyhow::Result<()> {
    let peer = Peer { router: Arc::new(Peer::tool_router()) };
    let service = StreamableHttpService::new(
        move || Ok(peer.clone()),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    let listener =
        TcpListener::bind(address).await.with_context(|| format!("binding {address}"))?;
    let listener = listener.tap_io(|stream| {
        // Without it the figures would show Nagle's algorithm; the call fails only on a dead socket.
        let _dead = stream.set_nodelay(true);
    });
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}
