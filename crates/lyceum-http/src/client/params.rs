//! What the client adds to a caller's params: `_meta`, and what a retry has to carry.
//!
//! Everything else in them passes as it is.

use std::borrow::Cow;

use bytes::Bytes;
use lyceum_wire::{Id, LogLevel, Object, Revision, Writer, encode, string};

use super::error::ClientError;
use super::options::ProgressWish;

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_INFO: &str = "io.modelcontextprotocol/clientInfo";
const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const META: &str = "_meta";
const PROGRESS_TOKEN: &str = "progressToken";
/// Members for which room is made at first: most params have no more.
const FEW: usize = 4;
/// The bytes around a name and its value: quotes, a colon and a comma.
const PUNCTUATION: usize = 4;
/// Bytes that the names of what the client adds may take, and its short values.
const NAMES: usize = 128;

/// The `_meta` every modern request carries.
#[derive(Debug)]
pub(crate) struct Meta<'a> {
    pub(crate) constant: &'a ConstantMeta,
    pub(crate) capabilities: &'a [u8],
    pub(crate) log_level: Option<LogLevel>,
}

/// Members of it that are the same in every request, up to the value of the last, the capabilities.
#[derive(Debug)]
pub(crate) struct ConstantMeta(Vec<u8>);

impl ConstantMeta {
    pub(crate) fn new(revision: Revision, info: &[u8]) -> ConstantMeta {
        let mut members = Writer::new();
        members.text(META_VERSION, revision.as_str());
        members.raw(META_INFO, info);
        members.raw(META_CAPABILITIES, "");
        let mut members = members.into_vec();
        members.pop();
        members.remove(0);
        ConstantMeta(members)
    }
}

/// What a retry after `input_required` adds.
#[derive(Debug, Default)]
pub(crate) struct Retry {
    /// The raw `inputResponses` object.
    pub(crate) responses: Option<Bytes>,
    /// The raw `requestState`, exactly as it came.
    pub(crate) state: Option<Bytes>,
}

/// The params of a call, taken apart: for callers that have read them anyway, and change them.
#[derive(Clone, Debug, Default)]
pub struct CallParams<'a> {
    /// Whether the call has params at all, be it none in particular.
    are_there: bool,
    /// As they were read, as long as nothing was changed.
    text: Option<&'a [u8]>,
    /// In their order. `_meta` among them only marks a place.
    members: Members<'a>,
    meta: Members<'a>,
}

type Members<'a> = Vec<(Cow<'a, str>, Value<'a>)>;

/// The value of a member.
#[derive(Clone, Debug)]
enum Value<'a> {
    /// As it is written.
    Raw(Cow<'a, str>),
    /// A string that is yet to be written.
    Text(Cow<'a, str>),
}

impl<'a> Value<'a> {
    /// Holds the place of what is kept elsewhere.
    const ELSEWHERE: Value<'static> = Value::Raw(Cow::Borrowed(""));

    fn write(&self, name: &str, out: &mut Writer) {
        match self {
            Value::Raw(raw) => out.raw(name, &**raw),
            Value::Text(text) => out.text(name, text),
        }
    }

    /// About how many bytes it takes.
    fn room(&self) -> usize {
        match self {
            Value::Raw(text) | Value::Text(text) => text.len() + PUNCTUATION,
        }
    }

    fn into_owned(self) -> Value<'static> {
        match self {
            Value::Raw(raw) => Value::Raw(raw.into_owned().into()),
            Value::Text(text) => Value::Text(text.into_owned().into()),
        }
    }
}

