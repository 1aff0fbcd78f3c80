//! Servers behind it.

use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use super::house::{House, Upstream, at, stdio};
use crate::lyceum::run;

/// What the server behind it saw, once it is reached in this form.
async fn seen(house: &House) -> Value {
    house.told("old_who").await
}

#[tokio::test]
async fn k40_processes_may_be_noisy() {
    // The script writes a line that is no JSON, and more to stderr than a pipe holds.
    let house = House::new().await;
    assert!(house.told("files_who").await["pid"].is_number());
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
    let start = Instant::now();
    loop {
        let answer = house.ask("tools/call", json!({ "name": "files_who" })).await;
        if answer["result"]["isError"] != true {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{answer}");
        sleep(Duration::from_millis(50)).await;
    }
    assert_ne!(house.told("files_who").await["pid"], before, "another process");
}

#[tokio::test]
async fn k46_a_stream_that_broke_is_told_of_and_costs_only_itself() {
    let mut upstream = Upstream::start("sse").await;
    let both = at("old", &format!("sse://127.0.0.1:{}/base", upstream.port));
    let house = House::with(&(both + &stdio("files", &[]).await)).await;
    upstream.child.kill().await.unwrap();
    let answer = house.ask("tools/call", json!({ "name": "old_who" })).await;
    assert_eq!(answer["result"]["isError"], true, "told, not left hanging: {answer}");
    assert!(house.told("files_who").await["pid"].is_number(), "the other one is not concerned");
}
