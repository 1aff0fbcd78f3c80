//! Documents as resources, and what people are helped to type.

use lyceum_testkit::{Events, Request};
use serde_json::{Value, json};
use tokio::time::{Duration, timeout};

use super::{Client, MODERN, REVISIONS, request};
use crate::lyceum::{Lyceum, run};

const ODD: [(&str, &str); 4] = [
    ("guides/setup.md", "kb:///guides/setup.md"),
    ("a b/100%.md", "kb:///a%20b/100%25.md"),
    ("what?/c#.md", "kb:///what%3F/c%23.md"),
    ("naïve/🙂", "kb:///na%C3%AFve/%F0%9F%99%82"),
];

async fn upload(client: &mut Client, path: &str) {
    client.ok("upload_document", json!({ "path": path, "content": format!("At {path}.") })).await;
}

/// What comes next on a stream; keep-alives would otherwise keep a failed test waiting for ever.
async fn news(events: &mut Events) -> Value {
    let next = timeout(Duration::from_secs(20), events.next()).await;
    next.expect("news in time").expect("the stream goes on").json()
}

#[tokio::test]
async fn documents_are_listed_and_read_under_escaped_uris() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let mut client = Client::of(&lyceum, "/mcp").await;
    for (path, _) in ODD {
        upload(&mut client, path).await;
    }
    for revision in REVISIONS {
        client.revision = revision;
        let list = client.ask("resources/list", json!({})).await;
        let listed = list["result"]["resources"].as_array().unwrap();
        for (path, uri) in ODD {
            assert!(listed.iter().any(|item| item["uri"] == uri && item["name"] == path), "{list}");
            let read = client.ask("resources/read", json!({ "uri": uri })).await;
            let contents = &read["result"]["contents"][0];
            assert_eq!(contents["text"], format!("At {path}."), "{revision} {read}");
            assert_eq!(
                (&contents["uri"], &contents["mimeType"]),
                (&json!(uri), &json!("text/markdown"))
            );
            if revision >= "2025-06-18" {
                assert_eq!(contents["_meta"]["revision"], 1);
                assert!(contents["_meta"]["vector_status"].is_string());
            }
        }
        let templates = client.ask("resources/templates/list", json!({})).await;
        assert_eq!(templates["result"]["resourceTemplates"][0]["uriTemplate"], "kb:///{+path}");
        let code = if revision == MODERN { -32602 } else { -32002 };
        for missing in ["kb:///nope", "kb:///a/../b", "kb:///%2e%2e", "other:///x"] {
            let read = client.ask("resources/read", json!({ "uri": missing })).await;
            assert_eq!(read["error"]["code"], code, "{revision} {missing}: {read}");
        }
    }
}

#[tokio::test]
async fn long_lists_come_in_pages() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let mut client = Client::of(&lyceum, "/mcp").await;
    for n in 0..105 {
        upload(&mut client, &format!("n/{n:03}")).await;
    }
    let first = client.ask("resources/list", json!({})).await["result"].clone();
    assert_eq!(first["resources"].as_array().unwrap().len(), 100);
    let cursor = first["nextCursor"].as_str().unwrap();
    let last = client.ask("resources/list", json!({ "cursor": cursor })).await["result"].clone();
    assert_eq!(last["resources"].as_array().unwrap().len(), 5);
    assert!(last["nextCursor"].is_null());
    let mut other = Client::of(&lyceum, "/mcp-readonly").await;
    let lent = other.ask("resources/list", json!({ "cursor": cursor })).await;
    assert_eq!(lent["error"]["code"], -32602);
}

