//! L-cases over MCP: what is listed, in which order, and how far. The query plan (L10) and the row
//! without an id (L15) are the store's own tests.

use std::path::Path;
use std::sync::Arc;

use lyceum_kb::store::Store;
use lyceum_kb::store::sqlite::SqliteStore;
use lyceum_kb::{Actor, Change, DocPath, Fields, Policy, Write};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{Client, MODERN};
use crate::lyceum::Lyceum;

/// Documents whose names are traps for prefixes.
const TRAPS: [&str; 9] = [
    "100%/a",
    "100x/a",
    "knowledge",
    "knowledge/a",
    "knowledge/b",
    "knowledgeX/a",
    "knowledge_/a",
    "knowledgey/a",
    "\\/a",
];

async fn upload(client: &mut Client, path: &str) {
    client.ok("upload_document", json!({ "path": path, "content": "" })).await;
}

fn ids(page: &Value) -> Vec<&str> {
    let items = page["items"].as_array().unwrap();
    assert_eq!(page["count"], items.len());
    items.iter().map(|item| item["document_id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn l1_to_l6_and_l13_prefixes_are_literal() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let mut client = Client::of(&lyceum, "/mcp").await;
    for path in TRAPS {
        upload(&mut client, path).await;
    }
    upload(&mut client, "knowledge/deleted").await;
    client.ok("delete_document", json!({ "path": "knowledge/deleted" })).await;
    let mut all = TRAPS.to_vec();
    all.sort_unstable();
    let rows: [(&str, &[&str]); 9] = [
        ("", &all),
        ("/", &all),
        ("knowledge/", &["knowledge/a", "knowledge/b"]),
        ("/knowledge/", &["knowledge/a", "knowledge/b"]),
        ("knowledge_/", &["knowledge_/a"]),
        ("100%", &["100%/a"]),
        ("\\", &["\\/a"]),
        ("k%", &[]),
        ("nothing/", &[]),
    ];
    for (prefix, expected) in rows {
        for name in ["prefix", "path"] {
            let page = client.ok("list_documents", json!({ name: prefix })).await;
            assert_eq!(ids(&page), expected, "{name} {prefix}");
            assert_eq!(page["truncated"], false);
            assert!(page["next_offset"].is_null() && page["next_cursor"].is_null());
        }
    }
    let both = json!({ "path": "/knowledge/", "prefix": "knowledge/" });
    assert_eq!(ids(&client.ok("list_documents", both).await).len(), 2);
    let item = &client.ok("list_documents", json!({ "prefix": "knowledge/a" })).await["items"][0];
    let expected = json!({ "document_id": "knowledge/a", "parent_id": "knowledge", "title": "a", "tags": [], "revision": 1 });
    assert_eq!(*item, expected);
    let top = &client.ok("list_documents", json!({ "prefix": "knowledge", "limit": 1 })).await["items"]
        [0];
    assert_eq!(top["parent_id"], "");
}

#[tokio::test]
async fn l7_to_l9_and_l14_pages_are_bounded_and_stable() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let mut client = Client::of(&lyceum, "/mcp").await;
    for n in 0..100 {
        upload(&mut client, &format!("n/{n:03}")).await;
    }
    for (offset, count, next) in [
        (0, 50, Some(50)),
        (24, 50, Some(74)),
        (49, 50, Some(99)),
        (50, 50, None),
        (99, 1, None),
        (100, 0, None),
        (9999, 0, None),
        (10000, 0, None),
    ] {
        let arguments = json!({ "prefix": "n/", "offset": offset });
        let page = client.ok("list_documents", arguments.clone()).await;
        assert_eq!(
            (&page["count"], &page["next_offset"]),
            (&json!(count), &json!(next)),
            "{offset}"
        );
        assert_eq!(page["truncated"], next.is_some());
        let again = client.ok("list_documents", arguments).await;
        assert_eq!(ids(&page), ids(&again));
    }
    let rows = [
        (json!({ "offset": 10001 }), "offset too large — narrow the prefix or use the cursor"),
        (json!({ "offset": -1 }), "offset: give 0 to 10000"),
        (json!({ "limit": 0 }), "limit: give 1 to 100"),
        (json!({ "limit": 101 }), "limit: give 1 to 100"),
    ];
    for (arguments, message) in rows {
        let error = client.refused("list_documents", arguments).await;
        assert_eq!(
            (&error["code"], &error["message"]),
            (&json!("INVALID_ARGUMENT"), &json!(message))
        );
    }
    let page = client.ok("list_documents", json!({ "limit": 100 })).await;
    assert_eq!(page["count"], 100);
}

#[tokio::test]
async fn cursors_lead_through_everything_and_belong_to_their_list() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let mut client = Client::of(&lyceum, "/mcp").await;
    for n in 0..25 {
        upload(&mut client, &format!("n/{n:03}")).await;
    }
    let mut seen = Vec::new();
    let mut arguments = json!({ "prefix": "n/", "limit": 10 });
    let first = loop {
        let page = client.ok("list_documents", arguments).await;
        seen.extend(ids(&page).into_iter().map(str::to_owned));
        let Some(cursor) = page["next_cursor"].as_str() else { break page };
        arguments = json!({ "limit": 10, "cursor": cursor });
    };
    assert!(first["next_offset"].is_null());
    assert!(seen.iter().eq((0..25).map(|n| format!("n/{n:03}")).collect::<Vec<_>>().iter()));

    let page = client.ok("list_documents", json!({ "prefix": "n/", "limit": 10 })).await;
    let cursor = page["next_cursor"].as_str().unwrap();
    let mut tampered = cursor.to_owned();
    tampered.replace_range(40..41, if &tampered[40..41] == "A" { "B" } else { "A" });
    for arguments in [
        json!({ "cursor": tampered }),
        json!({ "cursor": "" }),
        json!({ "cursor": "n/009" }),
        json!({ "cursor": cursor, "prefix": "m/" }),
        json!({ "cursor": cursor, "offset": 1 }),
    ] {
        let error = client.refused("list_documents", arguments.clone()).await;
        assert_eq!(error["code"], "INVALID_ARGUMENT", "{arguments}");
    }
    // A cursor is good in every revision, but only on the endpoint that gave it.
    client.revision = "2024-11-05";
    client.ok("list_documents", json!({ "cursor": cursor })).await;
    let mut other = Client::of(&lyceum, "/mcp-readonly").await;
    other.refused("list_documents", json!({ "cursor": cursor })).await;
}

