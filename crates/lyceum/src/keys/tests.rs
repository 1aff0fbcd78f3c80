//! Keys, gates and tokens: who gets in, and what is written down when somebody does not.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use lyceum_http::Principal;
use lyceum_kb::store::AuditEntry;
use tokio::sync::mpsc::Receiver;

use super::*;
use crate::config::Secret;

const HOUR: Millis = 3_600_000;

/// A header line.
type Line<'a> = (&'static str, &'a str);

fn headers(lines: &[Line<'_>]) -> HeaderMap {
    let line = |&(name, value): &Line<'_>| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
    };
    lines.iter().map(line).collect()
}

/// A gate in front of `keys`, and what it writes down.
fn gate(
    keys: Vec<lyceum_kb::store::ApiKey>,
    admission: Admission,
    always: bool,
) -> (Gate, Receiver<AuditEntry>) {
    let (refusals, lines) = Refusals::new();
    let ring = Arc::new(KeyRing::made_of(keys));
    (Gate::new(ring, Arc::new(refusals), admission, always, "/door"), lines)
}

#[test]
fn keys_are_read_back_and_nothing_else_is() {
    let key = Key::generate();
    let text = key.reveal();
    assert_eq!(text.len(), "lyc_".len() + 10 + 1 + 43 + 1 + 6);
    assert_eq!(Key::parse(&text), Some(key.clone()));
    assert_ne!(Key::generate().reveal(), text);
    assert!(!format!("{key:?}").contains(&key.secret));
    for at in 0..text.len() {
        let mut wrong = text.clone().into_bytes();
        wrong[at] = if wrong[at] == b'x' { b'y' } else { b'x' };
        assert_eq!(Key::parse(&String::from_utf8(wrong).unwrap()), None, "changed at {at}");
    }
    for wrong in ["", "lyc", "lyc___", "lyc_a_b_c", &format!("{text}_x"), &format!(" {text}")] {
        assert_eq!(Key::parse(wrong), None, "{wrong:?}");
    }
}

#[test]
fn checksums_are_those_of_crc32() {
    // What zlib says of the same text, in base 62.
    let text = Key { id: "a".repeat(10), secret: "b".repeat(43) }.reveal();
    assert!(text.ends_with("_2bWfDP"), "{text}");
}

#[test]
fn lifetimes_are_read() {
    let rows = [
        ("90d", Some(Lifetime::Milliseconds(90 * 24 * HOUR))),
        ("12h", Some(Lifetime::Milliseconds(12 * HOUR))),
        ("5m", Some(Lifetime::Milliseconds(5 * 60_000))),
        ("never", Some(Lifetime::Unlimited)),
        ("0d", None),
        ("-1d", None),
        ("d", None),
        ("90", None),
        ("99999999999999999999d", None),
        ("9223372036854775807h", None),
    ];
    for (text, expected) in rows {
        assert_eq!(text.parse::<Lifetime>().ok(), expected, "{text}");
    }
}

#[test]
fn names_are_plain() {
    for (name, good) in
        [("gpt-4.1_x", true), ("", false), ("a b", false), ("a/b", false), ("é", false)]
    {
        assert_eq!(check_name(name).is_ok(), good, "{name:?}");
    }
}

