//! Metadata documents: where they may be, what they say, and whom they may speak for.
//!
//! Pure. Fetching them is `discover`'s business.

use serde::Deserialize;
use url::Url;

const PROTECTED_RESOURCE: &str = "/.well-known/oauth-protected-resource";
const AUTHORIZATION_SERVER: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

/// RFC 9728: what a protected server says about itself.
#[derive(Debug, Deserialize)]
pub(super) struct ProtectedResource {
    pub(super) resource: Option<String>,
    pub(super) authorization_servers: Option<Vec<String>>,
    pub(super) scopes_supported: Option<Vec<String>>,
}

/// RFC 8414 or OpenID Connect discovery: what an authorization server says about itself.
#[derive(Debug, Default, Deserialize)]
pub(super) struct AuthorizationServer {
    pub(super) issuer: Option<String>,
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: Option<String>,
    pub(super) registration_endpoint: Option<String>,
    pub(super) scopes_supported: Option<Vec<String>>,
    pub(super) code_challenge_methods_supported: Option<Vec<String>>,
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    pub(super) authorization_response_iss_parameter_supported: Option<bool>,
    pub(super) client_id_metadata_document_supported: Option<bool>,
}

/// Where a server's own metadata may be, best place first.
pub(super) fn resource_metadata_urls(server: &Url) -> Vec<Url> {
    let path = server.path().trim_end_matches('/');
    let mut urls = Vec::new();
    if !path.is_empty() {
        urls.push(with_path(server, &format!("{PROTECTED_RESOURCE}{path}")));
    }
    let mut root = with_path(server, PROTECTED_RESOURCE);
    root.set_query(None);
    urls.push(root);
    urls
}

/// Where the metadata of an issuer may be, in the order MCP demands. Issuers with a path never fall
/// back to the root, which belongs to somebody else.
pub(super) fn server_metadata_urls(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut paths = vec![format!("{AUTHORIZATION_SERVER}{path}"), format!("{OPENID}{path}")];
    if !path.is_empty() {
        paths.push(format!("{path}{OPENID}"));
    }
    paths.iter().map(|path| with_path(issuer, path)).collect()
}

/// Whether a resource identifier speaks for the server at this URL: the same origin, and the same
/// path or one above it.
pub(super) fn covers(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let above = resource.path().trim_end_matches('/');
    let rest = server.path().strip_prefix(above);
    resource.origin().is_tuple()
        && resource.origin() == server.origin()
        && resource.fragment().is_none()
        && resource.username().is_empty()
        && resource.query().is_none_or(|query| server.query() == Some(query))
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether metadata of `found` may be used for `expected`. The two must be the same text; only the
/// slash that URL parsers add to a bare host makes no difference, because it makes none for where
/// the metadata was found either.
pub(super) fn is_same_issuer(expected: &str, found: &str) -> bool {
    let bare = |text: &str| match Url::parse(text) {
        Ok(url) if url.path() == "/" && text.ends_with('/') => text[..text.len() - 1].to_owned(),
        _ => text.to_owned(),
    };
    expected == found || bare(expected) == bare(found)
}

/// How the server at this URL is called when it does not say so itself.
pub(super) fn canonical(server: &Url) -> String {
    let mut server = server.clone();
    server.set_fragment(None);
    let text = String::from(server.clone());
    match server.path() == "/" && server.query().is_none() {
        true => text.trim_end_matches('/').to_owned(),
        false => text,
    }
}

fn with_path(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_path(path);
    url.set_fragment(None);
    url
}

#[cfg(test)]
mod tests;
