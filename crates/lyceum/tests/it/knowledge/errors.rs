//! What goes wrong, and in which shape it is told.

use serde_json::{Value, json};

use super::{Client, PROFILES, REVISIONS};
use crate::lyceum::Lyceum;

/// Tool, arguments, code.
fn rows() -> Vec<(&'static str, Value, &'static str)> {
    let long = "x".repeat(4 * 1024 * 1024 + 1);
    vec![
        ("search_knowledge", json!({}), "INVALID_ARGUMENT"),
        ("search_knowledge", json!({ "query": " " }), "INVALID_ARGUMENT"),
        ("search_knowledge", json!({ "query": 5 }), "INVALID_ARGUMENT"),
        ("search_knowledge", json!({ "query": "x", "limit": 0 }), "INVALID_ARGUMENT"),
        ("search_knowledge", json!({ "query": "x", "limit": 21 }), "INVALID_ARGUMENT"),
        ("search_knowledge", json!({ "query": "x", "limit": "5" }), "INVALID_ARGUMENT"),
        ("search_knowledge", json!({ "query": "x", "limt": 5 }), "INVALID_ARGUMENT"),
        ("search_knowledge", json!({ "query": "x", "updated_since": "now" }), "INVALID_ARGUMENT"),
        (
            "search_knowledge",
            json!({ "query": "x", "tags": ["t".repeat(257)] }),
            "INVALID_ARGUMENT",
        ),
        ("search_knowledge", json!({ "query": "x", "tags": vec!["t"; 65] }), "INVALID_ARGUMENT"),
        (
            "search_knowledge",
            json!({ "query": "x", "prefix": "p".repeat(1025) }),
            "INVALID_ARGUMENT",
        ),
        ("list_documents", json!({ "prefix": "p".repeat(1025) }), "INVALID_ARGUMENT"),
        ("list_documents", json!([]), "INVALID_ARGUMENT"),
        ("list_documents", json!("all"), "INVALID_ARGUMENT"),
        ("list_documents", json!({ "path": "a", "prefix": "b" }), "INVALID_ARGUMENT"),
        ("get_document", json!({ "document_id": "nope" }), "NOT_FOUND"),
        (
            "get_document",
            json!({ "document_id": "a", "section": "x", "lines": "1" }),
            "INVALID_ARGUMENT",
        ),
        ("get_document", json!({ "document_id": "a", "section": "nope" }), "NOT_FOUND"),
        ("get_document", json!({ "document_id": "a", "lines": "99" }), "INVALID_ARGUMENT"),
        ("get_document", json!({ "document_id": "../a" }), "INVALID_ARGUMENT"),
        ("get_document_for_rewrite", json!({}), "INVALID_ARGUMENT"),
        (
            "get_document_for_rewrite",
            json!({ "path": "a", "document_id": "b" }),
            "INVALID_ARGUMENT",
        ),
        ("get_document_for_rewrite", json!({ "path": "a", "revision": 99 }), "NOT_FOUND"),
        ("batch_read", json!({ "paths": [] }), "INVALID_ARGUMENT"),
        ("batch_read", json!({ "paths": vec!["a"; 21] }), "INVALID_ARGUMENT"),
        ("batch_read", json!({ "paths": ["/a"] }), "INVALID_ARGUMENT"),
        ("upload_document", json!({ "path": "a", "content": "x" }), "CONFLICT"),
        ("upload_document", json!({ "path": "b" }), "INVALID_ARGUMENT"),
        ("upload_document", json!({ "path": "b/", "content": "x" }), "INVALID_ARGUMENT"),
        (
            "upload_document",
            json!({ "path": "b", "content": "x", "mime_type": "x/y" }),
            "INVALID_ARGUMENT",
        ),
        (
            "upload_document",
            json!({ "path": "b", "content": "x", "idempotency_key": "" }),
            "INVALID_ARGUMENT",
        ),
        ("upload_document", json!({ "path": "b", "content": long }), "INVALID_ARGUMENT"),
        ("update_document", json!({ "path": "nope", "content": "x" }), "NOT_FOUND"),
        ("update_document", json!({ "path": "a" }), "INVALID_ARGUMENT"),
        (
            "update_document",
            json!({ "path": "a", "title": "x", "restore_revision": 1 }),
            "INVALID_ARGUMENT",
        ),
        ("update_document", json!({ "path": "a", "restore_revision": 9 }), "NOT_FOUND"),
        (
            "patch_document",
            json!({ "path": "a", "old_str": "", "new_str": "x" }),
            "INVALID_ARGUMENT",
        ),
        ("patch_document", json!({ "path": "a", "old_str": "l" }), "INVALID_ARGUMENT"),
        ("patch_document", json!({ "path": "a", "edits": [] }), "INVALID_ARGUMENT"),
        (
            "patch_document",
            json!({ "path": "a", "old_str": "l", "new_str": "", "edits": [{ "old_str": "l", "new_str": "" }] }),
            "INVALID_ARGUMENT",
        ),
        (
            "patch_document",
            json!({ "path": "a", "old_str": "zz", "new_str": "x" }),
            "NOT_FOUND_IN_CONTENT",
        ),
        ("patch_document", json!({ "path": "a", "old_str": "aa", "new_str": "x" }), "AMBIGUOUS"),
        ("delete_document", json!({ "path": "nope" }), "NOT_FOUND"),
        ("delete_document", json!({ "path": "a", "expected_revision": -1 }), "INVALID_ARGUMENT"),
        ("ingest_document", json!({ "source": "" }), "INVALID_ARGUMENT"),
    ]
}

