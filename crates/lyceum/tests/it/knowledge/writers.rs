//! Many writers on one document: no update is lost, and whoever comes late is told.

use serde_json::json;
use tokio::task::JoinSet;

use super::{Client, PROFILES, REVISIONS};
use crate::lyceum::Lyceum;

const WRITERS: usize = 64;

/// Adds a line, reading again whenever somebody else was faster; says how often that was.
async fn add_line(mut client: Client, line: String) -> usize {
    let mut conflicts = 0;
    loop {
        let read = client.ok("get_document_for_rewrite", json!({ "path": "shared" })).await;
        let content = format!("{}{line}\n", read["content"].as_str().unwrap());
        let update = json!({
            "path": "shared", "content": content, "expected_revision": read["revision"],
        });
        let result = client.call("update_document", update).await;
        if result["isError"].is_null() {
            return conflicts;
        }
        let error = super::text_of(&result)["error"].clone();
        assert_eq!(error["code"], "CONFLICT", "{error}");
        assert!(error["details"]["actual_revision"].as_i64() > read["revision"].as_i64());
        conflicts += 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_writers_lose_nothing() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let mut first = Client::of(&lyceum, "/mcp").await;
    first.ok("upload_document", json!({ "path": "shared", "content": "" })).await;
    let mut writers = JoinSet::new();
    for n in 0..WRITERS {
        // All profiles that may write, all revisions.
        let profile = [PROFILES[0], PROFILES[2], PROFILES[3]][n % 3];
        let mut client = Client::of(&lyceum, profile).await;
        client.revision = REVISIONS[n % 5];
        writers.spawn(add_line(client, format!("line {n}")));
    }
    let conflicts: usize = writers.join_all().await.into_iter().sum();
    let last = first.ok("get_document_for_rewrite", json!({ "path": "shared" })).await;
    assert_eq!(last["revision"], WRITERS + 1, "{conflicts} conflicts");
    let mut lines: Vec<&str> = last["content"].as_str().unwrap().lines().collect();
    lines.sort_unstable();
    let mut expected: Vec<String> = (0..WRITERS).map(|n| format!("line {n}")).collect();
    expected.sort_unstable();
    assert_eq!(lines, expected);
}
