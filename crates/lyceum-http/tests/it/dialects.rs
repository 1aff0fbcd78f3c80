//! What the five dialects do differently, over HTTP: framing, statuses, codes, sessions, GET.

use lyceum_http::Dialect::{self, AgentData, Knox, Standard, Strict, Turul};
use lyceum_testkit::{Request, Response};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use serde_json::{Value, json};

use crate::lab::{Lab, PATH, initialize, modern, notification};
use crate::matrix::{refused, succeeded};

const JSON: &str = "application/json";
const SSE: &str = "text/event-stream";
const BOTH: &str = "application/json, text/event-stream";

/// How an answer was framed: `json`, `sse`, or its status.
fn framing(response: &Response) -> String {
    match (response.status(), response.head.get("content-type")) {
        (200, Some("application/json")) => "json".into(),
        (200, Some("text/event-stream; charset=utf-8")) => "sse".into(),
        (status, _) => status.to_string(),
    }
}

/// Sends a request with this `Accept`; the empty string means none.
async fn send(lab: &Lab, request: &Request, accept: &str) -> Response {
    let request = request.clone().without("accept");
    lab.send(&if accept.is_empty() { request } else { request.header("accept", accept) }).await
}

/// A dialect's session header, where it hands one out.
async fn legacy(lab: &Lab, method: &str, params: Value) -> Request {
    let request = Request::legacy(PATH, 7, method, params);
    let response = lab.send(&initialize("2025-06-18")).await;
    match response.head.get("mcp-session-id") {
        Some(session) => request.header("mcp-session-id", session),
        None => request,
    }
}

/// One row: an `Accept` and the framing of a small answer in each dialect, in the table's order.
async fn check(accept: &str, expected: [&str; 5]) {
    for (dialect, expected) in Dialect::ALL.into_iter().zip(expected) {
        let lab = Lab::speaking(dialect);
        let request = legacy(&lab, "tools/list", json!({})).await;
        assert_eq!(framing(&send(&lab, &request, accept).await), expected, "{dialect} {accept:?}");
        let modern = Request::modern(PATH, 7, "tools/list", json!({}));
        let response = send(&lab, &modern, accept).await;
        assert_eq!(framing(&response), expected, "modern {dialect} {accept:?}");
    }
}

#[tokio::test]
async fn absent_or_malformed_accept_is_json_or_406() {
    for accept in ["", ";;;malformed", ",", " "] {
        check(accept, ["json", "json", "json", "json", "406"]).await;
    }
}

#[tokio::test]
async fn wildcard_is_json_everywhere_unless_something_is_emitted() {
    check("*/*", ["json"; 5]).await;
    check("*", ["json"; 5]).await;
}

#[tokio::test]
async fn type_ranges_count_in_some_dialects() {
    check("application/*", ["json", "json", "json", "json", "406"]).await;
    check("text/*", ["sse", "sse", "json", "json", "406"]).await;
    check("application/*, text/*", ["json"; 5]).await;
}

#[tokio::test]
async fn one_type_only_is_answered_in_kind_or_refused() {
    check(JSON, ["json", "json", "json", "json", "406"]).await;
    check(SSE, ["sse", "sse", "sse", "sse", "406"]).await;
}

#[tokio::test]
async fn quality_decides_where_the_dialect_heeds_it() {
    check("application/json;q=.5, text/event-stream;q=1", ["sse", "sse", "sse", "json", "json"])
        .await;
    check("application/json;q=1, text/event-stream;q=.5", ["json"; 5]).await;
    check("application/json;q=0.5, text/event-stream;q=0.9", ["sse", "sse", "sse", "json", "json"])
        .await;
    let browser = "text/html;q=0.8, application/json;q=0.9, text/event-stream;q=0.7, */*;q=0.1";
    check(browser, ["json"; 5]).await;
}

#[tokio::test]
async fn order_decides_in_knox_only() {
    check(BOTH, ["json"; 5]).await;
    check("text/event-stream, application/json", ["json", "json", "sse", "json", "json"]).await;
}

#[tokio::test]
async fn other_types_are_406_or_json() {
    check("application/xml", ["406", "406", "json", "json", "406"]).await;
}

