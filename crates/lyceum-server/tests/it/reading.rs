//! Reading resources, getting prompts, completing arguments.

use lyceum_server::{
    Cache, Call, Content, PromptArguments, PromptMessage, Resource, ResourceContents, Server,
    ToolError, Variables, prompt, resource, template,
};
use lyceum_wire::Revision;
use serde_json::{Value, json};

use crate::talk::Talk;

fn server() -> Server {
    let by_id = |_: Call, variables: Variables| async move {
        match variables.get("id") {
            "gone" => Err(ToolError::resource_not_found("x://gone/data")),
            id => Ok(format!("data of {id}")),
        }
    };
    let by_id = template("x://{id}/data", "data", by_id).unwrap().mime_type("text/plain");
    let by_id = by_id.complete("id", |completing| async move {
        let n: usize = completing.value.parse().unwrap_or(3);
        (0..n).map(|n| n.to_string()).collect()
    });
    let two = |_: Call| async {
        let second = ResourceContents::blob("x://two#2", [0, 255]).mime_type("a/b").meta("k", 1);
        Ok(vec![ResourceContents::text("", "one"), second])
    };
    let say = |_: Call, args: PromptArguments| async move {
        let said = format!("{} {}", args.get("who"), args.get("how"));
        let contents = ResourceContents::text("x://r", "R");
        Ok(vec![PromptMessage::user(said), PromptMessage::assistant(Content::resource(contents))])
    };
    Server::builder("reading", "1")
        .resource(Resource::text("x://fixed", "fixed", "always"))
        .resource(
            resource("x://two", "two", two).cache(Cache::public(std::time::Duration::from_secs(9))),
        )
        .resource(resource("x://broken", "broken", |_: Call| async {
            Err::<String, _>(ToolError::new("the disk is gone"))
        }))
        .template(by_id)
        .prompt(
            prompt("say", "Says it.", say)
                .argument("who", "Who.")
                .optional_argument("how", "How.")
                .complete("who", |completing| async move {
                    vec![format!("{}-{}", completing.value, completing.arguments["how"])]
                }),
        )
        .build()
}

async fn read(revision: Revision, uri: &str) -> String {
    Talk::new(&server(), revision).raw("resources/read", json!({ "uri": uri })).await
}

async fn modern(method: &str, params: Value) -> String {
    Talk::modern(&server()).raw(method, params).await
}

