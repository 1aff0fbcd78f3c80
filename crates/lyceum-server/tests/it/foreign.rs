//! What other servers answer for, shown next to a server's own things.

use std::sync::Arc;

use bytes::Bytes;
use lyceum_server::{
    Call, Foreign, ForeignItem, ForeignTasks, NoArguments, Resource, ResourcePage, Server, tool,
};
use lyceum_wire::Revision;
use serde_json::{Value, json};

use crate::talk::Talk;

fn item(key: &str) -> Arc<ForeignItem> {
    let raw = |era: &str| {
        Bytes::from(format!(r#"{{"name":"{key}","uri":"{key}","x":1.0,"era":"{era}"}}"#))
    };
    Arc::new(ForeignItem::new(key, raw("legacy"), raw("modern")))
}

fn server(page_size: usize) -> Server {
    let server = Server::builder("gateway", "1")
        .page_size(page_size)
        .tool(tool("own", "Ours.", |_: Call, _: NoArguments| async { Ok("ours") }))
        .resource(Resource::text("x://own", "own", "ours"))
        .build();
    server.expect_foreign();
    server
}

fn tools(keys: &[&str]) -> Foreign {
    Foreign { tools: keys.iter().map(|key| item(key)).collect(), ..Foreign::default() }
}

fn names(page: &Value, member: &str) -> Vec<String> {
    let items = page[member].as_array().unwrap_or_else(|| panic!("no {member} in {page}"));
    items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn foreign_things_follow_own_ones_page_by_page() {
    let server = server(2);
    server.show_foreign(&tools(&["a", "b", "c"]));
    let talk = Talk::modern(&server);
    let (mut seen, mut cursor) = (Vec::new(), Value::Null);
    for _ in 0..2 {
        let page = talk.ask("tools/list", json!({ "cursor": cursor })).await;
        seen.push(names(&page, "tools"));
        cursor = page["nextCursor"].clone();
    }
    assert_eq!(
        (seen, cursor),
        (vec![vec!["own".into(), "a".into()], vec!["b".into(), "c".into()]], Value::Null)
    );
}

#[tokio::test]
async fn definitions_are_shown_verbatim_to_their_era() {
    let server = server(100);
    server.show_foreign(&tools(&["a"]));
    for (revision, era) in [(Revision::V2025_06_18, "legacy"), (Revision::V2026_07_28, "modern")] {
        let list = Talk::new(&server, revision).raw("tools/list", json!({})).await;
        let expected = format!(r#"{{"name":"a","uri":"a","x":1.0,"era":"{era}"}}"#);
        assert!(list.contains(&expected), "{list}");
    }
}

#[tokio::test]
async fn own_tools_hide_foreign_ones_of_the_same_name() {
    let server = server(100);
    server.show_foreign(&tools(&["own", "a"]));
    let list = Talk::modern(&server).ask("tools/list", json!({})).await;
    assert_eq!(names(&list, "tools"), ["own", "a"]);
    assert_eq!(list["tools"][0]["description"], "Ours.");
    assert_eq!(server.own_tools(), ["own"]);
}

#[tokio::test]
async fn only_lists_that_changed_are_announced() {
    let server = server(100);
    let talk = Talk::modern(&server);
    let hash = server.schema_hash();
    let filter =
        json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
    let listening = tokio::spawn({
        let talk = talk.clone();
        async move { talk.ask("subscriptions/listen", json!({ "notifications": filter })).await }
    });
    talk.sent_at_least(1).await;
    server.show_foreign(&tools(&["a"]));
    let sent = talk.sent_at_least(2).await;
    assert!(sent[1].contains("tools/list_changed"), "{sent:?}");
    server.show_foreign(&tools(&["a"]));
    let templates = Foreign { templates: vec![item("t{x}")], ..tools(&["a"]) };
    server.show_foreign(&templates);
    let sent = talk.sent_at_least(3).await;
    assert!(sent[2].contains("resources/list_changed"), "{sent:?}");
    assert_ne!(server.schema_hash(), hash);
    listening.abort();
}

#[tokio::test]
async fn a_gateway_announces_what_may_come() {
    let server = Server::builder("gateway", "1").build();
    let unknown = Talk::modern(&server).ask("tools/list", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32601, "nothing is announced before it is expected");
    server.expect_foreign();
    let show =
        |legacy, modern| Foreign { tasks: ForeignTasks { legacy, modern }, ..Foreign::default() };
    let talk = Talk::modern(&server);
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        let list = talk.ask(method, json!({})).await;
        assert_eq!(list["error"], Value::Null, "{method}: {list}");
    }
    let capabilities =
        || async { talk.ask("server/discover", json!({})).await["capabilities"].clone() };
    let announced = capabilities().await;
    for kind in ["tools", "prompts", "resources", "completions"] {
        assert!(announced[kind].is_object(), "{kind}: {announced}");
    }
    server.show_foreign(&show(true, false));
    assert_eq!(capabilities().await["extensions"], Value::Null);
    let legacy = Talk::new(&server, Revision::V2025_11_25).ask("initialize", json!({})).await;
    assert!(legacy["capabilities"]["tasks"].is_object(), "{legacy}");
    server.show_foreign(&show(false, true));
    assert!(capabilities().await["extensions"]["io.modelcontextprotocol/tasks"].is_object());
    let legacy = Talk::new(&server, Revision::V2025_11_25).ask("initialize", json!({})).await;
    assert_eq!(legacy["capabilities"]["tasks"], Value::Null, "{legacy}");
}

#[tokio::test]
async fn foreign_resources_can_be_watched_and_follow_what_a_function_lists() {
    let server = Server::builder("gateway", "1")
        .list_resources(|_, _| async { Ok(ResourcePage::default()) })
        .build();
    server.expect_foreign();
    let claims = Arc::new(|uri: &str| uri.starts_with("files+"));
    server.show_foreign(&Foreign {
        resources: vec![item("y://listed")],
        claims: Some(claims),
        ..Foreign::default()
    });
    let talk = Talk::modern(&server);
    let list = talk.ask("resources/list", json!({})).await;
    assert_eq!(names(&list, "resources"), ["y://listed"]);
    let uris = ["y://listed", "files+file:///a", "z://nowhere"];
    let filter = json!({ "resourceSubscriptions": uris });
    let listening = tokio::spawn({
        let talk = talk.clone();
        async move { talk.ask("subscriptions/listen", json!({ "notifications": filter })).await }
    });
    let sent = talk.sent_at_least(1).await;
    let acknowledged: Value = serde_json::from_str(&sent[0]).unwrap();
    let honoured = &acknowledged["params"]["notifications"]["resourceSubscriptions"];
    assert_eq!(*honoured, json!(["files+file:///a", "y://listed"]));
    listening.abort();
}