#[tokio::test]
async fn not_acceptable_names_both_types_in_the_dialects_code() {
    for (dialect, code) in [(Standard, -32600), (AgentData, -32700), (Strict, -32600)] {
        let lab = Lab::speaking(dialect);
        let request = Request::legacy(PATH, 7, "tools/list", json!({}));
        let response = send(&lab, &request, "application/xml").await;
        refused(&response, 406, code, Value::Null);
        assert!(response.text().contains(JSON) && response.text().contains(SSE));
        assert_eq!(lab.fixture.invocations(), 0);
    }
}

#[tokio::test]
async fn servers_choice_streams_tool_calls_in_turul_and_upgrades_lazily_elsewhere() {
    for (dialect, quiet, chatty) in [
        (Standard, "json", "sse"),
        (AgentData, "json", "json"),
        (Knox, "json", "json"),
        (Turul, "sse", "sse"),
        (Strict, "json", "sse"),
    ] {
        let lab = Lab::speaking(dialect);
        for (tool, expected) in [("echo", quiet), ("burst", chatty)] {
            let request = legacy(&lab, "tools/call", json!({"name": tool})).await;
            assert_eq!(framing(&send(&lab, &request, BOTH).await), expected, "{dialect} {tool}");
            let request = modern(7, tool, json!({}));
            assert_eq!(framing(&send(&lab, &request, BOTH).await), expected, "{dialect} {tool}");
        }
        let quiet = legacy(&lab, "tools/call", json!({"name": "burst"})).await;
        if dialect != Strict {
            assert_eq!(framing(&send(&lab, &quiet, JSON).await), "json", "JSON only is never SSE");
        }
    }
}

#[tokio::test]
async fn sse_off_forces_json_in_every_dialect() {
    for dialect in Dialect::ALL {
        let lab = Lab::with(|endpoint| endpoint.dialect(dialect).sse(false));
        for accept in [BOTH, SSE, JSON, "*/*", "text/event-stream, application/json;q=.1"] {
            for (tool, id) in [("echo", 7), ("burst", 7)] {
                let request = legacy(&lab, "tools/call", json!({"name": tool})).await;
                let response = send(&lab, &request, accept).await;
                assert_eq!(framing(&response), "json", "{dialect} {accept}");
                succeeded(&response, id);
            }
        }
    }
}

#[tokio::test]
async fn content_type_is_required_or_not() {
    for (dialect, status) in
        [(Standard, 415), (AgentData, 200), (Knox, 200), (Turul, 415), (Strict, 400)]
    {
        let lab = Lab::speaking(dialect);
        for wrong in [None, Some("text/plain")] {
            let request = initialize("2025-06-18").without("content-type");
            let request = match wrong {
                Some(wrong) => request.header("content-type", wrong),
                None => request,
            };
            let response = lab.send(&request).await;
            assert_eq!(response.status(), status, "{dialect} {wrong:?}");
            if status != 200 {
                refused(&response, status, -32600, Value::Null);
            }
        }
    }
}

#[tokio::test]
async fn accepted_notification_is_202_or_204() {
    for (dialect, initialized, other) in [
        (Standard, 202, 202),
        (AgentData, 204, 204),
        (Knox, 204, 202),
        (Turul, 202, 202),
        (Strict, 202, 202),
    ] {
        let lab = Lab::speaking(dialect);
        let session = lab.send(&initialize("2025-06-18")).await;
        for (method, status) in [("initialized", initialized), ("notifications/progress", other)] {
            for accept in [BOTH, JSON, SSE] {
                let mut request = notification(method, json!({}));
                if let Some(session) = session.head.get("mcp-session-id") {
                    request = request.header("mcp-session-id", session);
                }
                if dialect == Strict && accept != BOTH {
                    continue;
                }
                let response = send(&lab, &request, accept).await;
                assert_eq!(
                    (response.status(), response.text()),
                    (status, ""),
                    "{dialect} {method}"
                );
            }
        }
        let modern =
            notification("initialized", json!({})).header("mcp-protocol-version", "2026-07-28");
        assert_eq!(lab.send(&modern).await.status(), 202, "modern rules in every dialect");
    }
}

#[tokio::test]
async fn initialize_mints_a_session_except_in_agent_data() {
    for dialect in Dialect::ALL {
        let lab = Lab::speaking(dialect);
        let response = lab.send(&initialize("2025-06-18")).await;
        succeeded(&response, 0);
        let session = response.head.get("mcp-session-id");
        assert_eq!(session.is_some(), dialect != AgentData, "{dialect}");
        let carried = initialize("2025-06-18").header("mcp-session-id", "my-own");
        let response = lab.send(&carried).await;
        match dialect {
            Knox => assert_eq!(response.head.get("mcp-session-id"), Some("my-own")),
            AgentData => {
                succeeded(&response, 0);
                assert_eq!(response.head.get("mcp-session-id"), None);
            }
            _ => assert_eq!(response.status(), 404, "{dialect}"),
        }
    }
}

