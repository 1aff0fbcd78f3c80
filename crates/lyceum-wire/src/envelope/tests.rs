//! What makes a message, and what is refused with which code.

use bytes::Bytes;
use proptest::prelude::*;

use crate::{
    ErrorCode, MAX_BATCH, MAX_DEPTH, MAX_ID_BYTES, Member, Message, Params, ParseError,
    RevisionSet, RpcError, encode,
};

fn parse(body: &str) -> Result<Message, ParseError> {
    Message::parse(&Bytes::copy_from_slice(body.as_bytes()))
}

/// One line that says what a body was taken for.
fn judged(parsed: &Result<Message, ParseError>) -> String {
    match parsed {
        Ok(Message::Request(request)) => format!("request {} {}", request.id, request.method),
        Ok(Message::Notification(notification)) => format!("notification {}", notification.method),
        Ok(Message::Response(response)) => match &response.outcome {
            Ok(result) => format!("result {} {}", response.id, String::from_utf8_lossy(result)),
            Err(error) => format!("error {} {}", response.id, String::from_utf8_lossy(error)),
        },
        Ok(Message::Batch(messages)) => messages.iter().map(judged).collect::<Vec<_>>().join(", "),
        Err(error) => match &error.id {
            Some(id) => format!("{} id {id}", error.code),
            None => error.code.to_string(),
        },
    }
}

#[track_caller]
fn check(body: &str, expected: &str) {
    assert_eq!(judged(&parse(body)), expected, "{body}");
}

