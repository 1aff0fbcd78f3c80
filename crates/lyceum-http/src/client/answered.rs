//! Which request of ours an answer is for that cannot be read as a message: one that nests too deep, say.
//!
//! Only looks for the members of the outermost object, and believes what it finds; nothing is
//! validated and nothing recurses.

use std::ops::Range;

use lyceum_wire::Id;
use memchr::memchr2;

/// The id of the response that `line` seems to be; None if it is something else.
pub(crate) fn answered(line: &[u8]) -> Option<Id> {
    let (mut at, mut depth, mut id) = (0, 0_usize, None);
    while let Some(byte) = line.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b'"' => {
                let text = string(line, at)?;
                at = text.end + 1;
                match &line[text] {
                    // A question of the server's has an id of its own.
                    b"method" if depth == 1 && is_name(line, at) => return None,
                    b"id" if depth == 1 && is_name(line, at) => id = number(line, at),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    id
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
}