#[tokio::test]
async fn requests_without_a_session_are_served_or_400() {
    for (dialect, served) in
        [(Standard, true), (AgentData, true), (Knox, true), (Turul, false), (Strict, false)]
    {
        let lab = Lab::speaking(dialect);
        let response = lab.send(&Request::legacy(PATH, 7, "ping", json!({}))).await;
        if served {
            succeeded(&response, 7);
            assert_eq!(response.head.get("mcp-session-id"), None);
        } else {
            refused(&response, 400, -32600, Value::Null);
        }
    }
}

#[tokio::test]
async fn agent_data_does_not_echo_session_ids() {
    let lab = Lab::speaking(AgentData);
    let request = Request::legacy(PATH, 7, "ping", json!({})).header("mcp-session-id", "my-own");
    let response = lab.send(&request).await;
    succeeded(&response, 7);
    assert_eq!(response.head.get("mcp-session-id"), None);
}

#[tokio::test]
async fn knox_serves_and_echoes_any_session_id() {
    let lab = Lab::speaking(Knox);
    let request = Request::legacy(PATH, 7, "ping", json!({})).header("mcp-session-id", "my-own");
    let response = lab.send(&request).await;
    succeeded(&response, 7);
    assert_eq!(response.head.get("mcp-session-id"), Some("my-own"));
}

#[tokio::test]
async fn unknown_and_forbidden_tools_have_the_dialects_code() {
    for (dialect, code) in
        [(Standard, -32602), (AgentData, -32601), (Knox, -32603), (Turul, -32602), (Strict, -32602)]
    {
        let lab = Lab::speaking(dialect);
        for (tool, message) in
            [("none", "Unknown tool: none"), ("forbidden", "Tool not allowed: forbidden")]
        {
            let request = legacy(&lab, "tools/call", json!({"name": tool})).await;
            let response = send(&lab, &request, BOTH).await;
            let body = match framing(&response).as_str() {
                "sse" => response.events()[0].json(),
                _ => response.json(),
            };
            let mut expected = json!({"code": code, "message": message});
            if dialect == Knox {
                expected["data"] = format!("Server error: {message}").into();
            }
            assert_eq!(body["error"], expected, "{dialect}");
            let response = send(&lab, &modern(7, tool, json!({})), BOTH).await;
            let code = match framing(&response).as_str() {
                "sse" => response.events()[0].json()["error"]["code"].clone(),
                _ => response.json()["error"]["code"].clone(),
            };
            assert_eq!(code, -32602, "modern rules in every dialect: {dialect}");
        }
    }
}

