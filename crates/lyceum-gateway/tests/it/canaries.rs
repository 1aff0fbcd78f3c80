//! What belongs to a client's own hop stays there (reliability row 21): credentials, cookies, sessions,
//! addresses and the protocol's own metadata. Only what the operator configured goes upstream.

use lyceum_gateway::{HeaderSource, UpstreamConfig};
use lyceum_testkit::{Request, Server as Running};
use lyceum_wire::Request as Rpc;
use serde_json::{Value, json};

use crate::house::House;
use crate::mirror::{Mirror, Reply};

const CANARY: &str = "canary-7f3a";

/// Header lines clients and proxies send. Some carry a secret, some tell who somebody is, some would
/// change what a server does.
const HEADERS: [&str; 38] = [
    "authorization",
    "proxy-authorization",
    "proxy-authenticate",
    "proxy-connection",
    "www-authenticate",
    "cookie",
    "cookie2",
    "set-cookie",
    "last-event-id",
    "x-session-id",
    "x-api-key",
    "api-key",
    "x-auth-token",
    "x-csrf-token",
    "x-amz-security-token",
    "x-goog-iap-jwt-assertion",
    "cf-access-jwt-assertion",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-port",
    "x-forwarded-user",
    "x-forwarded-access-token",
    "x-original-url",
    "x-rewrite-url",
    "x-http-method-override",
    "x-real-ip",
    "forwarded",
    "via",
    "from",
    "referer",
    "user-agent",
    "if-none-match",
    "range",
    "upgrade-insecure-requests",
    "x-request-id",
    "mcp-param-secret",
    "x-anything",
];

