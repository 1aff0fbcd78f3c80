//! Where the old transports want messages posted: resolving the `endpoint` event against the URL
//! of the stream, on the same origin only; or fixed places below a URL.

use http::Uri;
use http::uri::{PathAndQuery, Scheme};

use super::error::ClientError;

/// Resolves what an `endpoint` event said. Another origin is refused: credentials meant for one
/// server must not be sent to whatever a stream names.
pub(crate) fn resolve(base: &Uri, reference: &str) -> Result<Uri, ClientError> {
    let bad = || ClientError::protocol(format!("its endpoint is no URL: \"{reference}\""));
    let reference = reference.trim();
    let reference = reference.split('#').next().unwrap_or_default();
    let is_absolute = reference.split(['/', '?']).next().is_some_and(|start| start.contains(':'));
    let resolved = if is_absolute {
        reference.parse::<Uri>().map_err(|_| bad())?
    } else if let Some(network_path) = reference.strip_prefix("//") {
        let scheme = base.scheme_str().unwrap_or("http");
        format!("{scheme}://{network_path}").parse().map_err(|_| bad())?
    } else {
        let path = path_of(base.path(), reference);
        let path = PathAndQuery::try_from(path).map_err(|_| bad())?;
        let mut parts = base.clone().into_parts();
        parts.path_and_query = Some(path);
        Uri::from_parts(parts).map_err(|_| bad())?
    };
    if !same_origin(base, &resolved) {
        return Err(ClientError::protocol(format!(
            "its endpoint \"{reference}\" is on another origin, nothing is sent there"
        )));
    }
    Ok(resolved)
}

/// A fixed place below a URL.
pub(crate) fn below(base: &Uri, name: &str) -> Result<Uri, ClientError> {
    let bad = |_| ClientError::Setup(format!("\"{base}\" cannot be followed by /{name}"));
    let path = base.path().trim_end_matches('/');
    let query = base.query().map(|query| format!("?{query}")).unwrap_or_default();
    let path = PathAndQuery::try_from(format!("{path}/{name}{query}")).map_err(bad)?;
    let mut parts = base.clone().into_parts();
    parts.path_and_query = Some(path);
    // A URL with another path is still a URL.
    Ok(Uri::from_parts(parts).unwrap_or_else(|_| base.clone()))
}

/// The path and query a relative reference leads to.
fn path_of(base: &str, reference: &str) -> String {
    let (path, query) = match reference.split_once('?') {
        Some((path, query)) => (path, format!("?{query}")),
        None => (reference, String::new()),
    };
    if path.is_empty() {
        return format!("{base}{query}");
    }
    let folder = base.rfind('/').map_or("/", |at| &base[..=at]);
    let merged = if path.starts_with('/') { path.to_owned() } else { format!("{folder}{path}") };
    let mut segments: Vec<&str> = Vec::new();
    for segment in merged.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => drop(segments.pop()),
            other => segments.push(other),
        }
    }
    if merged.ends_with("/.") || merged.ends_with("/..") {
        segments.push("");
    }
    format!("/{}{query}", segments.join("/"))
}

fn same_origin(a: &Uri, b: &Uri) -> bool {
    let host = |uri: &Uri| uri.host().map(str::to_ascii_lowercase);
    let has_user = b.authority().is_some_and(|authority| authority.as_str().contains('@'));
    a.scheme() == b.scheme() && host(a) == host(b) && port(a) == port(b) && !has_user
}

fn port(uri: &Uri) -> Option<u16> {
    uri.port_u16().or_else(|| match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTPS => Some(443),
        Some(scheme) if *scheme == Scheme::HTTP => Some(80),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(base: &str, reference: &str, expected: Option<&str>) {
        let resolved = resolve(&base.parse().unwrap(), reference).ok().map(|uri| uri.to_string());
        assert_eq!(resolved.as_deref(), expected, "{reference} from {base}");
    }

    #[test]
    fn references_are_resolved_against_the_stream() {
        let base = "http://h:8080/a/sse?x=1";
        for (reference, expected) in [
            ("/messages?session_id=1", "http://h:8080/messages?session_id=1"),
            ("messages?s=1", "http://h:8080/a/messages?s=1"),
            ("./m", "http://h:8080/a/m"),
            ("../m?q=../..", "http://h:8080/m?q=../.."),
            ("../../../m", "http://h:8080/m"),
            ("?session=2", "http://h:8080/a/sse?session=2"),
            ("http://H:8080/m#part", "http://H:8080/m"),
            ("//h:8080/m", "http://h:8080/m"),
            (" /m\n", "http://h:8080/m"),
        ] {
            check(base, reference, Some(expected));
        }
        check("http://h/sse", "http://h:80/m", Some("http://h:80/m"));
    }

    #[test]
    fn fixed_places_are_below_the_url() {
        for (base, expected) in [
            ("http://h:8080", "http://h:8080/sse"),
            ("http://h:8080/", "http://h:8080/sse"),
            ("http://h/a/b/", "http://h/a/b/sse"),
            ("http://h/a?k=1", "http://h/a/sse?k=1"),
        ] {
            assert_eq!(below(&base.parse().unwrap(), "sse").unwrap().to_string(), expected);
        }
    }

    #[test]
    fn other_origins_and_nonsense_are_refused() {
        for reference in [
            "http://evil/m",
            "//evil/m",
            "https://h:8080/m",
            "http://h/m",
            "http://h:8080@evil/m",
            "http://user@h:8080/m",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "/a b",
        ] {
            check("http://h:8080/sse", reference, None);
        }
    }
}
