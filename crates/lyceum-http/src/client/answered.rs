//! Which request of ours an answer is for that cannot be read as a message: one that nests too deep, say.
//!
//! Only looks for the members of the outermost object, and believes what it finds; nothing is
//! validated and nothing recurses.

use std::ops::Range;

use lyceum_wire::Id;
use memchr::memchr2;

use crate::ends::Ends;

/// The id of the response that `line` seems to be; None if it is something else.
pub(crate) fn answered(line: &[u8]) -> Option<Id> {
    let mut found = Found::default();
    search(line, &mut found)?;
    found.id.filter(|_| !found.is_request)
}

/// The same, of a line of which only the beginning and the end are known. Most servers write the id
/// before the result or at the very end.
pub(crate) fn answered_by(ends: &Ends) -> Option<Id> {
    let mut found = Found::default();
    // It ends in the middle of something.
    let _ = search(&ends.head, &mut found);
    match found.is_request {
        true => None,
        false => found.id.or_else(|| last_member(&ends.tail)),
    }
}

#[derive(Debug, Default)]
struct Found {
    id: Option<Id>,
    /// A question of the server's has an id of its own.
    is_request: bool,
}

/// Looks for the members of the outermost object; None if `line` is not whole.
fn search(line: &[u8], found: &mut Found) -> Option<()> {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = line.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b'"' => {
                let text = string(line, at)?;
                at = text.end + 1;
                match &line[text] {
                    b"method" if depth == 1 && is_name(line, at) => {
                        found.is_request = true;
                        return Some(());
                    }
                    b"id" if depth == 1 && is_name(line, at) => found.id = number(line, at),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    Some(())
}

/// The id that is the last member of an object that ends here.
fn last_member(tail: &[u8]) -> Option<Id> {
    let members = tail.trim_ascii_end().strip_suffix(b"}")?.trim_ascii_end();
    let n_digits = members.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (name, digits) = members.split_at(members.len() - n_digits);
    let before = name.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end();
    let before = before.strip_suffix(b"\"id\"")?.trim_ascii_end();
    let is_member = before.ends_with(b",") || before.ends_with(b"{");
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_member)?;
    digits.parse().ok().map(Id::number)
}

/// The string that begins here, without its quotes.
fn string(line: &[u8], start: usize) -> Option<Range<usize>> {
    let mut at = start;
    loop {
        at += memchr2(b'"', b'\\', line.get(at..)?)?;
        if line[at] == b'"' {
            return Some(start..at);
        }
        at += 2;
    }
}

fn is_name(line: &[u8], at: usize) -> bool {
    line[at..].trim_ascii_start().starts_with(b":")
}

/// The number after the colon; all ids of ours are numbers.
fn number(line: &[u8], at: usize) -> Option<Id> {
    let value = line[at..].trim_ascii_start().strip_prefix(b":")?;
    let end = memchr2(b',', b'}', value)?;
    let digits = std::str::from_utf8(&value[..end]).ok()?.trim();
    digits.parse().ok().map(Id::number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<u64>) {
        assert_eq!(answered(line.as_bytes()), expected.map(Id::number), "{line:.80}");
    }

    #[test]
    fn responses_are_known_by_their_id_wherever_it_is() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        check(&format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"a":{deep}}}}}"#), Some(7));
        check(&format!(r#"{{"result":{{"id":8,"a":{deep}}}, "id" : 7 }}"#), Some(7));
        check(&format!(r#"{{"result":{{"\"id\"":8,"b":"id","a":{deep}}},"id":7}}"#), Some(7));
    }

    #[test]
    fn what_is_no_response_answers_nothing() {
        let deep = "[".repeat(100_000);
        check(&format!(r#"{{"id":7,"method":"m","params":{{"a":{deep}}}}}"#), None);
        check(
            &format!(r#"{{"id":7,"params":{{"a":{}{}}},"method":"m"}}"#, deep, "]".repeat(100_000)),
            None,
        );
        check(&format!(r#"{{"result":{{"id":8,"a":{deep}"#), None);
        for line in [
            "",
            "{",
            "}",
            "]]",
            "\"",
            r#"{"id"#,
            r#"{"id"}"#,
            r#"{"id":"#,
            r#"{"id":"7"}"#,
            r#"{"id":7.5}"#,
            r#"{"id":-1}"#,
            r#"{"id":null}"#,
            r#"{"x\"#,
        ] {
            check(line, None);
        }
    }

    #[test]
    fn responses_are_known_by_their_ends() {
        let result = format!(r#""result":{{"id":8,"text":"{}"}}"#, "x".repeat(100_000));
        for (line, expected) in [
            (format!(r#"{{"jsonrpc":"2.0","id":7,{result}}}"#), Some(7)),
            (format!(r#"{{{result},"jsonrpc":"2.0","id":7}}"#), Some(7)),
            (format!(r#"{{{result}, "id" : 7 }} "#), Some(7)),
            (format!(r#"{{"id":7,"method":"m","params":{{{result}}}}}"#), None),
            (format!(r#"{{"jsonrpc":"2.0",{result}}}"#), None),
            (format!(r#"{{{result},"text":"\"id\":7}}"#), None),
        ] {
            let mut ends = Ends::default();
            ends.note(line.as_bytes());
            assert_eq!(answered_by(&ends), expected.map(Id::number), "{line:.80}");
        }
    }
}
