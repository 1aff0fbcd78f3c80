//! What the binary serves over HTTP.

use std::process::Stdio;

use lyceum_testkit::Request;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::{Duration, Instant, sleep};

use crate::lyceum::Lyceum;

const PATH: &str = "/mcp";

fn call_tool(name: &str, arguments: Value) -> Request {
    Request::modern(PATH, 1, "tools/call", json!({ "name": name, "arguments": arguments }))
}

fn initialize() -> Request {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    });
    Request::legacy(PATH, 1, "initialize", params)
}

#[tokio::test]
async fn documents_survive_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let mut lyceum = Lyceum::start(data.path(), &[]).await;
    let document = json!({ "path": "a", "content": "hello" });
    let answer = lyceum.call(&call_tool("upload_document", document)).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    lyceum.terminate().await;
    assert_eq!(lyceum.ended().await, Some(0));

    let lyceum = Lyceum::start(data.path(), &[]).await;
    let read = lyceum.call(&call_tool("get_document", json!({ "document_id": "a" }))).await.json();
    assert_eq!(read["result"]["structuredContent"]["content"], "hello");
}

/// There everything that serves shares a thread.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn one_processor_is_enough() {
    let data = tempfile::tempdir().unwrap();
    let mut lyceum = Lyceum::start_on_one_processor(data.path()).await;
    let upload = async |n: usize| {
        let document = json!({ "path": format!("d/{n}"), "content": format!("hello number {n}") });
        lyceum.call(&call_tool("upload_document", document)).await
    };
    let uploads = tokio::join!(upload(0), upload(1), upload(2), upload(3));
    for answer in [uploads.0, uploads.1, uploads.2, uploads.3] {
        assert_eq!(answer.status(), 200, "{}", answer.text());
    }
    let search = call_tool("search_knowledge", json!({ "query": "hello number" }));
    let deadline = tokio::time::Instant::now() + tokio::time::Duration::from_secs(10);
    loop {
        let found = lyceum.call(&search).await.json()["result"]["structuredContent"].take();
        if found["hits"].as_array().unwrap().len() == 4 && found["usage"]["mode"] == "hybrid" {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{found}");
    }
    lyceum.terminate().await;
    assert_eq!(lyceum.ended().await, Some(0));
}

#[tokio::test]
async fn session_goes_on_after_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let mut lyceum = Lyceum::start(data.path(), &[]).await;
    let initialized = lyceum.call(&initialize()).await;
    let id = initialized.head.get("mcp-session-id").expect("a session id").to_owned();
    lyceum.terminate().await;
    assert_eq!(lyceum.ended().await, Some(0));

    let lyceum = Lyceum::start(data.path(), &[]).await;
    let list = Request::legacy(PATH, 2, "tools/list", json!({})).header("mcp-session-id", &id);
    let answer = lyceum.call(&list).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let end = Request::new("DELETE", PATH).header("mcp-session-id", &id);
    assert_eq!(lyceum.call(&end).await.status(), 200);

    let lyceum = Lyceum::start(data.path(), &[]).await;
    assert_eq!(lyceum.call(&list).await.status(), 404, "an ended session stays ended");
}

#[tokio::test]
async fn running_call_finishes_while_draining() {
    let (mut lyceum, _data) = Lyceum::fresh(&[]).await;
    let upload = call_tool("upload_document", json!({ "path": "a", "content": "late" }));
    let bytes = upload.header("expect", "100-continue").to_bytes();
    let (head, body) = bytes.split_at(bytes.len() - upload_length(&bytes));
    let mut connection = lyceum.connect().await;
    connection.send(head).await;
    // The server asks for the body: the call has begun.
    let go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    assert_eq!(connection.raw(go_on.len()).await, go_on.as_bytes());
    lyceum.terminate().await;
    let refuses = async || tokio::net::TcpStream::connect(lyceum.address).await.is_err();
    while !refuses().await {
        tokio::task::yield_now().await;
    }
    connection.send(body).await;
    let answer = connection.response().await.json();
    assert_eq!(answer["result"]["structuredContent"]["status"], "created");
    assert_eq!(lyceum.ended().await, Some(0));
}

/// Bytes after the empty line of a request.
fn upload_length(request: &[u8]) -> usize {
    let end = request.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    request.len() - end - 4
}

#[tokio::test]
async fn idle_streams_do_not_hold_up_the_end() {
    let (mut lyceum, _data) = Lyceum::fresh(&[]).await;
    let id = lyceum.call(&initialize()).await.head.get("mcp-session-id").unwrap().to_owned();
    let stream = Request::new("GET", PATH)
        .header("accept", "text/event-stream")
        .header("mcp-session-id", &id);
    let _stream = lyceum.connect().await.stream(&stream).await;
    let notifications = json!({ "notifications": { "toolsListChanged": true } });
    let listen = Request::modern(PATH, 1, "subscriptions/listen", notifications);
    let (_, mut listening) = lyceum.connect().await.stream(&listen).await;
    listening.next().await.expect("an acknowledgement");
    let started = tokio::time::Instant::now();
    lyceum.terminate().await;
    let last = listening.rest().await.last().expect("a proper end").json();
    assert_eq!(last["result"]["resultType"], "complete");
    assert_eq!(lyceum.ended().await, Some(0));
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
}

