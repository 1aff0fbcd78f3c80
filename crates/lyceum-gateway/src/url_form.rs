//! The URL forms of upstreams that Knox knows, and its list of them.
//!
//! Only takes them apart: whether a command may run and what a server speaks is found out elsewhere.

use url::Url;

#[cfg(test)]
mod tests;

/// Every form, for people who wrote another.
const FORMS: &str =
    "stdio://, http://, https://, sse://, sses://, custom-http-sse://, custom-https-sse://";

/// Where an upstream is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A child process: a program and its arguments.
    Command(Vec<String>),
    /// A server of any revision, or one that only answers JSON-RPC posts.
    StreamableHttp(Url),
    /// A 2024-11-05 server, whose stream says where to post.
    HttpSse(Url),
    /// A server with a stream and a place to post that are known beforehand.
    CustomSse {
        /// Where to GET the stream.
        events: Url,
        /// Where to POST messages.
        messages: Url,
    },
}

/// A server of a list in Knox's manner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<'a> {
    /// Its name, as Knox's clients know it.
    pub name: &'a str,
    /// One of the seven forms.
    pub url: &'a str,
}

/// Why a URL is none of an upstream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadForm {
    /// It has no scheme, or one that means nothing here.
    #[error("{0:?} is not the URL of an upstream; supported are {FORMS}")]
    Scheme(String),
    /// There is nothing to run.
    #[error("stdio:// needs a command, as in stdio://npx some-server")]
    NoCommand,
    /// What follows the scheme cannot be read.
    #[error("{url:?} cannot be read: {reason}")]
    Unreadable {
        /// The URL.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Target {
    /// Reads any of the seven forms.
    pub fn parse(text: &str) -> Result<Target, BadForm> {
        let text = text.trim();
        let unknown = || BadForm::Scheme(text.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(unknown)?;
        let over = |scheme: &str| web(text, &format!("{scheme}://{rest}"));
        match scheme.to_ascii_lowercase().as_str() {
            // Knox knows no quotes either: an argument with a space needs the `command` setting.
            "stdio" => match rest.split_whitespace().map(str::to_owned).collect::<Vec<_>>() {
                words if words.is_empty() => Err(BadForm::NoCommand),
                words => Ok(Target::Command(words)),
            },
            "http" => over("http").map(Target::StreamableHttp),
            "https" => over("https").map(Target::StreamableHttp),
            "sse" => over("http").map(|base| Target::HttpSse(below(&base, "sse"))),
            "sses" => over("https").map(|base| Target::HttpSse(below(&base, "sse"))),
            "custom-http-sse" => over("http").map(Target::custom),
            "custom-https-sse" => over("https").map(Target::custom),
            _ => Err(unknown()),
        }
    }

    fn custom(base: Url) -> Target {
        Target::CustomSse { events: below(&base, "sse"), messages: below(&base, "message") }
    }
}

/// Takes apart a comma-separated list of `name:url`. Entries that are none come second.
pub fn parse_servers(list: &str) -> (Vec<Listed<'_>>, Vec<&str>) {
    let (mut servers, mut malformed) = (Vec::new(), Vec::new());
    for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let parts = entry.split_once(':').map(|(name, url)| (name.trim(), url.trim()));
        match parts {
            // What looks like a name may be the scheme of a URL that nobody named.
            Some((name, url)) if !name.is_empty() && !url.is_empty() && !url.starts_with("//") => {
                // Knox posts to the URL without the slash at its end.
                let trimmed = if url.starts_with("http") { url.trim_end_matches('/') } else { url };
                servers.push(Listed { name, url: trimmed });
            }
            _ => malformed.push(entry),
        }
    }
    (servers, malformed)
}

fn web(text: &str, url: &str) -> Result<Url, BadForm> {
    let unreadable = |reason: String| BadForm::Unreadable { url: text.to_owned(), reason };
    Url::parse(url).map_err(|error| unreadable(error.to_string()))
}

/// `base` with one more segment, unless that is its last already.
fn below(base: &Url, segment: &str) -> Url {
    let path = base.path().trim_end_matches('/');
    let mut url = base.clone();
    if path.rsplit('/').next() == Some(segment) {
        url.set_path(path);
    } else {
        url.set_path(&format!("{path}/{segment}"));
    }
    url
}
