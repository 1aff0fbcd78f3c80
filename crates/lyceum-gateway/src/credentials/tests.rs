//! Sources, headers made of them, and what they must not show.

use std::fs;

use super::*;

fn env(name: &str) -> Option<String> {
    (name == "TOKEN").then(|| "from-env".to_owned())
}

/// Resolves one header, or tells why not.
fn check(name: &str, source: &str, expected: Result<&str, &str>) {
    let found = headers(&[(name.to_owned(), HeaderSource::parse(source))], &env);
    match (found, expected) {
        (Ok(found), Ok(expected)) => {
            let value = &found[name];
            assert_eq!(value, expected, "{source}");
            assert!(value.is_sensitive(), "{source}");
        }
        (Err(error), Err(part)) => {
            let text = error.to_string();
            assert!(text.contains(part), "{source}: {text}");
        }
        (found, _) => panic!("{source}: {found:?}, not {expected:?}"),
    }
}

#[test]
fn values_come_from_text_or_the_environment() {
    check("x-key", "plain", Ok("plain"));
    check("authorization", "Bearer a:b", Ok("Bearer a:b"));
    check("x-key", "env:TOKEN", Ok("from-env"));
    check("x-key", "env:OTHER", Err("the environment has no OTHER"));
}

#[test]
fn a_file_is_read_anew_each_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    let source = HeaderSource::parse(&format!("file:{}", path.display()));
    assert!(source.resolve(&env).unwrap_err().to_string().contains("cannot read"));
    for text in ["first\n", "second\r\n", "third"] {
        fs::write(&path, text).unwrap();
        set_mode(&path, 0o600);
        assert_eq!(source.resolve(&env).unwrap().expose(), text.trim_end());
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_others_can_read_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    fs::write(&path, "hunter2").unwrap();
    set_mode(&path, 0o640);
    let source = HeaderSource::parse(&format!("file:{}", path.display()));
    let refused = source.resolve(&env).unwrap_err();
    let why = std::error::Error::source(&refused).unwrap().to_string();
    assert!(why.contains("chmod 600"), "{why}");
}

/// Who may do what with a file, where there is such a thing.
fn set_mode(path: &std::path::Path, mode: u32) {
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    #[cfg(not(unix))]
    let _ = (path, mode);
}

#[test]
fn headers_of_the_client_are_not_for_the_operator() {
    check("Mcp-Session-Id", "x", Err("set by the client itself"));
    check("Host", "x", Err("set by the client itself"));
    check("no good", "x", Err("is no header name"));
    check("x-key", "two\nlines", Err("do not fit in a header"));
    check("x-key", "J\u{f6}rg", Err("do not fit in a header"));
}

#[test]
fn secrets_do_not_show() {
    let configured = |text| [("x-key".to_owned(), HeaderSource::parse(text))];
    let good = configured("hunter2");
    let shown = format!("{good:?} {:?}", headers(&good, &env).unwrap());
    assert!(!shown.contains("hunter2"), "{shown}");
    let error = headers(&configured("hunter2\n"), &env).unwrap_err();
    assert!(!format!("{error:?} {error}").contains("hunter2"));
}
