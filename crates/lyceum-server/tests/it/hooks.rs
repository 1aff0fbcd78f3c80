//! What a server may decide itself: refusals, lists of resources, what it says about its tools.

use lyceum_server::{
    Call, NoArguments, Refused, ResourceLink, ResourcePage, Server, ToolError, ToolResult, tool,
};
use lyceum_wire::{Revision, RpcError};
use serde::Deserialize;
use serde_json::json;

use crate::talk::Talk;

#[derive(Deserialize, schemars::JsonSchema)]
struct Add {
    #[expect(dead_code, reason = "only its presence matters")]
    number: i64,
}

fn refusing() -> Server {
    let add = tool("add", "Adds.", |_: Call, _: Add| async move { Ok("added") });
    Server::builder("hooks", "1")
        .tool(add)
        .refuse(|call: Call, refused| async move {
            let who = call.principal().map_or("nobody", |principal| principal.as_str());
            match refused {
                Refused::UnknownTool { name } => {
                    let message = format!("Tool not allowed: {name} for {who}");
                    ToolError::rpc(RpcError::invalid_params(message))
                }
                Refused::InvalidArguments { tool, .. } => {
                    let told = json!({ "tool": tool, "id": String::from_utf8_lossy(call.request_id().as_bytes()) });
                    ToolError::from_result(ToolResult::text(told.to_string()))
                }
                other => ToolError::new(format!("{other:?}")),
            }
        })
        .build()
}

#[tokio::test]
async fn a_server_words_its_refusals_in_every_revision() {
    for revision in Revision::ALL {
        let talk = Talk::new(&refusing(), revision).named("ann");
        let unknown = talk.call("nope", json!({})).await;
        assert_eq!(unknown["error"]["message"], "Tool not allowed: nope for ann");
        for arguments in [json!({}), json!([1]), json!({ "number": "x" })] {
            let invalid = talk.call("add", arguments).await;
            assert_eq!(invalid["isError"], true, "{revision:?}: {invalid}");
            assert_eq!(invalid["content"][0]["text"], r#"{"id":"1","tool":"add"}"#);
        }
        assert_eq!(talk.call("add", json!({ "number": 1 })).await["content"][0]["text"], "added");
    }
}

/// Counts to five, two at a time.
fn counting() -> Server {
    Server::builder("hooks", "1")
        .list_resources(|_, from| async move {
            let from: usize = from.map_or(Ok(1), |from| from.parse())?;
            let link = |n: usize| ResourceLink::new(format!("count:{n}"), n.to_string());
            let resources = (from..=5).take(2).map(link).collect();
            Ok(ResourcePage { resources, next: (from + 2 <= 5).then(|| (from + 2).to_string()) })
        })
        .build()
}

#[tokio::test]
async fn a_function_lists_resources_page_by_page() {
    for revision in Revision::ALL {
        let talk = Talk::new(&counting(), revision);
        let mut seen = Vec::new();
        let mut params = json!({});
        loop {
            let page = talk.ask("resources/list", params).await;
            let resources = page["resources"].as_array().unwrap();
            seen.extend(resources.iter().map(|item| item["uri"].as_str().unwrap().to_owned()));
            if page["nextCursor"].is_null() {
                break;
            }
            params = json!({ "cursor": page["nextCursor"] });
        }
        assert_eq!(seen, ["count:1", "count:2", "count:3", "count:4", "count:5"]);
    }
}

#[tokio::test]
async fn a_place_in_a_function_s_list_is_good_for_its_owner_only() {
    let server = counting();
    let page = Talk::modern(&server).named("ann").ask("resources/list", json!({})).await;
    let cursor = page["nextCursor"].as_str().unwrap();
    let mut forged = cursor.to_owned();
    forged.insert(5, 'A');
    for (who, cursor) in [("bob", cursor), ("ann", &forged), ("ann", "")] {
        let talk = Talk::modern(&server).named(who);
        let refused = talk.ask("resources/list", json!({ "cursor": cursor })).await;
        assert_eq!(refused["error"]["code"], -32602, "{who} {cursor}");
    }
}

#[tokio::test]
async fn what_is_sealed_opens_for_its_owner_only() {
    #[derive(Deserialize, schemars::JsonSchema)]
    struct Token {
        token: String,
    }
    let server = Server::builder("hooks", "1")
        .tool(tool("seal", "", |cx: Call, _: NoArguments| async move { Ok(cx.seal(b"secret")) }))
        .tool(tool("open", "", |cx: Call, args: Token| async move {
            Ok(format!("{:?}", cx.unseal(&args.token).map(String::from_utf8)))
        }))
        .list_resources(|_, _| async {
            Ok(ResourcePage { next: Some("x".into()), ..Default::default() })
        })
        .build();
    let ann = Talk::modern(&server).named("ann");
    let token = ann.call("seal", json!({})).await["content"][0]["text"].clone();
    let cursor = ann.ask("resources/list", json!({})).await["nextCursor"].clone();
    let rows = [
        ("ann", &token, "Some(Ok(\"secret\"))"),
        ("bob", &token, "None"),
        ("ann", &cursor, "None"),
    ];
    for (who, token, expected) in rows {
        let opened = Talk::modern(&server).named(who).call("open", json!({ "token": token })).await;
        assert_eq!(opened["content"][0]["text"], expected, "{who}");
    }
}

#[tokio::test]
async fn the_schema_hash_changes_with_the_tools() {
    let nothing =
        |name: &str, does: &str| tool(name, does, |_: Call, _: NoArguments| async { Ok("") });
    let server = Server::builder("hooks", "1")
        .schema_version("7")
        .tool(nothing("a", "Does nothing."))
        .build();
    let info = async |revision| {
        let talk = Talk::new(&server, revision);
        match revision {
            Revision::V2026_07_28 => {
                let found = talk.ask("server/discover", json!({})).await;
                found["_meta"]["io.modelcontextprotocol/serverInfo"].clone()
            }
            _ => talk.ask("initialize", json!({})).await["serverInfo"].clone(),
        }
    };
    let first = server.schema_hash();
    for revision in Revision::ALL {
        let info = info(revision).await;
        assert_eq!((&info["schemaVersion"], &info["schemaHash"]), (&json!("7"), &json!(first)));
    }
    server.add_tool(nothing("b", "Does nothing."));
    let second = server.schema_hash();
    server.add_tool(nothing("b", "Does even less."));
    let third = server.schema_hash();
    assert!(first.len() == 64 && first != second && second != third && first != third);
    server.remove_tool("b");
    assert_eq!(server.schema_hash(), first);
}
