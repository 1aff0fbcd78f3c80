//! What the binary serves over standard input and output.

use std::path::Path;
use std::process::Stdio;

use lyceum_testkit::Request;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::lyceum::{Lyceum, command};

/// Sends `lines`, ends the input, and returns the lines that came back.
async fn talk(data: &Path, lines: &[Value]) -> Vec<Value> {
    let mut command = command(&["stdio", "--data", data.to_str().unwrap()]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for line in lines {
        stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).expect("only messages")).collect()
}

/// A modern call of a tool.
pub(crate) fn call(id: u64, tool: &str, arguments: Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

#[tokio::test]
async fn both_eras_are_served() {
    let data = tempfile::tempdir().unwrap();
    let modern = call(1, "upload_document", json!({ "path": "a", "content": "hello" }));
    let info = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info });
    let legacy = json!({ "jsonrpc": "2.0", "id": 2, "method": "initialize", "params": params });
    let mut answers = talk(data.path(), &[modern, legacy]).await;
    answers.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(answers[0]["result"]["structuredContent"]["status"], "created");
    assert_eq!(answers[1]["result"]["protocolVersion"], "2025-06-18");
}

#[tokio::test]
async fn the_knowledge_is_the_servers_while_it_runs() {
    let (lyceum, data) = Lyceum::fresh(&[]).await;
    let text = "x".repeat(3 << 20);
    let upload = call(1, "upload_document", json!({ "path": "from/stdio", "content": text }));
    let written = talk(data.path(), &[upload]).await;
    assert_eq!(written[0]["result"]["structuredContent"]["status"], "created");
    let params = json!({ "name": "get_document", "arguments": { "document_id": "from/stdio" } });
    let read = lyceum.call(&Request::modern("/mcp", 1, "tools/call", params)).await.json();
    assert_eq!(read["result"]["structuredContent"]["content_length"], text.len());
}
