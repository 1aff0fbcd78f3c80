//! What clients declare, and what is made of it.

use super::ClientCapabilities;

#[track_caller]
fn check(raw: &str, expected: Option<ClientCapabilities>) {
    assert_eq!(ClientCapabilities::parse(raw.as_bytes()), expected, "{raw}");
}

const NONE: ClientCapabilities = ClientCapabilities(0);

#[test]
fn objects_are_read_and_nothing_else() {
    for raw in ["{}", " { } ", r#"{"experimental":{"x":{}},"unknown":1}"#] {
        check(raw, Some(NONE));
    }
    for raw in ["", "null", "[]", "1", "\"{}\"", "{", "{} {}", "{\"roots\":{}"] {
        check(raw, None);
    }
}

#[test]
fn each_capability_is_seen() {
    use ClientCapabilities as C;
    for (raw, expected) in [
        (r#"{"sampling":{}}"#, C::SAMPLING),
        (
            r#"{"sampling":{"tools":{},"context":{}}}"#,
            C::SAMPLING | C::SAMPLING_TOOLS | C::SAMPLING_CONTEXT,
        ),
        (r#"{"elicitation":{}}"#, C::ELICITATION_FORM),
        (r#"{"elicitation":{"form":{}}}"#, C::ELICITATION_FORM),
        (r#"{"elicitation":{"url":{}}}"#, C::ELICITATION_URL),
        (r#"{"elicitation":{"form":{"a":1},"url":{}}}"#, C::ELICITATION_FORM | C::ELICITATION_URL),
        (r#"{"roots":{}}"#, C::ROOTS),
        (r#"{"roots":{"listChanged":true}}"#, C::ROOTS | C::ROOTS_LIST_CHANGED),
        (r#"{"roots":{"listChanged":false}}"#, C::ROOTS),
        (r#"{"extensions":{"a/b":{},"io.modelcontextprotocol/tasks":{}}}"#, C::TASKS_EXTENSION),
        (
            r#"{"tasks":{"list":{},"requests":{"sampling":{"createMessage":{}}}}}"#,
            C::TASKS_SAMPLING,
        ),
        (r#"{"tasks":{"requests":{"elicitation":{"create":{}}}}}"#, C::TASKS_ELICITATION),
        (r#"{"s\u0061mpling":{},"roots":{}}"#, C::SAMPLING | C::ROOTS),
    ] {
        check(raw, Some(expected));
    }
}

#[test]
fn what_is_not_an_object_is_not_declared() {
    for raw in [
        r#"{"sampling":null,"elicitation":true,"roots":[],"tasks":1,"extensions":"x"}"#,
        r#"{"extensions":{"io.modelcontextprotocol/tasks":null}}"#,
        r#"{"tasks":{"requests":{"sampling":{"createMessage":null},"elicitation":1}}}"#,
        r#"{"tasks":{"requests":1}}"#,
        r#"{"extensions":{"io.modelcontextprotocol/tasks":true}}"#,
    ] {
        check(raw, Some(NONE));
    }
}

#[test]
fn sets_survive_their_bits() {
    let all = ClientCapabilities::from_bits(u16::MAX);
    assert_eq!(all.bits(), ClientCapabilities::KNOWN);
    assert_eq!(ClientCapabilities::from_bits(all.bits()), all);
    assert!(all.has(ClientCapabilities::SAMPLING | ClientCapabilities::TASKS_ELICITATION));
    assert!(!NONE.has(ClientCapabilities::SAMPLING));
    assert!(
        !ClientCapabilities::SAMPLING.has(ClientCapabilities::SAMPLING | ClientCapabilities::ROOTS)
    );
}
