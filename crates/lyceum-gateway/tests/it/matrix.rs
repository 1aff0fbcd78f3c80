//! Every client revision against every upstream, era and transport: each thing that can pass.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lyceum_http::client::{CallOptions, Peer};
use lyceum_wire::{Era, LogLevel, Revision, RevisionSet};
use serde_json::{Value, json};

use crate::house::{Client1, House, Way, counts, text};

const WAYS: [(Way, RevisionSet); 5] = [
    (Way::Http, RevisionSet::LEGACY),
    (Way::Http, RevisionSet::MODERN),
    (Way::HttpSse, RevisionSet::LEGACY),
    (Way::Stdio, RevisionSet::LEGACY),
    (Way::Stdio, RevisionSet::MODERN),
];

async fn each(revision: Revision) {
    for (way, served) in WAYS {
        let house = House::new(way, served).await;
        let (peer, client) = house.client(revision).await;
        let cell = format!("{revision} to {way:?} {served:?}");
        lists(&peer, &cell).await;
        calls(&peer, &cell).await;
        progress_and_logs(&peer, &client, &cell).await;
        questions(&peer, &client, &cell).await;
        resources(&peer, &cell).await;
        prompts(&peer, &cell).await;
        cancels(&peer, &cell).await;
        changes(&peer, &client, &cell).await;
        tasks(&house, revision, served, &cell).await;
        house.gateway.close().await;
    }
}

async fn lists(peer: &Peer, cell: &str) {
    let tools = peer.list_tools().await.unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names[..3], ["up_echo", "up_tell", "up_work"], "{cell}");
    let definition: Value = serde_json::from_slice(&tools[0].raw).unwrap();
    assert_eq!(definition["description"], "Repeats.", "{cell}");
    assert_eq!(definition["inputSchema"]["required"], json!(["text"]), "{cell}");
    let uris = |raw: Vec<bytes::Bytes>, key: &str| -> Vec<String> {
        let read = |raw: &bytes::Bytes| serde_json::from_slice::<Value>(raw).unwrap()[key].clone();
        raw.iter().map(|raw| read(raw).as_str().unwrap().to_owned()).collect()
    };
    let resources = uris(peer.list_resources().await.unwrap(), "uri");
    assert_eq!(resources, ["up+fixture://text", "up+fixture://watched"], "{cell}");
    let templates = uris(peer.list_resource_templates().await.unwrap(), "uriTemplate");
    assert_eq!(templates, ["up+fixture://item/{id}"], "{cell}");
    assert_eq!(uris(peer.list_prompts().await.unwrap(), "name"), ["up_greet"], "{cell}");
}

async fn calls(peer: &Peer, cell: &str) {
    for tool in ["up_echo", "up.echo", "echo"] {
        let said = text(peer, tool, json!({"text": "hé\u{2028}"})).await;
        assert_eq!(said.unwrap(), "hé\u{2028}", "{cell} {tool}");
    }
    let failed = peer.call_tool("up_fail", "{}", &CallOptions::new()).await.unwrap();
    let failed: Value = serde_json::from_slice(&failed).unwrap();
    assert_eq!(failed["isError"], true, "{cell}: {failed}");
    assert_eq!(failed["content"][0]["text"], "it failed", "{cell}");
    let unknown = text(peer, "up_nothing", json!({})).await.unwrap_err();
    assert!(unknown.to_string().contains("Unknown tool: up_nothing"), "{cell}: {unknown}");
}

