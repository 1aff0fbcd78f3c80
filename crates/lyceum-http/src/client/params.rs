//! What the client adds to a caller's params: `_meta`, and what a retry has to carry.
//!
//! Everything else in them passes as it is.

use bytes::Bytes;
use lyceum_wire::{Id, LogLevel, Object, Revision, Writer};

use super::error::ClientError;
use super::options::ProgressWish;

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_INFO: &str = "io.modelcontextprotocol/clientInfo";
const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const PROGRESS_TOKEN: &str = "progressToken";
/// Bytes that the names of what the client adds may take, and its short values.
const NAMES: usize = 320;

/// The `_meta` every modern request carries.
#[derive(Debug)]
pub(crate) struct Meta<'a> {
    pub(crate) revision: Revision,
    pub(crate) capabilities: &'a [u8],
    pub(crate) info: &'a [u8],
    pub(crate) log_level: Option<LogLevel>,
}

/// What a retry after `input_required` adds.
#[derive(Debug, Default)]
pub(crate) struct Retry {
    /// The raw `inputResponses` object.
    pub(crate) responses: Option<Bytes>,
    /// The raw `requestState`, exactly as it came.
    pub(crate) state: Option<Bytes>,
}

/// A caller's params and the progress token they go with.
#[derive(Debug)]
pub(crate) struct CallerParams<'a> {
    n_bytes: usize,
    members: Object<'a>,
    meta: Object<'a>,
}

impl<'a> CallerParams<'a> {
    pub(crate) fn parse(raw: &'a [u8]) -> Result<CallerParams<'a>, ClientError> {
        let members = Object::parse(raw).map_err(ClientError::InvalidParams)?;
        let meta = members.get("_meta").unwrap_or_default();
        let meta = Object::parse(meta.as_bytes())
            .map_err(|error| ClientError::InvalidParams(format!("_meta: {error}")))?;
        Ok(CallerParams { n_bytes: raw.len(), members, meta })
    }

    /// A member of the params that is a string.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.members.text(name)
    }

    /// A member's raw JSON.
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.members.get(name)
    }

    /// The caller's own progress token.
    pub(crate) fn progress_token(&self) -> Option<&'a str> {
        self.meta.get(PROGRESS_TOKEN)
    }

    /// The params of a legacy request that asks for progress.
    pub(crate) fn legacy(&self, id: &Id, progress: &ProgressWish) -> Vec<u8> {
        self.with_meta(0, &Retry::default(), |meta| {
            for (name, value) in self.meta.iter().filter(|(name, _)| !replaced(name, progress)) {
                meta.raw(name, value);
            }
            self.add_token(meta, id, progress);
        })
    }

    /// The params of a modern request.
    pub(crate) fn modern(
        &self,
        ours: &Meta<'_>,
        id: &Id,
        progress: &ProgressWish,
        retry: &Retry,
    ) -> Vec<u8> {
        // These keys belong to each hop: a caller's own are not ours to pass on.
        let hop = [META_VERSION, META_CAPABILITIES, META_INFO];
        self.with_meta(ours.capabilities.len() + ours.info.len(), retry, |meta| {
            for (name, value) in self.meta.iter().filter(|(name, _)| !hop.contains(name)) {
                let level = name == META_LOG_LEVEL && ours.log_level.is_some();
                if !level && !replaced(name, progress) {
                    meta.raw(name, value);
                }
            }
            self.add_token(meta, id, progress);
            meta.text(META_VERSION, ours.revision.as_str());
            meta.raw(META_CAPABILITIES, ours.capabilities);
            meta.raw(META_INFO, ours.info);
            if let Some(level) = ours.log_level {
                meta.text(META_LOG_LEVEL, level.as_str());
            }
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

    /// The params with another `_meta`, to which the client adds about so many bytes of its own.
    fn with_meta(&self, added: usize, retry: &Retry, meta: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let again = retry.responses.iter().chain(&retry.state).map(Bytes::len).sum::<usize>();
        let mut params = Writer::with_capacity(self.n_bytes + added + again + NAMES);
        for (name, value) in self.members.iter() {
            let replaced = matches!(name, "inputResponses" | "requestState") && again > 0;
            if name != "_meta" && !replaced {
                params.raw(name, value);
            }
        }
        if let Some(responses) = &retry.responses {
            params.raw("inputResponses", responses);
        }
        if let Some(state) = &retry.state {
            params.raw("requestState", state);
        }
        params.object("_meta", meta);
        params.into_vec()
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

    fn modern(raw: &str, progress: ProgressWish, retry: &Retry) -> String {
        let meta = Meta {
            revision: Revision::V2026_07_28,
            capabilities: b"{}",
            info: b"{}",
            log_level: None,
        };
        let params = CallerParams::parse(raw.as_bytes()).unwrap();
        let params = params.modern(&meta, &Id::number(7), &progress, retry);
        let ours = concat!(
            r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
            r#""io.modelcontextprotocol/clientCapabilities":{},"#,
            r#""io.modelcontextprotocol/clientInfo":{}"#
        );
        String::from_utf8(params).unwrap().replace(ours, "OURS")
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
        ] {
            let params = CallerParams::parse(raw.as_bytes()).unwrap();
            let params = String::from_utf8(params.legacy(&Id::number(3), &progress)).unwrap();
            assert_eq!(params, expected, "{raw}");
        }
    }

    #[test]
    fn params_that_are_no_object_are_the_callers_mistake() {
        for raw in ["[]", "1", r#"{"_meta":1}"#] {
            let parsed = CallerParams::parse(raw.as_bytes());
            assert!(matches!(parsed, Err(ClientError::InvalidParams(_))), "{raw}");
        }
    }
}
