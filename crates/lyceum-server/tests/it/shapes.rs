//! What each revision is told: handshake, discovery, lists.

use lyceum_server::{Call, Icon, Json, NoArguments, Server, tool};
use lyceum_wire::Revision;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::talk::Talk;

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

fn server() -> Server {
    Server::builder("shapes", "1.2.3")
        .title("Shapes")
        .description("Has one of each.")
        .website("https://example.test")
        .icon(Icon::new("https://example.test/icon.png").mime_type("image/png").size("48x48"))
        .instructions("Ask for shapes.")
        .tool(
            tool("add", "Adds.", |_: Call, _: NoArguments| async move { Ok(Json(Sum { sum: 3 })) })
                .title("Add")
                .read_only()
                .idempotent()
                .icon(Icon::new("data:,"))
                .meta("example.test/cost", 1)
                .task(),
        )
        .build()
}

async fn shape(revision: Revision, method: &str) -> String {
    Talk::new(&server(), revision).raw(method, json!({})).await
}

#[tokio::test]
async fn initialize_tells_a_2024_11_05_client_what_it_knows() {
    insta::assert_snapshot!(shape(Revision::V2024_11_05, "initialize").await, @r#"{"protocolVersion":"2024-11-05","capabilities":{"logging":{},"tools":{"listChanged":true}},"serverInfo":{"name":"shapes","version":"1.2.3"},"instructions":"Ask for shapes."}"#);
}

#[tokio::test]
async fn initialize_tells_a_2025_03_26_client_what_it_knows() {
    insta::assert_snapshot!(shape(Revision::V2025_03_26, "initialize").await, @r#"{"protocolVersion":"2025-03-26","capabilities":{"logging":{},"tools":{"listChanged":true}},"serverInfo":{"name":"shapes","version":"1.2.3"},"instructions":"Ask for shapes."}"#);
}

#[tokio::test]
async fn initialize_tells_a_2025_06_18_client_what_it_knows() {
    insta::assert_snapshot!(shape(Revision::V2025_06_18, "initialize").await, @r#"{"protocolVersion":"2025-06-18","capabilities":{"logging":{},"tools":{"listChanged":true}},"serverInfo":{"name":"shapes","title":"Shapes","version":"1.2.3"},"instructions":"Ask for shapes."}"#);
}

#[tokio::test]
async fn initialize_tells_a_2025_11_25_client_what_it_knows() {
    insta::assert_snapshot!(shape(Revision::V2025_11_25, "initialize").await, @r#"{"protocolVersion":"2025-11-25","capabilities":{"logging":{},"tools":{"listChanged":true},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"shapes","title":"Shapes","version":"1.2.3","description":"Has one of each.","websiteUrl":"https://example.test","icons":[{"src":"https://example.test/icon.png","mimeType":"image/png","sizes":["48x48"]}]},"instructions":"Ask for shapes."}"#);
}

#[tokio::test]
async fn discover_tells_a_modern_client_everything() {
    insta::assert_snapshot!(shape(Revision::V2026_07_28, "server/discover").await, @r#"{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"capabilities":{"logging":{},"tools":{"listChanged":true},"extensions":{"io.modelcontextprotocol/tasks":{}}},"instructions":"Ask for shapes.","ttlMs":60000,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"shapes","title":"Shapes","version":"1.2.3","description":"Has one of each.","websiteUrl":"https://example.test","icons":[{"src":"https://example.test/icon.png","mimeType":"image/png","sizes":["48x48"]}]}}}"#);
}

#[tokio::test]
async fn tools_are_listed_as_each_revision_knows_them() {
    insta::assert_snapshot!(shape(Revision::V2024_11_05, "tools/list").await, @r#"{"tools":[{"name":"add","description":"Adds.","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{},"title":"NoArguments","type":"object"}}]}"#);
    insta::assert_snapshot!(shape(Revision::V2025_03_26, "tools/list").await, @r#"{"tools":[{"name":"add","description":"Adds.","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{},"title":"NoArguments","type":"object"},"annotations":{"readOnlyHint":true,"idempotentHint":true}}]}"#);
    insta::assert_snapshot!(shape(Revision::V2025_06_18, "tools/list").await, @r#"{"tools":[{"name":"add","title":"Add","description":"Adds.","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{},"title":"NoArguments","type":"object"},"outputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"sum":{"type":"integer"}},"required":["sum"],"title":"Sum","type":"object"},"annotations":{"readOnlyHint":true,"idempotentHint":true},"_meta":{"example.test/cost":1}}]}"#);
    insta::assert_snapshot!(shape(Revision::V2025_11_25, "tools/list").await, @r#"{"tools":[{"name":"add","title":"Add","description":"Adds.","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{},"title":"NoArguments","type":"object"},"outputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"sum":{"type":"integer"}},"required":["sum"],"title":"Sum","type":"object"},"annotations":{"readOnlyHint":true,"idempotentHint":true},"execution":{"taskSupport":"optional"},"icons":[{"src":"data:,"}],"_meta":{"example.test/cost":1}}]}"#);
    insta::assert_snapshot!(shape(Revision::V2026_07_28, "tools/list").await, @r#"{"resultType":"complete","tools":[{"name":"add","title":"Add","description":"Adds.","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{},"title":"NoArguments","type":"object"},"outputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"sum":{"type":"integer"}},"required":["sum"],"title":"Sum","type":"object"},"annotations":{"readOnlyHint":true,"idempotentHint":true},"icons":[{"src":"data:,"}],"_meta":{"example.test/cost":1}}],"ttlMs":60000,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"shapes","title":"Shapes","version":"1.2.3"}}}"#);
}

#[tokio::test]
async fn what_is_not_offered_is_not_found() {
    let not_found = |method: &str| {
        format!(r#"{{"error":{{"code":-32601,"message":"method not found: {method}"}}}}"#)
    };
    for method in ["prompts/list", "resources/list", "resources/templates/list", "no/such"] {
        assert_eq!(shape(Revision::V2025_11_25, method).await, not_found(method));
        assert_eq!(shape(Revision::V2026_07_28, method).await, not_found(method));
    }
}

#[tokio::test]
async fn methods_of_one_era_are_unknown_in_the_other() {
    let check = async |revision: Revision, method: &str| {
        let answer = shape(revision, method).await;
        assert!(answer.contains("-32601"), "{method} at {revision}: {answer}");
    };
    let legacy = ["initialize", "ping", "logging/setLevel", "resources/subscribe", "tasks/list"];
    for method in legacy {
        check(Revision::V2026_07_28, method).await;
    }
    for method in ["server/discover", "subscriptions/listen", "tasks/update"] {
        check(Revision::V2025_11_25, method).await;
    }
}

#[tokio::test]
async fn ping_and_log_levels_are_answered_with_nothing() {
    assert_eq!(shape(Revision::V2024_11_05, "ping").await, "{}");
    let talk = Talk::new(&server(), Revision::V2025_11_25);
    assert_eq!(talk.raw("logging/setLevel", json!({ "level": "debug" })).await, "{}");
    let refused = talk.raw("logging/setLevel", json!({ "level": "loud" })).await;
    assert!(refused.contains("-32602"), "{refused}");
}