#[test]
fn only_good_keys_open_a_gate() {
    let (good, expired, revoked, other) =
        (Key::generate(), Key::generate(), Key::generate(), Key::generate());
    let mut gone = revoked.record("gone", 0, None);
    gone.revoked_at = Some(1);
    let keys = vec![
        good.record("good", 0, Some(now() + HOUR)),
        expired.record("late", 0, Some(now() - 1)),
        gone,
        other.record("other", 0, None),
    ];
    let unknown = Key::generate().reveal();
    let mixed = Key { id: good.id.clone(), secret: other.secret.clone() }.reveal();
    let (good, other) = (good.reveal(), other.reveal());
    let bearer = format!("bEARER  {good}");
    let unauthenticated = Err(Denied::Unauthenticated);
    let rows: &[(&[Line<'_>], Result<&str, Denied>)] = &[
        (&[("x-api-key", &good)], Ok("good")),
        (&[("authorization", &bearer)], Ok("good")),
        (&[("x-api-key", &good), ("authorization", "Basic eA==")], Ok("good")),
        (&[("x-api-key", &other)], Err(Denied::Forbidden)),
        (&[], unauthenticated),
        (&[("x-api-key", "")], unauthenticated),
        (&[("x-api-key", "nonsense"), ("authorization", &bearer)], unauthenticated),
        (&[("authorization", &good)], unauthenticated),
        (&[("x-api-key", &unknown)], unauthenticated),
        (&[("x-api-key", &mixed)], unauthenticated),
        (&[("x-api-key", &expired.reveal())], unauthenticated),
        (&[("x-api-key", &revoked.reveal())], unauthenticated),
    ];
    let names = ["good", "late", "gone"].map(str::to_owned).to_vec();
    let (gate, mut lines) = gate(keys, Admission::Only(names), false);
    for (sent, expected) in rows {
        let entered = gate.enter(&headers(sent));
        let expected = expected.map(|name| Some(Principal::new(name)));
        assert_eq!(entered, expected, "{sent:?}");
        let line = lines.try_recv().ok().map(|line| (line.outcome, line.actor.principal));
        let told = expected.err().map(|denied| {
            let caller = if denied == Denied::Forbidden { "other" } else { "" };
            (denied.code().to_owned(), caller.to_owned())
        });
        assert_eq!(line, told, "{sent:?}");
    }
}

#[test]
fn keys_are_needed_once_there_is_one_or_the_address_is_public() {
    let revoked = || {
        let mut key = Key::generate().record("k", 0, None);
        key.revoked_at = Some(1);
        key
    };
    let only = Admission::Only(vec!["k".to_owned()]);
    let except = Admission::Except(vec!["k".to_owned()]);
    let (refusals, _lines) = Refusals::new();
    let secret = Secret::Value("0123456789abcdef".into());
    let token = PathToken::load("/{token}", secret, Arc::new(refusals)).unwrap();
    let rows = [
        (vec![], Admission::Any, false, true),
        (vec![], except.clone(), false, true),
        (vec![], Admission::Any, true, false),
        (vec![], except, true, false),
        (vec![], only, false, false),
        // The last key was revoked: locked, not open.
        (vec![revoked()], Admission::Any, false, false),
        (vec![revoked()], Admission::PathToken(token), true, true),
    ];
    for (keys, admission, always, open) in rows {
        let label = format!("{admission:?} {always} {}", keys.len());
        let (gate, _lines) = gate(keys, admission, always);
        let sent = headers(&[("x-api-key", "whatever")]);
        assert_eq!(gate.would_admit(&sent), open, "{label}");
    }
}

#[test]
fn keys_made_for_an_endpoint_stay_out_of_the_rest() {
    let (gpt, admin) = (Key::generate(), Key::generate());
    let keys = vec![gpt.record("gpt", 0, None), admin.record("admin", 0, None)];
    let (gate, _lines) = gate(keys, Admission::Except(vec!["gpt".to_owned()]), false);
    let enter = |key: &Key| gate.enter(&headers(&[("x-api-key", &key.reveal())]));
    assert_eq!(enter(&admin), Ok(Some(Principal::new("admin"))));
    assert_eq!(enter(&gpt), Err(Denied::Forbidden));
}

#[tokio::test(start_paused = true)]
async fn floods_of_refusals_leave_few_lines_and_a_number() {
    let (gate, mut lines) = gate(vec![], Admission::Any, true);
    let mut drain = || {
        let mut outcomes = Vec::new();
        while let Ok(line) = lines.try_recv() {
            outcomes.push(line.outcome);
        }
        outcomes
    };
    for _ in 0..1000 {
        assert!(gate.enter(&HeaderMap::new()).is_err());
    }
    assert_eq!(drain().len(), 60);
    tokio::time::advance(tokio::time::Duration::from_secs(2)).await;
    for _ in 0..1000 {
        assert!(gate.enter(&HeaderMap::new()).is_err());
    }
    assert_eq!(drain(), ["REFUSED 940 MORE", "UNAUTHENTICATED", "UNAUTHENTICATED"]);
}

#[test]
fn path_tokens_are_compared_whole_and_follow_their_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    let write = |token: &str| {
        std::fs::write(&file, token).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
    };
    write("0123456789abcdef\n");
    let (refusals, mut lines) = Refusals::new();
    let token =
        PathToken::load("/gpt-mcp/{token}/mcp", Secret::File(file.clone()), Arc::new(refusals))
            .unwrap();
    let rows = [
        ("/gpt-mcp/0123456789abcdef/mcp", true, false),
        ("/gpt-mcp/0123456789abcdeF/mcp", false, true),
        ("/gpt-mcp//mcp", false, true),
        ("/gpt-mcp/0123456789abcdef/mcp/", false, false),
        ("/gpt-mcp/0123456789abcdef", false, false),
        ("/gpt-mcp/x/0123456789abcdef/mcp", false, false),
        ("/gpt-mcp/{token}/mcp", false, true),
        ("/elsewhere", false, false),
    ];
    for (path, admitted, noted) in rows {
        assert_eq!(token.admits(path), admitted, "{path}");
        let line = lines.try_recv().ok();
        assert_eq!(line.is_some(), noted, "{path}");
        assert!(line.is_none_or(|line| line.actor.profile == "/gpt-mcp/{token}/mcp"));
    }
    let mut request = Request::new(());
    *request.uri_mut() = Uri::from_static("http://h/gpt-mcp/0123456789abcdef/mcp?a=b");
    token.conceal(&mut request);
    assert_eq!(request.uri().to_string(), "http://h/gpt-mcp/-/mcp?a=b");

    write("fedcba9876543210");
    token.refresh();
    assert!(!token.admits("/gpt-mcp/0123456789abcdef/mcp"));
    assert!(token.admits("/gpt-mcp/fedcba9876543210/mcp"));
    std::fs::remove_file(&file).unwrap();
    token.refresh();
    assert!(!token.admits("/gpt-mcp/fedcba9876543210/mcp"), "no token, no entry");
    write("short");
    token.refresh();
    assert!(!token.admits("/gpt-mcp/short/mcp"));
}
