//! Bytes of bodies and answers that callers share: by call, by batch, by caller and all together.

use std::sync::Arc;

use lyceum_http::{ByteBudgets, Limits};
use lyceum_testkit::Request;
use serde_json::{Value, json};
use tokio::time::{Duration, timeout};

use crate::lab::{Lab, PATH, modern};
use crate::matrix::{Bearer, refused, succeeded};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// An endpoint, and what its calls are charged to.
fn lab(limits: Limits) -> (Lab, Arc<ByteBudgets>) {
    let budgets = Arc::new(ByteBudgets::new(&limits));
    let shared = Arc::clone(&budgets);
    let build = |endpoint: lyceum_http::EndpointBuilder<_>| {
        endpoint.limits(limits).budgets(shared).authenticate(Bearer::shared())
    };
    (Lab::with(build), budgets)
}

fn by(name: &str, request: Request) -> Request {
    request.header("authorization", &format!("Bearer {name}"))
}

fn big(id: u64, bytes: usize) -> Request {
    modern(id, "big", json!({ "bytes": bytes }))
}

fn batch(tools: &[(&str, Value)]) -> Request {
    let member = |(id, (tool, arguments)): (usize, &(&str, Value))| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
               "params": {"name": tool, "arguments": arguments}})
    };
    let members: Vec<Value> = tools.iter().enumerate().map(member).collect();
    Request::post(PATH, Value::from(members).to_string())
}

#[tokio::test]
async fn answers_of_a_batch_share_one_bound_and_small_ones_always_find_room() {
    let limits = Limits { answer_bytes: 4 * MIB, answers_bytes: 64 * MIB, ..Limits::default() };
    let (lab, budgets) = lab(limits);
    let mut tools = vec![("big", json!({"bytes": 300 * KIB})); 6];
    tools.push(("echo", json!({"text": "a write was done"})));
    let response = lab.send(&by("ana", batch(&tools))).await;
    let answers = response.json().as_array().unwrap().clone();
    assert_eq!(answers.len(), tools.len());
    let answered = answers.iter().filter(|answer| answer.get("result").is_some());
    assert_eq!(answered.count(), 3 + 1, "a quarter of what one answer may have");
    let echoed = answers.iter().find(|answer| answer["id"] == 6).unwrap();
    assert!(echoed.get("result").is_some(), "{echoed}");
    let refusal = answers.iter().find_map(|answer| answer["error"]["message"].as_str()).unwrap();
    assert!(refusal.contains("ask for this one by itself"), "{refusal}");
    assert!(response.text().len() < MIB + 20 * 64 * KIB);
    drop(response);
    assert_eq!(budgets.answers.held(), 0);
}

#[tokio::test]
async fn a_batch_whose_answers_find_no_room_is_not_run_to_its_end() {
    let limits = Limits { answer_bytes: 4 * MIB, answers_bytes: 64 * MIB, ..Limits::default() };
    let (lab, _) = lab(limits);
    let response =
        lab.send(&by("ana", batch(&vec![("big", json!({"bytes": 300 * KIB})); 50]))).await;
    let answers = response.json().as_array().unwrap().clone();
    assert_eq!(answers.len(), 50);
    let unrun = answers.iter().filter_map(|answer| answer["error"]["message"].as_str());
    let unrun = unrun.filter(|text| text.starts_with("this call was not run")).count();
    // Three answers fit, four do not, and three more calls may run beside the last of these.
    assert!(unrun >= 50 - 3 - 4 - 3, "{unrun}");
}

