//! Tools: arguments, errors, structured content, the words transports look for.

use std::thread;

use lyceum_server::{
    Call, Content, Json, NoArguments, Schema, Server, ToolError, ToolResult, tool, tool_with_schema,
};
use lyceum_wire::{Revision, RpcError};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::talk::Talk;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct Weather {
    celsius: f64,
}

fn server() -> Server {
    let schema = Schema::from_json(r#"{"type":"object","properties":{"z":{},"a":{}}}"#).unwrap();
    Server::builder("test", "1")
        .tool(tool("echo", "Echoes.", |_: Call, args: Echo| async move { Ok(args.text) }))
        .tool(tool("weather", "Tells the weather.", |_: Call, _: NoArguments| async move {
            Ok(Json(Weather { celsius: 21.5 }))
        }))
        .tool(tool(
            "list",
            "Lists.",
            |_: Call, _: NoArguments| async move { Ok(Json(vec!["a", "b"])) },
        ))
        .tool(tool("audio", "Sounds.", |_: Call, _: NoArguments| async move {
            Ok(vec![Content::text("x").priority(0.5), Content::audio("beep", "audio/wav")])
        }))
        .tool(tool("fail", "Fails.", |_: Call, _: NoArguments| async move {
            let number: i32 = "x".parse()?;
            Ok(number.to_string())
        }))
        .tool(tool("refuse", "Refuses.", |_: Call, _: NoArguments| async move {
            Err::<String, _>(RpcError::invalid_request("no").into())
        }))
        .tool(tool("say", "Says no.", |_: Call, _: NoArguments| async move {
            Err::<String, _>(ToolError::from_result(ToolResult::text("no").content("never")))
        }))
        .tool(tool_with_schema("raw", "Raw.", schema, |_: Call, args: Value| async move {
            Ok(args.to_string())
        }))
        .build()
}

async fn check(revision: Revision, name: &str, arguments: Value, expected: &str) {
    let talk = Talk::new(&server(), revision);
    let params = json!({ "name": name, "arguments": arguments });
    assert_eq!(talk.raw("tools/call", params).await, expected, "{name} at {revision}");
}

/// Arguments that know which thread read them.
struct Reader {
    thread: Option<String>,
}

impl<'de> Deserialize<'de> for Reader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer)?;
        Ok(Reader { thread: thread::current().name().map(str::to_owned) })
    }
}

#[tokio::test]
async fn large_arguments_are_read_on_a_thread_for_bulk_work() {
    let schema = Schema::from_json(r#"{"type":"object"}"#).unwrap();
    let whose = |_: Call, args: Reader| async move { Ok(args.thread.unwrap_or_default()) };
    let server =
        Server::builder("test", "1").tool(tool_with_schema("whose", "Tells.", schema, whose));
    let talk = Talk::new(&server.build(), Revision::V2026_07_28);
    let read_by = async |bytes: usize| {
        let params = json!({ "name": "whose", "arguments": { "text": "x".repeat(bytes) } });
        talk.raw("tools/call", params).await.contains("bulk-work")
    };
    assert!(!read_by(1_000).await, "small arguments are read at once");
    assert!(read_by(200_000).await);
}

#[tokio::test]
async fn large_arguments_that_do_not_fit_are_refused_like_small_ones() {
    let talk = Talk::new(&server(), Revision::V2026_07_28);
    let refused = async |text: Value| {
        let params = json!({ "name": "echo", "arguments": { "text": 7, "more": text } });
        talk.raw("tools/call", params).await
    };
    let small = refused(json!("")).await;
    assert!(small.contains("Invalid arguments for echo"), "{small}");
    let column = |text: &str| text.split(" at line").next().unwrap().to_owned();
    assert_eq!(column(&refused(json!("x".repeat(200_000))).await), column(&small));
}

const META: &str =
    r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}}"#;

#[tokio::test]
async fn text_comes_back_in_the_shape_of_the_era() {
    let text = "tab\tand \"quotes\"";
    let expected = r#"{"content":[{"type":"text","text":"tab\tand \"quotes\""}]}"#;
    for revision in Revision::ALL.into_iter().skip(1) {
        check(revision, "echo", json!({ "text": text }), expected).await;
    }
    let expected = format!(
        r#"{{"resultType":"complete","content":[{{"type":"text","text":"tab\tand \"quotes\""}}],{META}}}"#
    );
    check(Revision::V2026_07_28, "echo", json!({ "text": text }), &expected).await;
}

