//! The answers: a handshake in either era, a list with one tool, and the echo.

use std::borrow::Cow;

use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

const INFO: &str = r#"{"name":"upstream","version":"1"}"#;
const CAPABILITIES: &str = r#"{"tools":{}}"#;
const LATEST_LEGACY: &str = "2025-11-25";
const TOOLS: &str = r#"[{"name":"echo","description":"Says what it is told.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}]"#;
/// What every modern request says about itself.
const MODERN: &str = "io.modelcontextprotocol/protocolVersion";

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(borrow)]
    arguments: Option<Arguments<'a>>,
    #[serde(borrow)]
    protocol_version: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    text: &'a RawValue,
}

/// Whether these bytes call a tool. Other members would have to spell it the same way.
pub(crate) fn is_call(message: &[u8]) -> bool {
    memmem::find(message, br#""tools/call""#).is_some()
}

/// The response to a request; `None` to what needs none.
pub(crate) fn answer(message: &[u8], legacy: bool) -> Option<String> {
    let Message { id, method, params } = serde_json::from_slice(message).ok()?;
    let (id, method) = (id?.get(), method?);
    let params = params.map_or("{}", RawValue::get);
    let complete = if params.contains(MODERN) { r#""resultType":"complete","# } else { "" };
    let cached = if complete.is_empty() { "" } else { r#","ttlMs":0,"cacheScope":"private""# };
    let result = match method.as_ref() {
        "server/discover" if !legacy => format!(
            r#"{{{complete}"supportedVersions":["2026-07-28"],"capabilities":{CAPABILITIES},"serverInfo":{INFO}{cached}}}"#
        ),
        "initialize" => format!(
            r#"{{"protocolVersion":"{}","capabilities":{CAPABILITIES},"serverInfo":{INFO}}}"#,
            version(params)
        ),
        "tools/list" => format!(r#"{{{complete}"tools":{TOOLS}{cached}}}"#),
        "tools/call" => match text(params) {
            Some(text) => format!(
                r#"{{{complete}"content":[{{"type":"text","text":{text}}}],"isError":false}}"#
            ),
            None => return Some(refusal(id, -32602, "there is no text to say")),
        },
        "ping" => "{}".to_owned(),
        _ => return Some(refusal(id, -32601, "there is no such method")),
    };
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
}

fn refusal(id: &str, code: i32, message: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
}

/// The revision a client asks for, if it is one of those with a handshake.
fn version(params: &str) -> Cow<'_, str> {
    let params: Option<Params<'_>> = serde_json::from_str(params).ok();
    let wanted = params.and_then(|params| params.protocol_version);
    wanted.filter(|wanted| wanted.starts_with("2025-")).unwrap_or(LATEST_LEGACY.into())
}

/// The raw text to say.
fn text(params: &str) -> Option<&str> {
    let params: Params<'_> = serde_json::from_str(params).ok()?;
    Some(params.arguments?.text.get())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(method: &str, params: Value, legacy: bool, expected: Value) {
        let request = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let said = answer(request.to_string().as_bytes(), legacy).unwrap();
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said["id"], 7);
        for (member, value) in expected.as_object().unwrap() {
            let found = said["result"].get(member).or(said["error"].get(member));
            assert_eq!(found, Some(value), "{said}");
        }
    }

    #[test]
    fn both_eras_get_the_text_back() {
        let modern = json!({ MODERN: "2026-07-28" });
        let arguments = json!({ "text": "a \"b\"" });
        let content = json!([{ "type": "text", "text": "a \"b\"" }]);
        let call = json!({ "name": "echo", "arguments": arguments });
        check("tools/call", call, true, json!({ "content": content }));
        let call = json!({ "name": "echo", "arguments": arguments, "_meta": modern });
        let complete = json!({ "content": content, "resultType": "complete" });
        check("tools/call", call, false, complete);
        check("tools/call", json!({}), false, json!({ "code": -32602 }));
    }

    #[test]
    fn a_legacy_server_does_not_know_discover() {
        check("server/discover", json!({}), true, json!({ "code": -32601 }));
        check("server/discover", json!({}), false, json!({ "supportedVersions": ["2026-07-28"] }));
        let old = json!({ "protocolVersion": "2025-06-18" });
        check("initialize", old.clone(), true, old);
    }

    #[test]
    fn notifications_and_what_is_no_message_get_no_answer() {
        assert_eq!(answer(br#"{"method":"notifications/initialized"}"#, false), None);
        assert_eq!(answer(b"garbage", false), None);
    }
}
