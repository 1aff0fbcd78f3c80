//! `lyceum keys`: made, listed, revoked; and a running server notices.

use std::sync::Arc;

use lyceum_testkit::Request;
use serde_json::json;

use super::{create, list_tools, within_a_second};
use crate::knowledge::Client;
use crate::lyceum::{Lyceum, run};

async fn keys(data: &std::path::Path, arguments: &[&str]) -> (bool, String, String) {
    let data = data.to_str().unwrap();
    let output = run(&[&["keys"], arguments, &["--data", data]].concat()).await;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn keys_are_shown_once_and_kept_as_digests() {
    let data = tempfile::tempdir().unwrap();
    let (made, key, told) = keys(data.path(), &["create", "gpt", "--expires", "30d"]).await;
    assert!(made && told.contains("expires in 30d"), "{told}");
    let key = key.trim_end();
    let parts: Vec<&str> = key.split('_').collect();
    assert_eq!((parts.len(), parts[0]), (4, "lyc"), "{key}");
    assert!(!told.contains(parts[2]));
    let (_, listed, _) = keys(data.path(), &["list"]).await;
    let line = listed.lines().nth(1).unwrap();
    assert!(line.starts_with(parts[1]) && line.contains(" gpt ") && line.ends_with("live"));
    for entry in std::fs::read_dir(data.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let secret = parts[2].as_bytes();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret));
    }
    let (revoked, _, _) = keys(data.path(), &["revoke", parts[1]]).await;
    assert!(revoked);
    let (_, listed, _) = keys(data.path(), &["list"]).await;
    assert!(listed.lines().nth(1).unwrap().ends_with("revoked"), "{listed}");
}

#[tokio::test]
async fn mistakes_are_told() {
    let data = tempfile::tempdir().unwrap();
    let rows: &[(&[&str], &str)] = &[
        (&["create", "two words"], "a key's name has 1 to 64 letters, digits, - . _"),
        (&["create", "a", "--expires", "soon"], "write 90d, 12h or never"),
        (&["revoke", "nobody"], "no live key is called nobody"),
    ];
    for (arguments, complaint) in rows {
        let (done, printed, told) = keys(data.path(), arguments).await;
        assert!(!done && printed.is_empty() && told.contains(complaint), "{arguments:?}: {told}");
    }
}

