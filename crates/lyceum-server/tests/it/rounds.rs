//! Questions to the client: server requests in the legacy era, further rounds in the modern one.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

use lyceum_http::Purpose;
use lyceum_server::{
    Ask, Call, Elicited, NoArguments, Sampling, Schema, Server, ToolError, prompt, resource, tool,
};
use lyceum_wire::{ClientCapabilities, Revision};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::talk::Talk;

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Greeting {
    word: String,
}

fn all() -> ClientCapabilities {
    ClientCapabilities::SAMPLING
        | ClientCapabilities::ROOTS
        | ClientCapabilities::ELICITATION_FORM
        | ClientCapabilities::ELICITATION_URL
}

fn server() -> Server {
    Server::builder("asker", "1")
        .tool(tool("greet", "Greets.", |cx: Call, args: Greeting| async move {
            let Name { name } = cx.elicit("user_name", "What is your name?").await?;
            Ok(format!("{}, {name}!", args.word))
        }))
        .tool(tool("two", "Asks twice.", |cx: Call, _: NoArguments| async move {
            let Name { name: first } = cx.elicit("first", "First name?").await?;
            let seen = cx.state::<u32>().unwrap_or_default() + 1;
            cx.set_state(&seen)?;
            let Name { name: last } = cx.elicit("last", "Last name?").await?;
            Ok(format!("{first} {last}, {seen}"))
        }))
        .tool(tool("three", "Asks three things.", |cx: Call, _: NoArguments| async move {
            let asks = vec![
                Ask::form::<Name>("name", "Name?")?,
                Ask::sample("poem", Sampling::new("A poem", 10).system_prompt("Be brief")),
                Ask::roots("roots"),
            ];
            let answers = cx.ask_all(asks).await?;
            let name = answers.form::<Name>("name")?.name;
            let poem = answers.sampled("poem")?.text();
            Ok(format!("{name}: {poem} ({})", answers.roots("roots")?[0].uri))
        }))
        .tool(tool("visit", "Sends somewhere.", |cx: Call, _: NoArguments| async move {
            let went = cx.elicit_url("page", "Please log in", "https://example.test").await?;
            Ok(format!("{went:?}"))
        }))
        .tool(tool("raw", "Asks with a schema.", |cx: Call, _: NoArguments| async move {
            let schema = Schema::from_json(r#"{"type":"object","properties":{}}"#)?;
            match cx.elicit_raw("raw", "Well?", schema).await? {
                Elicited::Accept(content) => Ok(content.to_string()),
                Elicited::Decline => Ok("declined".to_owned()),
                Elicited::Cancel => Err(ToolError::new("cancelled")),
            }
        }))
        .prompt(prompt("asking", "Asks.", |cx: Call, _| async move {
            Ok(cx.elicit::<Name>("user_name", "Name?").await?.name)
        }))
        .resource(resource("ask://me", "me", |cx: Call| async move {
            Ok(cx.elicit::<Name>("user_name", "Name?").await?.name)
        }))
        .build()
}

fn accept(name: &str) -> Value {
    json!({ "action": "accept", "content": { "name": name } })
}

/// Params of a retry: those of the first round, the answers, and the state that came with it.
fn retry(first: &Value, round: &Value, responses: Value) -> Value {
    let mut params = first.clone();
    params["requestState"] = round["requestState"].clone();
    params["inputResponses"] = responses;
    params
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}"))
}

fn code(answer: &Value) -> Option<i64> {
    answer["error"]["code"].as_i64()
}

const GREET: fn() -> Value = || json!({ "name": "greet", "arguments": { "word": "Hi" } });

#[tokio::test]
async fn a_legacy_client_is_asked_and_waited_for() {
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25] {
        let talk = Talk::new(&server(), revision).can(all()).answers([accept("Ana")]);
        assert_eq!(text(&talk.ask("tools/call", GREET()).await), "Hi, Ana!");
        insta::allow_duplicates! {
            insta::assert_snapshot!(talk.asked().join("\n"), @r#"elicitation/create {"message":"What is your name?","requestedSchema":{"properties":{"name":{"type":"string"}},"required":["name"],"type":"object"}}"#);
        }
    }
}

