//! Servers behind it.

use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

use super::house::{House, SCRIPT, Upstream, at, python, stdio};
use crate::lyceum::run;

/// What the server behind it saw, once it is reached in this form.
async fn seen(house: &House) -> Value {
    house.told("old_who").await
}

#[tokio::test]
async fn k40_processes_may_be_noisy() {
    // The script writes a line that is no JSON, and more to stderr than a pipe holds.
    let written = format!("stdio://{} {SCRIPT}  stdio ", python().await);
    for upstream in [stdio("files", &[]).await, at("files", &written)] {
        let house = House::with(&upstream).await;
        assert!(house.told("files_who").await["pid"].is_number(), "{upstream}");
    }
}

#[tokio::test]
async fn k41_plain_json_over_http_is_spoken_to() {
    let upstream = Upstream::start("plain").await;
    let url = format!("http://127.0.0.1:{}/rpc", upstream.port);
    let house = House::with(&at("old", &url)).await;
    let headers = seen(&house).await["headers"].clone();
    assert!(headers["accept"].as_str().unwrap().contains("application/json"), "{headers}");
    assert_eq!(headers.get("mcp-session-id"), None, "it never gave us one");
}

#[tokio::test]
async fn k42_http_sse_is_spoken_to() {
    let upstream = Upstream::start("sse").await;
    let house = House::with(&at("old", &format!("sse://127.0.0.1:{}/base", upstream.port))).await;
    let methods = seen(&house).await["methods"].clone();
    assert!(methods.as_array().unwrap().contains(&json!("notifications/initialized")));
}

#[tokio::test]
async fn k43_custom_sse_is_spoken_to() {
    let upstream = Upstream::start("custom").await;
    let url = format!("custom-http-sse://127.0.0.1:{}/base", upstream.port);
    let house = House::with(&at("old", &url)).await;
    assert!(seen(&house).await["pid"].is_number());
}

#[tokio::test]
async fn k44_an_unknown_scheme_is_told_all_seven() {
    let data = tempfile::tempdir().unwrap();
    let file = super::house::configuration(data.path(), &at("old", "ftp://h"));
    let output = run(&["config", "check", "--data", "unused", "--config", &file]).await;
    let told = String::from_utf8(output.stderr).unwrap();
    let forms = "stdio:// http:// https:// sse:// sses:// custom-http-sse:// custom-https-sse://";
    for form in forms.split(' ') {
        assert!(told.contains(form), "{told}");
    }
}

#[tokio::test]
async fn k45_we_go_by_our_own_name() {
    let house = House::new().await;
    let client = house.told("files_who").await["client"].clone();
    assert_eq!(client["name"], "lyceum");
    assert_eq!(client["version"], env!("CARGO_PKG_VERSION"));
}

#[tokio::test]
async fn k46_a_server_that_died_is_there_again() {
    let house = House::new().await;
    let before = house.told("files_who").await["pid"].clone();
    house.ask("tools/call", json!({ "name": "files_die" })).await;
    assert_ne!(house.told_again("files_who").await["pid"], before, "another process");
}

/// How often a server was asked for something.
fn times(seen: &Value, method: &str) -> usize {
    seen["methods"].as_array().unwrap().iter().filter(|asked| *asked == method).count()
}

#[tokio::test]
async fn k46_a_stream_that_broke_is_opened_again() {
    for (mode, scheme) in [("sse", "sse"), ("custom", "custom-http-sse")] {
        let upstream = Upstream::start(mode).await;
        let url = format!("{scheme}://127.0.0.1:{}/base", upstream.port);
        let house = House::with(&at("old", &url)).await;
        let before = seen(&house).await;
        for round in 1..=3 {
            // The server goes on, so only the stream is lost.
            let dropped = house.ask("tools/call", json!({ "name": "old_drop" })).await;
            assert_eq!(dropped["result"]["isError"], true, "told, not left hanging: {dropped}");
            // Whoever finds out first opens it, so the list may come a moment later, or the stream
            // be opened once more.
            let methods = ["initialize", "notifications/initialized", "tools/list"];
            let is_renewed = |after: &Value| {
                let again = |method: &&str| times(after, method) >= times(&before, method) + round;
                methods.iter().all(again)
            };
            let mut after = house.told_again("old_who").await;
            for _ in 0..100 {
                if is_renewed(&after) {
                    break;
                }
                sleep(Duration::from_millis(20)).await;
                after = house.told_again("old_who").await;
            }
            assert!(is_renewed(&after), "{mode}: round {round}: {after}");
            assert_eq!(after["pid"], before["pid"], "{mode}");
        }
    }
}

#[tokio::test]
async fn k46_a_server_that_vanished_costs_only_itself_and_is_found_again() {
    let mut upstream = Upstream::start("sse").await;
    let (port, url) = (upstream.port, format!("sse://127.0.0.1:{}/base", upstream.port));
    let house = House::with(&(at("old", &url) + &stdio("files", &[]).await)).await;
    let before = seen(&house).await["pid"].clone();
    upstream.child.kill().await.unwrap();
    let answer = house.ask("tools/call", json!({ "name": "old_who" })).await;
    assert_eq!(answer["result"]["isError"], true, "told, not left hanging: {answer}");
    assert!(house.told("files_who").await["pid"].is_number(), "the other one is not concerned");
    let _again = Upstream::start_at("sse", port).await;
    assert_ne!(house.told_again("old_who").await["pid"], before, "another process");
}