#[tokio::test]
async fn running_server_notices_new_and_revoked_keys_within_a_second() {
    let (lyceum, data) = Lyceum::fresh(&[]).await;
    assert_eq!(lyceum.call(&list_tools("/mcp")).await.status(), 200, "no key is needed yet");
    let key = create(data.path(), "first").await;
    assert_eq!(within_a_second(&lyceum, &list_tools("/mcp"), 401).await, 401);
    let with_key = list_tools("/mcp").header("x-api-key", &key);
    assert_eq!(lyceum.call(&with_key).await.status(), 200);
    let (revoked, _, _) = keys(data.path(), &["revoke", "first"]).await;
    assert!(revoked);
    assert_eq!(within_a_second(&lyceum, &with_key, 401).await, 401);
    assert_eq!(lyceum.call(&list_tools("/mcp")).await.status(), 401, "locked, not open");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_runs_heavy_searches_is_revoked_within_a_second() {
    let data = tempfile::tempdir().unwrap();
    let key = create(data.path(), "heavy").await;
    let lyceum = Arc::new(Lyceum::start(data.path(), &[]).await);
    let mut client = Client::with_key(&lyceum, "/mcp", &key).await;
    for n in 0..4 {
        let content = "to be or not to be ".repeat(20_000 + n);
        client.ok("upload_document", json!({ "path": format!("d{n}"), "content": content })).await;
    }
    let searching: Vec<_> = (0..8)
        .map(|n| tokio::spawn(search_until_refused(Arc::clone(&lyceum), key.clone(), n)))
        .collect();
    let (revoked, _, told) = keys(data.path(), &["revoke", "heavy"]).await;
    assert!(revoked, "{told}");
    let with_key = list_tools("/mcp").header("x-api-key", &key);
    assert_eq!(within_a_second(&lyceum, &with_key, 401).await, 401);
    for searching in searching {
        let ended = tokio::time::timeout(tokio::time::Duration::from_secs(20), searching).await;
        assert_eq!(ended.expect("its searches end").unwrap(), 401);
    }
}

/// Searches for phrases that take long until something else than a result is the answer; returns its status.
async fn search_until_refused(lyceum: Arc<Lyceum>, key: String, n: usize) -> u16 {
    let phrase = |at: usize| format!("\"to be or not to be to {}\"", ["be", "or", "not"][at % 3]);
    let phrases: Vec<String> = (n..n + 60).map(phrase).collect();
    let search = json!({ "name": "search_knowledge", "arguments": { "query": phrases.join(" ") } });
    let search = Request::modern("/mcp", 1, "tools/call", search).header("x-api-key", &key);
    loop {
        let status = lyceum.call(&search).await.status();
        if status != 200 {
            return status;
        }
    }
}

#[tokio::test]
async fn streams_of_a_revoked_key_end_and_others_go_on() {
    let data = tempfile::tempdir().unwrap();
    let (ana, ben) = (create(data.path(), "ana").await, create(data.path(), "ben").await);
    let lyceum = Lyceum::start(data.path(), &[]).await;
    let listen = |key: &str| {
        let wanted = json!({ "notifications": { "toolsListChanged": true } });
        Request::modern("/mcp", 1, "subscriptions/listen", wanted).header("x-api-key", key)
    };
    let sse = |key: &str| {
        let request = Request::new("GET", "/sse").header("accept", "text/event-stream");
        request.header("x-api-key", key)
    };
    let mut streams = Vec::new();
    for request in [listen(&ana), sse(&ana), listen(&ben), sse(&ben)] {
        let (_, mut events) = lyceum.connect().await.stream(&request).await;
        events.next().await.expect("a first event");
        streams.push(events);
    }
    let (mut bens, mut anas) = (streams.split_off(2), streams);
    let (revoked, _, _) = keys(data.path(), &["revoke", "ana"]).await;
    assert!(revoked);
    let patience = tokio::time::Duration::from_secs(5);
    for events in &mut anas {
        let ended = tokio::time::timeout(patience, events.next()).await;
        assert!(ended.expect("it ends in time").is_none());
    }
    let moment = tokio::time::Duration::from_millis(600);
    for events in &mut bens {
        assert!(tokio::time::timeout(moment, events.next()).await.is_err(), "still open");
    }
}

#[tokio::test]
async fn a_restored_backup_brings_no_revoked_key_back_and_tells_of_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let (data, copy) = (directory.path().join("data"), directory.path().join("copy.db"));
    let (data, copy) = (data.to_str().unwrap(), copy.to_str().unwrap());
    for name in ["kept", "stolen"] {
        create(data.as_ref(), name).await;
    }
    assert!(run(&["backup", copy, "--data", data]).await.status.success());
    assert!(keys(data.as_ref(), &["revoke", "stolen"]).await.0);
    create(data.as_ref(), "newer").await;
    let restored = run(&["restore", copy, "--replace", "--data", data]).await;
    let told = String::from_utf8(restored.stderr).unwrap();
    assert!(restored.status.success(), "{told}");
    let lines: Vec<&str> = told.lines().filter(|line| line.starts_with("key ")).collect();
    assert_eq!(lines.len(), 2, "{told}");
    assert!(lines[0].starts_with("key stolen (") && lines[0].ends_with("stays revoked"), "{told}");
    assert!(lines[1].starts_with("key newer (") && lines[1].contains("no longer valid"), "{told}");
    let (_, listed, _) = keys(data.as_ref(), &["list"]).await;
    let state = |name: &str| listed.lines().find(|line| line.contains(name)).unwrap();
    assert!(state(" kept ").ends_with("live"), "{listed}");
    assert!(state(" stolen ").ends_with("revoked"), "{listed}");
}