#[tokio::test]
async fn idle_server_ends_without_waiting_for_anything() {
    let (mut lyceum, _data) = Lyceum::fresh(&[]).await;
    assert_eq!(lyceum.call(&Request::new("GET", "/kb/list")).await.status(), 200);
    let started = tokio::time::Instant::now();
    lyceum.terminate().await;
    assert_eq!(lyceum.ended().await, Some(0));
    assert!(started.elapsed().as_millis() < 1500, "{:?}", started.elapsed());
}

#[tokio::test]
async fn first_transport_is_served_on_sse_and_messages() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let sse = Request::new("GET", "/sse").header("accept", "text/event-stream");
    let (_, mut events) = lyceum.connect().await.stream(&sse).await;
    let endpoint = events.next().await.unwrap();
    assert_eq!(endpoint.name, "endpoint");
    assert!(endpoint.data.starts_with("/messages?"), "{}", endpoint.data);
    let ping = Request::legacy(&endpoint.data, 7, "ping", json!({}));
    assert_eq!(lyceum.call(&ping).await.status(), 202);
    assert_eq!(events.next().await.unwrap().json()["id"], 7);
}

#[tokio::test]
async fn presets_and_flags_change_how_accept_is_read() {
    let rows: &[(&[&str], &str, u16, &str)] = &[
        (&[], "text/event-stream", 200, "text/event-stream; charset=utf-8"),
        (&[], "application/json", 200, "application/json"),
        (&["--no-sse"], "text/event-stream", 200, "application/json"),
        (&["--preset", "strict"], "application/json", 406, "application/json"),
        (&["--preset", "knox"], "application/xml", 200, "application/json"),
        (&["--preset", "agent-data"], "application/xml", 406, "application/json"),
    ];
    for (flags, accept, status, content_type) in rows {
        let (lyceum, _data) = Lyceum::fresh(flags).await;
        let request = Request::modern(PATH, 1, "tools/list", json!({})).set("accept", accept);
        let answer = lyceum.call(&request).await;
        let seen = (answer.status(), answer.head.get("content-type").unwrap());
        assert_eq!(seen, (*status, *content_type), "{flags:?} {accept}");
    }
}

#[tokio::test]
async fn endpoints_offer_what_the_file_says() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("lyceum.toml");
    let text = "[[endpoint]]\npath = \"/mcp\"\n[[endpoint]]\npath = \"/few\"\ntools = [\"search_*\"]\n\
                explain = true\n";
    std::fs::write(&file, text).unwrap();
    let lyceum = Lyceum::start(data.path(), &["--config", file.to_str().unwrap()]).await;
    let few = lyceum.call(&Request::modern("/few", 1, "tools/list", json!({}))).await;
    assert_eq!(few.json()["result"]["tools"].as_array().unwrap().len(), 1);
    assert!(few.head.get("lyceum-decision").is_some());
    let refused = json!({ "name": "list_documents", "arguments": {} });
    let refused = lyceum.call(&Request::modern("/few", 1, "tools/call", refused)).await.json();
    assert_eq!(refused["error"]["code"], -32602);
    assert_eq!(refused["error"]["message"], "Tool not allowed: list_documents");
    let sse = Request::new("GET", "/sse").header("accept", "text/event-stream");
    assert_eq!(lyceum.call(&sse).await.status(), 404, "nobody asked for http_sse");
}

#[tokio::test]
async fn every_endpoint_has_the_old_transport_below_it() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    for (sse, messages) in
        [("/sse", "/messages?"), ("/mcp-readonly/sse", "/mcp-readonly/messages?")]
    {
        let request = Request::new("GET", sse).header("accept", "text/event-stream");
        let (head, mut events) = lyceum.connect().await.stream(&request).await;
        assert_eq!(head.status, 200, "{sse}");
        let first = events.next().await.expect("an event");
        assert!(first.data.starts_with(messages), "{sse}: {first:?}");
    }
}

