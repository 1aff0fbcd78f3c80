//! Every write and every refused call leaves a line, with who, where and what.

use lyceum_kb::Policy;
use lyceum_kb::store::Store;
use lyceum_kb::store::sqlite::SqliteStore;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use super::Client;
use crate::lyceum::Lyceum;

#[tokio::test]
async fn writes_and_refusals_are_written_down() {
    let (lyceum, data) = Lyceum::fresh(&[]).await;
    let mut client = Client::of(&lyceum, "/mcp-gpt").await;
    let calls = [
        ("upload_document", json!({ "path": "a", "content": "x" })),
        ("upload_document", json!({ "path": "a", "content": "x" })),
        ("get_document", json!({ "document_id": "nope" })),
        ("get_document", json!({ "document_id": "a" })),
        ("search_knowledge", json!({ "query": 7 })),
        ("list_documents", json!({ "prefix": "p", "limit": 0 })),
        ("delete_document", json!({ "path": "a" })),
        ("move_document", json!({})),
    ];
    for (tool, arguments) in calls {
        client.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await;
    }
    let store = SqliteStore::open(&data.path().join("knowledge.db"), Policy::default()).unwrap();
    let mut trail = store.audit_trail(None, 100).await.unwrap();
    trail.reverse();
    let told: Vec<String> = trail
        .iter()
        .map(|line| {
            let entry = &line.entry;
            let by = &entry.actor;
            assert_eq!(by.request_id, "1");
            let document = entry.document.as_deref().unwrap_or("-");
            format!("{} {} {} {document} {}", by.principal, by.profile, by.tool, entry.outcome)
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    anonymous /mcp-gpt upload_document a ok
    anonymous /mcp-gpt upload_document a CONFLICT
    anonymous /mcp-gpt get_document nope NOT_FOUND
    anonymous /mcp-gpt search_knowledge - INVALID_ARGUMENT
    anonymous /mcp-gpt list_documents p INVALID_ARGUMENT
    anonymous /mcp-gpt delete_document - FORBIDDEN
    anonymous /mcp-gpt move_document - NOT_FOUND
    ");
}

#[tokio::test]
async fn floods_of_refused_calls_leave_few_lines_and_a_number() {
    let delete = json!({ "name": "delete_document", "arguments": { "path": "a" } });
    flood("/mcp-readonly", delete).await;
}

#[tokio::test]
async fn floods_of_refused_writes_leave_few_lines_and_a_number() {
    let arguments = json!({ "path": "a", "content": "x" });
    flood("/mcp", json!({ "name": "update_document", "arguments": arguments })).await;
}

/// Makes the same refused call again and again.
async fn flood(profile: &'static str, refused: Value) {
    const FLOOD: usize = 900;
    let (lyceum, data) = Lyceum::fresh(&[]).await;
    let mut client = Client::of(&lyceum, profile).await;
    let start = Instant::now();
    for _ in 0..FLOOD {
        client.ask("tools/call", refused.clone()).await;
    }
    // Longer than it takes until a line is allowed again, so that the number is told.
    sleep(Duration::from_millis(1500)).await;
    client.ask("tools/call", refused).await;
    let seconds = start.elapsed().as_secs() as usize + 1;
    let store = SqliteStore::open(&data.path().join("knowledge.db"), Policy::default()).unwrap();
    let trail = store.audit_trail(None, 2 * FLOOD).await.unwrap();
    let mut told = 0;
    for line in &trail {
        let outcome = line.entry.outcome.as_str();
        let summary = outcome.strip_prefix("REFUSED ").and_then(|rest| rest.strip_suffix(" MORE"));
        told += summary.map_or(1, |omitted| omitted.parse::<usize>().unwrap());
    }
    assert_eq!(told, FLOOD + 1, "every refusal is told, if only as a number");
    assert!(trail.len() <= 600 + 2 * seconds, "{} lines in {seconds} seconds", trail.len());
}
