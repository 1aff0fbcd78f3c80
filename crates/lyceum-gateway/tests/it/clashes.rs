//! Names and URIs that more than one has: the server itself comes first, then the upstream that is
//! configured first, and whoever goes without is told of.

use std::sync::Arc;
use std::time::Duration;

use lyceum_gateway::{Form, Gateway, UpstreamConfig};
use lyceum_http::client::Peer;
use lyceum_server::{
    Call, Completing, PromptArguments, Resource, Server, Variables, prompt, template,
};
use lyceum_wire::{Member, Object, RevisionSet, encode};
use serde_json::{Value, json};

use crate::healing::modern;
use crate::house::{House, own_server, serve_handler, setting};
use crate::mirror::{Mirror, Reply};

const UPDATED: &str = "notifications/resources/updated";

/// What one upstream lists.
#[derive(Debug, Clone, Default)]
struct Lists {
    tools: &'static [&'static str],
    prompts: &'static [&'static str],
    resources: &'static [&'static str],
    templates: &'static [&'static str],
}

/// An upstream without a prefix that answers everything with its own name.
async fn upstream(name: &'static str, lists: Lists) -> (Mirror, UpstreamConfig) {
    let mirror = Mirror::answering(move |request| {
        let items = |member: &str, key: &str, keys: &[&str]| {
            let item = |one: &&str| json!({ key: one, "name": one, "inputSchema": { "type": "object" } });
            json!({ member: keys.iter().map(item).collect::<Vec<_>>() })
        };
        let result = match request.method.as_str() {
            "initialize" => json!({
                "protocolVersion": "2025-03-26", "serverInfo": { "name": name, "version": "1" },
                "capabilities": { "tools": {}, "prompts": {}, "resources": {}, "completions": {} },
            }),
            "tools/list" => items("tools", "name", lists.tools),
            "prompts/list" => items("prompts", "name", lists.prompts),
            "resources/list" => items("resources", "uri", lists.resources),
            "resources/templates/list" => items("resourceTemplates", "uriTemplate", lists.templates),
            "tools/call" if request.params.text_is(Member::Name, "shout") => {
                return shout(&encode::result(&request.id, br#"{"content":[]}"#));
            }
            "tools/call" => json!({ "content": [{ "type": "text", "text": name }] }),
            "prompts/get" => json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": name } }] }),
            "resources/read" => json!({ "contents": [{ "uri": "x://y", "text": name }] }),
            "completion/complete" => json!({ "completion": { "values": [name] } }),
            _ => return Reply::Unknown,
        };
        Reply::Result(result.to_string())
    })
    .await;
    let config = UpstreamConfig { prefix: Some(String::new()), ..mirror.config(name) };
    (mirror, config)
}

/// An answer before which resources are said to have changed.
fn shout(answer: &[u8]) -> Reply {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let updated = ["kb:///x", "own://a", "z://a"].map(|uri| {
        json!({ "jsonrpc": "2.0", "method": UPDATED, "params": { "uri": uri } }).to_string()
    });
    let [one, two, three] = updated.map(|message| format!("data: {message}\n\n"));
    let answer = String::from_utf8_lossy(answer);
    Reply::Bytes(format!("{head}{one}{two}{three}data: {answer}\n\n").into_bytes())
}

/// A server that answers everything with "ours".
fn ours() -> Server {
    let complete = |_: Completing| async { vec!["ours".to_owned()] };
    let asked = prompt("summary", "Ours.", |_: Call, _: PromptArguments| async { Ok("ours") })
        .argument("of", "What.")
        .complete("of", complete);
    let family =
        template("kb:///{+path}", "document", |_: Call, _: Variables| async { Ok("ours") });
    Server::builder("front", "1")
        .prompt(asked)
        .resource(Resource::text("own://a", "a", "ours"))
        .template(family.unwrap().complete("path", complete))
        .build()
}

async fn house(configs: Vec<UpstreamConfig>, server: Server) -> House {
    let gateway = Gateway::new(setting());
    gateway.configure(configs);
    assert!(gateway.settled(Duration::from_secs(20)).await);
    let door = gateway.door(server, Arc::new(|_: &str| true));
    let front = serve_handler(door, RevisionSet::ALL).await;
    House::around(gateway, front)
}

/// Who answers a request.
async fn answers(peer: &Peer, method: &str, params: Value) -> &'static str {
    let text = match peer.call(method, params.to_string()).await {
        Ok(result) => String::from_utf8_lossy(&result).into_owned(),
        Err(error) => error.to_string(),
    };
    let all = ["ours", "one", "two"];
    let said = all.into_iter().find(|name| text.contains(&format!("\"{name}\"")));
    said.unwrap_or("nobody")
}

async fn read(peer: &Peer, uri: &str) -> &'static str {
    answers(peer, "resources/read", json!({ "uri": uri })).await
}

