//! `Message::parse` against serde_json: the same bodies are JSON, and every part it finds is the part
//! serde_json finds.

use bytes::Bytes;
use lyceum_wire::{ErrorCode, MAX_BATCH, MAX_DEPTH, Member, Message, Params, ParseError, encode};
use serde_json::Value;

use crate::json::{Verdict, depth, judge, repeats_a_name};
use crate::spell;

/// Parses `data` as a body, and the body it spells.
pub fn check(data: &[u8]) {
    parse(data);
    parse(&spell::body(data));
}

fn parse(data: &[u8]) {
    let body = Bytes::copy_from_slice(data);
    let parsed = Message::parse(&body);
    match judge(data) {
        Verdict::Malformed => {
            let error = parsed.expect_err("a body that is not JSON was accepted");
            assert_eq!(error.code, ErrorCode::PARSE_ERROR, "{error:?}");
        }
        Verdict::Json(value) if depth(data) <= MAX_DEPTH => agrees(&parsed, &value, data),
        Verdict::Json(_) => assert!(parsed.is_err(), "too deep, but accepted"),
        Verdict::Unsure => {}
    }
}

fn agrees(parsed: &Result<Message, ParseError>, value: &Value, raw: &[u8]) {
    match parsed {
        Ok(Message::Batch(batch)) => {
            let list = value.as_array().expect("a batch is an array");
            assert!(!list.is_empty() && list.len() <= MAX_BATCH);
            assert_eq!(batch.len(), list.len());
            for (parsed, value) in batch.iter().zip(list) {
                single(parsed, value);
            }
        }
        parsed => {
            assert!(parsed.is_err() || !repeats_a_name(raw), "a repeated name was accepted");
            single(parsed, value);
        }
    }
}

fn single(parsed: &Result<Message, ParseError>, value: &Value) {
    let message = match parsed {
        Ok(message) => message,
        Err(error) => {
            assert_ne!(error.code, ErrorCode::PARSE_ERROR, "JSON was called malformed");
            if let Some(id) = &error.id {
                assert_eq!(&json(id.as_bytes()), &value["id"]);
            }
            return;
        }
    };
    assert_eq!(value["jsonrpc"], "2.0");
    if let Some(params) = message.params() {
        parts(params, &value["params"]);
    }
    match message {
        Message::Request(request) => {
            assert_eq!(&json(request.id.as_bytes()), &value["id"]);
            assert_eq!(request.method.as_str(), value["method"]);
            let params = request.params.raw();
            reads_back(&encode::request(&request.id, &request.method, params.as_deref()), value);
            let answer = json(&encode::result(&request.id, b"{}"));
            assert_eq!(answer["id"], value["id"], "the id comes back as it was");
        }
        Message::Notification(notification) => {
            assert_eq!(value.get("id"), None);
            assert_eq!(notification.method.as_str(), value["method"]);
            let params = notification.params.raw();
            reads_back(&encode::notification(&notification.method, params.as_deref()), value);
        }
        Message::Response(response) => {
            assert_ne!(value.get("result").is_some(), value.get("error").is_some());
            assert_eq!(&json(response.id.as_bytes()), &value["id"]);
            let (member, raw) = match &response.outcome {
                Ok(result) => ("result", result),
                Err(error) => ("error", error),
            };
            assert_eq!(json(raw), value[member]);
        }
        Message::Batch(_) => panic!("a batch inside of a batch"),
    }
}

/// What we write about a message is one line that says what the message said.
fn reads_back(written: &[u8], value: &Value) {
    let again = json(written);
    for member in ["jsonrpc", "id", "method", "params"] {
        assert_eq!(again.get(member), value.get(member));
    }
}

fn parts(params: &Params, value: &Value) {
    let reserved = |key: &str| value["_meta"].get(format!("io.modelcontextprotocol/{key}"));
    let rows = [
        (Member::Name, value.get("name")),
        (Member::Uri, value.get("uri")),
        (Member::TaskId, value.get("taskId")),
        (Member::Arguments, value.get("arguments")),
        (Member::Meta, value.get("_meta")),
        (Member::Cursor, value.get("cursor")),
        (Member::RequestState, value.get("requestState")),
        (Member::InputResponses, value.get("inputResponses")),
        (Member::ProtocolVersion, value.get("protocolVersion")),
        (Member::Capabilities, value.get("capabilities")),
        (Member::ClientInfo, value.get("clientInfo")),
        (Member::Level, value.get("level")),
        (Member::RequestId, value.get("requestId")),
        (Member::Task, value.get("task")),
        (Member::Notifications, value.get("notifications")),
        (Member::MetaProtocolVersion, reserved("protocolVersion")),
        (Member::MetaClientCapabilities, reserved("clientCapabilities")),
        (Member::MetaClientInfo, reserved("clientInfo")),
        (Member::MetaLogLevel, reserved("logLevel")),
        (Member::MetaProgressToken, value["_meta"].get("progressToken")),
        (Member::MetaTraceparent, value["_meta"].get("traceparent")),
    ];
    for (member, expected) in rows {
        assert_eq!(params.get(member).map(json).as_ref(), expected, "{member:?}");
        let text = expected.and_then(Value::as_str);
        assert_eq!(params.text(member).as_deref(), text, "{member:?}");
    }
    assert_eq!(params.is_present(), !value.is_null());
}

fn json(raw: &[u8]) -> Value {
    serde_json::from_slice(raw).expect("a part of JSON, or what we write, is JSON")
}
