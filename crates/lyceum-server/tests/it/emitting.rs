//! Progress and log messages: sent when wanted, and only then.

use bytes::Bytes;
use lyceum_http::{Outbox, Session};
use lyceum_server::{Call, LogLevel, NoArguments, Server, tool};
use lyceum_wire::Revision;
use serde_json::json;

use crate::talk::Talk;

fn server() -> Server {
    let emit = |cx: Call, _: NoArguments| async move {
        cx.progress(0.5, None).await;
        cx.progress_message(2.0, Some(4.0), "half").await;
        cx.progress(f64::NAN, None).await;
        cx.log(LogLevel::Debug, "", &"details").await;
        cx.log(LogLevel::Warning, "here", &json!({ "a": 1 })).await;
        Ok("")
    };
    Server::builder("emitting", "1").tool(tool("emit", "Emits.", emit)).build()
}

async fn sent(talk: &Talk) -> String {
    talk.call("emit", json!({})).await;
    talk.sent().join("\n")
}

#[tokio::test]
async fn nothing_is_sent_to_a_client_that_did_not_ask() {
    assert_eq!(sent(&Talk::modern(&server())).await, "");
    assert_eq!(sent(&Talk::new(&server(), Revision::V2024_11_05)).await, "");
}

#[tokio::test]
async fn a_modern_client_gets_what_its_request_asked_for() {
    let mut talk = Talk::modern(&server());
    talk.progress_token = Some(Bytes::from_static(b"\"t\""));
    talk.log_level = Some(LogLevel::Info);
    insta::assert_snapshot!(sent(&talk).await, @r#"
{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":0.5}}
{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":2,"total":4,"message":"half"}}
{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","logger":"here","data":{"a":1}}}
"#);
}

#[tokio::test]
async fn progress_has_no_words_before_2025_03_26() {
    let mut talk = Talk::new(&server(), Revision::V2024_11_05);
    talk.progress_token = Some(Bytes::from_static(b"7"));
    insta::assert_snapshot!(sent(&talk).await, @r#"
{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":0.5}}
{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":2,"total":4}}
"#);
}

#[tokio::test]
async fn a_legacy_session_sets_its_level() {
    let outbox = std::sync::Arc::new(Outbox::new(1024));
    let session = Session::detached(Revision::V2025_11_25, outbox);
    let mut talk = Talk::new(&server(), Revision::V2025_11_25);
    talk.session = Some(std::sync::Arc::new(session));
    let check = async |level: &str, expected: usize| {
        talk.ask("logging/setLevel", json!({ "level": level })).await;
        let before = talk.sent().len();
        talk.call("emit", json!({})).await;
        assert_eq!(talk.sent().len() - before, expected, "{level}");
    };
    check("debug", 2).await;
    check("warning", 1).await;
    check("emergency", 0).await;
}
