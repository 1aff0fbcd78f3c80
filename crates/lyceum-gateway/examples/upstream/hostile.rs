//! An upstream that means harm, over standard input and output: its tools are the ways it has.
//!
//! It is no MCP server to speak of: a legacy handshake, a list, and then whatever a tool's name says.

use std::io::{self, BufRead, Write};

use bytes::Bytes;
use lyceum_wire::{Id, Member, Message, RpcError, encode};

const GREETING: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"hostile","version":"1"}}"#;
const TOOLS: [&str; 9] = [
    "behave",
    "line",
    "noise",
    "notify",
    "errors",
    "deep_64",
    "deep_129",
    "deep_100000",
    "deep_1000000",
];
const PIECE: usize = 64 << 10;

/// Answers requests until its input ends; floods `at_once` if it is to.
pub(crate) fn run(at_once: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if at_once {
        flood(&mut out, &[b'x'; PIECE])?;
    }
    for line in io::stdin().lock().lines() {
        let Ok(Message::Request(request)) = Message::parse(&Bytes::from(line?)) else { continue };
        let answer = match request.method.as_str() {
            "initialize" => encode::result(&request.id, GREETING.as_bytes()),
            "tools/list" => encode::result(&request.id, listing().as_bytes()),
            "tools/call" => {
                let tool = request.params.text(Member::Name).unwrap_or_default();
                call(&tool, &request.id, &mut out)?
            }
            method => encode::error(Some(&request.id), &RpcError::method_not_found(method)),
        };
        out.write_all(&answer)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

fn listing() -> String {
    let tool = |name: &&str| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#);
    format!(r#"{{"tools":[{}]}}"#, TOOLS.iter().map(tool).collect::<Vec<_>>().join(","))
}

fn call(tool: &str, id: &Id, out: &mut impl Write) -> io::Result<Bytes> {
    match tool {
        // A message that never ends.
        "line" => {
            out.write_all(br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"text":""#)?;
            flood(out, &[b'x'; PIECE])?;
        }
        // Lines that are no messages.
        "noise" => flood(out, "x\n".repeat(PIECE / 2).as_bytes())?,
        // Messages nobody asked for.
        "notify" => {
            let note = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n";
            flood(out, note.repeat(1000).as_bytes())?;
        }
        // Standard error, while it goes on answering.
        "errors" => drop(std::thread::spawn(|| flood(&mut io::stderr(), &[b'x'; PIECE]))),
        tool => {
            if let Some(depth) = tool.strip_prefix("deep_").and_then(|depth| depth.parse().ok()) {
                return Ok(deep(id, depth));
            }
        }
    }
    Ok(encode::result(id, br#"{"content":[{"type":"text","text":"behaved"}]}"#))
}

/// An answer that is so deep, all in all.
fn deep(id: &Id, depth: usize) -> Bytes {
    // The message, its result and the content around it.
    let inner = depth - 3;
    let (open, close) = ("[".repeat(inner), "]".repeat(inner));
    let result = format!(
        r#"{{"content":[{{"type":"text","text":"deep"}}],"structuredContent":{{"a":{open}{close}}}}}"#
    );
    encode::result(id, result.as_bytes())
}

/// Writes until nobody takes it any more.
fn flood(out: &mut impl Write, piece: &[u8]) -> io::Result<()> {
    loop {
        out.write_all(piece)?;
    }
}