#[tokio::test]
async fn an_answer_larger_than_any_may_be_is_an_error_that_says_so() {
    let (lab, _) = lab(Limits { answer_bytes: MIB, ..Limits::default() });
    succeeded(&lab.send(&by("ana", big(1, MIB - 4 * KIB))).await, 1);
    let refusal = lab.send(&by("ana", big(2, MIB + 1))).await;
    refused(&refusal, 200, -32603, json!(2));
    assert!(refusal.text().contains("ask for less"), "{}", refusal.text());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_does_not_read_its_answers_leaves_room_for_others() {
    let limits = Limits { answer_bytes: MIB, answers_bytes: 4 * MIB, ..Limits::default() };
    let (lab, budgets) = lab(limits);
    let unread = [
        lab.open(&by("ana", big(1, 900 * KIB))).await,
        lab.open(&by("ana", big(2, 900 * KIB))).await,
    ];
    assert!(budgets.answers.held() >= 2 * 900 * KIB);
    let refusal = lab.send(&by("ana", big(3, 900 * KIB))).await;
    refused(&refusal, 429, -32603, json!(3));
    assert_eq!(refusal.head.get("retry-after"), Some("1"));
    succeeded(&lab.send(&by("bob", big(4, 900 * KIB))).await, 4);
    succeeded(&lab.send(&by("ana", big(5, 60 * KIB))).await, 5);
    drop(unread);
    assert_eq!(budgets.answers.held(), 0);
    succeeded(&lab.send(&by("ana", big(6, 900 * KIB))).await, 6);
}

#[tokio::test]
async fn bodies_are_charged_while_their_calls_run_and_others_find_room() {
    let (lab, budgets) = lab(Limits { bodies_bytes: MIB, ..Limits::default() });
    let hang = |name: &str, id: u64| {
        by(name, modern(id, "hang", json!({ "text": "x".repeat(200 * KIB) })))
    };
    let running: Vec<_> = [hang("ana", 1), hang("ana", 2)]
        .into_iter()
        .map(|request| {
            let lab = lab.clone();
            tokio::spawn(async move { lab.send(&request).await })
        })
        .collect();
    lab.fixture.until_running(2).await;
    assert!(budgets.bodies.held() > 400 * KIB);
    let refusal = timeout(Duration::from_secs(60), lab.send(&hang("ana", 3))).await.unwrap();
    assert_eq!(refusal.status(), 429, "{}", refusal.text());
    assert!(refusal.head.get("retry-after").is_some());
    let echo = by("bob", modern(4, "echo", json!({ "text": "x".repeat(200 * KIB) })));
    succeeded(&lab.send(&echo).await, 4);
    running.iter().for_each(tokio::task::JoinHandle::abort);
    lab.fixture.until_running(0).await;
    for task in running {
        let _ = task.await;
    }
    assert_eq!(budgets.bodies.held(), 0);
}

#[tokio::test]
async fn bodies_of_many_values_are_charged_for_what_they_become() {
    let (lab, budgets) = lab(Limits::default());
    let many = by("ana", modern(1, "hang", json!({ "n": vec![json!({"": 0}); 5000] })));
    let running = tokio::spawn({
        let lab = lab.clone();
        async move { lab.send(&many).await }
    });
    lab.fixture.until_running(1).await;
    assert!(budgets.bodies.held() > 3 * MIB, "{}", budgets.bodies.held());
    running.abort();
    let _ = running.await;
    assert_eq!(budgets.bodies.held(), 0);
    let refusal = lab.send(&by("ana", modern(1, "echo", json!({ "n": vec![1; 150_000] })))).await;
    assert_eq!(refusal.status(), 413, "{}", refusal.text());
}

#[tokio::test]
async fn large_answers_are_the_same_as_events_and_as_json() {
    let (lab, _) = lab(Limits::default());
    let accepting = |media: &str| by("ana", big(1, 300 * KIB)).set("accept", media);
    let as_json = lab.send(&accepting("application/json")).await;
    let as_event = lab.send(&accepting("text/event-stream")).await;
    assert_eq!(as_event.events().len(), 1);
    assert_eq!(as_event.events()[0].json(), as_json.json());
    assert_eq!(as_event.head.get("content-type"), Some("text/event-stream; charset=utf-8"));
}