async fn progress_and_logs(peer: &Peer, client: &Client1, cell: &str) {
    if peer.era() == Era::Legacy {
        peer.call("logging/setLevel", r#"{"level":"warning"}"#).await.unwrap();
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let options = CallOptions::new()
        .on_progress(move |raw| {
            sink.lock().unwrap().push(serde_json::from_slice::<Value>(&raw).unwrap())
        })
        // The very level of the message.
        .log_level(LogLevel::Warning);
    peer.call_tool("up_work", "{}", &options).await.unwrap();
    let told: Vec<_> = seen.lock().unwrap().iter().map(|seen| seen["progress"].clone()).collect();
    assert_eq!(told, [json!(1), json!(2)], "{cell}");
    let log = client.hears("notifications/message").await;
    assert_eq!((&log["level"], &log["data"]), (&json!("warning"), &json!("half way")), "{cell}");
}

async fn questions(peer: &Peer, client: &Client1, cell: &str) {
    assert_eq!(text(peer, "up_ask", json!({})).await.unwrap(), "Hello, Ada!", "{cell}");
    assert_eq!(text(peer, "up_ask_twice", json!({})).await.unwrap(), "Ada and Ada", "{cell}");
    assert_eq!(text(peer, "up_think", json!({})).await.unwrap(), "thought: hm", "{cell}");
    assert_eq!(text(peer, "up_look", json!({})).await.unwrap(), "2 roots", "{cell}");
    let asked = client.asked.lock().unwrap().clone();
    let expected = [
        "elicitation/create",
        "elicitation/create",
        "elicitation/create",
        "sampling/createMessage",
        "roots/list",
    ];
    assert_eq!(asked, expected, "{cell}");
}

async fn resources(peer: &Peer, cell: &str) {
    for (uri, expected) in [("up+fixture://text", "some text"), ("up+fixture://item/7", "item 7")] {
        let read = peer.call("resources/read", json!({ "uri": uri }).to_string()).await.unwrap();
        let read: Value = serde_json::from_slice(&read).unwrap();
        assert_eq!(read["contents"][0]["uri"], uri, "{cell}");
        assert_eq!(read["contents"][0]["text"], expected, "{cell}");
        let is_modern = peer.era() == Era::Modern;
        assert_eq!(read["ttlMs"].is_number(), is_modern, "{cell}: {read}");
        assert_eq!(read["resultType"] == "complete", is_modern, "{cell}: {read}");
    }
    let missing =
        peer.call("resources/read", r#"{"uri":"up+fixture://nowhere"}"#).await.unwrap_err();
    let missing = missing.rpc().cloned().unwrap_or_else(|| panic!("{cell}: {missing}"));
    let code = if peer.era() == Era::Modern { -32602 } else { -32002 };
    assert_eq!(missing.code.0, code, "{cell}");
    let data: Value = serde_json::from_slice(&missing.data.unwrap()).unwrap();
    assert_eq!(data["uri"], "up+fixture://nowhere", "{cell}");
}

async fn prompts(peer: &Peer, cell: &str) {
    let params = json!({"name": "up_greet", "arguments": {"name": "Bo"}});
    let got = peer.call("prompts/get", params.to_string()).await.unwrap();
    let got: Value = serde_json::from_slice(&got).unwrap();
    assert_eq!(got["messages"][0]["content"]["text"], "Greet Bo.", "{cell}");
    let params = json!({
        "ref": {"type": "ref/prompt", "name": "up_greet"},
        "argument": {"name": "name", "value": "an"},
    });
    let completed = peer.call("completion/complete", params.to_string()).await.unwrap();
    let completed: Value = serde_json::from_slice(&completed).unwrap();
    assert_eq!(completed["completion"]["values"], json!(["anna", "anton"]), "{cell}");
}

async fn cancels(peer: &Peer, cell: &str) {
    let waiting = {
        let peer = peer.clone();
        tokio::spawn(async move { text(&peer, "up_wait", json!({})).await })
    };
    counts(peer, "1 waiting, 0 cancelled", cell).await;
    waiting.abort();
    counts(peer, "0 waiting, 1 cancelled", cell).await;
}

async fn changes(peer: &Peer, client: &Client1, cell: &str) {
    let listening = match peer.era() {
        Era::Legacy => {
            peer.call("resources/subscribe", r#"{"uri":"up+fixture://watched"}"#).await.unwrap();
            None
        }
        Era::Modern => {
            let filter = json!({
                "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
                "resourceSubscriptions": ["up+fixture://watched"],
            });
            let mut listening = peer.listen(filter.to_string()).await.unwrap();
            let client = client.clone();
            Some(tokio::spawn(async move {
                while let Some(Ok(news)) = listening.next().await {
                    lyceum_http::client::ClientHandler::notification(&client, news).await;
                }
            }))
        }
    };
    let mut updated = None;
    for _ in 0..100 {
        // The upstream is asked in the background, so it may not know yet.
        text(peer, "up_touch", json!({})).await.unwrap();
        tokio::time::sleep(Duration::from_millis(30)).await;
        let heard = client.heard.lock().unwrap();
        updated =
            heard.iter().find(|(method, _)| method == "notifications/resources/updated").cloned();
        if updated.is_some() {
            break;
        }
    }
    let (_, updated) = updated.unwrap_or_else(|| panic!("{cell}: no update was heard"));
    assert_eq!(updated["uri"], "up+fixture://watched", "{cell}");
    text(peer, "up_grow", json!({})).await.unwrap();
    for (kind, grown) in
        [("tools", "up_grown"), ("prompts", "up_grown"), ("resources", "up+fixture://grown")]
    {
        client.hears(&format!("notifications/{kind}/list_changed")).await;
        let listed = peer.call(&format!("{kind}/list"), b"").await.unwrap();
        let listed = String::from_utf8(listed.to_vec()).unwrap();
        assert!(listed.contains(&format!("\"{grown}\"")), "{cell}: {listed}");
    }
    drop(listening);
}

async fn tasks(house: &House, revision: Revision, served: RevisionSet, cell: &str) {
    let upstream = if served == RevisionSet::MODERN { Era::Modern } else { Era::Legacy };
    match revision {
        Revision::V2026_07_28 => crate::tasks::extension(house, upstream, cell).await,
        Revision::V2025_11_25 => crate::tasks::core(house, upstream, cell).await,
        // Clients that know of no tasks wait for what upstreams make one of.
        revision => {
            let (peer, _) = house.client(revision).await;
            for tool in ["up_long", "up_long_only"] {
                assert_eq!(text(&peer, tool, json!({})).await.unwrap(), "done", "{cell} {tool}");
            }
            assert_eq!(text(&peer, "up_long_ask", json!({})).await.unwrap(), "Hello, Ada!");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_2024_11_05_client_over_http_sse_reaches_every_upstream() {
    each(Revision::V2024_11_05).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_2025_03_26_client_reaches_every_upstream() {
    each(Revision::V2025_03_26).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_2025_06_18_client_reaches_every_upstream() {
    each(Revision::V2025_06_18).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_2025_11_25_client_reaches_every_upstream() {
    each(Revision::V2025_11_25).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_2026_07_28_client_reaches_every_upstream() {
    each(Revision::V2026_07_28).await;
}