/// An upstream of either era with something of every kind.
fn answers(request: &Rpc, modern: bool) -> Reply {
    let offers = r#""capabilities":{"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{},"logging":{}},"serverInfo":{"name":"m","version":"1"}"#;
    let result = match request.method.as_str() {
        "server/discover" if modern => {
            format!(r#"{{"supportedVersions":["2026-07-28"],{offers},"resultType":"complete"}}"#)
        }
        "initialize" if !modern => format!(r#"{{"protocolVersion":"2025-06-18",{offers}}}"#),
        "tools/list" => r#"{"tools":[{"name":"it","inputSchema":{"type":"object"}}]}"#.to_owned(),
        "prompts/list" => r#"{"prompts":[{"name":"it"}]}"#.to_owned(),
        "resources/list" => r#"{"resources":[{"uri":"x://it","name":"it"}]}"#.to_owned(),
        "resources/templates/list" => r#"{"resourceTemplates":[]}"#.to_owned(),
        "tools/call" => r#"{"content":[]}"#.to_owned(),
        "prompts/get" => r#"{"messages":[]}"#.to_owned(),
        "resources/read" => r#"{"contents":[]}"#.to_owned(),
        "completion/complete" => r#"{"completion":{"values":["z"]}}"#.to_owned(),
        "resources/subscribe" | "logging/setLevel" | "ping" => "{}".to_owned(),
        _ => return Reply::Unknown,
    };
    Reply::Result(result)
}

/// One request of every kind that is passed on, with a canary wherever there is room for one.
fn requests() -> Vec<(&'static str, Value)> {
    let meta = json!({
        "progressToken": CANARY,
        "io.modelcontextprotocol/clientInfo": {"name": CANARY, "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"experimental": {}},
        "io.modelcontextprotocol/related-task": {"taskId": CANARY},
        "io.modelcontextprotocol/subscriptionId": CANARY,
        "io.modelcontextprotocol/anything": CANARY,
        "vendor/kept": "passes",
    });
    let reference = json!({"type": "ref/prompt", "name": "up_it"});
    vec![
        ("tools/call", json!({"name": "up_it", "arguments": {}, "_meta": meta})),
        ("prompts/get", json!({"name": "up_it", "_meta": meta})),
        ("resources/read", json!({"uri": "up+x://it", "_meta": meta})),
        (
            "completion/complete",
            json!({"ref": reference, "argument": {"name": "a", "value": ""}, "_meta": meta}),
        ),
    ]
}

fn with_canaries(request: Request) -> Request {
    let value = |name: &str| match name {
        "authorization" | "proxy-authorization" => format!("Bearer {CANARY}"),
        "cookie" => format!("id={CANARY}"),
        _ => CANARY.to_owned(),
    };
    HEADERS.iter().fold(request, |request, name| request.header(name, &value(name)))
}

/// A session of a legacy client that says who it is wherever it can.
async fn session(front: &Running) -> String {
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {"experimental": {CANARY: {}}},
        "clientInfo": {"name": CANARY, "version": CANARY}});
    let hello = with_canaries(Request::legacy("/mcp", 0, "initialize", hello));
    let answer = front.connect().await.call(&hello).await;
    answer.head.get("mcp-session-id").unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_clients_own_hop_reaches_an_upstream() {
    for modern in [false, true] {
        let upstream = Mirror::answering(move |request| answers(request, modern)).await;
        let mapped = [("x-team", "mapped-by-config"), ("authorization", "Bearer from-config")];
        let mapped =
            mapped.map(|(name, value)| (name.to_owned(), HeaderSource::Text(value.to_owned())));
        let config = UpstreamConfig { headers: mapped.to_vec(), ..upstream.config("up") };
        let house = House::with(vec![config], None).await;
        let session = session(&house.front).await;
        let mut n_calls = 0;
        for (method, params) in requests() {
            let new = Request::modern("/mcp", CANARY, method, params.clone())
                .header("mcp-session-id", CANARY);
            let old = Request::legacy("/mcp", CANARY, method, params)
                .header("mcp-session-id", &session)
                .header("mcp-protocol-version", "2025-11-25");
            for request in [new, old] {
                let answer = house.front.connect().await.call(&with_canaries(request)).await;
                assert_eq!(answer.status(), 200, "{method}: {}", answer.text());
                assert!(answer.text().contains("result"), "{method}: {}", answer.text());
                n_calls += 1;
                let seen = upstream.last();
                assert!(seen.contains(method), "{method}: {seen}");
                assert!(seen.contains(r#""vendor/kept":"passes""#), "{method}: {seen}");
            }
        }
        house.gateway.close().await;
        let seen = upstream.everything();
        assert!(!seen.contains(CANARY) && !seen.contains(&session), "{seen}");
        // The host a client asked for is ours, and the upstream's is its own.
        assert!(seen.contains(&format!("host: {}", upstream.running.address())), "{seen}");
        for (line, least) in
            [("x-team: mapped-by-config", n_calls), ("authorization: Bearer from-config", n_calls)]
        {
            assert!(seen.matches(line).count() >= least, "{line}: {seen}");
        }
        assert!(!seen.contains("Bearer canary"), "{seen}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_header_of_a_client_chooses_the_upstream() {
    // The advisory behind row 20: a gateway that let a header say where requests go.
    let upstream = Mirror::answering(|request| answers(request, false)).await;
    let trap = Mirror::start().await;
    let house = House::with(vec![upstream.config("up")], None).await;
    let address = trap.running.address().to_string();
    for name in [
        "x-upstream",
        "x-forwarded-host",
        "x-forwarded-server",
        "x-original-host",
        "x-host",
        "x-mcp-upstream",
        "x-router-key",
        "forwarded",
        "x-envoy-original-dst-host",
        "location",
        "mcp-server",
        "x-backend",
        "destination",
    ] {
        let value = if name == "forwarded" { format!("host={address}") } else { address.clone() };
        let request = Request::modern("/mcp", 1, "tools/call", json!({"name": "up_it"}));
        let answer = house.front.connect().await.call(&request.header(name, &value)).await;
        assert_eq!(answer.status(), 200, "{name}: {}", answer.text());
    }
    assert_eq!(upstream.n_seen("tools/call"), 13);
    assert_eq!(trap.everything(), "");
}
