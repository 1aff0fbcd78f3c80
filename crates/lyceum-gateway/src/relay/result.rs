//! Results on their way back: in the shape of the client's era, with the client's URIs.

use std::borrow::Cow;
use std::sync::LazyLock;

use bytes::Bytes;
use lyceum_http::Outcome;
use lyceum_wire::{Era, Id, Object, Writer, elements, encode};
use memchr::memmem::Finder;

use super::params::HOP_PREFIX;
use crate::names::UriPrefix;

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The cache hints of a result whose server gave none.
const NOT_CACHED: [(&str, &str); 2] = [("ttlMs", "0"), ("cacheScope", "\"private\"")];
/// Bytes that the names of what is added to a result may take, and its short values.
const NAMES: usize = 128;
/// Members that only modern results have.
const MODERN_ONLY: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];

/// The name of what has to be changed for clients that know other URIs.
static URI: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"uri\""));

/// Between whom a result travels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape<'a> {
    pub(crate) method: &'a str,
    pub(crate) client: Era,
    pub(crate) upstream: Era,
    /// How the upstream's URIs are known in public.
    pub(crate) uris: UriPrefix<'a>,
    /// Who we are, for modern clients.
    pub(crate) info: &'a [u8],
}

/// The result as the client may see it. What nobody asked to change is copied as it is.
pub(crate) fn passed_back(result: &Bytes, shape: &Shape<'_>) -> Bytes {
    let Some(has_uris) = change(result, shape) else { return result.clone() };
    let mut out = Writer::with_capacity(room(result, shape));
    rewrite(result, has_uris, shape, &mut out);
    out.finish()
}

/// The same, as the answer to request `id`.
pub(crate) fn answered(id: &Id, result: &Bytes, shape: &Shape<'_>) -> Outcome {
    match change(result, shape) {
        None => Outcome::json(result.clone()),
        Some(has_uris) => Outcome::written(id, room(result, shape), |out| {
            rewrite(result, has_uris, shape, out);
        }),
    }
}

/// Whether a result has to be changed, and if so, whether it has URIs.
fn change(result: &Bytes, shape: &Shape<'_>) -> Option<bool> {
    // Most have no URIs, and looking is cheaper than reading.
    let has_uris = !shape.uris.is_empty() && URI.find(result).is_some();
    let is_legacy = shape.client == Era::Legacy && shape.upstream == Era::Legacy;
    let stays = (is_legacy && !has_uris) || !result.starts_with(b"{");
    (!stays).then_some(has_uris)
}

/// About how many bytes a result takes once it is changed.
fn room(result: &Bytes, shape: &Shape<'_>) -> usize {
    result.len() + shape.info.len() + NAMES
}

fn rewrite(result: &Bytes, has_uris: bool, shape: &Shape<'_>, out: &mut Writer) {
    let members = Object::of_checked(result);
    let completed = shape.client == Era::Modern && members.get("resultType").is_none();
    if completed {
        out.raw("resultType", "\"complete\"");
    }
    let mut meta = None;
    for (name, value) in members.iter() {
        match name {
            "_meta" => meta = Some(value),
            _ if shape.client == Era::Legacy && MODERN_ONLY.contains(&name) => {}
            "structuredContent" if shape.client == Era::Legacy && !value.starts_with('{') => {}
            "contents" | "content" | "messages" if has_uris => {
                out.raw(name, with_public_uris(name, value, shape.uris));
            }
            _ => out.raw(name, value),
        }
    }
    if completed && shape.method == "resources/read" {
        for (name, value) in NOT_CACHED {
            if members.get(name).is_none() {
                out.raw(name, value);
            }
        }
    }
    write_meta(out, meta, shape);
}

/// The result of a tool that could not be called, for the model to read.
pub(crate) fn tool_error(problem: &str) -> Bytes {
    let mut text = Vec::new();
    encode::write_str(&mut text, problem);
    let content = [br#"[{"type":"text","text":"#.as_slice(), &text, b"}]"].concat();
    let mut out = Writer::new();
    out.raw("content", content);
    out.raw("isError", "true");
    out.finish()
}

/// The result that asks a modern client for something: keys, and raw requests.
pub(crate) fn input_required(requests: &[(String, Bytes)], state: &str, info: &[u8]) -> Bytes {
    let mut asked = Writer::new();
    for (key, request) in requests {
        asked.raw(key, request);
    }
    let mut meta = Writer::new();
    meta.raw(SERVER_INFO, info);
    let mut out = Writer::new();
    out.raw("resultType", "\"input_required\"");
    out.raw("inputRequests", asked.finish());
    out.text("requestState", state);
    out.raw("_meta", meta.finish());
    out.finish()
}

/// `_meta` without what belongs to the upstream's hop, and with our name for modern clients.
fn write_meta(out: &mut Writer, raw: Option<&str>, shape: &Shape<'_>) {
    let members = Object::of_checked(raw.unwrap_or_default().as_bytes());
    let kept = |name: &str| !name.starts_with(HOP_PREFIX);
    if shape.client == Era::Legacy && !members.iter().any(|(name, _)| kept(name)) {
        return;
    }
    out.object("_meta", |out| {
        for (name, value) in members.iter().filter(|(name, _)| kept(name)) {
            out.raw(name, value);
        }
        if shape.client == Era::Modern {
            out.raw(SERVER_INFO, shape.info);
        }
    });
}

/// An array of contents, content blocks or messages, with public URIs where there are any.
fn with_public_uris<'r>(name: &str, raw: &'r str, uris: UriPrefix<'_>) -> Cow<'r, [u8]> {
    let Some(items) = elements(raw) else { return Cow::Borrowed(raw.as_bytes()) };
    let mut out = vec![b'['];
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let item = item.get();
        let rewritten = match name {
            "contents" => with_uri(item, uris),
            "content" => block(item, uris),
            _ => member(item, "content", |content| block(content, uris)),
        };
        match rewritten {
            Some(rewritten) => out.extend_from_slice(&rewritten),
            None => out.extend_from_slice(item.as_bytes()),
        }
    }
    out.push(b']');
    Cow::Owned(out)
}

/// A content block: links and embedded resources have URIs, others do not.
fn block(raw: &str, uris: UriPrefix<'_>) -> Option<Bytes> {
    match Object::parse(raw.as_bytes()).ok()?.text("type")?.as_str() {
        "resource_link" => with_uri(raw, uris),
        "resource" => member(raw, "resource", |resource| with_uri(resource, uris)),
        _ => None,
    }
}

fn with_uri(raw: &str, uris: UriPrefix<'_>) -> Option<Bytes> {
    member(raw, "uri", |uri| {
        let uri: String = serde_json::from_str(uri).ok()?;
        Some(serde_json::to_vec(&*uris.public(&uri)).ok()?.into())
    })
}

/// An object with one member changed; None if there is no such member or nothing to change.
fn member(raw: &str, name: &str, change: impl Fn(&str) -> Option<Bytes>) -> Option<Bytes> {
    let members = Object::parse(raw.as_bytes()).ok()?;
    let changed = change(members.get(name)?)?;
    let mut out = Writer::new();
    for (member, value) in members.iter() {
        if member == name {
            out.raw(name, &changed);
        } else {
            out.raw(member, value);
        }
    }
    Some(out.finish())
}

#[cfg(test)]
mod tests;
