//! What upstreams ask of clients, in the words of each era.

use bytes::Bytes;
use lyceum_http::random;
use lyceum_wire::{ClientCapabilities, Object, RpcError, Writer, elements};

use super::params::HOP_PREFIX;

/// That a client can follow the tasks of a modern server.
const TASKS_EXTENSION: &str = r#"{"io.modelcontextprotocol/tasks":{}}"#;

/// What a question needs a client to be able to do, also as the raw object that says so; None for
/// questions no client knows.
pub(crate) fn needed(method: &str, params: &[u8]) -> Option<(ClientCapabilities, &'static [u8])> {
    let params = Object::parse(params).unwrap_or_default();
    Some(match method {
        "elicitation/create" if params.text("mode").as_deref() == Some("url") => {
            (ClientCapabilities::ELICITATION_URL, br#"{"elicitation":{"url":{}}}"#)
        }
        "elicitation/create" => {
            (ClientCapabilities::ELICITATION_FORM, br#"{"elicitation":{"form":{}}}"#)
        }
        "sampling/createMessage" if params.get("tools").is_some() => {
            (ClientCapabilities::SAMPLING_TOOLS, br#"{"sampling":{"tools":{}}}"#)
        }
        "sampling/createMessage" => (ClientCapabilities::SAMPLING, br#"{"sampling":{}}"#),
        "roots/list" => (ClientCapabilities::ROOTS, br#"{"roots":{}}"#),
        _ => return None,
    })
}

/// A question as an entry of `inputRequests`.
pub(crate) fn modern(method: &str, params: &[u8]) -> Bytes {
    let mut out = Writer::new();
    out.text("method", method);
    if !params.is_empty() {
        out.raw("params", without(params, &["elicitationId", "task"]));
    }
    out.finish()
}

/// The params of a question as a request to a legacy client.
pub(crate) fn legacy(method: &str, params: &[u8]) -> Bytes {
    let mut params = without(params, &["task"]);
    let members = Object::parse(&params).unwrap_or_default();
    let visits = method == "elicitation/create" && members.text("mode").as_deref() == Some("url");
    if visits && members.get("elicitationId").is_none() {
        // 2025-11-25 cannot do without one; the modern era knows none.
        let id = format!("\"{:032x}\"", u128::from_be_bytes(random()));
        params = super::params::with_member(&params, "elicitationId", id.as_bytes());
    }
    params
}

/// What an error -32042 of a legacy upstream wants its client to visit, as `inputRequests`.
pub(crate) fn url_elicitations(error: &RpcError) -> Vec<(String, Bytes)> {
    let data = error.data.clone().unwrap_or_default();
    let listed = Object::parse(&data).ok().and_then(|data| data.get("elicitations"));
    let listed = listed.and_then(elements).unwrap_or_default();
    let requests = listed.iter().enumerate().map(|(at, elicitation)| {
        let params = elicitation.get().as_bytes();
        (format!("elicitation-{}", at + 1), modern("elicitation/create", params))
    });
    requests.collect()
}

/// Capabilities as a raw object.
pub(crate) fn capabilities(has: ClientCapabilities) -> Bytes {
    if has == ClientCapabilities::default() {
        return Bytes::from_static(b"{}");
    }
    let object = |members: &[(ClientCapabilities, &str)]| {
        let mut out = Writer::new();
        for (_, name) in members.iter().filter(|(bit, _)| has.has(*bit)) {
            out.raw(name, "{}");
        }
        out.finish()
    };
    let modes = [
        (ClientCapabilities::ELICITATION_FORM, "form"),
        (ClientCapabilities::ELICITATION_URL, "url"),
    ];
    let extras = [
        (ClientCapabilities::SAMPLING_TOOLS, "tools"),
        (ClientCapabilities::SAMPLING_CONTEXT, "context"),
    ];
    let mut out = Writer::new();
    if modes.iter().any(|(mode, _)| has.has(*mode)) {
        out.raw("elicitation", object(&modes));
    }
    if has.has(ClientCapabilities::SAMPLING) {
        out.raw("sampling", object(&extras));
    }
    if has.has(ClientCapabilities::ROOTS) {
        let tells = has.has(ClientCapabilities::ROOTS_LIST_CHANGED);
        out.raw("roots", if tells { r#"{"listChanged":true}"# } else { "{}" });
    }
    if has.has(ClientCapabilities::TASKS_EXTENSION) {
        out.raw("extensions", TASKS_EXTENSION);
    }
    out.finish()
}

/// Params without some members, and without what belongs to the other hop.
fn without(params: &[u8], dropped: &[&str]) -> Bytes {
    let mut out = Writer::new();
    for (name, value) in Object::parse(params).unwrap_or_default().iter() {
        if name == "_meta" {
            let meta = Object::parse(value.as_bytes()).unwrap_or_default();
            let mut kept = Writer::new();
            let own = |name: &str| !name.starts_with(HOP_PREFIX) && name != "progressToken";
            for (name, value) in meta.iter().filter(|(name, _)| own(name)) {
                kept.raw(name, value);
            }
            out.raw("_meta", kept.finish());
        } else if !dropped.contains(&name) {
            out.raw(name, value);
        }
    }
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_need_what_they_say() {
        for (method, params, expected) in [
            ("elicitation/create", "{}", Some(ClientCapabilities::ELICITATION_FORM)),
            ("elicitation/create", r#"{"mode":"url"}"#, Some(ClientCapabilities::ELICITATION_URL)),
            ("sampling/createMessage", "", Some(ClientCapabilities::SAMPLING)),
            ("sampling/createMessage", r#"{"tools":[]}"#, Some(ClientCapabilities::SAMPLING_TOOLS)),
            ("roots/list", "", Some(ClientCapabilities::ROOTS)),
            ("ping", "", None),
        ] {
            let needed = needed(method, params.as_bytes());
            assert_eq!(needed.map(|(bits, _)| bits), expected, "{method} {params}");
            if let Some((bits, raw)) = needed {
                assert!(ClientCapabilities::parse(raw).unwrap().has(bits), "{method} {params}");
            }
        }
    }

    #[test]
    fn capabilities_survive_being_written() {
        for bits in 0..1 << 8 {
            let has = ClientCapabilities::from_bits(bits);
            // Details of sampling exist only with sampling, and so on.
            let bare = |whole, details| !has.has(whole) && bits & details != 0;
            if bare(ClientCapabilities::SAMPLING, 0b110) || bare(ClientCapabilities::ROOTS, 1 << 6)
            {
                continue;
            }
            assert_eq!(ClientCapabilities::parse(&capabilities(has)), Some(has), "{bits:b}");
        }
    }

    #[test]
    fn a_question_loses_what_the_other_era_does_not_know() {
        let params =
            br#"{"mode":"url","elicitationId":"e","url":"u","_meta":{"progressToken":1,"x":2}}"#;
        let expected =
            r#"{"method":"elicitation/create","params":{"mode":"url","url":"u","_meta":{"x":2}}}"#;
        assert_eq!(modern("elicitation/create", params), expected);
        let asked = legacy("elicitation/create", br#"{"mode":"url","url":"u"}"#);
        let id = Object::parse(&asked).unwrap().text("elicitationId");
        assert_eq!(id.map(|id| id.len()), Some(32));
        assert_eq!(legacy("elicitation/create", br#"{"message":"m"}"#), r#"{"message":"m"}"#);
    }

    #[test]
    fn pages_to_visit_become_input_requests() {
        let data =
            br#"{"elicitations":[{"mode":"url","elicitationId":"1","url":"u","message":"m"}]}"#;
        let error = RpcError::internal("").with_data(data.to_vec());
        let expected =
            r#"{"method":"elicitation/create","params":{"mode":"url","url":"u","message":"m"}}"#;
        assert_eq!(url_elicitations(&error), [("elicitation-1".to_owned(), Bytes::from(expected))]);
        assert_eq!(url_elicitations(&RpcError::internal("")), []);
    }
}