/// A request whose id is this token.
#[track_caller]
fn check_id(token: &str, accepted: bool) {
    let body = format!(r#"{{"jsonrpc":"2.0","id":{token},"method":"m"}}"#);
    let expected = if accepted { format!("request {token} m") } else { "-32600".to_owned() };
    check(&body, &expected);
    let alone = crate::Id::from_token(Bytes::copy_from_slice(token.as_bytes()));
    assert_eq!(alone.is_some(), accepted, "{token}");
}

#[test]
fn requests_notifications_and_responses_are_told_apart() {
    check(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "request 1 ping");
    check(r#" {"method":"ping","params":{},"id":"a","jsonrpc":"2.0"} "#, r#"request "a" ping"#);
    check(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, "notification notifications/x");
    check(r#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#, r#"result 1 {"a":1}"#);
    check(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1}}"#, r#"error 1 {"code":-1}"#);
}

#[test]
fn ids_come_back_verbatim() {
    for token in ["1", "0", "-0", "-7", "1.0", "-3.000", "123456789012345678901234567890"] {
        check_id(token, true);
    }
    for token in [r#""""#, r#""a""#, r#""\u0061\n\"""#, r#""é😀""#, r#""null""#] {
        check_id(token, true);
    }
}

#[test]
fn ids_that_are_no_ids_are_malformed_requests_not_notifications() {
    for token in ["null", "true", "false", "1.5", "1e0", "1E2", "1.0e0", "1.0e1", "{}", "[]", "[1]"]
    {
        check_id(token, false);
    }
}

#[test]
fn ids_and_progress_tokens_are_bounded_and_keep_no_large_body_alive() {
    let of = |length: usize| "x".repeat(length - 2);
    let request = |id: &str, token: &str, padding: &str| {
        parse(&format!(
            r#"{{"jsonrpc":"2.0","id":"{id}","method":"m","params":{{"_meta":{{"progressToken":"{token}"}},"p":"{padding}"}}}}"#
        ))
    };
    let longest = of(MAX_ID_BYTES);
    assert!(request(&longest, &longest, "").is_ok());
    let long = of(MAX_ID_BYTES + 1);
    for (id, token, named) in
        [(&long, &longest, "id is longer"), (&longest, &long, "progressToken is")]
    {
        let error = request(id, token, "").unwrap_err();
        assert!(error.message.contains(named) && error.message.contains("4096"), "{error}");
        assert_eq!(error.id.is_some(), named.starts_with('p'), "no error repeats a long id");
    }
    let body = Bytes::from(format!(
        r#"{{"jsonrpc":"2.0","id":"a","method":"m","params":{{"_meta":{{"progressToken":1}},"p":"{}"}}}}"#,
        "x".repeat(100_000)
    ));
    let Ok(Message::Request(request)) = Message::parse(&body) else { panic!() };
    let token = request.params.progress_token();
    drop(request.params);
    assert!(body.is_unique(), "id, method and token are copies");
    assert_eq!(
        (request.id.as_str(), &*request.method, token.as_deref()),
        ("\"a\"", "m", Some(&b"1"[..]))
    );
}

#[test]
fn errors_repeat_only_the_beginning_of_what_was_sent() {
    let long = "é".repeat(1_000_000);
    for error in
        [RpcError::method_not_found(&long), RpcError::unsupported_version(&long, RevisionSet::ALL)]
    {
        assert!(error.message.ends_with("… (2000000 bytes)"), "{}", error.message);
        assert!(crate::encode::error(None, &error).len() < 2_000);
    }
    assert_eq!(crate::excerpt("short"), "short");
}

#[test]
fn an_id_is_exactly_one_token() {
    for token in ["", " 1", "1 ", "1,2", "\"a", "a", "01"] {
        assert!(crate::Id::from_token(Bytes::from_static(token.as_bytes())).is_none(), "{token:?}");
    }
}

#[test]
fn version_must_be_exactly_two() {
    for version in [r#""1.0""#, "2.0", "2", r#""2.0 ""#, r#""2""#, "null", r#"["2.0"]"#] {
        let body = format!(r#"{{"jsonrpc":{version},"id":1,"method":"m"}}"#);
        check(&body, "-32600 id 1");
    }
    check(r#"{"id":1,"method":"m"}"#, "-32600 id 1");
}

#[test]
fn method_must_be_a_string() {
    for method in ["1", "null", "{}", r#"["m"]"#] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":{method}}}"#);
        check(&body, "-32600 id 1");
    }
    check(r#"{"jsonrpc":"2.0","id":1}"#, "-32600 id 1");
}

#[test]
fn params_must_be_an_object() {
    for params in ["[]", "null", "1", r#""x""#, "true"] {
        check(
            &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{params}}}"#),
            "-32600 id 1",
        );
        check(&format!(r#"{{"jsonrpc":"2.0","method":"m","params":{params}}}"#), "-32600");
    }
}

#[test]
fn a_message_is_one_thing_only() {
    check(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#, "-32600 id 1");
    check(r#"{"jsonrpc":"2.0","id":1,"method":"m","result":{}}"#, "-32600 id 1");
    check(r#"{"jsonrpc":"2.0","id":1,"method":"m","error":{}}"#, "-32600 id 1");
}

#[test]
fn responses_need_an_id_and_a_proper_error() {
    check(r#"{"jsonrpc":"2.0","result":{}}"#, "-32600");
    check(r#"{"jsonrpc":"2.0","error":{"code":1,"message":""}}"#, "-32600");
    check(r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}"#, "-32600");
    check(r#"{"jsonrpc":"2.0","id":1,"error":"no"}"#, "-32600 id 1");
}

#[test]
fn duplicate_envelope_keys_are_refused() {
    check(r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#, "-32600 id 1");
    check(r#"{"jsonrpc":"2.0","id":1,"method":"a","\u006dethod":"b"}"#, "-32600 id 1");
    check(r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{},"params":{}}"#, "-32600 id 1");
    // Which id would be the right one to answer to?
    check(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}"#, "-32600");
    check(r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"a"}"#, "-32600");
}

#[test]
fn duplicate_names_anywhere_in_params_are_refused() {
    let nested = [
        r#"{"name":"a","name":"b"}"#,
        r#"{"name":"a","arguments":{"x":1,"x":2}}"#,
        r#"{"_meta":{"a":1,"a":1}}"#,
        r#"{"arguments":[[{"deep":{"x":1,"\u0078":2}}]]}"#,
    ];
    for params in nested {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{params}}}"#);
        check(&body, "-32600 id 1");
        let alone = Params::from_raw(Bytes::copy_from_slice(params.as_bytes()));
        assert_eq!(alone.unwrap_err().code, ErrorCode::INVALID_REQUEST);
    }
}

#[test]
fn case_varied_envelope_keys_are_refused() {
    let varied = [
        "Method",
        "METHOD",
        "paramſ",
        "Params",
        "ID",
        "Id",
        "iD",
        "İd",
        "ıd",
        "JSONRPC",
        "jsonRpc",
        "Result",
        "reſult",
        "ERROR",
        "\\u004dethod",
    ];
    for name in varied {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","{name}":{{}}}}"#);
        check(&body, "-32600 id 1");
    }
}

#[test]
fn unknown_members_are_ignored() {
    for name in ["x", "methods", "_meta", "méthod", "identity", "", "parameters", "\\n"] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","{name}":{{"a":[1]}}}}"#);
        check(&body, "request 1 m");
    }
    check(r#"{"jsonrpc":"2.0","\u0069d":1,"method":"m"}"#, "request 1 m");
}

#[test]
fn what_is_not_json_is_a_parse_error_without_id() {
    let bodies = [
        "",
        " ",
        "{",
        "nope",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"} x",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\\ud800\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":01,\"method\":\"m\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":NaN,\"method\":\"m\"}",
        "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}",
        "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"},]",
        "[1",
    ];
    for body in bodies {
        check(body, "-32700");
    }
    let error = Message::parse(&Bytes::from_static(b"{\"jsonrpc\":\"\xff\"}")).unwrap_err();
    assert_eq!(error.code, ErrorCode::PARSE_ERROR);
}

#[test]
fn bad_json_is_a_parse_error_even_after_a_duplicate_name() {
    check(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a""#, "-32700");
    check(r#"{"Method":"a","x":[}"#, "-32700");
}

#[test]
fn json_that_is_no_message_is_an_invalid_request() {
    for body in ["null", "1", "\"x\"", "true", "{}", "{\"jsonrpc\":\"2.0\"}"] {
        check(body, "-32600");
    }
}

#[test]
fn depth_64_passes_and_65_is_a_parse_error() {
    // The message and its params are two levels.
    let body = |depth: usize| {
        let (open, close) = ("[".repeat(depth - 2), "]".repeat(depth - 2));
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"arguments":{open}{close}}}}}"#)
    };
    check(&body(MAX_DEPTH), "request 1 m");
    check(&body(MAX_DEPTH + 1), "-32700");
    check(&format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000)), "-32700");
}

#[test]
fn batches_judge_each_message_alone() {
    let good = r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#;
    check(&format!("[{good}]"), "request 1 m");
    check(
        &format!(r#"[{good},1,[],{{"jsonrpc":"2.0","id":2,"a":1,"a":2,"method":"m"}},{good}]"#),
        "request 1 m, -32600, -32600, -32600 id 2, request 1 m",
    );
    check(
        r#"[{"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","id":3,"result":1}]"#,
        "notification n, result 3 1",
    );
}

#[test]
fn empty_and_oversized_batches_are_refused() {
    check("[]", "-32600");
    check("[ ]", "-32600");
    let batch =
        |size: usize| format!("[{}]", vec![r#"{"jsonrpc":"2.0","method":"n"}"#; size].join(","));
    assert!(
        matches!(parse(&batch(MAX_BATCH)), Ok(Message::Batch(messages)) if messages.len() == MAX_BATCH)
    );
    check(&batch(MAX_BATCH + 1), "-32600");
    check(&batch(1000), "-32600");
}

#[test]
fn members_of_params_are_found() {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"n\u0061me":"e\u0063ho","arguments" : [1, 2] ,
        "uri":7,"unknown":{"name":"x","_meta":{}},"_meta":{"progressToken":"t","traceparent":"00",
        "io.modelcontextprotocol/protocolVersion":"v","io.modelcontextprotocol/clientInfo":{"name":"c"},
        "io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"info","level":1}}}"#;
    let Ok(Message::Request(request)) = parse(body) else { panic!("{body}") };
    let params = &request.params;
    let raw = |member| params.get(member).map(|raw| std::str::from_utf8(raw).unwrap());
    assert_eq!(params.text(Member::Name).as_deref(), Some("echo"));
    assert_eq!(raw(Member::Name), Some(r#""e\u0063ho""#));
    assert_eq!(raw(Member::Arguments), Some("[1, 2]"));
    assert_eq!(raw(Member::Uri), Some("7"));
    assert_eq!(params.text(Member::Uri), None);
    assert_eq!(raw(Member::MetaProgressToken), Some("\"t\""));
    assert_eq!(raw(Member::MetaTraceparent), Some("\"00\""));
    assert_eq!(raw(Member::MetaProtocolVersion), Some("\"v\""));
    assert_eq!(raw(Member::MetaClientInfo), Some(r#"{"name":"c"}"#));
    assert_eq!(raw(Member::MetaClientCapabilities), Some("{}"));
    assert_eq!(params.text(Member::MetaLogLevel).as_deref(), Some("info"));
    assert!(params.slice(Member::Meta).unwrap().starts_with(b"{\"progressToken\""));
    for absent in [Member::Level, Member::Task, Member::Cursor, Member::TaskId, Member::RequestId] {
        assert_eq!(params.get(absent), None);
    }
    assert!(params.is_present() && params.raw().unwrap().starts_with(b"{\"n\\u0061me\""));
}

#[test]
fn absent_params_are_absent() {
    let Ok(Message::Request(request)) = parse(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#) else {
        panic!("a request")
    };
    assert!(!request.params.is_present());
    assert_eq!(request.params.raw(), None);
    assert_eq!(request.params.get(Member::Name), None);
}

#[test]
fn params_of_a_scalar_meta_have_no_meta_members() {
    let params = Params::from_raw(Bytes::from_static(br#" {"_meta":1} "#)).unwrap();
    assert_eq!(params.get(Member::Meta), Some(b"1".as_slice()));
    assert_eq!(params.raw().unwrap(), r#"{"_meta":1}"#);
    for raw in ["", "[]", "null", "{", "{} {}"] {
        assert!(Params::from_raw(Bytes::from_static(raw.as_bytes())).is_err(), "{raw}");
    }
}

#[test]
fn plain_strings_are_slices_of_the_body() {
    let body = Bytes::from_static(br#"{"jsonrpc":"2.0","id":"a","method":"tools/list"}"#);
    let Ok(Message::Request(request)) = Message::parse(&body) else { panic!("a request") };
    let inside = body.as_ptr_range();
    assert!(inside.contains(&request.method.as_ptr()));
    assert!(inside.contains(&request.id.as_bytes().as_ptr()));
    let escaped = parse(r#"{"jsonrpc":"2.0","id":1,"method":"tools\/call"}"#).unwrap();
    assert_eq!(escaped.method().unwrap(), &"tools/call");
}

#[test]
fn errors_are_read_even_without_an_id() {
    let error = RpcError::new(ErrorCode(-32000), "no \"session\"").with_data("{\"a\":1}");
    let body = encode::error(None, &error);
    assert_eq!(RpcError::from_body(&body).as_ref(), Some(&error));
    let null = r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}"#;
    assert_eq!(RpcError::from_body(null.as_bytes()), Some(RpcError::new(ErrorCode(1), "x")));
    for bad in [
        "",
        "{}",
        "[]",
        r#"{"error":{"code":"1","message":"x"}}"#,
        r#"{"error":{"code":1}}"#,
        r#"{"error":1}"#,
    ] {
        assert_eq!(RpcError::from_body(bad.as_bytes()), None, "{bad}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_id_goes_out_as_it_came_in(
        token in prop_oneof![
            any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
            "-?(0|[1-9][0-9]{0,40})(\\.0{1,5})?",
            "\"(\\\\u00[2-7][0-9a-f]|[ !#-\\[\\]-~])*\"",
        ],
    ) {
        let body = Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{token},"method":"m"}}"#));
        let parsed = Message::parse(&body).unwrap();
        let id = parsed.request_id().unwrap();
        prop_assert_eq!(id.as_str(), &token);
        let answer = encode::result(id, b"{}");
        let Ok(Message::Response(answer)) = Message::parse(&answer) else { panic!("{answer:?}") };
        prop_assert_eq!(&answer.id, id);
    }

    #[test]
    fn parse_survives_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Message::parse(&Bytes::from(bytes));
    }

    #[test]
    fn parse_survives_mutations_of_a_message(
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut body = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a\u00e9"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#.to_vec();
        for (index, byte) in mutations {
            let at = index.index(body.len());
            body[at] = byte;
        }
        let is_json = serde_json::from_slice::<serde_json::Value>(&body).is_ok();
        match Message::parse(&Bytes::from(body)) {
            Err(error) if error.code == ErrorCode::PARSE_ERROR => prop_assert!(!is_json),
            _ => prop_assert!(is_json),
        }
    }
}
