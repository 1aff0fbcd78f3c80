//! What is judged is what is passed on (reliability rows 11 and 12): whichever way a careless upstream
//! reads what it gets, it reads what the gateway has judged, or it gets nothing.

use std::fmt;
use std::sync::Arc;

use lyceum_gateway::Gateway;
use lyceum_testkit::{Request, Response, Server as Running};
use lyceum_wire::{Request as Rpc, RevisionSet};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRng, TestRunner};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::json;
use serde_json::value::RawValue;

use crate::house::{own_server, serve_handler, setting};
use crate::mirror::{Mirror, Reply};

/// How many bodies are made up. Optimized code gets through more of them.
const CASES: usize = if cfg!(debug_assertions) { 1_000 } else { 20_000 };

/// An upstream with something of every kind twice: `shown`, which is asked for, and `secret`.
fn both(request: &Rpc) -> Reply {
    let result = match request.method.as_str() {
        "initialize" => {
            r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{},"resources":{},"completions":{}},"serverInfo":{"name":"m","version":"1"}}"#
        }
        "tools/list" => {
            r#"{"tools":[{"name":"shown","inputSchema":{"type":"object"}},{"name":"secret","inputSchema":{"type":"object"}}]}"#
        }
        "prompts/list" => r#"{"prompts":[{"name":"shown"},{"name":"secret"}]}"#,
        "resources/list" => {
            r#"{"resources":[{"uri":"x://shown","name":"a"},{"uri":"x://secret","name":"b"}]}"#
        }
        "resources/templates/list" => r#"{"resourceTemplates":[]}"#,
        "tools/call" => r#"{"content":[]}"#,
        "prompts/get" => r#"{"messages":[]}"#,
        "resources/read" => r#"{"contents":[]}"#,
        "completion/complete" => r#"{"completion":{"values":["z"]}}"#,
        _ => return Reply::Unknown,
    };
    Reply::Result(result.to_owned())
}

/// A gateway that shows no secret tools.
struct House {
    upstream: Mirror,
    front: Running,
    gateway: Gateway,
}

impl House {
    async fn new() -> House {
        let upstream = Mirror::answering(both).await;
        let gateway = Gateway::new(setting());
        gateway.configure(vec![upstream.config("up")]);
        assert!(gateway.settled(std::time::Duration::from_secs(20)).await);
        let door = gateway.door(own_server(), Arc::new(|name: &str| !name.contains("secret")));
        let front = serve_handler(door, RevisionSet::ALL).await;
        House { upstream, front, gateway }
    }

    async fn post(&self, body: &str) -> Response {
        self.front.connect().await.call(&Request::post("/mcp", body)).await
    }
}

fn body(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
}

/// The members of an object in their order, names unescaped, read by somebody else's reader.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(All)
    }
}

fn members(raw: &str) -> Option<Vec<(String, Box<RawValue>)>> {
    serde_json::from_str::<Members>(raw).ok().map(|members| members.0)
}

fn member(raw: &str, name: &str) -> Option<String> {
    let members = members(raw)?;
    members.into_iter().find(|(known, _)| known == name).map(|(_, value)| value.get().to_owned())
}

/// Whether an object anywhere in it has a name twice.
fn repeats(raw: &str) -> bool {
    if let Some(members) = members(raw) {
        let mut names: Vec<_> = members.iter().map(|(name, _)| name).collect();
        names.sort();
        return names.windows(2).any(|pair| pair[0] == pair[1])
            || members.iter().any(|(_, value)| repeats(value.get()));
    }
    let elements: Vec<Box<RawValue>> = serde_json::from_str(raw).unwrap_or_default();
    elements.iter().any(|element| repeats(element.get()))
}

/// Names as they stand in JSON, many of which mean `name` or `arguments` to somebody.
const NAMES: [&str; 22] = [
    "name",
    "Name",
    "NAME",
    "nam\\u0065",
    "naMe",
    "arguments",
    "Arguments",
    "argument\\u0073",
    "argumentſ",
    "_meta",
    "_Meta",
    "uri",
    "task",
    "tas\u{212A}",
    "taſkId",
    "requestState",
    "a",
    "b",
    "c",
    "\\u0061",
    "x y",
    "é",
];
const VALUES: [&str; 12] = [
    "1",
    "1.0",
    "1e400",
    "-0",
    "true",
    "null",
    "\"up_secret\"",
    "\"up_shown\"",
    "\"\\u00e9\"",
    "123456789012345678901234567890",
    "{}",
    "[ ]",
];

