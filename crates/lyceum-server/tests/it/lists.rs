//! Lists: pages, cursors, things that come and go.

use lyceum_server::{Call, NoArguments, Resource, Server, prompt, template, tool};
use lyceum_wire::Revision;
use serde_json::{Value, json};

use crate::talk::Talk;

fn numbered(n: usize) -> lyceum_server::Tool {
    tool(format!("tool-{n}"), "One of many.", |_: Call, _: NoArguments| async { Ok("") })
}

fn server(n_tools: usize) -> Server {
    let mut server = Server::builder("lists", "1").page_size(3);
    for n in 0..n_tools {
        server = server.tool(numbered(n));
    }
    server.build()
}

fn names(page: &Value) -> Vec<&str> {
    let tools = page["tools"].as_array().unwrap_or_else(|| panic!("no tools in {page}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

async fn page(talk: &Talk, cursor: &Value) -> Value {
    talk.ask("tools/list", json!({ "cursor": cursor })).await
}

#[tokio::test]
async fn pages_follow_each_other_and_end() {
    for (n_tools, expected) in [(3, vec![3]), (4, vec![3, 1]), (6, vec![3, 3])] {
        let talk = Talk::modern(&server(n_tools));
        let mut sizes = Vec::new();
        let mut cursor = Value::Null;
        while sizes.len() < expected.len() {
            let page = page(&talk, &cursor).await;
            sizes.push(names(&page).len());
            cursor = page["nextCursor"].clone();
        }
        assert_eq!((sizes, cursor), (expected, Value::Null), "{n_tools} tools");
    }
}

#[tokio::test]
async fn a_cursor_survives_changes_of_the_list() {
    let server = server(7);
    let talk = Talk::modern(&server);
    let first = page(&talk, &Value::Null).await;
    assert!(server.remove_tool("tool-1"));
    assert!(server.remove_tool("tool-3"));
    server.add_tool(numbered(7));
    let second = page(&talk, &first["nextCursor"]).await;
    assert_eq!(names(&second), ["tool-4", "tool-5", "tool-6"]);
    let third = page(&talk, &second["nextCursor"]).await;
    assert_eq!(names(&third), ["tool-7"]);
}

#[tokio::test]
async fn a_cursor_is_good_for_its_caller_and_list_only() {
    let mut builder = Server::builder("lists", "1").page_size(1);
    for n in 0..2 {
        builder = builder.tool(numbered(n)).prompt(prompt(
            format!("p{n}"),
            "Prompts.",
            |_: Call, _| async { Ok("") },
        ));
    }
    let ana = Talk::modern(&builder.build()).named("ana");
    let cursor = page(&ana, &Value::Null).await["nextCursor"].clone();
    let refused = async |talk: &Talk, method: &str, cursor: &Value| {
        let answer = talk.ask(method, json!({ "cursor": cursor })).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    };
    refused(&ana.clone().named("bob"), "tools/list", &cursor).await;
    refused(&ana, "prompts/list", &cursor).await;
    refused(&ana, "tools/list", &json!("made-up")).await;
    refused(&ana, "tools/list", &json!(7)).await;
    assert_eq!(names(&page(&ana, &cursor).await), ["tool-1"]);
}

#[tokio::test]
async fn hidden_tools_are_neither_listed_nor_called() {
    let server = server(2);
    let talk = Talk::new(&server, Revision::V2025_11_25);
    assert!(server.enable_tool("tool-0", false));
    assert!(!server.enable_tool("tool-0", false));
    assert_eq!(names(&page(&talk, &Value::Null).await), ["tool-1"]);
    let called = talk.call("tool-0", json!({})).await;
    assert_eq!(called["error"]["message"], "Unknown tool: tool-0");
    assert!(server.enable_tool("tool-0", true));
    assert_eq!(names(&page(&talk, &Value::Null).await), ["tool-0", "tool-1"]);
    assert!(!server.remove_tool("tool-9"));
}

#[tokio::test]
async fn of_two_with_the_same_name_the_later_counts_in_the_place_of_the_earlier() {
    let said = |text: &'static str| {
        tool("same", text, move |_: Call, _: NoArguments| async move { Ok(text) })
    };
    let server =
        Server::builder("lists", "1").tool(said("one")).tool(numbered(1)).tool(said("two"));
    let server = server.build();
    let talk = Talk::new(&server, Revision::V2025_11_25);
    assert_eq!(names(&page(&talk, &Value::Null).await), ["same", "tool-1"]);
    assert_eq!(talk.call("same", json!({})).await["content"][0]["text"], "two");
    server.add_tool(said("three"));
    assert_eq!(names(&page(&talk, &Value::Null).await), ["same", "tool-1"]);
    assert_eq!(talk.call("same", json!({})).await["content"][0]["text"], "three");
}

#[tokio::test]
async fn resources_and_templates_come_and_go() {
    let server = Server::builder("lists", "1").resource(Resource::text("x://a", "a", "A")).build();
    let talk = Talk::new(&server, Revision::V2025_11_25);
    let readable = async |uri: &str| {
        talk.ask("resources/read", json!({ "uri": uri })).await.get("contents").is_some()
    };
    assert!(readable("x://a").await && !readable("x://b/1").await);
    server.add_template(template("x://b/{n}", "b", |_: Call, _| async { Ok("B") }).unwrap());
    assert!(readable("x://b/1").await);
    assert!(server.remove_template("x://b/{n}") && !server.remove_template("x://b/{n}"));
    assert!(server.remove_resource("x://a") && !readable("x://a").await);
    server.add_resource(Resource::text("x://a", "a", "A"));
    assert!(readable("x://a").await && !readable("x://b/1").await);
}

#[tokio::test]
async fn what_was_announced_stays_listed_when_the_last_item_goes() {
    let server = server(1);
    server.remove_tool("tool-0");
    let talk = Talk::new(&server, Revision::V2025_11_25);
    assert_eq!(talk.raw("tools/list", json!({})).await, r#"{"tools":[]}"#);
}

#[tokio::test]
async fn resources_templates_and_prompts_are_listed_as_each_revision_knows_them() {
    let read = |_: Call, _| async { Ok("") };
    let server = Server::builder("lists", "1")
        .resource(
            Resource::text("x://a", "a", "A").title("The A").description("An a.").priority(1.0),
        )
        .template(template("x://{id}", "by id", read).unwrap().title("Any").mime_type("a/b"))
        .prompt(
            prompt("p", "Prompts.", |_: Call, _| async { Ok("") })
                .title("P")
                .argument("who", "Whom to prompt.")
                .optional_argument("how", "How to."),
        )
        .build();
    let mut all = String::new();
    for revision in [Revision::V2024_11_05, Revision::V2025_06_18, Revision::V2026_07_28] {
        for method in ["resources/list", "resources/templates/list", "prompts/list"] {
            all += &Talk::new(&server, revision).raw(method, json!({})).await;
            all += "\n";
        }
    }
    insta::assert_snapshot!(all, @r#"
{"resources":[{"uri":"x://a","name":"a","description":"An a.","mimeType":"text/plain","annotations":{"priority":1.0},"size":1}]}
{"resourceTemplates":[{"uriTemplate":"x://{id}","name":"by id","mimeType":"a/b"}]}
{"prompts":[{"name":"p","description":"Prompts.","arguments":[{"name":"who","description":"Whom to prompt.","required":true},{"name":"how","description":"How to.","required":false}]}]}
{"resources":[{"uri":"x://a","name":"a","title":"The A","description":"An a.","mimeType":"text/plain","annotations":{"priority":1.0},"size":1}]}
{"resourceTemplates":[{"uriTemplate":"x://{id}","name":"by id","title":"Any","mimeType":"a/b"}]}
{"prompts":[{"name":"p","title":"P","description":"Prompts.","arguments":[{"name":"who","description":"Whom to prompt.","required":true},{"name":"how","description":"How to.","required":false}]}]}
{"resultType":"complete","resources":[{"uri":"x://a","name":"a","title":"The A","description":"An a.","mimeType":"text/plain","annotations":{"priority":1.0},"size":1}],"ttlMs":60000,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"lists","version":"1"}}}
{"resultType":"complete","resourceTemplates":[{"uriTemplate":"x://{id}","name":"by id","title":"Any","mimeType":"a/b"}],"ttlMs":60000,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"lists","version":"1"}}}
{"resultType":"complete","prompts":[{"name":"p","title":"P","description":"Prompts.","arguments":[{"name":"who","description":"Whom to prompt.","required":true},{"name":"how","description":"How to.","required":false}]}],"ttlMs":60000,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"lists","version":"1"}}}
"#);
}