#[tokio::test]
async fn modern_subscribers_hear_of_every_write() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let mut client = Client::of(&lyceum, "/mcp").await;
    let uris = ["kb:///what%3F/c%23.md", "kb:///a b"];
    let wanted =
        json!({ "notifications": { "resourceSubscriptions": uris, "resourcesListChanged": true } });
    // Whoever listens on one profile hears of what is written through another.
    let listen = Request::modern("/mcp-readonly", 9, "subscriptions/listen", wanted);
    let (_, mut events) = lyceum.connect().await.stream(&listen).await;
    events.next().await.expect("an acknowledgement");
    upload(&mut client, "unrelated").await;
    let told = news(&mut events).await;
    assert_eq!(told["method"], "notifications/resources/list_changed");
    for (path, uri) in [("what?/c#.md", uris[0]), ("a b", uris[1])] {
        upload(&mut client, path).await;
        let mut told = [news(&mut events).await, news(&mut events).await];
        told.sort_by_key(|news| news["method"].to_string());
        assert_eq!(told[0]["method"], "notifications/resources/list_changed");
        assert_eq!(told[1]["method"], "notifications/resources/updated");
        assert_eq!(told[1]["params"]["uri"], uri);
    }
    client.ok("patch_document", json!({ "path": "a b", "old_str": "At", "new_str": "Near" })).await;
    let told = news(&mut events).await;
    assert_eq!(
        (&told["method"], &told["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!(uris[1]))
    );
}

#[tokio::test]
async fn subscribers_hear_of_what_another_process_writes() {
    let (lyceum, data) = Lyceum::fresh(&[]).await;
    let wanted = json!({ "notifications": { "resourceSubscriptions": ["kb:///note.md"], "resourcesListChanged": true } });
    let listen = Request::modern("/mcp", 9, "subscriptions/listen", wanted);
    let (_, mut events) = lyceum.connect().await.stream(&listen).await;
    events.next().await.expect("an acknowledgement");
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("note.md");
    let (data, source) = (data.path().to_str().unwrap(), file.to_str().unwrap());
    for (text, expected) in [
        ("one", &["notifications/resources/list_changed", "notifications/resources/updated"][..]),
        ("two", &["notifications/resources/updated"][..]),
    ] {
        std::fs::write(&file, text).unwrap();
        let imported = run(&["import", source, "--data", data]).await;
        assert!(imported.status.success(), "{imported:?}");
        let mut told = Vec::new();
        for _ in expected {
            // Half a second where nothing else runs; it was written before the import ended.
            let news = timeout(Duration::from_secs(3), events.next()).await;
            let news = news.expect("news in time").expect("the stream goes on").json();
            told.push(news["method"].as_str().unwrap().to_owned());
        }
        told.sort();
        assert_eq!(told, expected);
    }
    let more = timeout(Duration::from_millis(700), events.next()).await;
    assert!(more.is_err(), "told once");
}

#[tokio::test]
async fn legacy_subscribers_hear_of_writes_on_their_stream() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let opened = lyceum.call(&Request::legacy("/mcp", 1, "initialize", params)).await;
    let session = opened.head.get("mcp-session-id").unwrap().to_owned();
    let stream = Request::new("GET", "/mcp")
        .header("accept", "text/event-stream")
        .header("mcp-session-id", &session);
    let (_, mut events) = lyceum.connect().await.stream(&stream).await;
    let mut client = Client::of(&lyceum, "/mcp").await;
    upload(&mut client, "a").await;
    assert_eq!(news(&mut events).await["method"], "notifications/resources/list_changed");
    let subscribe = Request::legacy("/mcp", 2, "resources/subscribe", json!({ "uri": "kb:///a" }));
    let subscribed = lyceum.call(&subscribe.header("mcp-session-id", &session)).await;
    assert_eq!(subscribed.json()["result"], json!({}));
    client.ok("update_document", json!({ "path": "a", "content": "new" })).await;
    let told = news(&mut events).await;
    assert_eq!(
        (&told["method"], &told["params"]),
        (&json!("notifications/resources/updated"), &json!({ "uri": "kb:///a" }))
    );
}

#[tokio::test]
async fn paths_and_tags_are_completed() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let mut client = Client::of(&lyceum, "/mcp").await;
    for path in ["guides/a", "guides/b", "notes/c"] {
        let document =
            json!({ "path": path, "content": "x", "tags": ["team", format!("t-{path}")] });
        client.ok("upload_document", document).await;
    }
    let template = json!({ "type": "ref/resource", "uri": "kb:///{+path}" });
    let prompt = |name: &str| json!({ "type": "ref/prompt", "name": name });
    let rows = [
        (template, "path", "guides/", json!(["guides/a", "guides/b"])),
        (prompt("summarise_document"), "path", "n", json!(["notes/c"])),
        (prompt("answer_from_knowledge"), "tag", "te", json!(["team"])),
        (prompt("answer_from_knowledge"), "tag", "x", json!([])),
        (prompt("answer_from_knowledge"), "question", "x", json!([])),
    ];
    for revision in REVISIONS {
        client.revision = revision;
        for (reference, name, value, expected) in &rows {
            let params = json!({ "ref": reference, "argument": { "name": name, "value": value } });
            let answer = client.ask("completion/complete", params).await;
            assert_eq!(
                answer["result"]["completion"]["values"], *expected,
                "{revision} {name} {value}"
            );
        }
    }
}

#[tokio::test]
async fn prompts_bring_the_knowledge_with_them() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let mut client = Client::of(&lyceum, "/mcp").await;
    upload(&mut client, "zoo/quokka.md").await;
    let get = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    let summary = get("summarise_document", json!({ "path": "zoo/quokka.md" }));
    let messages = client.ask("prompts/get", summary).await["result"]["messages"].clone();
    assert!(messages[0]["content"]["text"].as_str().unwrap().contains("zoo/quokka.md"));
    assert_eq!(messages[1]["content"]["resource"]["uri"], "kb:///zoo/quokka.md");
    assert_eq!(messages[1]["content"]["resource"]["text"], "At zoo/quokka.md.");
    let question = get("answer_from_knowledge", json!({ "question": "quokka?", "prefix": "zoo/" }));
    let messages = client.ask("prompts/get", question).await["result"]["messages"].clone();
    assert!(
        messages[0]["content"]["text"].as_str().unwrap().contains("[zoo/quokka.md]"),
        "{messages}"
    );
    for missing in [
        get("summarise_document", json!({ "path": "nope" })),
        get("answer_from_knowledge", json!({ "question": "" })),
        get("answer_from_knowledge", json!({ "question": "x".repeat(8193) })),
    ] {
        assert_eq!(client.ask("prompts/get", missing).await["error"]["code"], -32602);
    }
    let list = lyceum.call(&request("/mcp", MODERN, "prompts/list", json!({}))).await.json();
    assert_eq!(list["result"]["prompts"].as_array().unwrap().len(), 2);
}
