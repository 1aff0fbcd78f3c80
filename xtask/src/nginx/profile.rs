//! The `/mcp-gpt` profile of the product behind nginx, in the dialect its clients expect (agent-data): an answer asked for
//! as SSE comes whole and unchanged, and the first event of a stream that stays open comes at once.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::Nginx;
use super::exchange::{Post, exchange, first_event};
use crate::everything::{self, DataDir, address_of, url_in};
use crate::process::Guarded;
use crate::tally::Tally;
use crate::workspace::Workspace;

const START_LIMIT: Duration = Duration::from_secs(20);

/// Far more than an event takes, and far less than the 15 seconds after which a keep-alive follows it.
const PROMPT: Duration = Duration::from_secs(2);

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;
const LISTEN: &str = r#"{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{"notifications":{"resourcesListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

const LISTEN_HEADERS: &str = "MCP-Protocol-Version: 2026-07-28\r\n\
    Mcp-Method: subscriptions/listen\r\n";

pub(super) fn run(workspace: &Workspace, package: &Path) -> Result<Tally> {
    let data = DataDir::create(workspace)?;
    let mut command = Command::new(everything::lyceum(workspace)?);
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data.path());
    let server = Guarded::spawn(&mut command)?;
    let upstream = address_of(&server.wait_for(START_LIMIT, url_in)?)?;
    let nginx = Nginx::start(workspace, package, "nginx-profile", upstream)?;

    let mut tally = Tally::default();
    let mut check = |name: &str, outcome: Result<()>| match outcome {
        Ok(()) => tally.passed += 1,
        Err(error) => tally.fail(format!("{name}: {error:#}")),
    };
    check("one frame", one_frame(&nginx));
    check(
        "first event",
        listen(&nginx, "/mcp-gpt").and_then(|first| {
            println!("profile: the first event came after {first:?}");
            ensure!(first.is_some(), "no event within {PROMPT:?}");
            Ok(())
        }),
    );
    check(
        "control, buffered on purpose",
        listen(&nginx, "/buffered/mcp-gpt").and_then(|first| {
            ensure!(first.is_none(), "an event came after {first:?}, so buffering proves nothing");
            Ok(())
        }),
    );
    Ok(tally)
}

fn one_frame(nginx: &Nginx) -> Result<()> {
    let post = Post { path: "/mcp-gpt", accept: "text/event-stream", headers: "", body: LIST };
    let answer = exchange(nginx.address, post)?;
    let kind = answer.header("content-type");
    ensure!(kind == Some("text/event-stream; charset=utf-8"), "content-type: {kind:?}");
    let body = answer.body();
    let whole = body.starts_with("event: message\ndata: {") && body.ends_with("}\n\n");
    ensure!(whole && body.matches("event: ").count() == 1, "not one frame:\n{body}");
    Ok(())
}

fn listen(nginx: &Nginx, path: &str) -> Result<Option<Duration>> {
    let accept = "application/json, text/event-stream";
    let post = Post { path, accept, headers: LISTEN_HEADERS, body: LISTEN };
    first_event(nginx.address, post, PROMPT)
}
