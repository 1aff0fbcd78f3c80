//! What the binary serves over standard input and output.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::lyceum::command;

/// Sends `lines`, ends the input, and returns the lines that came back.
async fn talk(lines: &[Value]) -> Vec<Value> {
    let mut command = command(&["stdio"]);
    let mut child = command.env("HOME", "/nobody").stdin(Stdio::piped()).spawn().unwrap();
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

#[tokio::test]
async fn both_eras_are_served() {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let call = json!({ "name": "echo", "arguments": { "text": "hello" }, "_meta": meta });
    let modern = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call });
    let info = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info });
    let legacy = json!({ "jsonrpc": "2.0", "id": 2, "method": "initialize", "params": params });
    let mut answers = talk(&[modern, legacy]).await;
    answers.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(answers[0]["result"]["content"][0]["text"], "hello");
    assert_eq!(answers[1]["result"]["protocolVersion"], "2025-06-18");
}