#[tokio::test]
async fn l11_and_l12_many_clients_see_the_same_pages() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let mut client = Client::of(&lyceum, "/mcp").await;
    for n in 0..60 {
        upload(&mut client, &format!("n/{n:03}")).await;
    }
    let expected = client.ok("list_documents", json!({ "prefix": "n/" })).await["items"].clone();
    for n_clients in [5, 10] {
        let mut running = JoinSet::new();
        for _ in 0..n_clients {
            let mut client = Client::of(&lyceum, "/mcp").await;
            client.revision = MODERN;
            let expected = expected.clone();
            running.spawn(async move {
                for _ in 0..20 {
                    let page = client.ok("list_documents", json!({ "prefix": "n/" })).await;
                    assert_eq!(page["items"], expected);
                }
            });
        }
        assert_eq!(running.join_all().await.len(), n_clients);
    }
}

/// Fills a store with documents `n/00000` and so on, without a server.
async fn fill(data: &Path, n_documents: usize) {
    let store = Arc::new(SqliteStore::open(&data.join("knowledge.db"), Policy::default()).unwrap());
    let mut writing = JoinSet::new();
    for n in 0..n_documents {
        let store = Arc::clone(&store);
        let write = Write {
            path: DocPath::parse(&format!("n/{n:05}")).unwrap(),
            change: Change::Create(Fields { body: Some(String::new()), ..Fields::default() }),
            expected_revision: None,
            idempotency: None,
            by: Actor::default(),
        };
        writing.spawn(async move { store.write(write).await.unwrap() });
        if writing.len() == 512 {
            writing.join_next().await;
        }
    }
    writing.join_all().await;
}

#[tokio::test]
async fn beyond_ten_thousand_only_the_cursor_leads_on() {
    let data = tempfile::tempdir().unwrap();
    fill(data.path(), 10_060).await;
    let lyceum = Lyceum::start(data.path(), &[]).await;
    let mut client = Client::of(&lyceum, "/mcp").await;
    for (offset, limit, next_offset) in [(9_900, 100, json!(10_000)), (9_999, 50, Value::Null)] {
        let page = json!({ "offset": offset, "limit": limit });
        let page = client.ok("list_documents", page).await;
        assert_eq!((&page["truncated"], &page["next_offset"]), (&json!(true), &next_offset));
    }
    let page = client.ok("list_documents", json!({ "offset": 10_000 })).await;
    assert_eq!((&page["count"], &page["truncated"]), (&json!(50), &json!(true)));
    assert!(page["next_offset"].is_null());
    let rest = client.ok("list_documents", json!({ "cursor": page["next_cursor"] })).await;
    assert_eq!((ids(&rest).len(), ids(&rest)[0]), (10, "n/10050"));
    assert_eq!(rest["truncated"], false);
}
