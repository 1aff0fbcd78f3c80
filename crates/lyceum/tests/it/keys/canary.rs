//! Secrets that went through a server, and must be found nowhere (reliability: timing and logging).

use std::path::Path;

use lyceum_testkit::Request;
use serde_json::json;

use super::{configuration, create, list_tools, secret};
use crate::lyceum::Lyceum;

const TOKEN: &str = "canary-token-5f1c9b7e3a2d";
const WRONG: &str = "canary-wrong-0a1b2c3d4e5f";

/// Fails when a file in `directory` holds one of `secrets`; `but` is where one may be.
fn search(directory: &Path, secrets: &[&str], but: &Path) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            search(&path, secrets, but);
        } else if path != but {
            check(&std::fs::read(&path).unwrap(), secrets, &path.display().to_string());
        }
    }
}

fn check(bytes: &[u8], secrets: &[&str], place: &str) {
    for secret in secrets {
        let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!found, "{place} holds {secret}");
    }
}

#[tokio::test]
async fn keys_and_tokens_reach_no_log_metric_or_file() {
    let data = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let log = outside.path().join("log");
    let token = data.path().join("token");
    secret(&token, TOKEN);
    let file = format!(
        "[[endpoint]]\npath = \"/mcp\"\nhttp_sse = true\nexplain = true\n[[endpoint]]\n\
         path = \"/gpt-mcp/{{token}}/mcp\"\nexplain = true\ntoken_file = {token:?}\n"
    );
    let file = configuration(data.path(), &file);
    let (key, revoked) = (create(data.path(), "k").await, create(data.path(), "old").await);
    let flags = ["keys", "revoke", "old", "--data", data.path().to_str().unwrap()];
    assert!(crate::lyceum::run(&flags).await.status.success());
    let flags = ["--config", file.to_str().unwrap()];
    let mut lyceum = Lyceum::start_tracing(data.path(), &flags, &log).await;

    let upload = json!({ "name": "upload_document", "arguments": { "path": "a", "content": "x" } });
    let right = format!("/gpt-mcp/{TOKEN}/mcp");
    let wrong = format!("/gpt-mcp/{WRONG}/mcp");
    let last = if key.ends_with('x') { 'y' } else { 'x' };
    let mistyped = format!("{}{last}", &key[..key.len() - 1]);
    let mut connection = lyceum.connect().await;
    for _ in 0..50 {
        let requests = [
            list_tools("/mcp").header("x-api-key", &key),
            list_tools("/mcp").header("authorization", &format!("Bearer {revoked}")),
            list_tools("/mcp").header("x-api-key", &mistyped),
            Request::new("GET", "/kb/list").header("authorization", &format!("Bearer {key}")),
            Request::new("GET", "/kb/list").header("authorization", &format!("Bearer {mistyped}")),
            Request::new("GET", "/sse").header("x-api-key", &mistyped),
            list_tools(&right),
            Request::modern(&right, 1, "tools/call", upload.clone()),
            Request::post(&right, "{"),
            Request::new("PUT", &right),
            Request::new("GET", &right).header("accept", "text/html"),
            list_tools(&wrong),
            Request::new("GET", &format!("{right}?{WRONG}")),
        ];
        for request in &requests {
            let answer = connection.call(request).await;
            check(&answer.body, &[&key, &revoked, TOKEN], &request.target);
            let headers = format!("{:?}", answer.head.headers);
            check(headers.as_bytes(), &[&key, &revoked, TOKEN], &request.target);
        }
    }
    // A request that HTTP itself refuses, with secrets in it.
    let bad = format!("GET {right} HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\nbad header\r\n\r\n");
    let mut broken = lyceum.connect().await;
    broken.send(bad).await;
    broken.closed().await;
    two(&lyceum, &right, &key).await;

    let metrics = Request::new("GET", "/metrics").header("x-api-key", &key);
    let metrics = lyceum.call(&metrics).await;
    let parts: Vec<&str> = key.split('_').chain(revoked.split('_')).collect();
    let secrets = [TOKEN, WRONG, parts[2], parts[6], &mistyped];
    check(&metrics.body, &secrets, "/metrics");
    assert!(metrics.text().contains("lyceum_refused_total"), "{}", metrics.text());
    lyceum.terminate().await;
    assert_eq!(lyceum.ended().await, Some(0));
    check(lyceum.printed.join("\n").as_bytes(), &secrets, "standard output");
    let logged = std::fs::read(&log).unwrap();
    assert!(logged.len() > 10_000, "it did log at trace");
    check(&logged, &secrets, "the log");
    search(data.path(), &secrets, &token);
}

/// The same over HTTP/2, whose library logs a lot.
async fn two(lyceum: &Lyceum, path: &str, key: &str) {
    use hyper_util::rt::{TokioExecutor, TokioIo};
    let stream = tokio::net::TcpStream::connect(lyceum.address).await.unwrap();
    let handshake = hyper::client::conn::http2::handshake::<_, _, String>(
        TokioExecutor::new(),
        TokioIo::new(stream),
    );
    let (mut sender, connection) = handshake.await.unwrap();
    let connection = tokio::spawn(connection);
    for path in [path, "/kb/list"] {
        let request = http::Request::get(format!("http://{}{path}", lyceum.address))
            .header("x-api-key", key)
            .body(String::new())
            .unwrap();
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
    }
    drop(sender);
    connection.abort();
}
