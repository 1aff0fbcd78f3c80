//! What a plain GET gets: a document for programs, a short page for people.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Uri};
use lyceum_wire::supported_versions_json;
use serde_json::json;
use serde_json::value::RawValue;

use crate::answer::{self, AnswerBody};
use crate::endpoint::Shared;
use crate::handler::Handler;
use crate::pipeline::Reply;

/// The information document.
pub(crate) fn document<H: Handler>(shared: &Shared<H>) -> Bytes {
    if let Some(document) = &shared.info {
        return document();
    }
    let about = shared.handler.about();
    let versions = supported_versions_json(shared.served);
    let versions: Option<&RawValue> = serde_json::from_slice(&versions).ok();
    let mut document = json!({
        "name": about.name,
        "version": about.version,
        "description": about.description,
        "endpoint": &*shared.name,
        "transport": "streamable-http",
        "protocolVersions": versions,
        "status": "ok",
    });
    for (name, value) in about.details {
        document[name] = value.into();
    }
    document.to_string().into()
}

/// The page. It names the address the visitor used, escaped: it comes from the request.
pub(crate) fn page<H: Handler>(shared: &Shared<H>, uri: &Uri, headers: &HeaderMap) -> Reply {
    let about = shared.handler.about();
    // HTTP/2 names the host in the target, and needs no Host line.
    let named = uri.authority().map(Authority::as_str);
    let host = named.or_else(|| headers.get(HOST)?.to_str().ok()).unwrap_or("localhost");
    let (name, description) = (escape(about.name), escape(about.description));
    let address = escape(&format!("http://{host}{}", shared.name));
    let page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{name}</title>\
         <h1>{name} {version}</h1><p>{description}</p>\
         <p>This is an MCP server. Add this address to your MCP client:</p>\
         <pre>{address}</pre></html>",
        version = escape(about.version),
    );
    let mut reply = answer::json(http::StatusCode::OK, Bytes::new());
    *reply.body_mut() = AnswerBody::whole(page);
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    reply.headers_mut().insert(CONTENT_TYPE, html);
    let policy = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    reply.headers_mut().insert(http::header::CONTENT_SECURITY_POLICY, policy);
    reply
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_shows_text_as_text() {
        assert_eq!(
            escape(r#"<a href="x">R&D</a>"#),
            "&lt;a href=&quot;x&quot;&gt;R&amp;D&lt;/a&gt;"
        );
    }
}
