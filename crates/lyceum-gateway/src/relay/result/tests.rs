//! Results of both eras, and how a client of the other one sees them.

use super::*;

fn back(raw: &str, method: &str, client: Era, upstream: Era, prefix: &str) -> String {
    let uris = UriPrefix { form: crate::names::UriForm::Plus, prefix };
    let shape = Shape { method, client, upstream, uris, info: b"I" };
    let back = passed_back(&Bytes::copy_from_slice(raw.as_bytes()), &shape);
    String::from_utf8(back.to_vec()).unwrap()
}

const OURS: &str = r#""_meta":{"io.modelcontextprotocol/serverInfo":I}"#;

#[test]
fn a_legacy_result_is_completed_for_modern_clients() {
    for (method, raw, expected) in [
        (
            "tools/call",
            r#"{"content":[ ],"x":1.0}"#,
            format!(r#"{{"resultType":"complete","content":[ ],"x":1.0,{OURS}}}"#),
        ),
        (
            "resources/read",
            r#"{"contents":[]}"#,
            format!(
                r#"{{"resultType":"complete","contents":[],"ttlMs":0,"cacheScope":"private",{OURS}}}"#
            ),
        ),
    ] {
        assert_eq!(back(raw, method, Era::Modern, Era::Legacy, ""), expected);
    }
}

#[test]
fn modern_members_are_taken_from_legacy_clients() {
    let raw = r#"{"resultType":"complete","content":[],"structuredContent":[1],"ttlMs":5,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{},"own":1}}"#;
    let expected = r#"{"content":[],"_meta":{"own":1}}"#;
    assert_eq!(back(raw, "tools/call", Era::Legacy, Era::Modern, ""), expected);
}

#[test]
fn each_hop_names_itself_and_keeps_the_upstreams_hints() {
    let raw = r#"{"resultType":"complete","contents":[],"ttlMs":5,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"up"}}}"#;
    let expected = format!(
        r#"{{"resultType":"complete","contents":[],"ttlMs":5,"cacheScope":"public",{OURS}}}"#
    );
    assert_eq!(back(raw, "resources/read", Era::Modern, Era::Modern, ""), expected);
}

#[test]
fn uris_become_public_wherever_a_client_could_use_them() {
    for (method, raw, expected) in [
        (
            "resources/read",
            r#"{"contents":[{"uri":"x://a","text":"\"uri\""}]}"#,
            r#"{"contents":[{"uri":"up+x://a","text":"\"uri\""}]}"#,
        ),
        (
            "tools/call",
            r#"{"content":[{"type":"text","text":"\"uri\":1"},{"type":"resource_link","uri":"x://a","name":"n"},{"type":"resource","resource":{"uri":"x://b","text":""}}]}"#,
            r#"{"content":[{"type":"text","text":"\"uri\":1"},{"type":"resource_link","uri":"up+x://a","name":"n"},{"type":"resource","resource":{"uri":"up+x://b","text":""}}]}"#,
        ),
        (
            "prompts/get",
            r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"x://b"}}},{"role":"user","content":{"type":"text","text":"uri"}}]}"#,
            r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"up+x://b"}}},{"role":"user","content":{"type":"text","text":"uri"}}]}"#,
        ),
    ] {
        assert_eq!(back(raw, method, Era::Legacy, Era::Legacy, "up"), expected);
    }
}

#[test]
fn a_result_nobody_needs_to_change_is_not_touched() {
    let raw = r#" {"content" : [] , "_meta":{"io.modelcontextprotocol/x":1}} "#;
    assert_eq!(back(raw, "tools/call", Era::Legacy, Era::Legacy, ""), raw);
}
