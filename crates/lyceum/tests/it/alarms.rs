//! What is reported when something is wrong: by `/health`, by exit codes, by dead letters.

use std::convert::Infallible;
use std::path::Path;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request as HttpRequest, Response as HttpResponse};
use hyper_util::rt::TokioIo;
use lyceum_testkit::Request;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, sleep, timeout};

use crate::knowledge::Client;
use crate::lyceum::Lyceum;

const PATIENCE: Duration = Duration::from_secs(20);

async fn health(lyceum: &Lyceum) -> (u16, Value) {
    let response = lyceum.call(&Request::new("GET", "/health")).await;
    (response.status(), response.json())
}

/// Waits until `/health` has this status code and state.
async fn until_health(lyceum: &Lyceum, code: u16, state: &str) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (status, health) = health(lyceum).await;
        if status == code && health["status"] == state {
            return health;
        }
        assert!(Instant::now() < deadline, "not {code} {state}: {status} {health}");
        sleep(Duration::from_millis(20)).await;
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn health_is_503_exactly_while_the_disk_takes_no_documents() {
    let data = tempfile::tempdir().unwrap();
    let lyceum = Lyceum::start_on_a_small_disk(data.path()).await;
    let mut client = Client::of(&lyceum, "/mcp").await;
    client.ok("upload_document", json!({ "path": "a", "content": "before" })).await;
    until_health(&lyceum, 200, "ok").await;

    lyceum.limit_file_size(Some(4096));
    let document = json!({ "path": "b", "content": "later ".repeat(2000) });
    let error = client.refused("upload_document", document.clone()).await;
    assert_eq!(error["code"], "UNAVAILABLE", "{error}");
    let conflicting = json!({ "path": "a", "content": "x", "expected_revision": 7 });
    // Longer than the indexer takes to look for work. It writes nothing, nor does a write that conflicts, so both work
    // on any disk.
    let end = Instant::now() + Duration::from_millis(1200);
    while Instant::now() < end {
        client.refused("update_document", conflicting.clone()).await;
        let (status, health) = health(&lyceum).await;
        assert_eq!((status, &health["status"]), (503, &json!("failing")), "{health}");
        assert_eq!(health["dependencies"]["store"]["status"], "failing", "{health}");
        sleep(Duration::from_millis(50)).await;
    }
    let read = client.ok("get_document", json!({ "document_id": "a" })).await;
    assert_eq!(read["content"], "before");

    lyceum.limit_file_size(None);
    until_health(&lyceum, 200, "ok").await;
    client.ok("upload_document", document).await;
    until_health(&lyceum, 200, "ok").await;
}

/// A service that tells of every request and answers those for texts without the word POISON; it keeps the others
/// waiting for ever.
async fn embedding_service() -> (String, mpsc::UnboundedReceiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (held, poisoned) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let held = held.clone();
            let service = service_fn(move |request| embed(request, held.clone()));
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    (url, poisoned)
}

async fn embed(
    request: HttpRequest<Incoming>,
    held: mpsc::UnboundedSender<()>,
) -> Result<HttpResponse<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let texts = body["input"].as_array().unwrap();
    if texts.iter().any(|text| text.as_str().unwrap().contains("POISON")) {
        held.send(()).unwrap();
        std::future::pending::<()>().await;
    }
    let data = texts.iter().enumerate();
    let data: Vec<Value> =
        data.map(|(index, _)| json!({ "index": index, "embedding": [1.0, 0.5] })).collect();
    Ok(HttpResponse::new(Full::from(json!({ "data": data }).to_string())))
}

/// The attempts that the outbox has counted for its one document.
fn attempts(data: &Path) -> i64 {
    let file = rusqlite::Connection::open(data.join("knowledge.db")).unwrap();
    file.query_row("SELECT attempts FROM outbox", [], |row| row.get(0)).unwrap()
}

/// Lets the leases of a killed process end at once.
fn end_leases(data: &Path) {
    let file = rusqlite::Connection::open(data.join("knowledge.db")).unwrap();
    file.execute("UPDATE outbox SET due = 0 WHERE lease IS NOT NULL", []).unwrap();
}

async fn until_vectors_are(client: &mut Client, path: &str, status: &str) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let read = client.ok("get_document", json!({ "document_id": path })).await;
        if read["vector_status"] == status {
            return read;
        }
        assert!(Instant::now() < deadline, "{path} is not {status}: {read}");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_document_that_ends_the_indexer_three_times_is_given_up() {
    let (url, mut poisoned) = embedding_service().await;
    let directory = tempfile::tempdir().unwrap();
    let (file, data) = (directory.path().join("lyceum.toml"), directory.path().join("data"));
    let text = format!("[embeddings]\nkind = \"openai\"\nurl = {url:?}\nmodel = \"m\"\n");
    std::fs::write(&file, text).unwrap();
    let flags = ["--config", file.to_str().unwrap()];
    for attempt in 1..=3 {
        let mut lyceum = Lyceum::start(&data, &flags).await;
        if attempt == 1 {
            let mut client = Client::of(&lyceum, "/mcp").await;
            client.ok("upload_document", json!({ "path": "bad", "content": "POISON" })).await;
        }
        timeout(PATIENCE, poisoned.recv()).await.expect("it is tried").unwrap();
        assert_eq!(attempts(&data), attempt, "counted before it is made");
        lyceum.kill().await;
        end_leases(&data);
    }
    let lyceum = Lyceum::start(&data, &flags).await;
    let mut client = Client::of(&lyceum, "/mcp").await;
    client.ok("upload_document", json!({ "path": "good", "content": "harmless" })).await;
    let bad = until_vectors_are(&mut client, "bad", "error").await;
    assert!(bad.to_string().contains("ended 3 times"), "{bad}");
    until_vectors_are(&mut client, "good", "ready").await;
    assert!(poisoned.try_recv().is_err(), "it is not tried again");
    let health = until_health(&lyceum, 200, "degraded").await;
    assert_eq!(health["dependencies"]["index"]["dead"], 1, "{health}");
}
