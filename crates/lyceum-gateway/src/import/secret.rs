//! Tells what is probably a secret. In doubt it is one: the cost is a variable to set.

use url::Url;

/// Parts of names of things that are kept to oneself.
const NAMES: &[&str] = &[
    "TOKEN",
    "KEY",
    "SECRET",
    "PASS",
    "PWD",
    "AUTH",
    "CRED",
    "COOKIE",
    "SESSION",
    "PRIVATE",
    "DSN",
    "SIGNATURE",
    "BEARER",
];
/// How well-known secrets begin.
const PREFIXES: &[&str] = &[
    "sk-",
    "pk-",
    "ghp_",
    "gho_",
    "github_pat_",
    "glpat-",
    "xox",
    "AKIA",
    "eyJ",
    "Bearer ",
    "Basic ",
];
/// Headers that hold none.
const OPEN_HEADERS: &[&str] = &["accept", "accept-language", "content-type", "user-agent"];

/// Whether something of this name and value is a secret.
pub(super) fn is_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let named = NAMES.iter().any(|part| name.contains(part)) || name.split('_').any(|w| w == "PAT");
    // An empty value is a place where one belongs.
    (named && !is_switch(value)) || is_secret_value(value)
}

/// Whether a header of this name is known to hold no secret.
pub(super) fn is_open_header(name: &str) -> bool {
    OPEN_HEADERS.iter().any(|open| open.eq_ignore_ascii_case(name))
}

/// The argument that seems to be a secret, by its number.
pub(super) fn in_arguments(command: &[String]) -> Option<usize> {
    let flag = |word: &str| word.starts_with('-').then(|| word.trim_start_matches('-').to_owned());
    (1..command.len()).find(|&n| {
        let word = &command[n];
        let assigned = word.split_once(['=', ':']).is_some_and(|(name, value)| {
            let name = name.trim_start_matches('-').replace('-', "_");
            !name.contains('/') && is_secret(&name, value.trim())
        });
        let after_flag = flag(&command[n - 1])
            .filter(|name| !name.contains('='))
            .is_some_and(|name| flag(word).is_none() && is_secret(&name.replace('-', "_"), word));
        assigned || after_flag || is_secret_value(word)
    })
}

/// Whether an address has a password or a key in it.
pub(super) fn in_url(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    // Schemes of our own are read like the web's, which have a host and a query.
    let Ok(url) = Url::parse(&format!("https://{rest}")) else { return false };
    url.password().is_some() || url.query_pairs().any(|(name, value)| is_secret(&name, &value))
}

fn is_secret_value(value: &str) -> bool {
    if PREFIXES.iter().any(|prefix| value.starts_with(prefix)) {
        return true;
    }
    if value.contains("://") {
        return Url::parse(value).is_ok_and(|url| url.password().is_some());
    }
    // A long word of letters and digits is not meant to be read.
    let word = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-+=.".contains(&byte));
    let mixed = value.bytes().any(|byte| byte.is_ascii_digit())
        && value.bytes().any(|byte| byte.is_ascii_alphabetic());
    value.len() >= 24 && word && mixed && !value.contains("--")
}

/// `AUTH_ENABLED=true` keeps nothing secret.
fn is_switch(value: &str) -> bool {
    matches!(
        value.to_ascii_lowercase().as_str(),
        "true" | "false" | "0" | "1" | "yes" | "no" | "none"
    )
}