#[tokio::test]
async fn every_failure_is_a_result_with_a_code_in_every_revision() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let mut client = Client::of(&lyceum, "/mcp").await;
    client.ok("upload_document", json!({ "path": "a", "content": "aaa\nline" })).await;
    for revision in REVISIONS {
        client.revision = revision;
        for (tool, arguments, code) in rows() {
            let error = client.refused(tool, arguments.clone()).await;
            let shown: String = arguments.to_string().chars().take(100).collect();
            assert_eq!(error["code"], code, "{revision} {tool} {shown}: {error}");
        }
    }
}

#[tokio::test]
async fn failures_are_the_same_over_sse_and_carry_what_to_act_on() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let mut client = Client::of(&lyceum, "/mcp-gpt").await;
    client.ok("upload_document", json!({ "path": "a", "content": "aaa\nb\nb" })).await;
    let rows = [
        (
            json!({ "old_str": "aa", "new_str": "" }),
            json!({ "edit": 0, "occurrences": 2, "lines": [1, 1] }),
        ),
        (
            json!({ "old_str": "b", "new_str": "" }),
            json!({ "edit": 0, "occurrences": 2, "lines": [2, 3] }),
        ),
        (json!({ "old_str": "c", "new_str": "" }), json!({ "edit": 0, "occurrences": 0 })),
    ];
    for (mut arguments, details) in rows {
        arguments["path"] = "a".into();
        client.accept = super::JSON;
        let json = client.refused("patch_document", arguments.clone()).await;
        assert_eq!(json["details"], details);
        client.accept = super::SSE;
        assert_eq!(client.refused("patch_document", arguments).await, json);
    }
}

#[tokio::test]
async fn a_call_without_a_tool_is_a_protocol_error() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    for profile in PROFILES {
        let mut client = Client::of(&lyceum, profile).await;
        for revision in &REVISIONS[..4] {
            client.revision = revision;
            for params in [json!({}), json!({ "arguments": {} }), json!({ "name": 5 })] {
                let answer = client.ask("tools/call", params).await;
                assert_eq!(answer["error"]["code"], -32602, "{profile} {revision}: {answer}");
            }
        }
    }
}

#[tokio::test]
async fn an_address_that_is_not_public_is_not_fetched() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let mut client = Client::of(&lyceum, "/mcp").await;
    let own = lyceum.url("/health");
    for source in [own.as_str(), "http://localhost/", "HTTPS://[::1]/x", "http://169.254.169.254/"]
    {
        let error = client.refused("ingest_document", json!({ "source": source })).await;
        assert_eq!(error["code"], "FORBIDDEN", "{source}: {error}");
    }
    let error = client.refused("ingest_document", json!({ "source": "http://" })).await;
    assert_eq!(error["code"], "INVALID_ARGUMENT", "{error}");
}