/// The keys of raw definitions.
fn keys(definitions: &[bytes::Bytes], member: &str) -> Vec<String> {
    let key = |raw: &bytes::Bytes| Object::parse(raw).unwrap().text(member).unwrap();
    definitions.iter().map(key).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_the_servers_own_no_upstream_can_take() {
    let lists = Lists {
        prompts: &["summary", "other"],
        resources: &["own://a", "kb:///listed", "m://a"],
        templates: &["kb:///{+path}", "kb:///deep/{x}", "{+any}"],
        ..Lists::default()
    };
    let (_mirror, config) = upstream("one", lists).await;
    let house = house(vec![config], ours()).await;
    let peer = modern(&house).await;
    for uri in ["own://a", "kb:///listed", "kb:///deep/1", "kb:///never/listed"] {
        assert_eq!(read(&peer, uri).await, "ours", "{uri}");
    }
    for uri in ["m://a", "m://b", "any://thing"] {
        assert_eq!(read(&peer, uri).await, "one", "{uri}");
    }
    let get = async |name: &str| {
        answers(&peer, "prompts/get", json!({ "name": name, "arguments": { "of": "x" } })).await
    };
    assert_eq!([get("summary").await, get("other").await], ["ours", "one"]);
    let complete = async |reference: Value, name: &str| {
        let params = json!({ "ref": reference, "argument": { "name": name, "value": "" } });
        answers(&peer, "completion/complete", params).await
    };
    assert_eq!(complete(json!({ "type": "ref/prompt", "name": "summary" }), "of").await, "ours");
    assert_eq!(complete(json!({ "type": "ref/prompt", "name": "other" }), "of").await, "one");
    let reference = json!({ "type": "ref/resource", "uri": "kb:///{+path}" });
    assert_eq!(complete(reference, "path").await, "ours");
    let reference = json!({ "type": "ref/resource", "uri": "{+any}" });
    assert_eq!(complete(reference, "any").await, "one");

    let prompts = keys(&peer.list_prompts().await.unwrap(), "name");
    let renamed = prompts.iter().find(|name| name.starts_with("summary_")).expect("renamed");
    assert_eq!(get(renamed).await, "one");
    assert_eq!(prompts.len(), 3, "{prompts:?}");
    let resources = keys(&peer.list_resources().await.unwrap(), "uri");
    assert_eq!(resources, ["own://a", "m://a"]);
    let templates = keys(&peer.list_resource_templates().await.unwrap(), "uriTemplate");
    assert_eq!(templates, ["kb:///{+path}", "{+any}"]);
    let mut told = house.gateway.health()[0].1.collisions.clone();
    told.sort();
    let expected = [
        format!("prompt summary is taken by this server, shown as {renamed}"),
        "resource kb:///listed is taken by this server, not shown".to_owned(),
        "resource own://a is taken by this server, not shown".to_owned(),
        "template kb:///deep/{x} is taken by this server, not shown".to_owned(),
        "template kb:///{+path} is taken by this server, not shown".to_owned(),
    ];
    assert_eq!(told, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_upstream_lists_twice_is_told_of() {
    let lists = Lists {
        tools: &["a", "b", "a", "a"],
        prompts: &["p", "p"],
        resources: &["m://a", "m://a"],
        templates: &["m://{x}"],
    };
    let (_mirror, config) = upstream("one", lists).await;
    let house = house(vec![config], ours()).await;
    let tools = modern(&house).await.list_tools().await.unwrap();
    let n_shown = |name: &str| tools.iter().filter(|tool| tool.name == name).count();
    assert_eq!([n_shown("a"), n_shown("b")], [1, 1]);
    let expected = ["tool a", "resource m://a", "prompt p"];
    let expected = expected.map(|it| format!("{it} is listed more than once, the first is shown"));
    assert_eq!(house.gateway.health()[0].1.collisions, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_cannot_say_that_what_is_not_its_own_changed() {
    let lists = Lists { tools: &["shout"], resources: &["z://a", "kb:///x"], ..Lists::default() };
    let (_mirror, config) = upstream("one", lists).await;
    let house = house(vec![config], ours()).await;
    let peer = modern(&house).await;
    let all = ["kb:///x", "own://a", "z://a"];
    let filter = json!({ "resourceSubscriptions": all });
    let mut listening = peer.listen(filter.to_string()).await.unwrap();
    answers(&peer, "tools/call", json!({ "name": "shout", "arguments": {} })).await;
    // Updates come in the order of their URIs, so its own is the last.
    let heard = tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            let news = listening.next().await.unwrap().unwrap();
            if news.method == UPDATED {
                return String::from_utf8_lossy(&news.params.unwrap()).into_owned();
            }
        }
    });
    let heard = heard.await.expect("its own is told");
    assert!(heard.contains("z://a"), "{heard}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_upstreams_the_first_keeps_what_both_have() {
    let one = Lists {
        tools: &["greet"],
        prompts: &["p"],
        resources: &["m://a"],
        templates: &["{+any}", "item://{id}"],
    };
    let two = Lists {
        tools: &["greet", "only"],
        prompts: &["p"],
        resources: &["m://a", "m://b"],
        templates: &["item://{id}", "item://deep/{id}", "m://{x}"],
    };
    let (_one, one) = upstream("one", one).await;
    let (_two, two) = upstream("two", two).await;
    // One that has nothing to read but might have.
    let (_three, three) = upstream("three", Lists::default()).await;
    let aliases = |all: &[(&str, &str)]| -> Vec<(String, String)> {
        all.iter().map(|(alias, own)| ((*alias).to_owned(), (*own).to_owned())).collect()
    };
    let one = UpstreamConfig { aliases: aliases(&[("old", "greet")]), ..one };
    let two = UpstreamConfig { aliases: aliases(&[("old", "only"), ("greet", "only")]), ..two };
    let three = UpstreamConfig { prefix: None, ..three };
    let house = house(vec![one, two, three], own_server()).await;
    let peer = modern(&house).await;
    for (uri, expected) in [
        ("m://a", "one"),
        ("m://b", "two"),
        ("m://c", "two"),
        ("item://7", "one"),
        ("item://deep/7", "two"),
        ("any://thing", "one"),
        // It names somebody, who has no such thing.
        ("three+any://thing", "nobody"),
    ] {
        assert_eq!(read(&peer, uri).await, expected, "{uri}");
    }
    assert_eq!(keys(&peer.list_resources().await.unwrap(), "uri"), ["m://a", "m://b"]);
    let health = house.gateway.health();
    assert_eq!(health[0].1.collisions, [""; 0]);
    let told = &health[1].1.collisions;
    for expected in [
        "greet is taken by one, shown as greet_",
        "prompt p is taken by one, shown as p_",
        "resource m://a is taken by one, not shown",
        "template item://{id} is taken by one, not shown",
        "alias old is taken by one, not used",
        "alias greet is taken by one, not used",
    ] {
        assert!(told.iter().any(|told| told.starts_with(expected)), "{expected}: {told:?}");
    }
    assert_eq!(told.len(), 6, "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_is_known_by_its_prefix_where_it_is_another_than_its_name() {
    let (_mirror, config) = upstream("one", Lists { tools: &["greet"], ..Lists::default() }).await;
    let config = UpstreamConfig { prefix: Some("My_Tools".to_owned()), ..config };
    let house = house(vec![config], own_server()).await;
    let peer = modern(&house).await;
    for (name, form) in [
        ("My_Tools_greet", Form::Public),
        ("My_Tools.greet", Form::Dotted),
        ("one.greet", Form::Dotted),
        ("greet", Form::OwnName),
    ] {
        let called = answers(&peer, "tools/call", json!({ "name": name, "arguments": {} })).await;
        assert_eq!(called, "one", "{name}");
        assert_eq!(house.gateway.why(name).map(|why| why.form), Some(form), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_lists_what_begins_with_an_earlier_upstreams_prefix() {
    let files = Lists { tools: &["list"], ..Lists::default() };
    let (_files, files) = upstream("files", files).await;
    let bare = Lists {
        tools: &["files_read"],
        prompts: &["files_ask"],
        resources: &["files+x://1", "x://2"],
        templates: &["files+x://{id}"],
    };
    let (_bare, bare) = upstream("bare", bare).await;
    let files = UpstreamConfig { prefix: None, ..files };
    let house = house(vec![files, bare], own_server()).await;
    let collisions = house.gateway.health().remove(1).1.collisions;
    for told in [
        "files_read is taken by files, shown as bare_files_read",
        "prompt files_ask is taken by files, shown as bare_files_ask",
        "resource files+x://1 is taken by files, not shown",
        "template files+x://{id} is taken by files, not shown",
    ] {
        assert!(collisions.iter().any(|text| text == told), "{told}: {collisions:?}");
    }
    let peer = modern(&house).await;
    let names: Vec<_> = peer.list_tools().await.unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["files_list", "bare_files_read"]);
    let refused = peer.call("tools/call", r#"{"name":"files_read"}"#).await.unwrap_err();
    assert!(refused.to_string().contains("Unknown tool"), "{refused}");
    let resources = peer.call("resources/list", b"").await.unwrap();
    assert!(!String::from_utf8_lossy(&resources).contains("files+x"), "{resources:?}");
}