#[tokio::test]
async fn resources_are_read_by_uri_and_by_template() {
    insta::assert_snapshot!(read(Revision::V2024_11_05, "x://fixed").await, @r#"{"contents":[{"uri":"x://fixed","mimeType":"text/plain","text":"always"}]}"#);
    insta::assert_snapshot!(read(Revision::V2025_06_18, "x://two").await, @r#"{"contents":[{"uri":"x://two","text":"one"},{"uri":"x://two#2","mimeType":"a/b","blob":"AP8=","_meta":{"k":1}}]}"#);
    insta::assert_snapshot!(read(Revision::V2026_07_28, "x://two").await, @r#"{"resultType":"complete","contents":[{"uri":"x://two","text":"one"},{"uri":"x://two#2","mimeType":"a/b","blob":"AP8=","_meta":{"k":1}}],"ttlMs":9000,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"reading","version":"1"}}}"#);
    insta::assert_snapshot!(read(Revision::V2026_07_28, "x://7/data").await, @r#"{"resultType":"complete","contents":[{"uri":"x://7/data","mimeType":"text/plain","text":"data of 7"}],"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"reading","version":"1"}}}"#);
}

#[tokio::test]
async fn a_resource_that_is_not_there_is_an_error_in_the_code_of_the_era() {
    for uri in ["x://nope", "x://gone/data", "x:///data"] {
        let legacy: Value = serde_json::from_str(&read(Revision::V2025_11_25, uri).await).unwrap();
        let modern: Value = serde_json::from_str(&read(Revision::V2026_07_28, uri).await).unwrap();
        assert_eq!(legacy["error"]["code"], -32002);
        assert_eq!(modern["error"]["code"], -32602);
        assert_eq!(modern["error"]["data"], json!({ "uri": uri }));
    }
}

#[tokio::test]
async fn a_failure_to_read_is_an_internal_error() {
    insta::assert_snapshot!(read(Revision::V2026_07_28, "x://broken").await, @r#"{"error":{"code":-32603,"message":"the disk is gone"}}"#);
    insta::assert_snapshot!(modern("resources/read", json!({})).await, @r#"{"error":{"code":-32602,"message":"uri must say which resource"}}"#);
}

#[tokio::test]
async fn prompts_are_filled_in() {
    let params = json!({ "name": "say", "arguments": { "who": "Ana" } });
    insta::assert_snapshot!(modern("prompts/get", params.clone()).await, @r#"{"resultType":"complete","description":"Says it.","messages":[{"role":"user","content":{"type":"text","text":"Ana "}},{"role":"assistant","content":{"type":"resource","resource":{"uri":"x://r","text":"R"}}}],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"reading","version":"1"}}}"#);
    let legacy = Talk::new(&server(), Revision::V2024_11_05).raw("prompts/get", params).await;
    insta::assert_snapshot!(legacy, @r#"{"description":"Says it.","messages":[{"role":"user","content":{"type":"text","text":"Ana "}},{"role":"assistant","content":{"type":"resource","resource":{"uri":"x://r","text":"R"}}}]}"#);
}

#[tokio::test]
async fn prompts_want_their_arguments() {
    insta::assert_snapshot!(modern("prompts/get", json!({ "name": "nope" })).await, @r#"{"error":{"code":-32602,"message":"Unknown prompt: nope"}}"#);
    insta::assert_snapshot!(modern("prompts/get", json!({ "name": "say" })).await, @r#"{"error":{"code":-32602,"message":"Missing argument of say: who"}}"#);
    let odd = json!({ "name": "say", "arguments": { "who": 1 } });
    insta::assert_snapshot!(modern("prompts/get", odd).await, @r#"{"error":{"code":-32602,"message":"Prompt arguments must be strings by name"}}"#);
}

#[tokio::test]
async fn arguments_and_variables_are_completed() {
    let prompt = json!({
        "ref": { "type": "ref/prompt", "name": "say" },
        "argument": { "name": "who", "value": "A" },
        "context": { "arguments": { "how": "loud" } },
    });
    insta::assert_snapshot!(modern("completion/complete", prompt).await, @r#"{"resultType":"complete","completion":{"values":["A-loud"],"total":1,"hasMore":false},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"reading","version":"1"}}}"#);
    let of_template = |argument: &str, value: &str| {
        json!({
            "ref": { "type": "ref/resource", "uri": "x://{id}/data" },
            "argument": { "name": argument, "value": value },
        })
    };
    let legacy = Talk::new(&server(), Revision::V2024_11_05);
    for (total, has_more) in [(100, false), (101, true)] {
        let asked = of_template("id", &total.to_string());
        let completion = &legacy.ask("completion/complete", asked).await["completion"];
        assert_eq!(completion["values"].as_array().unwrap().len(), 100);
        assert_eq!(completion["total"], total);
        assert_eq!(completion["hasMore"], has_more, "of {total}");
    }
    insta::assert_snapshot!(modern("completion/complete", of_template("no", "")).await, @r#"{"error":{"code":-32602,"message":"Unknown variable: no"}}"#);
    insta::assert_snapshot!(modern("completion/complete", json!({ "ref": 1 })).await, @r#"{"error":{"code":-32602,"message":"Invalid completion request: invalid type: integer `1`, expected internally tagged enum Reference at line 1 column 8"}}"#);
}

#[tokio::test]
async fn an_argument_without_suggestions_has_none() {
    let params = json!({
        "ref": { "type": "ref/prompt", "name": "say" },
        "argument": { "name": "how", "value": "" },
    });
    let legacy = Talk::new(&server(), Revision::V2025_03_26);
    insta::assert_snapshot!(legacy.raw("completion/complete", params).await, @r#"{"completion":{"values":[],"total":0,"hasMore":false}}"#);
}
