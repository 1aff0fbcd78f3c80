//! Params on their way upstream: another name, and a `_meta` without what belongs to this hop.

use bytes::Bytes;
use lyceum_http::client::CallParams;
use lyceum_wire::{Object, RpcError, Writer, resembles};

/// Keys of `_meta` that belong to each hop begin like this.
pub(crate) const HOP_PREFIX: &str = "io.modelcontextprotocol/";

/// Members that decide where a request goes and what is passed on. One that differs from them only in
/// case was judged by nobody, and some servers would take it for the real one.
const JUDGED: [&str; 9] = [
    "name",
    "uri",
    "ref",
    "taskId",
    "arguments",
    "_meta",
    "task",
    "requestState",
    "inputResponses",
];

/// What is replaced on the way.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Passing<'a> {
    /// A member of the params.
    Member(&'static str, &'a str),
    /// A member of `ref`.
    Reference(&'static str, &'a str),
}

impl Passing<'_> {
    /// The name the upstream knows.
    pub(crate) fn name(&self) -> &str {
        match self {
            Passing::Member(_, own) | Passing::Reference(_, own) => own,
        }
    }
}

/// The params to pass on, read from those of a request. Everything else keeps its place and its text.
pub(crate) fn passed_on<'a>(
    raw: &'a [u8],
    passing: &Passing<'a>,
    dropped: impl Fn(&str) -> bool,
) -> Result<CallParams<'a>, RpcError> {
    let mut out = CallParams::new();
    let (members, mut meta) = Object::of_checked_with(raw, "_meta");
    for (name, value) in members {
        match (&*name, passing) {
            ("_meta", _) if value.starts_with('{') => {
                pass_on_meta(&mut out, std::mem::take(&mut meta))?;
            }
            ("_meta", _) => {
                return Err(RpcError::invalid_params("params: _meta must be an object"));
            }
            (_, Passing::Member(member, own)) if name == *member => out.text(*member, *own),
            ("ref", Passing::Reference(member, own)) => {
                out.raw("ref", replaced(value, member, own)?);
            }
            // Some clients say "no arguments" so; few servers take it.
            ("arguments", _) if value == "null" => {}
            (name, _) if dropped(name) => {}
            _ => {
                refuse_imitation(&name, &JUDGED)?;
                out.raw(name, value);
            }
        }
    }
    Ok(out)
}

/// An object of ours with one more member.
pub(crate) fn with_member(object: &Bytes, name: &str, value: &[u8]) -> Bytes {
    let mut out = Writer::new();
    let members = Object::parse(object).unwrap_or_default();
    for (member, value) in members.iter().filter(|(member, _)| *member != name) {
        out.raw(member, value);
    }
    out.raw(name, value);
    out.finish()
}

/// Writes `_meta` for the next hop, if anything is left of it. The progress token is remade there, too.
fn pass_on_meta<'a>(out: &mut CallParams<'a>, meta: Object<'a>) -> Result<(), RpcError> {
    for (name, value) in meta {
        if name.starts_with(HOP_PREFIX) || name == "progressToken" {
            continue;
        }
        refuse_imitation(&name, &["progressToken"])?;
        let start = name.char_indices().nth(HOP_PREFIX.len()).map_or(name.len(), |(at, _)| at);
        refuse_imitation(&name[..start], &[HOP_PREFIX])?;
        out.meta(name, value);
    }
    Ok(())
}

fn replaced(raw: &str, member: &str, own: &str) -> Result<String, RpcError> {
    let mut out = Writer::new();
    for (name, value) in Object::of_checked(raw.as_bytes()).iter() {
        if name == member {
            out.text(name, own);
        } else {
            refuse_imitation(name, &[member])?;
            out.raw(name, value);
        }
    }
    Ok(String::from_utf8(out.finish().into()).expect("what is written from text is text"))
}

/// Refuses a name that is none of `known` but looks like one to careless readers.
fn refuse_imitation(name: &str, known: &[&str]) -> Result<(), RpcError> {
    // Of those that are known none looks like another.
    if known.contains(&name) {
        return Ok(());
    }
    let is_like = |known: &&&str| resembles(name, known);
    match known.iter().find(is_like) {
        None => Ok(()),
        Some(known) => Err(RpcError::invalid_params(format!(
            "params: \"{name}\" differs from \"{known}\" only in case; write \"{known}\""
        ))),
    }
}

#[cfg(test)]
mod tests {
    use lyceum_wire::Params;

