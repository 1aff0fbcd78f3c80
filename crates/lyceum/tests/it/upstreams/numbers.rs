//! What `/metrics` says about upstreams and their calls.

use lyceum_testkit::Request;
use serde_json::json;
use tokio::time::{Duration, sleep};

use super::{Setup, becomes, python};
use crate::lyceum::Lyceum;

/// A server of 2025-06-18 whose tools end in all the ways there are.
const SCRIPT: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, tool = message["method"], message.get("params", {}).get("name")
    answer = {"error": {"code": -32601, "message": method}}
    if method == "initialize":
        answer = {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "p", "version": "1"}}}
    elif method == "tools/list":
        names = ["greet", "refuse", "fail", "hang", "die"]
        answer = {"result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}}
    elif tool == "greet":
        answer = {"result": {"content": []}}
    elif tool == "refuse":
        answer = {"error": {"code": -32602, "message": "no"}}
    elif tool == "fail":
        answer = {"result": {"content": [], "isError": True}}
    elif tool == "hang":
        continue
    elif tool == "die":
        sys.exit(3)
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"#;

async fn metrics(lyceum: &Lyceum) -> String {
    lyceum.call(&Request::new("GET", "/metrics")).await.text().to_owned()
}

/// Calls of an upstream that were answered, and calls that were not.
async fn counted(lyceum: &Lyceum, upstream: &str) -> (u64, u64) {
    let text = metrics(lyceum).await;
    let of = |outcome: &str| {
        let labels = [format!("upstream=\"{upstream}\""), format!("outcome=\"{outcome}\"")];
        let is_it = |line: &&str| {
            line.starts_with("lyceum_upstream_calls_total{")
                && labels.iter().all(|label| line.contains(label))
        };
        let line = text.lines().find(is_it);
        line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    };
    (of("ok"), of("error"))
}

async fn call(lyceum: &Lyceum, tool: &str) {
    let call = json!({ "name": tool, "arguments": {} });
    lyceum.call(&Request::modern("/mcp", 1, "tools/call", call)).await;
}

fn upstream(setup: &Setup, name: &str, script: &str) -> String {
    let file = setup.path(&format!("{name}.py"));
    std::fs::write(&file, script).unwrap();
    let command = [python(), file];
    format!("[[upstream]]\nname = {name:?}\ncommand = {command:?}\ncall_timeout = 1\n")
}

#[tokio::test]
async fn calls_are_counted_by_whether_the_upstream_answered() {
    let setup = Setup::new();
    let (one, gone) = (upstream(&setup, "one", SCRIPT), upstream(&setup, "gone", "exit(1)"));
    setup.write(&format!("{one}{gone}"));
    let lyceum = setup.start().await;
    becomes(&lyceum, "one_greet", true).await;
    // Its own refusals and failures are answers; silence, an end and absence are none.
    for (tool, ok, error) in [
        ("greet", 1, 0),
        ("refuse", 2, 0),
        ("fail", 3, 0),
        ("hang", 3, 1),
        ("greet", 4, 1),
        ("die", 4, 2),
    ] {
        call(&lyceum, &format!("one_{tool}")).await;
        assert_eq!(counted(&lyceum, "one").await, (ok, error), "{tool}");
    }
    call(&lyceum, "gone_anything").await;
    assert_eq!(counted(&lyceum, "gone").await, (0, 1));
    // What we say ourselves is no call of an upstream's.
    let stale = json!({ "name": "one_greet", "arguments": {}, "requestState": "nothing" });
    lyceum.call(&Request::modern("/mcp", 1, "tools/call", stale)).await;
    assert_eq!(counted(&lyceum, "one").await, (4, 2));
}

#[tokio::test]
async fn an_upstream_that_is_removed_has_no_numbers_of_its_state() {
    let setup = Setup::new();
    setup.configure(&["one", "two"]);
    let lyceum = setup.start().await;
    becomes(&lyceum, "one_greet", true).await;
    becomes(&lyceum, "two_greet", true).await;
    let gauges = |name: &str| {
        [
            format!("lyceum_upstream_up{{upstream=\"{name}\"}} 1\n"),
            format!("lyceum_upstream_tools{{upstream=\"{name}\"}} 1\n"),
        ]
    };
    let text = metrics(&lyceum).await;
    for gauge in gauges("one").iter().chain(&gauges("two")) {
        assert!(text.contains(gauge), "{gauge} in {text}");
    }
    assert_eq!(text.matches("# TYPE lyceum_upstream_up gauge\n").count(), 1, "{text}");
    setup.configure(&["two"]);
    let mut text = metrics(&lyceum).await;
    for _ in 0..200 {
        if !text.contains(r#"_up{upstream="one"}"#) {
            break;
        }
        sleep(Duration::from_millis(50)).await;
        text = metrics(&lyceum).await;
    }
    assert!(!text.contains(r#"{upstream="one"}"#), "{text}");
    for gauge in gauges("two") {
        assert!(text.contains(&gauge), "{gauge} in {text}");
    }
}
