//! Turns JSON as editors write it, with comments and commas too many, into JSON.

/// Comments become spaces and commas before a closing bracket go; strings stay as they are.
pub(super) fn to_json(text: &str) -> String {
    without_loose_commas(&without_comments(text))
}

fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let end = match c {
            '"' => string_end(rest),
            '/' if rest.starts_with("//") => {
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
                continue;
            }
            '/' if rest.starts_with("/*") => {
                out.push(' ');
                rest = rest[2..].split_once("*/").map_or("", |(_, after)| after);
                continue;
            }
            _ => c.len_utf8(),
        };
        out.push_str(&rest[..end]);
        rest = &rest[end..];
    }
    out
}

fn without_loose_commas(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let end = if c == '"' { string_end(rest) } else { c.len_utf8() };
        let loose = c == ',' && rest[1..].trim_start().starts_with(['}', ']']);
        if !loose {
            out.push_str(&rest[..end]);
        }
        rest = &rest[end..];
    }
    out
}

/// Where the string ends that `text` begins with.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (n, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return n + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_loose_commas_go_and_strings_stay() {
        let rows = [
            ("{\"a\": 1} // end", "{\"a\": 1} "),
            ("{/* a\n */\"a\":[1, 2,\n],\n}", "{ \"a\":[1, 2\n]\n}"),
            (r#"{"u":"http://h/*x*/","q":"a\",]"}"#, r#"{"u":"http://h/*x*/","q":"a\",]"}"#),
            ("[1, // one\n]", "[1 \n]"),
            ("\"open // ", "\"open // "),
            ("/* open", " "),
            ("é, ü", "é, ü"),
        ];
        for (text, expected) in rows {
            assert_eq!(to_json(text), expected, "{text}");
        }
    }
}