impl<'a> CallParams<'a> {
    /// An object without members so far.
    pub fn new() -> CallParams<'a> {
        let members = Vec::with_capacity(FEW);
        CallParams { are_there: true, text: None, members, meta: Vec::new() }
    }

    /// Reads an object; no bytes at all mean that there are no params.
    pub fn parse(raw: &'a [u8]) -> Result<CallParams<'a>, ClientError> {
        if raw.is_empty() {
            return Ok(CallParams::default());
        }
        let mut params = CallParams::new();
        for (name, value) in Object::parse(raw).map_err(ClientError::InvalidParams)? {
            if name != META {
                params.raw(name, value);
                continue;
            }
            params.members.push((name, Value::ELSEWHERE));
            let meta = Object::parse(value.as_bytes())
                .map_err(|error| ClientError::InvalidParams(format!("{META}: {error}")))?;
            let raw = |value: &'a str| Value::Raw(value.into());
            params.meta = meta.into_iter().map(|(name, value)| (name, raw(value))).collect();
        }
        params.text = Some(raw);
        Ok(params)
    }

    /// Adds a member whose value is raw JSON, one that is not there yet and is not `_meta`.
    pub fn raw(&mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) {
        self.text = None;
        self.members.push((name.into(), Value::Raw(value.into())));
    }

    /// Adds a member that is a string.
    pub fn text(&mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) {
        self.text = None;
        self.members.push((name.into(), Value::Text(value.into())));
    }

    /// Adds a member of `_meta`, which comes where the first of them is added.
    pub fn meta(&mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) {
        self.text = None;
        if find(&self.members, META).is_none() {
            self.members.push((Cow::Borrowed(META), Value::ELSEWHERE));
        }
        self.meta.push((name.into(), Value::Raw(value.into())));
    }

    /// Takes a member away, if there is one of this name.
    pub fn remove(&mut self, name: &str) {
        self.text = None;
        self.members.retain(|(member, _)| member != name);
    }

    /// The same, independent of what was read.
    pub fn into_owned(self) -> CallParams<'static> {
        let own = |members: Members<'_>| -> Members<'static> {
            let own = |name: Cow<'_, str>| Cow::Owned(name.into_owned());
            members.into_iter().map(|(name, value)| (own(name), value.into_owned())).collect()
        };
        let CallParams { are_there, members, meta, .. } = self;
        CallParams { are_there, text: None, members: own(members), meta: own(meta) }
    }

    /// The whole object.
    pub fn to_json(&self) -> Bytes {
        let mut out = Writer::with_capacity(self.room());
        self.write(&mut out);
        out.finish()
    }

    /// The raw JSON of a member that was added as such.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        raw(find(&self.members, name)?)
    }

    /// The text of a member that is a string.
    pub(crate) fn text_of(&self, name: &str) -> Option<Cow<'_, str>> {
        match find(&self.members, name)? {
            Value::Raw(raw) => string(raw),
            Value::Text(text) => Some(Cow::Borrowed(text)),
        }
    }

    /// The caller's own progress token.
    pub(crate) fn progress_token(&self) -> Option<&str> {
        raw(find(&self.meta, PROGRESS_TOKEN)?)
    }

    /// A legacy request. The params only gain a progress token, if the caller wants to hear of
    /// progress.
    pub(crate) fn legacy(&self, id: &Id, method: &str, progress: &ProgressWish) -> Bytes {
        if !progress.is_some() {
            return match self.text {
                None if self.are_there => {
                    encode::request_with(id, method, self.room(), |out| self.write(out))
                }
                text => encode::request(id, method, text),
            };
        }
        encode::request_with(id, method, self.room(), |out| {
            for (name, value) in self.members.iter().filter(|(name, _)| name != META) {
                value.write(name, out);
            }
            out.object(META, |meta| {
                for (name, value) in self.meta.iter().filter(|(name, _)| !replaced(name, progress))
                {
                    value.write(name, meta);
                }
                self.add_token(meta, id, progress);
            });
        })
    }

    fn write(&self, out: &mut Writer) {
        for (name, value) in &self.members {
            if name != META {
                value.write(name, out);
                continue;
            }
            out.object(META, |meta| {
                for (name, value) in &self.meta {
                    value.write(name, meta);
                }
            });
        }
    }

    /// A modern request.
    pub(crate) fn modern(
        &self,
        id: &Id,
        method: &str,
        ours: &Meta<'_>,
        progress: &ProgressWish,
        retry: &Retry,
    ) -> Bytes {
        // These keys belong to each hop: a caller's own are not ours to pass on.
        let hop = [META_VERSION, META_CAPABILITIES, META_INFO];
        let again = retry.responses.iter().chain(&retry.state).map(Bytes::len).sum::<usize>();
        let room = self.room() + ours.room() + again;
        encode::request_with(id, method, room, |out| {
            for (name, value) in self.members.iter().filter(|(name, _)| name != META) {
                let replaced = again > 0 && matches!(&**name, "inputResponses" | "requestState");
                if !replaced {
                    value.write(name, out);
                }
            }
            if let Some(responses) = &retry.responses {
                out.raw("inputResponses", responses);
            }
            if let Some(state) = &retry.state {
                out.raw("requestState", state);
            }
            out.object(META, |meta| {
                for (name, value) in self.meta.iter().filter(|(name, _)| !hop.contains(&&**name)) {
                    let level = name == META_LOG_LEVEL && ours.log_level.is_some();
                    if !level && !replaced(name, progress) {
                        value.write(name, meta);
                    }
                }
                self.add_token(meta, id, progress);
                ours.write(meta);
            });
        })
    }

    fn add_token(&self, meta: &mut Writer, id: &Id, progress: &ProgressWish) {
        let ours = match progress {
            ProgressWish::None => false,
            ProgressWish::Sink(_) => self.progress_token().is_none(),
            ProgressWish::Handler => true,
        };
        if ours {
            meta.raw(PROGRESS_TOKEN, id.as_bytes());
        }
    }

    /// About how many bytes the params take.
    fn room(&self) -> usize {
        let members = self.members.iter().chain(&self.meta);
        NAMES + members.map(|(name, value)| name.len() + value.room()).sum::<usize>()
    }
}