    use super::*;

    fn passed(raw: &str, passing: Passing<'_>, dropped: &[&str]) -> String {
        let dropped = |name: &str| dropped.contains(&name);
        let passed = passed_on(raw.as_bytes(), &passing, dropped).unwrap();
        String::from_utf8(passed.to_json().to_vec()).unwrap()
    }

    #[test]
    fn only_the_name_and_the_meta_of_the_hop_change() {
        let name = Passing::Member("name", "own");
        for (raw, expected) in [
            (
                r#"{"z":1.0,"name":"up_own","arguments":{"b":12345678901234567890.10,"a":[ 1,  2 ]},"x":"\u00e9"}"#,
                r#"{"z":1.0,"name":"own","arguments":{"b":12345678901234567890.10,"a":[ 1,  2 ]},"x":"\u00e9"}"#,
            ),
            (
                r#"{"name":"up_own","_meta":{"traceparent":"00-1","progressToken":7,"io.modelcontextprotocol/protocolVersion":"x","vendor/x":[1]}}"#,
                r#"{"name":"own","_meta":{"traceparent":"00-1","vendor/x":[1]}}"#,
            ),
            (r#"{"name":"up_own","_meta":{"progressToken":7}}"#, r#"{"name":"own"}"#),
            (r#"{"name":"up_own","arguments":null}"#, r#"{"name":"own"}"#),
        ] {
            assert_eq!(passed(raw, name, &[]), expected, "{raw}");
        }
    }

    #[test]
    fn what_is_dropped_is_gone() {
        let raw = r#"{"name":"a","requestState":"s","inputResponses":{},"task":{}}"#;
        let name = Passing::Member("name", "b");
        let passed = passed(raw, name, &["requestState", "task"]);
        assert_eq!(passed, r#"{"name":"b","inputResponses":{}}"#);
    }

    #[test]
    fn references_are_replaced_inside() {
        let raw = r#"{"ref":{"type":"ref/resource","uri":"up+x://{id}"},"argument":{"name":"id","value":"1"}}"#;
        let expected = r#"{"ref":{"type":"ref/resource","uri":"x://{id}"},"argument":{"name":"id","value":"1"}}"#;
        assert_eq!(passed(raw, Passing::Reference("uri", "x://{id}"), &[]), expected);
    }

    #[test]
    fn what_careless_readers_would_take_for_something_else_is_refused() {
        let refused = |raw: &str, passing: Passing<'_>| {
            let error = passed_on(raw.as_bytes(), &passing, |name| name == "task").unwrap_err();
            assert!(error.message.contains("only in case"), "{raw}: {error:?}");
        };
        let name = Passing::Member("name", "own");
        for member in ["Name", "NAME", "n\\u0041me", "Uri", "taſkId", "tasK", "_META", "Arguments"]
        {
            refused(&format!(r#"{{"name":"up_own","{member}":"x"}}"#), name);
        }
        for member in ["ProgressToken", "IO.modelcontextprotocol/logLevel"] {
            refused(&format!(r#"{{"name":"up_own","_meta":{{"{member}":1}}}}"#), name);
        }
        refused(r#"{"ref":{"uri":"up+x","URI":"y"}}"#, Passing::Reference("uri", "x"));
        let fine = r#"{"name":"own","names":1,"arguments":{"Name":1,"NAME":2},"named":{"Uri":1}}"#;
        assert_eq!(passed(fine, name, &[]), fine);
    }

    /// What was parsed is not judged again here, so it must have been refused before.
    #[test]
    fn what_says_things_twice_is_refused_when_it_is_read() {
        for raw in [
            r#"{"name":"a","name":"b"}"#,
            r#"{"name":"a","_meta":{"progressToken":1,"progressToken":2}}"#,
            r#"{"name":"a","ref":{"uri":"a","uri":"b"}}"#,
        ] {
            let raw = Bytes::from_static(raw.as_bytes());
            assert!(Params::from_raw(raw.clone()).is_err(), "{raw:?}");
        }
    }

    #[test]
    fn a_meta_that_is_no_object_is_refused() {
        let passing = Passing::Member("name", "own");
        for meta in ["1", "null", "[]", "\"{}\""] {
            let raw = format!(r#"{{"name":"up_own","_meta":{meta}}}"#);
            assert!(passed_on(raw.as_bytes(), &passing, |_| false).is_err(), "{meta}");
        }
    }
}
