//! What an endpoint shows of documents follows from what its tools may read.

use std::fs;

use lyceum_kb::Policy;
use lyceum_kb::store::Store;
use lyceum_kb::store::sqlite::SqliteStore;
use lyceum_testkit::Request;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Duration, Instant, sleep, timeout};

use super::{Client, MODERN, REVISIONS};
use crate::lyceum::Lyceum;

/// Endpoints, their tools, and whether documents can be read, listed and searched there.
const ENDPOINTS: [(&str, &str, [bool; 3]); 5] = [
    ("/upload", "upload_document", [false, false, false]),
    ("/write", "upload_*\", \"update_*\", \"patch_*\", \"delete_*", [false, false, false]),
    ("/read", "get_document", [true, false, false]),
    ("/list", "list_documents", [false, true, false]),
    ("/search", "search_knowledge", [false, false, true]),
];

fn config(directory: &TempDir, endpoints: &[(&str, &str)]) -> String {
    let mut text = String::from("[[endpoint]]\npath = \"/all\"\n");
    for (path, tools) in endpoints {
        text.push_str(&format!("[[endpoint]]\npath = \"{path}\"\ntools = [\"{tools}\"]\n"));
    }
    let file = directory.path().join("lyceum.toml");
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

async fn start(directory: &TempDir) -> Lyceum {
    let endpoints = ENDPOINTS.map(|(path, tools, _)| (path, tools));
    let file = config(directory, &endpoints);
    let lyceum = Lyceum::start(&directory.path().join("data"), &["--config", &file]).await;
    let mut all = Client::of(&lyceum, "/all").await;
    let secret = json!({ "path": "secret/plan.md", "content": "The launch code is 1234.", "tags": ["hush"] });
    all.ok("upload_document", secret).await;
    lyceum
}

/// The names of what is listed.
fn names(answer: &Value, member: &str, name: &str) -> Vec<String> {
    let items = answer["result"][member].as_array().unwrap_or_else(|| panic!("{answer}"));
    items.iter().map(|item| item[name].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn resources_prompts_and_suggestions_follow_the_tools() {
    let directory = tempfile::tempdir().unwrap();
    let lyceum = start(&directory).await;
    for (path, _, [read, list, search]) in ENDPOINTS {
        let mut client = Client::of(&lyceum, path).await;
        for revision in REVISIONS {
            client.revision = revision;
            let uri = json!({ "uri": "kb:///secret/plan.md" });
            let answer = client.ask("resources/read", uri.clone()).await;
            assert_eq!(answer["result"].is_object(), read, "{path} {revision} {answer}");
            assert_eq!(answer.to_string().contains("launch"), read, "{path} {answer}");
            let missing = client.ask("resources/read", json!({ "uri": "kb:///nope" })).await;
            if !read {
                assert_eq!(answer["error"]["code"], missing["error"]["code"], "{path} {revision}");
            }
            let resources = client.ask("resources/list", json!({})).await;
            let listed = names(&resources, "resources", "uri");
            assert_eq!(listed.len(), usize::from(list), "{path} {revision}");
            let templates = client.ask("resources/templates/list", json!({})).await;
            let listed = names(&templates, "resourceTemplates", "uriTemplate");
            assert_eq!(listed.len(), usize::from(read), "{path} {revision}");
            let prompts = names(&client.ask("prompts/list", json!({})).await, "prompts", "name");
            assert_eq!(prompts.contains(&"summarise_document".to_owned()), read, "{path}");
            assert_eq!(prompts.contains(&"answer_from_knowledge".to_owned()), search, "{path}");
        }
        client.revision = MODERN;
        let arguments = json!({ "path": "secret/plan.md" });
        let summary = json!({ "name": "summarise_document", "arguments": arguments });
        let answer = client.ask("prompts/get", summary).await;
        assert_eq!(answer.to_string().contains("launch"), read, "{path} {answer}");
        let question = json!({ "question": "launch code?" });
        let question = json!({ "name": "answer_from_knowledge", "arguments": question });
        let answer = client.ask("prompts/get", question).await;
        assert_eq!(answer.to_string().contains("1234"), search, "{path} {answer}");
        let references = [
            (json!({ "type": "ref/resource", "uri": "kb:///{+path}" }), "path", list && read),
            (json!({ "type": "ref/prompt", "name": "summarise_document" }), "path", list && read),
            (json!({ "type": "ref/prompt", "name": "answer_from_knowledge" }), "tag", search),
            (json!({ "type": "ref/prompt", "name": "answer_from_knowledge" }), "prefix", false),
        ];
        for (reference, name, shown) in references {
            for value in ["", "secret", "hu"] {
                let argument = json!({ "name": name, "value": value });
                let params = json!({ "ref": reference, "argument": argument });
                let told = client.ask("completion/complete", params).await.to_string();
                assert!(shown || !told.contains("plan.md") && !told.contains("hush"), "{told}");
            }
        }
    }
}

#[tokio::test]
async fn what_an_endpoint_cannot_show_it_does_not_announce() {
    let directory = tempfile::tempdir().unwrap();
    let lyceum = start(&directory).await;
    for (path, _, [read, list, search]) in ENDPOINTS {
        let mut client = Client::of(&lyceum, path).await;
        let told = client.ask("server/discover", json!({})).await;
        let told = &told["result"]["capabilities"];
        assert_eq!(told["resources"].is_object(), read || list, "{path} {told}");
        assert_eq!(told["prompts"].is_object(), read || search, "{path} {told}");
        assert_eq!(told["completions"].is_object(), read || search, "{path} {told}");
        assert!(told["tools"].is_object());
    }
}

#[tokio::test]
async fn subscribers_hear_of_documents_only_where_they_can_read_them() {
    let directory = tempfile::tempdir().unwrap();
    let lyceum = start(&directory).await;
    let uri = "kb:///secret/plan.md";
    for (path, _, [read, ..]) in ENDPOINTS {
        let wanted = json!({ "notifications": { "resourceSubscriptions": [uri] } });
        let listen = Request::modern(path, 9, "subscriptions/listen", wanted);
        let (_, mut events) = lyceum.connect().await.stream(&listen).await;
        let acknowledged = events.next().await.expect("an acknowledgement").json();
        let watched = &acknowledged["params"]["notifications"]["resourceSubscriptions"];
        assert_eq!(watched.is_array(), read, "{path} {acknowledged}");
        let subscribe = Request::legacy(path, 2, "resources/subscribe", json!({ "uri": uri }));
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let opened = lyceum.call(&Request::legacy(path, 1, "initialize", params)).await;
        let session = opened.head.get("mcp-session-id").unwrap().to_owned();
        let subscribed = lyceum.call(&subscribe.header("mcp-session-id", &session)).await.json();
        assert_eq!(subscribed["result"].is_object(), read, "{path} {subscribed}");
    }
}

#[tokio::test]
async fn errors_tell_those_who_cannot_read_nothing_about_the_text() {
    let directory = tempfile::tempdir().unwrap();
    let lyceum = start(&directory).await;
    let edits = [("code", "code"), ("no such words", "x")];
    let edits = edits.map(|(old, new)| json!({ "old_str": old, "new_str": new }));
    let rows = [
        (json!({ "old_str": "e", "new_str": "x" }), "AMBIGUOUS"),
        (json!({ "edits": edits }), "NOT_FOUND_IN_CONTENT"),
    ];
    for (mut arguments, code) in rows {
        arguments["path"] = json!("secret/plan.md");
        let mut writer = Client::of(&lyceum, "/write").await;
        let error = writer.refused("patch_document", arguments.clone()).await;
        assert_eq!((&error["code"], &error["details"]), (&json!(code), &json!({})), "{error}");
        assert!(!error["message"].to_string().contains(char::is_numeric), "{error}");
        let mut all = Client::of(&lyceum, "/all").await;
        let error = all.refused("patch_document", arguments).await;
        assert!(error["details"]["occurrences"].is_number(), "{error}");
    }
}

#[tokio::test]
async fn withheld_documents_and_prompts_leave_a_line_in_the_audit_trail() {
    let directory = tempfile::tempdir().unwrap();
    let lyceum = start(&directory).await;
    let mut client = Client::of(&lyceum, "/upload").await;
    client.ask("resources/read", json!({ "uri": "kb:///secret/plan.md" })).await;
    client.ask("resources/read", json!({ "uri": "other:///x" })).await;
    client.ask("prompts/get", json!({ "name": "summarise_document", "arguments": {} })).await;
    client.ask("prompts/get", json!({ "name": "nothing", "arguments": {} })).await;
    let mut reader = Client::of(&lyceum, "/read").await;
    reader.ask("resources/read", json!({ "uri": "kb:///nope" })).await;
    let database = directory.path().join("data/knowledge.db");
    let store = SqliteStore::open(&database, Policy::default()).unwrap();
    let mut trail = store.audit_trail(None, 100).await.unwrap();
    trail.reverse();
    let told = trail.iter().skip(1).map(|line| {
        let entry = &line.entry;
        let document = entry.document.as_deref().unwrap_or("-");
        format!("{} {} {document} {}", entry.actor.profile, entry.actor.tool, entry.outcome)
    });
    insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"), @r"
    /upload resources/read secret/plan.md FORBIDDEN
    /upload resources/read other:///x NOT_FOUND
    /upload summarise_document - FORBIDDEN
    /upload nothing - NOT_FOUND
    /read resources/read nope NOT_FOUND
    ");
}

#[tokio::test]
async fn rights_follow_a_configuration_that_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = config(&directory, &[("/notes", "get_document")]);
    let data = directory.path().join("data");
    let lyceum = Lyceum::start(&data, &["--config", &file]).await;
    let mut all = Client::of(&lyceum, "/all").await;
    all.ok("upload_document", json!({ "path": "a", "content": "x" })).await;
    let wanted = json!({ "notifications": { "resourceSubscriptions": ["kb:///a"] } });
    let listen = Request::modern("/notes", 9, "subscriptions/listen", wanted);
    let (_, mut events) = lyceum.connect().await.stream(&listen).await;
    events.next().await.expect("an acknowledgement");
    let mut client = Client::of(&lyceum, "/notes").await;
    let read = json!({ "uri": "kb:///a" });
    assert!(client.ask("resources/read", read.clone()).await["result"].is_object());
    config(&directory, &[("/notes", "upload_document")]);
    lyceum.hang_up().await;
    let patience = Instant::now() + Duration::from_secs(20);
    while client.ask("resources/read", read.clone()).await["result"].is_object() {
        assert!(Instant::now() < patience, "the document can still be read");
        sleep(Duration::from_millis(50)).await;
    }
    all.ok("update_document", json!({ "path": "a", "content": "y" })).await;
    let told = timeout(Duration::from_secs(2), events.next()).await;
    assert!(told.is_err(), "a client that may no longer read is notified of a change: {told:?}");
}