fn value() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(&VALUES[..]).prop_map(str::to_owned);
    leaf.prop_recursive(4, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|all| format!("[{}]", all.join(" , "))),
            object(inner, 4),
        ]
    })
}

fn object(values: impl Strategy<Value = String>, most: usize) -> impl Strategy<Value = String> {
    let member = (prop::sample::select(&NAMES[..]), values, prop::sample::select(&["", " "][..]));
    let member =
        member.prop_map(|(name, value, space)| format!("{space}\"{name}\":{space}{value}"));
    prop::collection::vec(member, 0..most).prop_map(|all| format!("{{{}}}", all.join(",")))
}

/// Params that name the tool that is shown, among other members; and where.
fn params() -> impl Strategy<Value = String> {
    (object(value(), 6), any::<bool>(), prop::option::weighted(0.2, value())).prop_map(
        |(other, first, twice)| {
            let inside = &other[1..other.len() - 1];
            let name = r#""name":"up_shown""#.to_owned();
            let mut parts = vec![inside.to_owned(), name];
            if first {
                parts.reverse();
            }
            parts.extend(twice.map(|value| format!(r#""x":{{"a":{value},"b":{value}}}"#)));
            parts.retain(|part| !part.is_empty());
            format!("{{{}}}", parts.join(","))
        },
    )
}

/// Members besides those of a request, some of which are its own again.
const BESIDES: [&str; 9] = [
    "",
    "",
    "",
    "",
    "",
    r#","x":{"params":1}"#,
    r#","Params":{"name":"secret"}"#,
    r#","params":{"name":"secret"}"#,
    r#","METHOD":"tools/list""#,
];

#[tokio::test(flavor = "multi_thread")]
async fn release_whatever_is_sent_an_upstream_reads_what_was_judged() {
    every_reading(CASES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_reads_what_was_judged() {
    every_reading(1_000).await;
}

async fn every_reading(n_cases: usize) {
    let house = House::new().await;
    let mut connection = house.front.connect().await;
    let rng = TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let made_up = (params(), prop::sample::select(&BESIDES[..]));
    let (mut n_passed, mut n_seen) = (0, 0);
    for _ in 0..n_cases {
        let (params, besides) = made_up.new_tree(&mut runner).unwrap().current();
        let sent = body("tools/call", &params);
        let sent = format!("{}{besides}}}", &sent[..sent.len() - 1]);
        let answer = connection.call(&Request::post("/mcp", sent.as_str())).await;
        let passed = answer.status() == 200 && answer.json().get("result").is_some();
        n_passed += usize::from(passed);
        let seen = house.upstream.n_seen("tools/call");
        assert_eq!(seen, n_passed, "{sent}: {}", answer.text());
        if passed {
            same_in_every_reading(&params, &house.upstream.last_body(), &sent);
        }
        n_seen += usize::from(repeats(&sent));
    }
    // Both kinds must have come up often, or nothing was tried.
    assert!(n_passed > n_cases / 20, "{n_passed} of {n_cases} were passed on");
    assert!(n_seen > n_cases / 20, "{n_seen} of {n_cases} said something twice");
    house.gateway.close().await;
}

/// Holds what arrived against what was sent.
fn same_in_every_reading(params: &str, arrived: &str, sent: &str) {
    assert!(!repeats(sent), "it says something twice: {sent}");
    assert!(!repeats(arrived), "{arrived}");
    let arrived = member(arrived, "params").unwrap();
    let arrived = members(&arrived).unwrap();
    for (name, value) in &arrived {
        let is_name = name.to_lowercase() == "name";
        assert_eq!(is_name, value.get() == r#""shown""#, "{name} of {sent}");
        assert!(!is_name || name == "name", "{name} of {sent}");
    }
    // Everything else is there as it was, in its order.
    let is_kept = |(name, value): &(String, Box<RawValue>)| match name.as_str() {
        "name" | "_meta" | "requestState" => false,
        "arguments" => value.get() != "null",
        _ => true,
    };
    let text = |(name, value): (String, Box<RawValue>)| (name, value.get().to_owned());
    let before: Vec<_> = members(params).unwrap().into_iter().filter(is_kept).map(text).collect();
    let after: Vec<_> = arrived.into_iter().filter(is_kept).map(text).collect();
    assert_eq!(after, before, "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_imitates_the_judged_member_is_refused_for_every_kind_of_request() {
    let house = House::new().await;
    let fine = [
        ("tools/call", r#"{"name":"up_shown","arguments":{"Name":"up_secret"}}"#),
        ("prompts/get", r#"{"name":"up_shown"}"#),
        ("resources/read", r#"{"uri":"up+x://shown"}"#),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"up_shown"},"argument":{"name":"a","value":""}}"#,
        ),
    ];
    for (method, params) in fine {
        let answer = house.post(&body(method, params)).await;
        assert!(answer.json().get("result").is_some(), "{method}: {}", answer.text());
        assert_eq!(house.upstream.n_seen(method), 1, "{method}");
    }
    for (method, params) in [
        ("tools/call", r#"{"name":"up_secret"}"#),
        ("tools/call", r#"{"name":"up_shown","name":"secret"}"#),
        ("tools/call", r#"{"name":"up_shown","Name":"secret"}"#),
        ("tools/call", r#"{"NAME":"secret","name":"up_shown"}"#),
        ("tools/call", r#"{"name":"up_shown","n\u0061me":"secret"}"#),
        ("tools/call", r#"{"name":"up_shown","arguments":{"a":1,"a":2}}"#),
        ("tools/call", r#"{"name":"up_shown","Arguments":{"path":"/etc/passwd"}}"#),
        ("prompts/get", r#"{"name":"up_shown","Name":"secret"}"#),
        ("resources/read", r#"{"uri":"up+x://shown","URI":"x://secret"}"#),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"up_shown","Name":"secret"},"argument":{"name":"a","value":""}}"#,
        ),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"up_shown"},"Ref":{"name":"secret"},"argument":{"name":"a","value":""}}"#,
        ),
    ] {
        let before = house.upstream.n_seen(method);
        let answer = house.post(&body(method, params)).await;
        let told = answer.json();
        assert!(told["error"]["message"].is_string(), "{method} {params}: {told}");
        assert_eq!(house.upstream.n_seen(method), before, "{method} {params}: {told}");
    }
    assert!(!house.upstream.everything().contains(r#""secret"#));
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_say_something_else_than_the_body_reach_nobody() {
    let house = House::new().await;
    let call = Request::modern("/mcp", 1, "tools/call", json!({"name": "up_shown"}));
    for (what, request) in [
        ("another name", call.clone().set("mcp-name", "up_secret")),
        ("another method", call.clone().set("mcp-method", "tools/list")),
        ("another version", call.clone().set("mcp-protocol-version", "2025-11-25")),
        ("two names", call.clone().header("mcp-name", "up_secret")),
        ("the same name twice", call.clone().header("mcp-name", "up_shown")),
        ("names in a list", call.clone().set("mcp-name", "up_shown, up_secret")),
        ("no name", call.clone().without("mcp-name")),
        ("no method", call.clone().without("mcp-method")),
        ("another case", call.clone().set("mcp-name", "UP_SHOWN")),
        ("bad base64", call.clone().set("mcp-name", "=?base64?!!?=")),
        ("base64 of another", call.clone().set("mcp-name", "=?base64?dXBfc2VjcmV0?=")),
        ("folded", call.clone().set("mcp-name", "\r\n up_shown")),
    ] {
        let answer = house.front.connect().await.try_call(&request).await;
        let status = answer.map(|answer| answer.status());
        assert!(matches!(status, None | Some(400)), "{what}: {status:?}");
        assert_eq!(house.upstream.n_seen("tools/call"), 0, "{what}");
    }
    // Before there were such headers they meant nothing, so nothing goes by them.
    let old = Request::legacy("/mcp", 1, "tools/call", json!({"name": "up_shown"}));
    let old = old.header("mcp-name", "up_secret").header("mcp-method", "tools/list");
    let answer = house.front.connect().await.call(&old).await;
    assert!(answer.json().get("result").is_some(), "{}", answer.text());
    let seen = house.upstream.bodies("tools/call");
    assert!(seen.len() == 1 && seen[0].contains(r#""name":"shown""#), "{seen:?}");
}
