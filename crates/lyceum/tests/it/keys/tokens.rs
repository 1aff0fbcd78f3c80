//! A secret in the path: right, wrong and replaced.

use std::path::{Path, PathBuf};

use lyceum_testkit::{Request, Response};
use serde_json::json;
use tokio::time::{Duration, timeout};

use super::{configuration, create, list_tools, secret, within_a_second};
use crate::lyceum::{Lyceum, command};

const FIRST: &str = "first-token-0123456789";
const SECOND: &str = "second-token-9876543210";

fn path(token: &str) -> String {
    format!("/gpt-mcp/{token}/mcp")
}

/// What an answer says, without what differs from request to request.
fn said(response: &Response) -> (u16, Vec<(String, String)>, String) {
    let mut headers = response.head.headers.clone();
    headers.retain(|(name, _)| name != "date" && name != "x-request-id");
    (response.status(), headers, response.text().to_owned())
}

/// The first token in its file, and a configuration with its endpoint and one without a token.
fn beside_a_plain_endpoint(data: &Path) -> (PathBuf, PathBuf) {
    let token = data.join("token");
    secret(&token, FIRST);
    let file = format!(
        "[[endpoint]]\npath = \"/mcp\"\n[[endpoint]]\npath = \"/gpt-mcp/{{token}}/mcp\"\n\
         token_file = {token:?}\n"
    );
    (token, configuration(data, &file))
}

#[tokio::test]
async fn token_reaches_the_gpt_profile_and_a_wrong_one_reaches_nothing() {
    let data = tempfile::tempdir().unwrap();
    let (token, file) = beside_a_plain_endpoint(data.path());
    // With a key on record, everything but the token's path needs one.
    create(data.path(), "k").await;
    let lyceum = Lyceum::start(data.path(), &["--config", file.to_str().unwrap()]).await;
    assert_eq!(lyceum.call(&list_tools("/mcp")).await.status(), 401);
    let listed = lyceum.call(&list_tools(&path(FIRST))).await;
    assert_eq!(listed.status(), 200, "{}", listed.text());
    assert_eq!(listed.json()["result"]["tools"].as_array().unwrap().len(), 8);
    assert!(!listed.text().contains(FIRST));

    for method in ["POST", "GET", "DELETE", "OPTIONS"] {
        let nothing = lyceum.call(&Request::new(method, "/nothing/here")).await;
        for wrong in [path(SECOND), path(""), path("{token}"), path("-"), path(FIRST) + "/"] {
            let refused = lyceum.call(&Request::new(method, &wrong)).await;
            assert_eq!(said(&refused), said(&nothing), "{method} {wrong}");
            assert_eq!(refused.status(), 404);
        }
    }

    secret(&token, SECOND);
    assert_eq!(within_a_second(&lyceum, &list_tools(&path(SECOND)), 200).await, 200);
    assert_eq!(lyceum.call(&list_tools(&path(FIRST))).await.status(), 404);
}

#[tokio::test]
async fn streams_of_a_replaced_token_end_and_others_go_on() {
    let data = tempfile::tempdir().unwrap();
    let (token, file) = beside_a_plain_endpoint(data.path());
    let lyceum = Lyceum::start(data.path(), &["--config", file.to_str().unwrap()]).await;
    let listen = async |path: &str| {
        let wanted = json!({ "notifications": { "resourcesListChanged": true } });
        let request = Request::modern(path, 1, "subscriptions/listen", wanted);
        let (_, mut events) = lyceum.connect().await.stream(&request).await;
        events.next().await.expect("an acknowledgement");
        events
    };
    let (mut first, mut plain) = (listen(&path(FIRST)).await, listen("/mcp").await);
    secret(&token, SECOND);
    let ended = timeout(Duration::from_secs(5), first.next()).await;
    assert!(ended.expect("it ends in time").is_none());
    let mut second = listen(&path(SECOND)).await;
    for events in [&mut second, &mut plain] {
        let moment = timeout(Duration::from_millis(600), events.next()).await;
        assert!(moment.is_err(), "still open");
    }
    std::fs::remove_file(&token).unwrap();
    let ended = timeout(Duration::from_secs(5), second.next()).await;
    assert!(ended.expect("without a token nobody stays").is_none());
}

#[tokio::test]
async fn session_of_a_token_is_nothing_to_another_endpoint() {
    let data = tempfile::tempdir().unwrap();
    let token = data.path().join("token");
    secret(&token, FIRST);
    let file = format!(
        "[[endpoint]]\npath = \"/mcp-gpt\"\ndialect = \"standard\"\n[[endpoint]]\n\
         path = \"/gpt-mcp/{{token}}/mcp\"\ndialect = \"standard\"\ntoken_file = {token:?}\n"
    );
    let file = configuration(data.path(), &file);
    let lyceum = Lyceum::start(data.path(), &["--config", file.to_str().unwrap()]).await;
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {} });
    let opened = lyceum.call(&Request::legacy(&path(FIRST), 1, "initialize", params)).await;
    let session = opened.head.get("mcp-session-id").expect("a session").to_owned();
    let ping =
        |path: &str| Request::legacy(path, 2, "ping", json!({})).header("mcp-session-id", &session);
    assert_eq!(lyceum.call(&ping(&path(FIRST))).await.status(), 200);
    assert_eq!(lyceum.call(&ping("/mcp-gpt")).await.status(), 404);
}

#[tokio::test]
async fn guessable_or_shared_tokens_are_refused_at_the_start() {
    let data = tempfile::tempdir().unwrap();
    let token = data.path().join("token");
    let file = format!("[[endpoint]]\npath = \"/gpt-mcp/{{token}}/mcp\"\ntoken_file = {token:?}\n");
    let file = configuration(data.path(), &file);
    let start = async || {
        let flags = ["--listen", "127.0.0.1:0", "--config", file.to_str().unwrap(), "--data"];
        let output = command(&flags).arg(data.path()).output().await.unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    secret(&token, "short");
    assert!(start().await.contains("a path token has 16 or more letters, digits, - and _"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        secret(&token, FIRST);
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(start().await.contains("others can read this secret; run chmod 600"));
    }
}