#[tokio::test]
async fn body_that_is_no_request_is_400_or_in_band() {
    for (dialect, status) in
        [(Standard, 400), (AgentData, 400), (Knox, 200), (Turul, 400), (Strict, 400)]
    {
        let lab = Lab::speaking(dialect);
        let response = send(&lab, &Request::post(PATH, r#"{"jsonrpc":"2.0","id":7}"#), BOTH).await;
        refused(&response, status, -32600, json!(7));
    }
}

#[tokio::test]
async fn handshake_without_a_revision_is_taken_for_the_oldest_in_knox_only() {
    for dialect in Dialect::ALL {
        let lab = Lab::speaking(dialect);
        let request = Request::legacy(PATH, 7, "initialize", json!({}));
        let answer = send(&lab, &request, BOTH).await.json();
        match dialect {
            Knox => assert!(answer["result"].is_object(), "{answer}"),
            _ => assert_eq!(answer["error"]["code"], -32602, "{dialect}"),
        }
    }
}

#[tokio::test]
async fn unparsable_body_is_400_or_in_band_framed_as_negotiated() {
    for (dialect, json, sse) in [
        (Standard, "400", "400"),
        (AgentData, "json", "sse"),
        (Knox, "json", "sse"),
        (Turul, "400", "400"),
        (Strict, "400", "406"),
    ] {
        let lab = Lab::speaking(dialect);
        let response = send(&lab, &Request::post(PATH, "{nonsense"), BOTH).await;
        assert_eq!(framing(&response), json, "{dialect}");
        refused(&response, response.status(), -32700, Value::Null);
        let response = send(&lab, &Request::post(PATH, "{nonsense"), SSE).await;
        assert_eq!(framing(&response), sse, "{dialect}");
        if sse == "sse" {
            let events = response.events();
            assert_eq!((events.len(), &*events[0].name), (1, "message"));
            assert_eq!(events[0].json()["error"]["code"], -32700);
        }
        let modern = Request::post(PATH, "{nonsense").header("mcp-protocol-version", "2026-07-28");
        refused(&send(&lab, &modern, BOTH).await, 400, -32700, Value::Null);
    }
}

#[tokio::test]
async fn tool_error_is_a_result_with_the_same_text_either_way() {
    let lab = Lab::speaking(AgentData);
    let request = Request::legacy(PATH, 7, "tools/call", json!({"name": "refuse"}));
    let json = send(&lab, &request, JSON).await;
    let sse = send(&lab, &request, SSE).await;
    assert_eq!((framing(&json), framing(&sse)), ("json".into(), "sse".into()));
    assert_eq!(json.json()["result"]["isError"], true);
    assert_eq!(sse.events()[0].data, json.text());
}

#[tokio::test]
async fn sse_answers_have_exactly_these_headers_and_frames() {
    for dialect in [Standard, AgentData, Knox, Turul] {
        let lab = Lab::speaking(dialect);
        let request = legacy(&lab, "tools/call", json!({"name": "echo"})).await.without("mcp-x");
        for request in [request, modern(7, "echo", json!({}))] {
            let response = send(&lab, &request, SSE).await;
            let head = &response.head;
            assert_eq!(head.get("content-type"), Some("text/event-stream; charset=utf-8"));
            assert_eq!(head.get("cache-control"), Some("no-cache, no-transform"));
            assert_eq!(head.get("x-accel-buffering"), Some("no"));
            let text = response.text();
            assert!(
                text.starts_with("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,"),
                "{text}"
            );
            assert!(text.ends_with("}\n\n") && text.matches('\n').count() == 3, "{text}");
        }
    }
}

#[tokio::test]
async fn get_gives_a_stream_a_document_a_page_405_or_406() {
    // In the table's order; a stream without a session id is 400.
    let rows: [(&str, [&str; 5]); 8] = [
        (SSE, ["400", "405", "400", "400", "400"]),
        (BOTH, ["400", "json", "json", "400", "400"]),
        ("text/event-stream, application/json", ["400", "json", "400", "400", "400"]),
        (JSON, ["json", "json", "json", "406", "406"]),
        ("", ["json", "json", "json", "406", "406"]),
        ("application/xml", ["json", "json", "json", "406", "406"]),
        ("text/html", ["html", "html", "html", "406", "406"]),
        (
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            ["html", "html", "html", "406", "406"],
        ),
    ];
    for (accept, expected) in rows {
        for (dialect, expected) in Dialect::ALL.into_iter().zip(expected) {
            let lab = Lab::speaking(dialect);
            let response = send(&lab, &Request::new("GET", PATH), accept).await;
            let html = response.head.get("content-type") == Some("text/html; charset=utf-8");
            let got = if html { "html".into() } else { framing(&response) };
            assert_eq!(got, expected, "{dialect} {accept:?}");
            match expected {
                "json" => assert_eq!(response.json()["name"], "fixture"),
                "html" => assert!(response.text().contains("http://127.0.0.1/mcp")),
                "405" => assert_eq!(response.head.get("allow"), Some("POST")),
                _ => {}
            }
            if expected.starts_with('4') {
                refused(&response, response.status(), -32600, Value::Null);
            }
            let modern = Request::new("GET", PATH).header("mcp-protocol-version", "2026-07-28");
            refused(&send(&lab, &modern, accept).await, 405, -32600, Value::Null);
        }
    }
}

#[tokio::test]
async fn explained_answers_name_era_dialect_rule_and_answer() {
    let lab = Lab::with(|endpoint| endpoint.explain(true));
    for (request, expected) in [
        (modern(7, "echo", json!({})), "modern; standard; both-equal -> json"),
        (modern(7, "burst", json!({})), "modern; standard; both-equal -> sse"),
        (modern(7, "echo", json!({})).set("accept", SSE), "modern; standard; sse-only -> sse"),
        (initialize("2025-06-18").set("accept", JSON), "legacy; standard; json-only -> json"),
        (initialize("2025-06-18").set("accept", "x/y"), "none; standard; other-types -> 406"),
        (Request::new("GET", PATH), "legacy; standard; get-other -> json"),
        (Request::new("GET", PATH).header("accept", "*/*"), "legacy; standard; get-look -> json"),
        (Request::new("GET", PATH).header("accept", SSE), "legacy; standard; get-sse -> 400"),
    ] {
        let response = lab.send(&request).await;
        assert_eq!(response.head.get("lyceum-decision"), Some(expected));
    }
    let silent = Lab::new().send(&modern(7, "echo", json!({}))).await;
    assert_eq!(silent.head.get("lyceum-decision"), None);
}

#[tokio::test]
async fn request_ids_are_kept_or_made_up() {
    let lab = Lab::new();
    let request = modern(7, "echo", json!({}));
    let kept = lab.send(&request.clone().header("x-request-id", "trace-1")).await;
    assert_eq!(kept.head.get("x-request-id"), Some("trace-1"));
    let long = "x".repeat(129);
    let mut made_up = std::collections::HashSet::new();
    for bad in ["", "two words", &long] {
        let response = lab.send(&request.clone().header("x-request-id", bad)).await;
        made_up.insert(response.head.get("x-request-id").unwrap().to_owned());
    }
    assert!(made_up.len() == 3 && made_up.iter().all(|id| id.len() == 16), "{made_up:?}");
}

/// A lab whose counters can be read back.
fn counted(dialect: Dialect) -> (Lab, Snapshotter) {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let lab = metrics::with_local_recorder(&recorder, || Lab::speaking(dialect));
    (lab, snapshotter)
}

/// The counters that are not zero, as `name{label} value`.
pub(crate) fn counters(snapshotter: &Snapshotter) -> Vec<String> {
    let mut lines = Vec::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let labels = key.key().labels().filter(|label| label.key() != "endpoint");
        let labels: Vec<_> = labels.map(|label| label.value().to_owned()).collect();
        if let DebugValue::Counter(count) = value
            && count > 0
        {
            lines.push(format!("{} {} {count}", key.key().name(), labels.join(",")));
        }
    }
    lines.sort();
    lines
}

#[tokio::test]
async fn accept_modes_and_decisions_are_counted() {
    let (lab, snapshotter) = counted(Standard);
    let request = modern(7, "echo", json!({}));
    let modes = [BOTH, BOTH, JSON, SSE, "*/*", "", "application/xml"];
    for accept in modes {
        send(&lab, &request, accept).await;
    }
    assert_eq!(
        counters(&snapshotter),
        [
            "lyceum_accept_total absent 1",
            "lyceum_accept_total both 2",
            "lyceum_accept_total invalid 1",
            "lyceum_accept_total json-only 1",
            "lyceum_accept_total sse-only 1",
            "lyceum_accept_total wildcard 1",
            "lyceum_decisions_total json 2",
            "lyceum_decisions_total not-acceptable 1",
            "lyceum_decisions_total server-choice 3",
            "lyceum_decisions_total sse 1",
        ]
    );
}

#[tokio::test]
async fn open_streams_are_gauged() {
    let (lab, snapshotter) = counted(Standard);
    let gauge = || {
        let metrics = snapshotter.snapshot().into_vec();
        let mut gauges = metrics.into_iter().filter_map(|(key, _, _, value)| match value {
            DebugValue::Gauge(open) if key.key().name() == "lyceum_streams_open" => Some(open.0),
            _ => None,
        });
        gauges.next().expect("the gauge exists")
    };
    let session = lab.session("2025-06-18").await;
    let first = lab.open(&crate::lab::get(&session)).await;
    let second = lab.open(&modern(7, "burst", json!({}))).await;
    assert_eq!(gauge(), 2.0);
    drop((first, second));
    assert_eq!(gauge(), -2.0, "a snapshot takes what it shows, so this is the change since");
}

#[tokio::test]
async fn dropped_notifications_are_counted() {
    let (lab, snapshotter) = counted(Standard);
    send(&lab, &modern(7, "burst", json!({"n": 5})), JSON).await;
    let counted = counters(&snapshotter);
    assert!(counted.contains(&"lyceum_notifications_dropped_total  5".to_owned()), "{counted:?}");
}

#[tokio::test]
async fn panics_are_counted() {
    let (lab, snapshotter) = counted(Standard);
    send(&lab, &modern(7, "panic", json!({})), JSON).await;
    let counted = counters(&snapshotter);
    assert!(counted.contains(&"lyceum_handler_panics_total  1".to_owned()), "{counted:?}");
}