impl Meta<'_> {
    fn write(&self, meta: &mut Writer) {
        meta.written(&[&self.constant.0, self.capabilities]);
        if let Some(level) = self.log_level {
            let (name, level) = (META_LOG_LEVEL.as_bytes(), level.as_str().as_bytes());
            meta.written(&[b"\"", name, b"\":\"", level, b"\""]);
        }
    }

    /// About how many bytes it takes.
    fn room(&self) -> usize {
        self.constant.0.len() + self.capabilities.len() + META_LOG_LEVEL.len()
    }
}

fn find<'m, 'a>(members: &'m Members<'a>, name: &str) -> Option<&'m Value<'a>> {
    members.iter().find(|(member, _)| member == name).map(|(_, value)| value)
}

fn raw<'m>(value: &'m Value<'_>) -> Option<&'m str> {
    match value {
        Value::Raw(raw) => Some(raw),
        Value::Text(_) => None,
    }
}

/// Whether a member of the caller's `_meta` gives way to a progress token of ours.
fn replaced(name: &str, progress: &ProgressWish) -> bool {
    name == PROGRESS_TOKEN && matches!(progress, ProgressWish::Handler)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::options::CallOptions;

    fn sink() -> ProgressWish {
        CallOptions::new().on_progress(|_| {}).progress
    }

    /// The params in a request's body.
    fn params_in(body: &Bytes) -> String {
        let body = std::str::from_utf8(body).unwrap();
        let (_, params) = body.split_once(r#""params":"#).unwrap();
        params.strip_suffix('}').unwrap().to_owned()
    }

    fn modern(raw: &str, progress: ProgressWish, retry: &Retry) -> String {
        let constant = ConstantMeta::new(Revision::V2026_07_28, b"{}");
        let meta = Meta { constant: &constant, capabilities: b"{}", log_level: None };
        let params = CallParams::parse(raw.as_bytes()).unwrap();
        let body = params.modern(&Id::number(7), "m", &meta, &progress, retry);
        let ours = concat!(
            r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
            r#""io.modelcontextprotocol/clientInfo":{},"#,
            r#""io.modelcontextprotocol/clientCapabilities":{}"#
        );
        params_in(&body).replace(ours, "OURS")
    }

    #[test]
    fn a_modern_request_carries_our_meta_and_everything_else_untouched() {
        let fresh = Retry::default();
        for (raw, progress, expected) in [
            ("", ProgressWish::None, r#"{"_meta":{OURS}}"#),
            (r#"{"x":[1, 2.0]}"#, sink(), r#"{"x":[1, 2.0],"_meta":{"progressToken":7,OURS}}"#),
            (
                r#"{"_meta":{"progressToken":"t","traceparent":"00-1"},"name":"a"}"#,
                sink(),
                r#"{"name":"a","_meta":{"progressToken":"t","traceparent":"00-1",OURS}}"#,
            ),
            (
                r#"{"_meta":{"progressToken":"t","traceparent":"00-1"},"name":"a"}"#,
                ProgressWish::Handler,
                r#"{"name":"a","_meta":{"traceparent":"00-1","progressToken":7,OURS}}"#,
            ),
            (
                r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"1999","io.modelcontextprotocol/other":1}}"#,
                ProgressWish::None,
                r#"{"_meta":{"io.modelcontextprotocol/other":1,OURS}}"#,
            ),
        ] {
            assert_eq!(modern(raw, progress, &fresh), expected, "{raw}");
        }
    }

    #[test]
    fn a_retry_replaces_what_an_earlier_round_said() {
        let raw = r#"{"name":"a","requestState":"old","inputResponses":{"old":{}}}"#;
        let responses = Some(Bytes::from_static(br#"{"k":{}}"#));
        let state = Some(Bytes::from_static(br#""\u0041""#));
        for (retry, expected) in [
            (
                Retry { responses: responses.clone(), state: state.clone() },
                r#"{"name":"a","inputResponses":{"k":{}},"requestState":"\u0041","_meta":{OURS}}"#,
            ),
            (
                Retry { responses, state: None },
                r#"{"name":"a","inputResponses":{"k":{}},"_meta":{OURS}}"#,
            ),
            (
                Retry { responses: None, state },
                r#"{"name":"a","requestState":"\u0041","_meta":{OURS}}"#,
            ),
        ] {
            assert_eq!(modern(raw, ProgressWish::None, &retry), expected);
        }
    }

    #[test]
    fn a_legacy_request_only_gains_a_progress_token() {
        let given = r#"{"_meta":{"x":1,"progressToken":"t"}}"#;
        for (raw, progress, expected) in [
            (r#"{"a":1}"#, sink(), r#"{"a":1,"_meta":{"progressToken":3}}"#),
            (given, sink(), given),
            (given, ProgressWish::Handler, r#"{"_meta":{"x":1,"progressToken":3}}"#),
            (
                "{\"_meta\":{\"x\":1},\n\"a\":[1, 2]}",
                ProgressWish::None,
                r#"{"_meta":{"x":1}, "a":[1, 2]}"#,
            ),
            (r#"{"_meta":{}}"#, ProgressWish::None, r#"{"_meta":{}}"#),
            ("{}", ProgressWish::None, "{}"),
        ] {
            let params = CallParams::parse(raw.as_bytes()).unwrap();
            let body = params.legacy(&Id::number(3), "m", &progress);
            assert_eq!(params_in(&body), expected, "{raw}");
        }
        let none = CallParams::parse(b"").unwrap();
        let body = none.legacy(&Id::number(3), "m", &ProgressWish::None);
        assert_eq!(body, r#"{"jsonrpc":"2.0","id":3,"method":"m"}"#);
    }

    #[test]
    fn params_can_be_put_together() {
        let mut params = CallParams::new();
        params.raw("a", "1.0");
        params.meta("x", "[]");
        params.text("b", "\"");
        params.meta("y", "{}");
        params.raw("gone", "0");
        params.remove("gone");
        let body = params.into_owned().legacy(&Id::number(3), "m", &ProgressWish::None);
        assert_eq!(params_in(&body), r#"{"a":1.0,"_meta":{"x":[],"y":{}},"b":"\""}"#);
    }

    #[test]
    fn params_that_are_no_object_are_the_callers_mistake() {
        for raw in ["[]", "1", r#"{"_meta":1}"#] {
            let parsed = CallParams::parse(raw.as_bytes());
            assert!(matches!(parsed, Err(ClientError::InvalidParams(_))), "{raw}");
        }
    }
}
