//! What is written: exact bytes, one line, one allocation, and readable again.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::{Era, ErrorCode, Message, RevisionSet};

#[test]
fn messages_are_compact() {
    let id = Id::number(7);
    assert_eq!(result(&id, b"{}"), r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
    assert_eq!(
        request(&Id::string("a\"b"), "roots/list", None),
        r#"{"jsonrpc":"2.0","id":"a\"b","method":"roots/list"}"#
    );
    assert_eq!(
        notification("notifications/x", Some(b"{\"a\":1}")),
        r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"a":1}}"#
    );
    let bad = RpcError::new(ErrorCode::INVALID_REQUEST, "no \"id\"").with_data("[1]");
    assert_eq!(
        error(Some(&id), &bad),
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"no \"id\"","data":[1]}}"#
    );
    assert_eq!(
        error(None, &RpcError::internal("x")),
        r#"{"jsonrpc":"2.0","error":{"code":-32603,"message":"x"}}"#
    );
}

#[test]
fn codes_of_any_size_are_written() {
    for code in [0, 7, -1, 10, 99, 100, -32700, i32::MAX, i32::MIN] {
        let body = error(None, &RpcError::new(ErrorCode(code), ""));
        let value: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(value["error"]["code"], code);
        assert_eq!(code_length(code), code.to_string().len());
    }
}

#[test]
fn errors_carry_the_data_their_readers_expect() {
    let data = |error: RpcError| String::from_utf8(error.data.unwrap().to_vec()).unwrap();
    let legacy = RpcError::resource_not_found("a\"b", Era::Legacy);
    assert_eq!(legacy.code, ErrorCode::RESOURCE_NOT_FOUND);
    assert_eq!(data(legacy), r#"{"uri":"a\"b"}"#);
    let modern = RpcError::resource_not_found("u", Era::Modern);
    assert_eq!(modern.code, ErrorCode::INVALID_PARAMS);
    assert_eq!(
        data(RpcError::missing_capability(br#"{"sampling":{}}"#)),
        r#"{"requiredCapabilities":{"sampling":{}}}"#
    );
    assert_eq!(
        data(RpcError::unsupported_version("x\n", RevisionSet::MODERN)),
        r#"{"supported":["2026-07-28"],"requested":"x\n"}"#
    );
}

#[test]
fn line_breaks_between_tokens_become_spaces() {
    let pretty = b"{\r\n  \"a\": \"b\\n\"\n}";
    let expected = r#"{"jsonrpc":"2.0","id":1,"result":{    "a": "b\n" }}"#;
    assert_eq!(result(&Id::number(1), pretty), expected);
}

#[test]
fn line_separators_are_escaped() {
    let mut out = Vec::new();
    write_str(&mut out, "a\u{2028}b\u{2029}c\u{2027}\u{0}\u{1f}\u{7f}\u{8}\u{c}/");
    let expected = "\"a\\u2028b\\u2029c\u{2027}\\u0000\\u001f\u{7f}\\b\\f/\"";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

fn one_line(body: &Bytes) -> bool {
    !body.iter().any(|byte| matches!(byte, b'\n' | b'\r'))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn strings_are_read_back_and_measured_exactly(text in any::<String>()) {
        let mut out = Vec::new();
        write_str(&mut out, &text);
        prop_assert_eq!(out.len(), str_length(&text));
        prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
    }

    #[test]
    fn whatever_is_written_is_one_line_that_parses(
        id in prop_oneof![any::<u64>().prop_map(Id::number), any::<String>().prop_map(|id| Id::string(&id))],
        text in any::<String>(),
        code in any::<i32>(),
        pretty in any::<bool>(),
    ) {
        let value = serde_json::json!({"a": [text, {"b": null}]});
        let raw = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) };
        let raw = raw.unwrap();
        let rpc_error = RpcError::new(ErrorCode(code), text.clone()).with_data(raw.clone());
        let written = [
            result(&id, &raw),
            error(Some(&id), &rpc_error),
            request(&id, &text, Some(&raw)),
            notification(&text, Some(&raw)),
        ];
        for body in &written {
            prop_assert!(one_line(body), "{:?}", body);
            prop_assert!(Message::parse(body).is_ok(), "{:?}", body);
        }
        let Ok(Message::Response(response)) = Message::parse(&written[1]) else { panic!("an error") };
        let read = RpcError::parse(&response.outcome.unwrap_err()).unwrap();
        prop_assert_eq!((read.code, &read.message), (rpc_error.code, &rpc_error.message));
        prop_assert_eq!(response.id, id);
    }

    #[test]
    fn room_is_reserved_exactly(text in any::<String>(), code in any::<i32>()) {
        let id = Id::string(&text);
        let params = Some(b"{}".as_slice());
        let rpc_error = RpcError::new(ErrorCode(code), text.clone()).with_data("{}");
        // A vector whose length is its capacity becomes Bytes without a second allocation.
        for body in [result(&id, b"{}"), request(&id, &text, params), notification(&text, params), error(Some(&id), &rpc_error), error(None, &rpc_error)] {
            let length = body.len();
            prop_assert_eq!(Vec::from(body).capacity(), length);
        }
    }
}
