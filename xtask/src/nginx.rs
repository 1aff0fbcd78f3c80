//! Streaming through nginx as Debian ships it, with its default buffering: the first event of a
//! call must arrive long before the result.
//!
//! The same call also goes through a location that ignores the server's wish not to be buffered.
//! There the events must arrive together, else this test would prove nothing.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::everything::{Everything, address_of};
use crate::process::Guarded;
use crate::stopwatch::Stopwatch;
use crate::tally::Tally;
use crate::tools;
use crate::workspace::Workspace;

mod exchange;
mod profile;

use exchange::{Exchange, Post, exchange};

const START_LIMIT: Duration = Duration::from_secs(10);

/// The tool reports progress at once and answers some 100 ms later; a buffer would close the gap.
const STREAMED_GAP: Duration = Duration::from_millis(60);
const BUFFERED_GAP: Duration = Duration::from_millis(20);

const BOTH: &str = "application/json, text/event-stream";

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"nginx-check","version":"1"}}}"#;
const LEGACY_CALL: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"test_tool_with_progress","arguments":{},"_meta":{"progressToken":"p"}}}"#;
const MODERN_CALL: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"test_tool_with_progress","arguments":{},"_meta":{"progressToken":"p","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

const MODERN_HEADERS: &str = "MCP-Protocol-Version: 2026-07-28\r\n\
    Mcp-Method: tools/call\r\n\
    Mcp-Name: test_tool_with_progress\r\n";

pub(crate) fn run(workspace: &Workspace) -> Result<Tally> {
    let package = tools::nginx(workspace)?;
    let server = Everything::start(workspace)?;
    let nginx = Nginx::start(workspace, &package, "nginx", address_of(&server.url)?)?;

    let mut tally = Tally::default();
    let mut check =
        |name: &str, exchange: Result<Exchange>, verdict: fn(Duration) -> bool| match exchange
            .and_then(|exchange| exchange.gap())
        {
            Ok(gap) => {
                println!("{name}: the result came {} ms after the first event", gap.as_millis());
                if verdict(gap) {
                    tally.passed += 1;
                } else {
                    tally.fail(format!("{name}: the gap is {} ms", gap.as_millis()));
                }
            }
            Err(error) => tally.fail(format!("{name}: {error:#}")),
        };
    let streamed = |gap| gap >= STREAMED_GAP;
    let address = nginx.address;
    check("modern", modern_call(address, "/mcp"), streamed);
    check("legacy", legacy_call(address), streamed);
    check("control, buffered on purpose", modern_call(address, "/buffered/mcp"), |gap| {
        gap <= BUFFERED_GAP
    });
    tally.absorb("profile", profile::run(workspace, &package)?);
    Ok(tally)
}

fn modern_call(address: SocketAddr, path: &str) -> Result<Exchange> {
    exchange(address, Post { path, accept: BOTH, headers: MODERN_HEADERS, body: MODERN_CALL })
}

fn legacy_call(address: SocketAddr) -> Result<Exchange> {
    let post = |headers, body| Post { path: "/mcp", accept: BOTH, headers, body };
    let opened = exchange(address, post("", INITIALIZE))?;
    let session = opened.header("mcp-session-id").context("initialize gave no session")?;
    let headers = format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
    exchange(address, post(&headers, LEGACY_CALL))
}

/// A running nginx; stopped when dropped.
struct Nginx {
    address: SocketAddr,
    _process: Guarded,
}

impl Nginx {
    /// Starts one with a folder of that name in front of `upstream`.
    fn start(
        workspace: &Workspace,
        package: &Path,
        name: &str,
        upstream: SocketAddr,
    ) -> Result<Self> {
        let dir = workspace.target().join("tmp").join(name);
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        // nginx takes no port 0, so a port that was free a moment ago has to do.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let stock = fs::read_to_string(package.join("etc/nginx/nginx.conf"))?;
        fs::write(dir.join("nginx.conf"), relocated(&stock, package, &dir))?;
        fs::write(dir.join("site.conf"), site(address, upstream, &dir))?;

        let mut command = Command::new(package.join("usr/sbin/nginx"));
        // One process, so that stopping it leaves no workers behind.
        command.args(["-g", "daemon off; master_process off;", "-e", "stderr"]);
        command.arg("-p").arg(&dir).arg("-c").arg(dir.join("nginx.conf"));
        let mut process = Guarded::spawn(&mut command)?;
        let watch = Stopwatch::start();
        while TcpStream::connect(address).is_err() {
            process.ensure_alive()?;
            ensure!(!watch.is_past(START_LIMIT), "nginx does not listen: {}", process.written());
            thread::sleep(Duration::from_millis(20));
        }
        Ok(Self { address, _process: process })
    }
}

/// The stock configuration with nothing changed but places and the user.
fn relocated(stock: &str, package: &Path, dir: &Path) -> String {
    let dir = dir.display().to_string();
    stock
        .replace("user www-data;", "")
        .replace("/etc/nginx/sites-enabled/*", &format!("{dir}/site.conf"))
        .replace("/etc/nginx", &package.join("etc/nginx").display().to_string())
        .replace("/var/log/nginx", &dir)
        .replace("/run/nginx.pid", &format!("{dir}/nginx.pid"))
}

/// The shortest reverse proxy there is, and its buffered twin. The package's places for temporary
/// files need an installed package, so they are named.
fn site(address: SocketAddr, upstream: SocketAddr, dir: &Path) -> String {
    let places: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {}/{kind};\n", dir.display()))
        .collect();
    format!(
        "{places}server {{
    listen {address};
    location / {{ proxy_pass http://{upstream}; }}
    location /buffered/ {{
        proxy_ignore_headers X-Accel-Buffering;
        proxy_pass http://{upstream}/;
    }}
}}
"
    )
}