#[tokio::test]
async fn watchers_get_health_and_metrics() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let health = lyceum.call(&Request::new("GET", "/health").set("host", "10.1.2.3")).await;
    assert_eq!((health.status(), &health.json()["status"]), (200, &json!("ok")));
    lyceum.call(&Request::modern(PATH, 1, "tools/list", json!({}))).await;
    let metrics = lyceum.call(&Request::new("GET", "/metrics")).await;
    assert_eq!(
        metrics.head.get("content-type").unwrap(),
        "text/plain; version=0.0.4; charset=utf-8"
    );
    let line = "lyceum_accept_total{endpoint=\"/mcp\",mode=\"both\"} 1";
    assert!(metrics.text().lines().any(|found| found == line), "{}", metrics.text());
    let rows: &[(Request, u16, Value)] = &[
        (Request::new("POST", "/health"), 405, "METHOD_NOT_ALLOWED".into()),
        (
            Request::new("GET", "/metrics").set("host", "evil.example"),
            421,
            "MISDIRECTED_REQUEST".into(),
        ),
        (
            Request::new("GET", "/metrics").header("origin", "https://evil.example"),
            403,
            "FORBIDDEN".into(),
        ),
        (Request::new("GET", "/elsewhere"), 404, (-32600).into()),
    ];
    for (request, status, code) in rows {
        let answer = lyceum.call(request).await;
        assert_eq!(answer.status(), *status, "{request:?}");
        assert_eq!(answer.json()["error"]["code"], *code, "{request:?}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn data_directory_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("a/b");
    let _lyceum = Lyceum::start(&data, &[]).await;
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    assert_eq!(mode(&data.join("seal.key")), 0o600);
}

/// 300 clients that say nothing would keep everybody else out for 76 seconds.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn few_files_and_many_idle_connections_keep_nobody_out() {
    let data = tempfile::tempdir().unwrap();
    let lyceum = Lyceum::start_with_open_files(data.path(), 64, 256).await;
    assert_eq!(lyceum.open_files_limit(), 256, "the soft limit is raised to the hard one");
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(lyceum.connect().await);
    }
    for _ in 0..3 {
        let list = call_tool("list_documents", json!({}));
        let served = lyceum.call(&list);
        let served = tokio::time::timeout(tokio::time::Duration::from_secs(8), served).await;
        assert_eq!(served.expect("an idle connection made room").status(), 200);
    }
}

#[tokio::test]
async fn session_ended_in_one_process_is_ended_in_the_other() {
    let data = tempfile::tempdir().unwrap();
    let one = Lyceum::start(data.path(), &[]).await;
    let other = Lyceum::start(data.path(), &[]).await;
    let session = one.call(&initialize()).await.head.get("mcp-session-id").unwrap().to_owned();
    let ping = Request::legacy(PATH, 2, "ping", json!({})).header("mcp-session-id", &session);
    assert_eq!(other.call(&ping).await.status(), 200);
    let end = Request::new("DELETE", PATH).header("mcp-session-id", &session);
    assert_eq!(one.call(&end).await.status(), 200);
    let deadline = tokio::time::Instant::now() + tokio::time::Duration::from_secs(15);
    while other.call(&ping).await.status() != 404 {
        assert!(tokio::time::Instant::now() < deadline, "it lives on in the other process");
        tokio::time::sleep(tokio::time::Duration::from_millis(50)).await;
    }
}

/// Starts a server in a terminal of its own, closes the terminal, and says whether the server still listens when it
/// had time to end.
#[cfg(target_os = "linux")]
async fn outlives_its_terminal(prefix: &str) -> bool {
    let data = tempfile::tempdir().unwrap();
    let (printed, pid) = (data.path().join("printed"), data.path().join("pid"));
    let line = format!(
        "echo $$ > {pid:?}; exec {prefix} {:?} serve --log error --listen 127.0.0.1:0 --data {:?} > {printed:?}",
        env!("CARGO_BIN_EXE_lyceum"),
        data.path()
    );
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut terminal = terminal.env("SHELL", "/bin/sh").kill_on_drop(true).spawn().unwrap();
    let patience = Instant::now() + Duration::from_secs(20);
    let address = loop {
        let text = std::fs::read_to_string(&printed).unwrap_or_default();
        let url = text.split_once("http://").and_then(|(_, rest)| rest.split_once('/'));
        if let Some((address, _)) = url {
            break address.to_owned();
        }
        assert!(Instant::now() < patience, "it does not start: {text}");
        sleep(Duration::from_millis(20)).await;
    };
    terminal.kill().await.unwrap();
    let patience = Instant::now() + Duration::from_secs(3);
    while TcpStream::connect(&address).await.is_ok() && Instant::now() < patience {
        sleep(Duration::from_millis(50)).await;
    }
    let listens = TcpStream::connect(&address).await.is_ok();
    if listens {
        let pid = std::fs::read_to_string(&pid).unwrap();
        Command::new("kill").arg(pid.trim()).status().await.unwrap();
    }
    listens
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_closed_terminal_ends_its_server_but_not_under_nohup() {
    assert!(!outlives_its_terminal("").await);
    assert!(outlives_its_terminal("nohup").await);
}