#[tokio::test]
async fn a_legacy_client_is_asked_everything_at_once() {
    let talk = Talk::new(&server(), Revision::V2025_11_25).can(all());
    talk.outlet.patient.store(true, Ordering::Relaxed);
    let unanswered = talk.ask("tools/call", json!({ "name": "three" }));
    assert!(poll_once(unanswered).await.is_pending());
    let methods: Vec<_> =
        talk.asked().iter().map(|asked| asked.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(methods, ["elicitation/create", "sampling/createMessage", "roots/list"]);
}

/// Lets a call go on as far as it can without an answer.
async fn poll_once<T>(call: impl Future<Output = T>) -> Poll<T> {
    let mut call = pin!(call);
    poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await
}

#[tokio::test]
async fn a_modern_client_gets_the_question_and_comes_back() {
    let talk = Talk::modern(&server()).can(all());
    let mut round = talk.ask("tools/call", GREET()).await;
    let second = retry(&GREET(), &round, json!({ "user_name": accept("Ana") }));
    round["requestState"] = "sealed".into();
    insta::assert_snapshot!(round.to_string(), @r#"{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"asker","version":"1"}},"inputRequests":{"user_name":{"method":"elicitation/create","params":{"message":"What is your name?","requestedSchema":{"properties":{"name":{"type":"string"}},"required":["name"],"type":"object"}}}},"requestState":"sealed","resultType":"input_required"}"#);
    assert_eq!(text(&talk.ask("tools/call", second).await), "Hi, Ana!");
    assert!(talk.asked().is_empty());
}

#[tokio::test]
async fn earlier_answers_and_state_survive_in_the_sealed_state() {
    let talk = Talk::modern(&server()).can(all());
    let first = json!({ "name": "two" });
    let one = talk.ask("tools/call", first.clone()).await;
    let two = retry(&first, &one, json!({ "first": accept("Ana"), "noise": 1 }));
    let two = talk.ask("tools/call", two).await;
    assert_eq!(two["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["last"]);
    assert_ne!(one["requestState"], two["requestState"]);
    let three = retry(&first, &two, json!({ "first": "spoilt", "last": accept("Lee") }));
    let three = talk.ask("tools/call", three).await;
    assert_eq!(text(&three), "Ana Lee, 2");
}

#[tokio::test]
async fn several_questions_share_a_round() {
    let params = json!({ "name": "three" });
    let poem =
        json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "o" } });
    let roots = json!({ "roots": [{ "uri": "file:///x" }] });
    let modern = Talk::modern(&server()).can(all());
    let round = modern.ask("tools/call", params.clone()).await;
    insta::assert_snapshot!(round["inputRequests"].to_string(), @r#"{"name":{"method":"elicitation/create","params":{"message":"Name?","requestedSchema":{"properties":{"name":{"type":"string"}},"required":["name"],"type":"object"}}},"poem":{"method":"sampling/createMessage","params":{"maxTokens":10,"messages":[{"content":{"text":"A poem","type":"text"},"role":"user"}],"systemPrompt":"Be brief"}},"roots":{"method":"roots/list","params":{}}}"#);
    let partly = retry(&params, &round, json!({ "name": accept("Ana"), "poem": poem }));
    let partly = modern.ask("tools/call", partly).await;
    assert_eq!(partly["inputRequests"].as_object().unwrap().len(), 1);
    let rest = retry(&params, &partly, json!({ "roots": roots }));
    assert_eq!(text(&modern.ask("tools/call", rest).await), "Ana: o (file:///x)");

    let answers = [accept("Ana"), poem, roots];
    let legacy = Talk::new(&server(), Revision::V2025_11_25).can(all()).answers(answers);
    assert_eq!(text(&legacy.ask("tools/call", params).await), "Ana: o (file:///x)");
}

#[tokio::test]
async fn answers_of_the_wrong_shape_or_name_are_asked_for_again() {
    let talk = Talk::modern(&server()).can(all());
    let round = talk.ask("tools/call", GREET()).await;
    for responses in [
        json!({ "wrong_key": accept("Ana") }),
        json!({ "user_name": 12345 }),
        json!({ "user_name": { "action": "perhaps" } }),
        json!({ "user_name": { "action": "accept" } }),
        json!({}),
    ] {
        let again = talk.ask("tools/call", retry(&GREET(), &round, responses.clone())).await;
        assert_eq!(again["resultType"], "input_required", "{responses}");
    }
    for responses in [json!(null), json!([]), json!("x")] {
        let refused = talk.ask("tools/call", retry(&GREET(), &round, responses.clone())).await;
        assert_eq!(code(&refused), Some(-32602), "{responses}");
    }
}

#[tokio::test]
async fn state_is_good_for_its_caller_method_and_arguments_only() {
    let talk = Talk::modern(&server()).can(all()).named("ana");
    let round = talk.ask("tools/call", GREET()).await;
    let params = retry(&GREET(), &round, json!({ "user_name": accept("Ana") }));
    let check = async |talk: &Talk, method: &str, params: Value, expected: Option<i64>| {
        assert_eq!(code(&talk.ask(method, params).await), expected);
    };
    check(&talk, "tools/call", params.clone(), None).await;
    check(&talk.clone().named("bob"), "tools/call", params.clone(), Some(-32602)).await;
    check(
        &Talk { endpoint: "/other".into(), ..talk.clone() },
        "tools/call",
        params.clone(),
        Some(-32602),
    )
    .await;
    let mut other = params.clone();
    other["arguments"]["word"] = "Bye".into();
    check(&talk, "tools/call", other, Some(-32602)).await;
    let mut other = params.clone();
    other["name"] = "two".into();
    check(&talk, "tools/call", other, Some(-32602)).await;
    let mut other = params.clone();
    other["requestState"] = format!("{}-TAMPERED", params["requestState"].as_str().unwrap()).into();
    check(&talk, "tools/call", other, Some(-32602)).await;
    let mut other = params.clone();
    other["requestState"] = 7.into();
    check(&talk, "tools/call", other, Some(-32602)).await;
    let mut respelled = params;
    respelled["arguments"] = serde_json::from_str(r#"{ "word" : "\u0048i" }"#).unwrap();
    check(&talk, "tools/call", respelled, None).await;
}

#[tokio::test]
async fn state_has_a_time_limit() {
    let talk = Talk::modern(&server()).can(all());
    let binding: [&[u8]; 4] = [b"/mcp", b"", b"tools/call", b"greet"];
    // The SHA-256 of {"word":"Hi"}.
    let arguments = "19e1c9bcce9de8f601eb6ef45d9701f4f96e23b94465490e1468abf5d841b83e";
    let check = async |expires: u64, expected: Option<i64>| {
        let payload = json!({ "x": expires, "d": arguments }).to_string();
        let state = talk.sealer.seal(Purpose::RequestState, &binding, payload.as_bytes());
        let round = json!({ "requestState": state });
        let params = retry(&GREET(), &round, json!({ "user_name": accept("Ana") }));
        assert_eq!(code(&talk.ask("tools/call", params).await), expected, "{expires}");
    };
    check(u64::from(u32::MAX), None).await;
    check(1_700_000_000, Some(-32602)).await;
}

#[tokio::test]
async fn prompts_and_resources_ask_in_the_same_way() {
    for (method, params) in [
        ("prompts/get", json!({ "name": "asking" })),
        ("resources/read", json!({ "uri": "ask://me" })),
    ] {
        let modern = Talk::modern(&server()).can(all());
        let round = modern.ask(method, params.clone()).await;
        assert_eq!(round["resultType"], "input_required");
        assert!(round.get("ttlMs").is_none());
        let answer = retry(&params, &round, json!({ "user_name": accept("Ana") }));
        assert!(modern.raw(method, answer).await.contains("\"text\":\"Ana\""));
        let legacy = Talk::new(&server(), Revision::V2025_11_25).can(all());
        assert!(legacy.answers([accept("Ana")]).raw(method, params).await.contains("Ana"));
    }
}

#[tokio::test]
async fn a_client_is_asked_only_for_what_it_can_do() {
    let modern = Talk::modern(&server()).can(ClientCapabilities::SAMPLING);
    let refused = modern.ask("tools/call", GREET()).await;
    assert_eq!(code(&refused), Some(-32021));
    let required = &refused["error"]["data"]["requiredCapabilities"];
    assert_eq!(required, &json!({ "elicitation": {} }));
    let refused = modern.ask("tools/call", json!({ "name": "visit" })).await;
    let required = &refused["error"]["data"]["requiredCapabilities"];
    assert_eq!(required, &json!({ "elicitation": { "url": {} } }));

    let legacy = Talk::new(&server(), Revision::V2025_11_25);
    let told = legacy.ask("tools/call", GREET()).await;
    assert_eq!(told["isError"], true);
    assert_eq!(text(&told), "This needs a client that offers elicitation.");
    let refused = legacy.ask("prompts/get", json!({ "name": "asking" })).await;
    assert_eq!(code(&refused), Some(-32602));
    assert!(legacy.asked().is_empty());
}

#[tokio::test]
async fn declining_is_an_answer() {
    for (answer, raw, typed) in [
        (json!({ "action": "decline" }), "declined", "The user declined to answer user_name."),
        (json!({ "action": "cancel" }), "cancelled", "The user dismissed user_name."),
    ] {
        let legacy = Talk::new(&server(), Revision::V2025_11_25).can(all());
        let legacy = legacy.answers([answer.clone(), answer]);
        assert_eq!(text(&legacy.ask("tools/call", json!({ "name": "raw" })).await), raw);
        let result = legacy.ask("tools/call", GREET()).await;
        assert_eq!((text(&result), &result["isError"]), (typed, &json!(true)));
    }
}

#[tokio::test]
async fn a_web_page_is_named_by_an_id_in_2025_11_25_only() {
    let legacy = Talk::new(&server(), Revision::V2025_11_25).can(all());
    let legacy = legacy.answers([json!({ "action": "accept" })]);
    let went = legacy.ask("tools/call", json!({ "name": "visit" })).await;
    assert_eq!(text(&went), "Accept(Null)");
    assert!(legacy.asked()[0].contains("\"elicitationId\":\""));
    let modern = Talk::modern(&server()).can(all());
    let round = modern.ask("tools/call", json!({ "name": "visit" })).await;
    insta::assert_snapshot!(round["inputRequests"].to_string(), @r#"{"page":{"method":"elicitation/create","params":{"message":"Please log in","mode":"url","url":"https://example.test"}}}"#);
}

#[tokio::test]
async fn a_client_that_refuses_to_answer_fails_the_tool() {
    let legacy = Talk::new(&server(), Revision::V2025_11_25).can(all());
    let result = legacy.ask("tools/call", GREET()).await;
    assert_eq!(text(&result), "The client did not answer: the script has no answer");
    let invalid = legacy.answers([json!({ "action": "perhaps" })]);
    let result = invalid.ask("tools/call", GREET()).await;
    assert_eq!(text(&result), "The client's answer to elicitation/create is not valid.");
}
