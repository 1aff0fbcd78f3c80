//! A real embedding service on loopback that counts what it is asked: every content once, and no more.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request as HttpRequest, Response as HttpResponse};
use hyper_util::rt::TokioIo;
use lyceum_testkit::Request;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::time::{Duration, Instant, sleep};

use crate::lyceum::Lyceum;

const DOCUMENTS: usize = 10;

/// How often each text was embedded.
type Texts = Arc<Mutex<HashMap<String, usize>>>;

async fn service() -> (SocketAddr, Texts) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let texts = Texts::default();
    let seen = Arc::clone(&texts);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let seen = Arc::clone(&seen);
            let service = service_fn(move |request| embed(request, Arc::clone(&seen)));
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    (address, texts)
}

async fn embed(
    request: HttpRequest<Incoming>,
    seen: Texts,
) -> Result<HttpResponse<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let inputs = body["input"].as_array().unwrap();
    let data: Vec<Value> = inputs
        .iter()
        .enumerate()
        .map(|(index, text)| {
            let text = text.as_str().unwrap();
            let mut seen = seen.lock().unwrap();
            let times = seen.entry(text.to_owned()).or_default();
            *times += 1;
            // A text that asks for it is answered wrongly at first.
            let odd = text.contains("answered wrongly") && *times <= 2;
            let vector = if odd { vec![1.0] } else { vec![text.len() as f64, 1.0, 0.5] };
            json!({"index": index, "embedding": vector})
        })
        .collect();
    Ok(HttpResponse::new(Full::from(json!({"data": data}).to_string())))
}

fn config(directory: &TempDir, service: SocketAddr) -> String {
    let file = directory.path().join("lyceum.toml");
    let text =
        format!("[embeddings]\nkind = \"openai\"\nurl = \"http://{service}/v1\"\nmodel = \"m\"\n");
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

async fn call(lyceum: &Lyceum, tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    let answer = lyceum.call(&Request::legacy("/mcp", 1, "tools/call", params)).await.json();
    let text =
        answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    serde_json::from_str(text).unwrap()
}

async fn all_ready(lyceum: &Lyceum) {
    let deadline = Instant::now() + Duration::from_secs(15);
    for n in 0..DOCUMENTS {
        let document = json!({"document_id": format!("d{n}.md")});
        while call(lyceum, "get_document", document.clone()).await["vector_status"] != "ready" {
            assert!(Instant::now() < deadline, "document {n} has no vectors");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn every_changed_content_is_embedded_exactly_once() {
    let (service, texts) = service().await;
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--config", &config(&directory, service)];
    let data = directory.path().join("data");
    let lyceum = Lyceum::start(&data, &flags).await;
    for n in 0..DOCUMENTS {
        call(
            &lyceum,
            "upload_document",
            json!({"path": format!("d{n}.md"), "content": format!("text {n}")}),
        )
        .await;
    }
    all_ready(&lyceum).await;
    call(&lyceum, "update_document", json!({"path": "d0.md", "tags": ["new"]})).await;
    call(&lyceum, "update_document", json!({"path": "d1.md", "content": "text 1"})).await;
    call(&lyceum, "update_document", json!({"path": "d2.md", "content": "another text"})).await;
    all_ready(&lyceum).await;
    drop(lyceum);
    let lyceum = Lyceum::start(&data, &flags).await;
    all_ready(&lyceum).await;
    let texts = texts.lock().unwrap();
    assert_eq!(texts.len(), DOCUMENTS + 1, "{texts:?}");
    assert!(texts.values().all(|times| *times == 1), "{texts:?}");
}

/// Waits until `/health` says something of the embedding model that `is_right` likes.
async fn embedder_until(lyceum: &Lyceum, is_right: impl Fn(&Value) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let health = lyceum.call(&Request::new("GET", "/health")).await.json();
        let embedder = &health["dependencies"]["embedder"];
        if is_right(embedder) {
            return;
        }
        assert!(Instant::now() < deadline, "{health}");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn the_length_of_stored_vectors_outlives_a_restart() {
    let (service, _texts) = service().await;
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--config", &config(&directory, service)];
    let data = directory.path().join("data");
    let upload = async |lyceum: &Lyceum, n: usize, content: &str| {
        let arguments = json!({"path": format!("d{n}.md"), "content": content});
        call(lyceum, "upload_document", arguments).await;
    };
    let lyceum = Lyceum::start(&data, &flags).await;
    for n in 1..DOCUMENTS {
        upload(&lyceum, n, "a plain text").await;
    }
    sleep(Duration::from_millis(200)).await;
    drop(lyceum);
    let lyceum = Lyceum::start(&data, &flags).await;
    upload(&lyceum, 0, "this is answered wrongly at first").await;
    embedder_until(&lyceum, |embedder| {
        let error = embedder["last_error"].as_str().unwrap_or_default();
        embedder["status"] == "failing" && error.contains("1 dimensions instead of 3")
    })
    .await;
    all_ready(&lyceum).await;
    embedder_until(&lyceum, |embedder| embedder["status"] == "ok").await;
}

#[tokio::test]
async fn c7_skip_rules_given_later_reach_what_is_there() {
    let data = tempfile::tempdir().unwrap();
    let paths = ["registries/a.md", "b.md"];
    let statuses = async |lyceum: &Lyceum, expected: [&str; 2]| {
        let deadline = Instant::now() + Duration::from_secs(15);
        for (path, expected) in paths.into_iter().zip(expected) {
            let document = json!({"document_id": path});
            while call(lyceum, "get_document", document.clone()).await["vector_status"] != expected
            {
                assert!(Instant::now() < deadline, "{path} is not {expected}");
                sleep(Duration::from_millis(20)).await;
            }
        }
    };
    let lyceum = Lyceum::start(data.path(), &[]).await;
    for path in paths {
        call(&lyceum, "upload_document", json!({"path": path, "content": "some text"})).await;
    }
    statuses(&lyceum, ["ready", "ready"]).await;
    drop(lyceum);
    let lyceum = Lyceum::start(data.path(), &["--preset", "agent-data"]).await;
    statuses(&lyceum, ["skipped", "ready"]).await;
    drop(lyceum);
    let lyceum = Lyceum::start(data.path(), &[]).await;
    statuses(&lyceum, ["ready", "ready"]).await;
}
