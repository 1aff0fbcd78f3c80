//! Steps through JSON that was parsed before, so that nothing in it needs to be judged again.
//!
//! Given anything else it finds something or nothing, but never fails.

use std::borrow::Cow;

use crate::scan::plain_run;
use crate::text::unescape;

/// Members for which room is made at first: most objects have no more.
const FEW: usize = 8;

/// Names and values; a name is a copy only if it has escapes.
pub(crate) type Members<'a> = Vec<(Cow<'a, str>, &'a str)>;

/// The members of an object, in their order; none if this is no object.
pub(crate) fn members(text: &str) -> Members<'_> {
    let start = after_space(text.as_bytes(), 0);
    members_at(text, start, |_, at| value_end(text.as_bytes(), at)).0
}

/// The same, and the members of the object that is the member `inner`, in one pass.
pub(crate) fn members_with<'a>(text: &'a str, inner: &str) -> (Members<'a>, Members<'a>) {
    let bytes = text.as_bytes();
    let mut inside = Vec::new();
    let (members, _) = members_at(text, after_space(bytes, 0), |name, at| {
        if name != inner || bytes.get(at) != Some(&b'{') {
            return value_end(bytes, at);
        }
        let end;
        (inside, end) = members_at(text, at, |_, at| value_end(bytes, at));
        end
    });
    (members, inside)
}

/// The members of the object that starts here, and where it ends. `value_end` says where the value of
/// a member ends.
fn members_at<'a>(
    text: &'a str,
    mut at: usize,
    mut value_end: impl FnMut(&str, usize) -> usize,
) -> (Members<'a>, usize) {
    let bytes = text.as_bytes();
    if bytes.get(at) != Some(&b'{') {
        return (Vec::new(), at);
    }
    let mut members = Vec::with_capacity(FEW);
    at = after_space(bytes, at + 1);
    while bytes.get(at) == Some(&b'"') {
        let (name_end, is_escaped) = string_end(bytes, at);
        let name = text.get(at + 1..name_end - 1).unwrap_or_default();
        let name = if is_escaped { Cow::Owned(unescape(name)) } else { Cow::Borrowed(name) };
        // A colon comes after the name, a comma or the end after the value.
        let start = after_space(bytes, after_space(bytes, name_end) + 1);
        let end = value_end(&name, start);
        members.push((name, text.get(start..end).unwrap_or_default()));
        at = after_space(bytes, end);
        if bytes.get(at) != Some(&b',') {
            break;
        }
        at = after_space(bytes, at + 1);
    }
    (members, at + 1)
}

fn after_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(at) {
        at += 1;
    }
    at
}

/// Where the value ends that starts here.
fn value_end(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at) {
        Some(b'"') => string_end(bytes, at).0,
        Some(b'{' | b'[') => container_end(bytes, at),
        _ => {
            let rest = bytes.get(at..).unwrap_or_default();
            let is_part = |byte: &&u8| !matches!(byte, b',' | b'}' | b']') && **byte > b' ';
            at + rest.iter().take_while(is_part).count()
        }
    }
}

fn container_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = string_end(bytes, at).0;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    at
}

/// Where the string ends whose first quote is here, and whether it has escapes.
#[inline]
fn string_end(bytes: &[u8], at: usize) -> (usize, bool) {
    let plain_end = plain_run(bytes, at + 1);
    let mut end = plain_end;
    while bytes.get(end) == Some(&b'\\') {
        end = plain_run(bytes, end + 2);
    }
    (end + 1, end != plain_end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Object;

    /// What is found in JSON is what the parser finds in it.
    fn check(raw: &str) {
        let parsed = Object::parse(raw.as_bytes()).unwrap();
        let parsed: Vec<_> = parsed.into_iter().collect();
        assert_eq!(members(raw), parsed, "{raw}");
        for (name, value) in &parsed {
            let inside = if value.starts_with('{') { members(value) } else { Vec::new() };
            assert_eq!(members_with(raw, name), (members(raw), inside), "{raw}");
        }
    }

    #[test]
    fn members_are_those_the_parser_finds() {
        for raw in [
            "{}",
            " { } ",
            r#"{"a":1}"#,
            r#" { "a" : 1 , "b" : [ ] , "c" : { } } "#,
            r#"{"a":-1.5e+10,"b":true,"c":null,"d":"x"}"#,
            r#"{"a":{"b":["}",{"]":"\"{\\"}]},"c":"\\","d":"\\\""}"#,
            r#"{"\u0061b":"\u00e9","é":"\ud83d\ude00","":""}"#,
            "{\"a\":[1,\n2],\t\"b\":\"long enough for several words of eight\"}",
        ] {
            check(raw);
        }
        let many: Vec<_> = (0..100).map(|n| format!(r#""m{n}":[{n}]"#)).collect();
        check(&format!("{{{}}}", many.join(",")));
    }

    #[test]
    fn what_was_never_parsed_does_no_harm() {
        let good = r#"{"a":{"b":["}",{"]":"\"{\\é"}]},"c":"é\\","d":1}"#;
        for at in 0..good.len() {
            for junk in ["", "\"", "\\", "{", "]", ",", ":", "é"] {
                let Some((start, end)) = good.split_at_checked(at) else { continue };
                members(&format!("{start}{junk}{end}"));
                members(&format!("{start}{junk}"));
                members_with(&format!("{start}{junk}{end}"), "a");
                members_with(&format!("{start}{junk}"), "a");
            }
        }
        for other in ["", "[]", "1", "\"a\"", "{\"", "{\"a\"", "{\"a\\"] {
            members(other);
        }
    }
}
