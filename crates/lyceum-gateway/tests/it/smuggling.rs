//! Requests that two readers could split differently (reliability row 13), sent through the gateway: the
//! upstream sees exactly the requests that were honestly made, and nothing of a client's gets into the
//! lines around them.

use std::time::Duration;

use lyceum_testkit::Request;
use lyceum_testkit::smuggling::{Corpus, Fate};
use lyceum_wire::Request as Rpc;
use serde_json::json;

use crate::house::House;
use crate::mirror::{Mirror, Reply};

fn call(id: u64, mark: &str) -> Request {
    let params = json!({"name": "up_mirror", "arguments": {"mark": mark}});
    Request::modern("/mcp", id, "tools/call", params)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_sees_one_request_for_one_and_none_for_those_that_are_refused() {
    let upstream = Mirror::start().await;
    let house = House::with(vec![upstream.config("up")], None).await;
    let cases = Corpus::new(&call(1, "honest"), &call(666, "hidden")).all();
    assert!(cases.len() >= 60, "{}", cases.len());
    let mut expected = 0;
    for case in cases {
        let mut connection = house.front.connect().await;
        if connection.try_send(&case.bytes).await.is_ok() {
            connection.finish_sending().await;
        }
        let mut statuses = Vec::new();
        while let Some(response) = connection.try_response().await {
            statuses.push(response.status());
        }
        let name = &case.name;
        assert!(connection.closes_within(Duration::from_secs(5)).await, "{name}: still open");
        expected += usize::from(case.fate == Fate::One);
        let seen = upstream.bodies("tools/call");
        assert_eq!(seen.len(), expected, "{name}: {statuses:?}");
    }
    // One after the other, on the connections those before were relayed on.
    for _ in 0..10 {
        let answer = house.front.connect().await.call(&call(1, "honest")).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
    }
    let seen = upstream.bodies("tools/call");
    assert_eq!(seen.len(), expected + 10);
    assert!(seen.iter().all(|body| body.contains("honest")), "{seen:?}");
}

/// A modern upstream whose tools have names and parameters that end up in headers.
fn with_headers(request: &Rpc) -> Reply {
    let schema =
        r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}"#;
    let result = match request.method.as_str() {
        "server/discover" => {
            r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"m","version":"1"},"resultType":"complete"}"#.to_owned()
        }
        "tools/list" => format!(
            r#"{{"tools":[{{"name":"mirror","inputSchema":{schema}}},{{"name":"a\r\nEvil: 1\r\n\r\nPOST","inputSchema":{schema}}}],"resultType":"complete"}}"#
        ),
        "tools/call" => r#"{"content":[],"resultType":"complete"}"#.to_owned(),
        _ => return Reply::Unknown,
    };
    Reply::Result(result)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_up_in_headers_cannot_end_them() {
    let upstream = Mirror::answering(with_headers).await;
    let house = House::with(vec![upstream.config("up")], None).await;
    let tools = house
        .front
        .connect()
        .await
        .call(&Request::modern("/mcp", 1, "tools/list", json!({})))
        .await;
    let tools = tools.json();
    let tools: Vec<_> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(tools.len(), 2, "{tools:?}");
    let hidden = "x\r\ncontent-length: 0\r\n\r\nPOST /mcp HTTP/1.1\r\nEvil: 1\r\n\r\n";
    for tool in &tools {
        for region in [hidden, "\n", "\r", "\0", "é\u{2028}", " a ", "=?base64?eA==?="] {
            let params = json!({"name": tool, "arguments": {"region": region}});
            let encoded = lyceum_wire::encode_value(region);
            let request = Request::modern("/mcp", 1, "tools/call", params)
                .header("mcp-param-region", &encoded);
            let answer = house.front.connect().await.call(&request).await;
            assert_eq!(answer.status(), 200, "{tool} {region:?}: {}", answer.text());
        }
    }
    let seen = upstream.everything();
    assert_eq!(upstream.bodies("tools/call").len(), 14, "{seen}");
    assert!(!seen.lines().any(|line| line.starts_with("Evil")), "{seen}");
}
