//! The URL forms of upstreams that Knox knows, and its list of them.
//!
//! Only takes them apart: whether a command may run and what a server speaks is found out elsewhere.

use url::Url;

use crate::config::Target;

#[cfg(test)]
mod tests;

/// Every form, for people who wrote another.
const FORMS: &str =
    "stdio://, http://, https://, sse://, sses://, custom-http-sse://, custom-https-sse://";

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
            "http" => over("http").map(|url| Target::Http(url.into())),
            "https" => over("https").map(|url| Target::Http(url.into())),
            "sse" => over("http").map(stream),
            "sses" => over("https").map(stream),
            "custom-http-sse" => over("http").map(custom),
            "custom-https-sse" => over("https").map(custom),
            _ => Err(unknown()),
        }
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

/// The stream below `base`, unless `base` is the stream already.
fn stream(base: Url) -> Target {
    let path = base.path().trim_end_matches('/');
    let mut url = base.clone();
    let below = if path.ends_with("/sse") { "" } else { "/sse" };
    url.set_path(&format!("{path}{below}"));
    Target::HttpSse(url.into())
}

fn custom(base: Url) -> Target {
    Target::CustomSse(base.as_str().trim_end_matches('/').to_owned())
}
