//! M-cases: which tools there are, on which profile, and how they describe themselves.

use lyceum_testkit::Request;
use serde_json::{Value, json};

use super::{Client, JSON, MODERN, PROFILES, REVISIONS, SSE};
use crate::lyceum::Lyceum;

const TOOLS: [&str; 10] = [
    "search_knowledge",
    "list_documents",
    "get_document",
    "get_document_for_rewrite",
    "batch_read",
    "upload_document",
    "update_document",
    "patch_document",
    "delete_document",
    "ingest_document",
];

fn offered(profile: &str) -> &'static [&'static str] {
    match profile {
        "/mcp-readonly" => &TOOLS[..5],
        "/mcp-gpt" => &TOOLS[..8],
        _ => &TOOLS,
    }
}

#[tokio::test]
async fn m1_every_profile_lists_its_tools_and_no_other() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    for profile in PROFILES {
        let mut client = Client::of(&lyceum, profile).await;
        for revision in REVISIONS {
            for accept in [JSON, SSE] {
                (client.revision, client.accept) = (revision, accept);
                let list = client.ask("tools/list", json!({})).await;
                let tools = list["result"]["tools"].as_array().unwrap();
                let names = tools.iter().map(|tool| tool["name"].as_str().unwrap());
                assert!(names.eq(offered(profile).iter().copied()), "{profile} {revision}");
            }
        }
    }
}

#[tokio::test]
async fn m2_to_m4_moving_is_no_tool_anywhere() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    for profile in PROFILES {
        let mut client = Client::of(&lyceum, profile).await;
        for revision in REVISIONS {
            client.revision = revision;
            let params = json!({ "name": "move_document", "arguments": {} });
            let error = client.ask("tools/call", params).await["error"].clone();
            let words = if profile == "/mcp" { "Unknown tool" } else { "Tool not allowed" };
            let expected = format!("{words}: move_document");
            assert_eq!(error["message"], expected, "{profile} {revision}");
        }
    }
}

#[tokio::test]
async fn m5_moving_over_http_is_not_implemented() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let request = Request::post("/documents/x/move", "{}");
    let answer = lyceum.call(&request).await;
    let code = &answer.json()["error"]["code"];
    assert_eq!((answer.status(), code), (501, &json!("NOT_IMPLEMENTED")));
}

#[tokio::test]
async fn m6_the_schema_hash_tells_tool_sets_apart() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let mut hashes = Vec::new();
    for profile in PROFILES {
        let info = lyceum.call(&Request::new("GET", profile).header("accept", JSON)).await.json();
        let hash = info["schemaHash"].as_str().unwrap().to_owned();
        assert!(info["schemaVersion"].is_string() && hash.len() == 64, "{info}");
        let mut client = Client::of(&lyceum, profile).await;
        client.revision = "2025-11-25";
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let legacy = client.ask("initialize", params).await["result"]["serverInfo"].clone();
        client.revision = MODERN;
        let modern = client.ask("server/discover", json!({})).await;
        let modern = &modern["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
        for told in [&legacy, modern] {
            assert_eq!(
                (&told["schemaHash"], &told["schemaVersion"]),
                (&json!(hash), &info["schemaVersion"])
            );
        }
        hashes.push(hash);
    }
    assert_eq!(hashes[0], hashes[3], "the same ten tools");
    assert!(hashes[0] != hashes[1] && hashes[0] != hashes[2] && hashes[1] != hashes[2]);
}

/// Read-only, destructive, idempotent, open world.
fn hints(tool: &str) -> [Option<bool>; 4] {
    let (yes, no) = (Some(true), Some(false));
    match tool {
        "upload_document" | "patch_document" => [None, yes, None, no],
        "update_document" | "delete_document" => [None, yes, yes, no],
        "ingest_document" => [None, yes, yes, yes],
        _ => [yes, None, yes, no],
    }
}

#[tokio::test]
async fn tools_say_what_they_take_and_give_and_do() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let mut client = Client::of(&lyceum, "/mcp").await;
    let list = client.ask("tools/list", json!({})).await;
    for tool in list["result"]["tools"].as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        let keys = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
        assert_eq!(keys.map(|key| tool["annotations"][key].as_bool()), hints(name), "{name}");
        assert!(tool["description"].as_str().unwrap().len() > 100 && tool["title"].is_string());
        let input = &tool["inputSchema"];
        assert_eq!(
            (&input["type"], &input["additionalProperties"]),
            (&json!("object"), &json!(false))
        );
        for (argument, schema) in input["properties"].as_object().unwrap() {
            assert!(schema["description"].is_string(), "{name}.{argument}");
            assert!(schema["type"].is_string(), "{name}.{argument}: {schema}");
        }
        let output = &tool["outputSchema"];
        assert_eq!(output["type"], "object", "{name}");
        assert!(output["properties"]["error"].is_object());
        assert_eq!(output["anyOf"][1], json!({ "required": ["error"] }));
    }
}

#[tokio::test]
async fn input_schemas_have_the_arguments_clients_know() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let mut client = Client::of(&lyceum, "/mcp").await;
    let list = client.ask("tools/list", json!({})).await;
    let mut told = String::new();
    for tool in list["result"]["tools"].as_array().unwrap() {
        let input = &tool["inputSchema"];
        let required = input["required"].as_array().cloned().unwrap_or_default();
        let arguments = input["properties"].as_object().unwrap().iter().map(|(name, schema)| {
            let mark = if required.contains(&json!(name)) { "" } else { "?" };
            let default = &schema["default"];
            let default = if default.is_null() { String::new() } else { format!("={default}") };
            let range = match (&schema["minimum"], &schema["maximum"]) {
                (Value::Null, Value::Null) => String::new(),
                (least, most) => format!("({least}–{most})"),
            };
            format!("{name}{mark}{default}{range}")
        });
        let mut arguments: Vec<String> = arguments.collect();
        arguments.sort();
        told.push_str(&format!("{}: {}\n", tool["name"].as_str().unwrap(), arguments.join(" ")));
    }
    insta::assert_snapshot!(told, @r#"
    search_knowledge: explain?=false limit?=5(1–20) prefix? query tags? updated_since?
    list_documents: cursor? limit?=50(1–100) offset?=0(0–10000) path? prefix?
    get_document: document_id history?=false lines? outline?=false section?
    get_document_for_rewrite: diff_from?(1–null) document_id? path? revision?(1–null)
    batch_read: full?=false paths
    upload_document: content expected_revision? idempotency_key? metadata? mime_type?="text/markdown" path source? tags? title? upsert?=false
    update_document: content? expected_revision? idempotency_key? metadata? mime_type? path restore_revision?(1–null) source? tags? title?
    patch_document: edits? expected_revision? idempotency_key? new_str? old_str? path
    delete_document: expected_revision? idempotency_key? path
    ingest_document: expected_revision? idempotency_key? path? source tags? title?
    "#);
}
