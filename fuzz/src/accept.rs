//! `parse_accept` against a reader that splits strings, and what must hold for every decision.

use lyceum_http::accept::{AcceptMode, Acceptance, Offer, Specificity, parse_accept};
use lyceum_http::dialect::{Decision, Dialect, GetAnswer, decide_get, decide_post};

/// Reads `data`, split at line feeds, as the Accept lines of a request.
pub fn check(data: &[u8]) {
    let lines: Vec<&[u8]> = data.split(|&byte| byte == b'\n').collect();
    let acceptance = parse_accept(lines.iter().copied());
    // The plain reader knows no quotes.
    if let Ok(text) = std::str::from_utf8(data)
        && !text.contains('"')
    {
        same("application", "json", &acceptance.json, text);
        same("text", "event-stream", &acceptance.sse, text);
        same("text", "html", &acceptance.html, text);
    }
    let upper = data.to_ascii_uppercase();
    assert_eq!(acceptance, parse_accept(upper.split(|&byte| byte == b'\n')), "case matters");
    let more = lines.iter().copied().chain([b"image/png;q=0.9, application/xml".as_slice()]);
    decisions(&acceptance, &parse_accept(more));
}

fn decisions(acceptance: &Acceptance, with_more: &Acceptance) {
    let takes_either = !matches!(acceptance.mode(), AcceptMode::Absent | AcceptMode::Invalid);
    for dialect in Dialect::ALL {
        let policy = dialect.policy();
        for (method, sse) in [("tools/call", true), ("tools/list", true), ("tools/call", false)] {
            let verdict = decide_post(policy, acceptance, method, sse);
            let streams = matches!(verdict.decision, Decision::Sse | Decision::ServersChoice);
            assert!(!streams || sse && acceptance.sse.accepted(), "{verdict:?} in {dialect}");
            assert!(!verdict.can_stream || sse, "{verdict:?} in {dialect}");
            let (answer, rule) = decide_get(policy, acceptance, sse);
            assert!(answer != GetAnswer::Stream || sse, "{answer:?} by {rule} in {dialect}");
            if takes_either {
                assert_eq!(verdict, decide_post(policy, with_more, method, sse), "{dialect}");
                assert_eq!((answer, rule), decide_get(policy, with_more, sse), "{dialect}");
            }
        }
        let listen = decide_post(policy, acceptance, "subscriptions/listen", true).decision;
        let expected =
            if acceptance.sse.accepted() { Decision::Sse } else { Decision::NotAcceptable };
        assert_eq!(listen, expected, "{dialect}");
    }
}

/// Compares an offer with what a reader that splits strings makes of it.
fn same(kind: &str, subtype: &str, offer: &Offer, text: &str) {
    let (mut best, mut quality) = (Specificity::None, 0.0f64);
    for element in text.split([',', '\n']) {
        let mut parts = element.split(';');
        let range = parts.next().unwrap_or_default().trim_matches(is_space).to_ascii_lowercase();
        let specificity = match range.split_once('/') {
            _ if range == "*" => Specificity::Any,
            Some((a, b)) => match (a.trim_matches(is_space), b.trim_matches(is_space)) {
                ("*", "*") => Specificity::Any,
                (a, "*") if a == kind => Specificity::Type,
                (a, b) if a == kind && b == subtype => Specificity::Exact,
                _ => continue,
            },
            None => continue,
        };
        let q = parts.filter_map(|part| part.split_once('=')).find_map(|(name, value)| {
            let is_q = name.trim_matches(is_space).eq_ignore_ascii_case("q");
            is_q.then(|| value.trim_matches(is_space).to_owned())
        });
        let q = q.and_then(|q| number(&q)).unwrap_or(1.0).clamp(0.0, 1.0);
        if specificity > best {
            (best, quality) = (specificity, q);
        } else if specificity == best {
            quality = quality.max(q);
        }
    }
    assert_eq!(offer.specificity, best, "{kind}/{subtype} in {text:?}");
    let told: f64 = offer.quality.to_string().parse().expect("a quality is a number");
    assert!((told - quality).abs() < 2e-9, "{told} for {quality} of {kind}/{subtype} in {text:?}");
    assert_eq!(offer.accepted(), quality > 0.0, "{kind}/{subtype} in {text:?}");
}

/// A decimal number without exponent, as `f64` reads it.
fn number(text: &str) -> Option<f64> {
    let plain = |byte: u8| byte.is_ascii_digit() || b"+-.".contains(&byte);
    if text.bytes().all(plain) { text.parse().ok() } else { None }
}

fn is_space(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\r' | '\u{c}')
}
