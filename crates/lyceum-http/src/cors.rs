//! The headers that let pages of an allowed origin read our answers.
//!
//! Only writes headers. Whether an origin is allowed was decided before ([`crate::guard`]); an answer
//! to anybody else carries none of these.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, VARY,
};
use http::{HeaderMap, HeaderValue};

use crate::accept::is_token;

#[cfg(test)]
mod tests;

/// What a page may send beside the headers it may always send.
const ALLOWED_HEADERS: &str = "authorization, x-api-key, content-type, accept, \
    mcp-session-id, mcp-protocol-version, last-event-id, mcp-method, mcp-name, x-request-id";

/// What a page may read beside the headers it may always read.
const EXPOSED_HEADERS: HeaderValue =
    HeaderValue::from_static("mcp-session-id, www-authenticate, lyceum-decision, x-request-id");

const ALLOWED_METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");

/// Two hours: the longest that browsers honour.
const MAX_AGE_SECONDS: HeaderValue = HeaderValue::from_static("7200");

/// How many `Mcp-Param-*` headers one preflight may ask for.
const MOST_PARAMS: usize = 64;

/// Writes the headers of an answer to a request from the allowed `origin`.
pub fn answer_headers(origin: &HeaderValue, headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
    headers.append(VARY, HeaderValue::from_static("origin"));
}

/// Writes the headers of the answer to a preflight from the allowed `origin`; `request` holds the
/// headers of the preflight.
pub fn preflight_headers(origin: &HeaderValue, request: &HeaderMap, headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed_headers(request));
    headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE_SECONDS);
    headers.append(VARY, HeaderValue::from_static("origin, access-control-request-headers"));
}

/// The fixed list, and each `Mcp-Param-*` header the preflight asks for: their names come from tool
/// schemas, so they cannot be listed in advance.
fn allowed_headers(request: &HeaderMap) -> HeaderValue {
    let lines = request.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter();
    let names = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b','));
    let params = names.map(<[u8]>::trim_ascii).filter(|name| is_param(name)).take(MOST_PARAMS);
    let mut allowed = ALLOWED_HEADERS.as_bytes().to_vec();
    for param in params {
        allowed.extend_from_slice(b", ");
        allowed.extend(param.to_ascii_lowercase());
    }
    HeaderValue::from_bytes(&allowed).expect("tokens joined by commas are a header value")
}

fn is_param(name: &[u8]) -> bool {
    const PREFIX: &[u8] = b"mcp-param-";
    let prefix = name.get(..PREFIX.len()).unwrap_or_default();
    prefix.eq_ignore_ascii_case(PREFIX) && is_token(name)
}