#[tokio::test]
async fn structured_content_is_text_too_and_absent_before_2025_06_18() {
    let text = r#""content":[{"type":"text","text":"{\"celsius\":21.5}"}]"#;
    let structured = r#""structuredContent":{"celsius":21.5}"#;
    let old = format!("{{{text}}}");
    let new = format!("{{{text},{structured}}}");
    let modern = format!(r#"{{"resultType":"complete",{text},{structured},{META}}}"#);
    check(Revision::V2024_11_05, "weather", json!({}), &old).await;
    check(Revision::V2025_03_26, "weather", json!({}), &old).await;
    check(Revision::V2025_06_18, "weather", json!({}), &new).await;
    check(Revision::V2025_11_25, "weather", json!({}), &new).await;
    check(Revision::V2026_07_28, "weather", json!({}), &modern).await;
}

#[tokio::test]
async fn structured_content_that_is_no_object_is_for_modern_clients() {
    let text = r#""content":[{"type":"text","text":"[\"a\",\"b\"]"}]"#;
    check(Revision::V2025_11_25, "list", json!({}), &format!("{{{text}}}")).await;
    let modern =
        format!(r#"{{"resultType":"complete",{text},"structuredContent":["a","b"],{META}}}"#);
    check(Revision::V2026_07_28, "list", json!({}), &modern).await;
}

#[tokio::test]
async fn content_unknown_to_a_revision_is_told_in_words() {
    let text = r#"{"type":"text","text":"x","annotations":{"priority":0.5}}"#;
    let told = r#"{"type":"text","text":"[audio, audio/wav: this client cannot take it]"}"#;
    let audio = r#"{"type":"audio","data":"YmVlcA==","mimeType":"audio/wav"}"#;
    let old = format!(r#"{{"content":[{text},{told}]}}"#);
    let new = format!(r#"{{"content":[{text},{audio}]}}"#);
    check(Revision::V2024_11_05, "audio", json!({}), &old).await;
    check(Revision::V2025_03_26, "audio", json!({}), &new).await;
}

#[tokio::test]
async fn failures_are_results_and_rpc_errors_are_errors() {
    let new = Revision::V2025_11_25;
    let failed =
        r#"{"content":[{"type":"text","text":"invalid digit found in string"}],"isError":true}"#;
    check(new, "fail", json!({}), failed).await;
    let said = r#"{"content":[{"type":"text","text":"no"},{"type":"text","text":"never"}],"isError":true}"#;
    check(new, "say", json!({}), said).await;
    check(new, "refuse", json!({}), r#"{"error":{"code":-32600,"message":"no"}}"#).await;
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_told_to_the_model_since_2025_11_25() {
    let problem = "Invalid arguments for echo: missing field `text` at line 1 column 2";
    let error = format!(r#"{{"error":{{"code":-32602,"message":"{problem}"}}}}"#);
    let told = format!(r#"{{"content":[{{"type":"text","text":"{problem}"}}],"isError":true}}"#);
    check(Revision::V2024_11_05, "echo", json!({}), &error).await;
    check(Revision::V2025_06_18, "echo", json!({}), &error).await;
    check(Revision::V2025_11_25, "echo", json!({}), &told).await;
    let problem = "Invalid arguments for echo: arguments must be an object";
    let told = format!(r#"{{"content":[{{"type":"text","text":"{problem}"}}],"isError":true}}"#);
    check(Revision::V2025_11_25, "echo", json!("text"), &told).await;
}

#[tokio::test]
async fn unknown_tools_are_named_in_the_words_transports_look_for() {
    let expected = r#"{"error":{"code":-32602,"message":"Unknown tool: nope"}}"#;
    check(Revision::V2025_11_25, "nope", json!({}), expected).await;
    check(Revision::V2026_07_28, "nope", json!({}), expected).await;
}

#[tokio::test]
async fn arguments_may_be_left_out() {
    let talk = Talk::new(&server(), Revision::V2025_11_25);
    let result = talk.ask("tools/call", json!({ "name": "raw" })).await;
    assert_eq!(result, json!({ "content": [{ "type": "text", "text": "{}" }] }));
}
