//! Abuse below the tools: slow bodies, hostile headers, JSON that is hard to read.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::FIFTEEN_MB;
use crate::abuse::case::{AbuseCase, Attacker};
use crate::abuse::client::{AbusiveClient, Manner};
use crate::abuse::request::{self, RequestBytes, RequestHead};

pub(super) const CASES: [AbuseCase; 8] = [
    AbuseCase::new("slow-bodies", "200 bodies, ten bytes a second each", slow_bodies),
    AbuseCase::new("half-bodies", "20 bodies of 15 MB that stop before their end", half_bodies),
    AbuseCase::new("accepts", "Accept headers of 16 KiB and 60 KiB", accepts),
    AbuseCase::new("headers", "1,000 header lines a request", headers),
    AbuseCase::new("keys-of-objects", "objects with a million members", members).quick(),
    AbuseCase::new("deep", "arrays and objects 10,000 levels deep", deep),
    AbuseCase::new("ids", "request ids of megabytes, and batches of them", ids),
    AbuseCase::new("bad-keys", "guesses of API keys", guesses),
];

fn slow_bodies(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let arguments = json!({ "path": "abuse/slow.md", "content": "x".repeat(10_000) });
    let request = request::call(attacker.key, "upload_document", &arguments);
    Ok(vec![AbusiveClient::patient(vec![request]).times(200).manner(Manner::SendSlowly)])
}

fn half_bodies(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let headers = "Content-Type: application/json\r\n";
    let key = attacker.key;
    let head = RequestHead { method: "POST", target: "/mcp", key, headers };
    let mut bytes = request::raw(head, &vec![b' '; FIFTEEN_MB]).whole(0);
    bytes.truncate(bytes.len() - 1);
    let client = AbusiveClient::patient(vec![RequestBytes::new(bytes)]);
    Ok(vec![client.manner(Manner::Hold(20)).pause(50)])
}

fn with_headers(attacker: &Attacker<'_>, headers: &[String]) -> AbusiveClient {
    let key = attacker.key;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    let requests = headers.iter().map(|headers| {
        let headers = format!("Content-Type: application/json\r\n{headers}");
        let head = RequestHead { method: "POST", target: "/mcp", key, headers: &headers };
        request::raw(head, body.as_bytes())
    });
    AbusiveClient::patient(requests.collect()).times(4).pause(5)
}

fn accepts(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let accept = |item: &str, bytes: usize| {
        format!("Accept: {}\r\n", item.repeat(bytes / item.len()).trim_end_matches(','))
    };
    let headers = ["a/b;q=0.001,", ",", "*/*;q=\"\\\"\",", "application/json;a=b;q=1,"]
        .into_iter()
        .flat_map(|item| [accept(item, 16 << 10), accept(item, 60_000)]);
    Ok(vec![with_headers(attacker, &headers.collect::<Vec<_>>())])
}

fn headers(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let distinct: String = (0..1000).map(|n| format!("X-H{n}: {n}\r\n")).collect();
    let repeated = "X-Forwarded-For: 1.2.3.4\r\n".repeat(1000);
    let accepts = "Accept: application/json\r\n".repeat(90);
    Ok(vec![with_headers(attacker, &[distinct, repeated, accepts])])
}

fn bodies(attacker: &Attacker<'_>, bodies: Vec<String>) -> Vec<AbusiveClient> {
    let key = attacker.key;
    let requests = bodies
        .iter()
        .map(|body| request::modern(key, "tools/call", "search_knowledge", body.as_bytes()));
    vec![AbusiveClient::patient(requests.collect()).times(2).pause(200)]
}

fn members(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let members = |prefix: &str| {
        let members: Vec<String> = (0..1_000_000).map(|n| format!("\"{prefix}{n}\":1")).collect();
        members.join(",")
    };
    // Names that differ late, names that repeat, names that differ in case only.
    let (late, short) = (members("n"), members(""));
    let same = vec!["\"a\":1"; 2_000_000].join(",");
    let bodies_of = |members: &str| {
        vec![
            format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",{members}}}"),
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"search_knowledge\",\"arguments\":{{\"query\":\"x\",{members}}}}}}}"
            ),
        ]
    };
    Ok(bodies(attacker, [late, short, same].iter().flat_map(|one| bodies_of(one)).collect()))
}

fn deep(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let nested = |open: &str, close: &str, n: usize| open.repeat(n) + "1" + &close.repeat(n);
    let values = [
        nested("[", "]", 60),
        nested("[", "]", 10_000),
        nested("[", "]", 7_000_000),
        nested("{\"a\":", "}", 60),
        nested("{\"a\":", "}", 2_000_000),
        "[".repeat(FIFTEEN_MB),
    ];
    let body = |value: &String| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"search_knowledge\",\"arguments\":{{\"query\":{value}}},\"_meta\":{value}}}}}"
        )
    };
    let short = values.iter().filter(|value| value.len() < 7_000_000).map(body);
    Ok(bodies(attacker, short.chain(values.iter().cloned()).collect()))
}

fn ids(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let ping = |id: String| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}");
    let text = |bytes: usize| format!("\"{}\"", "i".repeat(bytes));
    let batch = |n: usize, bytes: usize| {
        let calls: Vec<String> = (0..n).map(|_| ping(text(bytes))).collect();
        format!("[{}]", calls.join(","))
    };
    let messages = [
        ping(text(FIFTEEN_MB)),
        ping("9".repeat(1_000_000)),
        batch(50, 290_000),
        batch(100_000, 9),
    ];
    let key = attacker.key;
    let session = super::subscriptions::session(attacker)?;
    let requests = messages.iter().map(|body| request::legacy(key, Some(&session), body));
    Ok(vec![AbusiveClient::patient(requests.collect()).times(2).pause(100)])
}

fn guesses(_: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let guess = |n: usize| {
        let key = format!("lyc_{n}{}", "x".repeat(n));
        request::rpc(&key, "tools/list", "", Value::from(serde_json::Map::new()))
    };
    let client = AbusiveClient::patient((0..64).map(|n| guess(n * 100)).collect());
    let hang_up = Manner::HangUp(Duration::from_millis(20));
    Ok(vec![client.clone().times(4).pause(5), client.times(4).manner(hang_up).pause(5)])
}
