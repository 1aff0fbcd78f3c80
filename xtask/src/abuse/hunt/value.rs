//! Hostile values as JSON text: very long, very many, very deep, repetitive, hard to fold or escape.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::schema::ArgumentKind;
use crate::abuse::request::NONCE;

/// A value and what is hostile about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostileValue {
    pub(super) label: &'static str,
    /// Whether the fast subset has it.
    pub(super) quick: bool,
    make: fn() -> String,
}

impl HostileValue {
    const fn new(label: &'static str, make: fn() -> String) -> Self {
        Self { label, quick: false, make }
    }

    const fn quick(label: &'static str, make: fn() -> String) -> Self {
        Self { label, quick: true, make }
    }

    /// The value as JSON. Made once, because values are tried on many arguments.
    pub(super) fn json(&self) -> Arc<str> {
        static MADE: Mutex<BTreeMap<usize, Arc<str>>> = Mutex::new(BTreeMap::new());
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        let text = made.entry(self.make as usize).or_insert_with(|| (self.make)().into());
        Arc::clone(text)
    }

    /// A string's text, for where it does not travel as JSON, cut off at so many bytes.
    pub(super) fn percent_encoded(&self, most: usize) -> String {
        static MADE: Mutex<BTreeMap<usize, Arc<str>>> = Mutex::new(BTreeMap::new());
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        let encoded = made.entry(self.make as usize).or_insert_with(|| {
            let text: String = serde_json::from_str(&self.json()).unwrap_or_default();
            percent_encoded(text.bytes().take(LONGEST_HEAD)).into()
        });
        encoded[..encoded.len().min(most)].to_owned()
    }
}

fn percent_encoded(bytes: impl Iterator<Item = u8>) -> String {
    let mut encoded = String::new();
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' => {
                encoded.push(byte.into());
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// Every value that is hostile where this kind is wanted.
pub(super) fn hostile(kind: &ArgumentKind) -> Vec<HostileValue> {
    match kind {
        ArgumentKind::Text => STRINGS.to_vec(),
        ArgumentKind::Number => NUMBERS.to_vec(),
        ArgumentKind::Flag => FLAGS.to_vec(),
        ArgumentKind::List(_) => LISTS.to_vec(),
        ArgumentKind::Object => OBJECTS.to_vec(),
    }
}

/// JSON of a string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn nested(open: &str, close: &str, levels: usize) -> String {
    open.repeat(levels) + "1" + &close.repeat(levels)
}

fn joined(n: usize, item: impl Fn(usize) -> String) -> String {
    (0..n).map(item).collect::<Vec<_>>().join(",")
}

/// Different words, so that nothing can be merged.
fn words(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 16);
    for n in 0.. {
        if text.len() >= bytes {
            break;
        }
        text.push_str(&format!("w{n} "));
    }
    text
}

const MB: usize = 1_000_000;
/// More than fits into the head of a request.
const LONGEST_HEAD: usize = 64 << 10;

const STRINGS: [HostileValue; 26] = [
    HostileValue::quick("1 MB of words", || quoted(&words(MB))),
    HostileValue::quick("fresh 15 MB", || quoted(&("a".repeat(15 * MB) + NONCE))),
    HostileValue::new("fresh 15 MB again", || quoted(&("b".repeat(15 * MB) + NONCE))),
    HostileValue::new("15 MB of words", || quoted(&words(15 * MB))),
    HostileValue::new("1 MB of a", || quoted(&"a".repeat(MB))),
    HostileValue::new("1 MB of spaces", || quoted(&(" ".repeat(MB) + "x"))),
    HostileValue::new("1 MB of newlines", || quoted(&("\n".repeat(MB) + "x"))),
    HostileValue::quick("control characters", || quoted(&"\u{1}\u{1b}[31m\u{7f}".repeat(MB / 8))),
    HostileValue::new("zero bytes", || quoted(&"a\u{0}".repeat(MB / 4))),
    HostileValue::new("quotes and backslashes", || quoted(&"\"\\".repeat(MB))),
    HostileValue::new("unpaired quotes", || quoted(&"\"a ".repeat(MB / 3))),
    HostileValue::new("deep sections", || quoted(&("a > ".repeat(MB / 4) + "a"))),
    HostileValue::new("combining marks", || quoted(&("a".to_owned() + &"\u{301}".repeat(MB / 2)))),
    HostileValue::new("growing when folded", || quoted(&"\u{130}\u{fdfa}\u{df}".repeat(MB / 7))),
    HostileValue::new("joined emoji", || quoted(&"\u{1f469}\u{200d}".repeat(MB / 7))),
    HostileValue::new("bidirectional", || quoted(&"\u{202e}\u{2066}a".repeat(MB / 7))),
    HostileValue::new("percent escapes", || quoted(&"%25%2e%2f".repeat(MB / 9))),
    HostileValue::new("path segments", || quoted(&"a/".repeat(MB / 2))),
    HostileValue::new("parent segments", || quoted(&"../".repeat(MB / 3))),
    HostileValue::new("digits", || quoted(&"9".repeat(MB))),
    HostileValue::new("wildcards", || quoted(&"a* %_ NEAR(a b) AND OR NOT ^x:".repeat(MB / 30))),
    HostileValue::new("regular expressions", || quoted(&"(a*)*(a|aa)+[^b]{1,9999}$".repeat(2000))),
    HostileValue::new("globs", || quoted(&"**/{a,b}*?[!c]/".repeat(4000))),
    HostileValue::new("a forged token", || quoted(&"QUJD-_".repeat(MB / 6))),
    HostileValue::new("ranges", || quoted(&"1-18446744073709551615,".repeat(40_000))),
    HostileValue::new("escapes of surrogates", || format!("\"{}\"", "\\ud83d\\ude00".repeat(MB))),
];

const NUMBERS: [HostileValue; 9] = [
    HostileValue::quick("largest integer", || i64::MAX.to_string()),
    HostileValue::new("beyond the largest", || "18446744073709551616".to_owned()),
    HostileValue::new("smallest integer", || i64::MIN.to_string()),
    HostileValue::new("minus one", || "-1".to_owned()),
    HostileValue::new("zero", || "0".to_owned()),
    HostileValue::new("1e308", || "1e308".to_owned()),
    HostileValue::new("1e999999999", || "1e999999999".to_owned()),
    HostileValue::quick("a million digits", || "9".repeat(MB)),
    HostileValue::new("a million digits after the point", || format!("1.{}", "0".repeat(MB))),
];

const FLAGS: [HostileValue; 3] = [
    HostileValue::new("true", || "true".to_owned()),
    HostileValue::quick("a string of 1 MB", || quoted(&"t".repeat(MB))),
    HostileValue::new("a deep array", || nested("[", "]", 60)),
];

const LISTS: [HostileValue; 9] = [
    HostileValue::quick("100,000 items", || {
        format!("[{}]", joined(100_000, |n| format!("\"i{n}\"")))
    }),
    HostileValue::new("a million items", || format!("[{}]", joined(MB, |n| format!("\"i{n}\"")))),
    HostileValue::new("the same 100,000 times", || {
        format!("[{}]", joined(100_000, |_| quoted("notes/001.md")))
    }),
    HostileValue::new("1,000 items of 15 kB", || {
        format!("[{}]", joined(1000, |n| quoted(&(format!("{n}") + &"a".repeat(15_000)))))
    }),
    HostileValue::new("20 items of 700 kB", || {
        format!("[{}]", joined(20, |n| quoted(&(format!("{n}") + &"a".repeat(700_000)))))
    }),
    HostileValue::quick("a fresh item of 15 MB", || {
        format!("[{}]", quoted(&("a".repeat(15 * MB) + NONCE)))
    }),
    HostileValue::new("60 levels", || nested("[", "]", 60)),
    HostileValue::new("a million levels", || nested("[", "]", MB)),
    HostileValue::new("a million empty objects", || {
        format!("[{}]", joined(MB, |_| "{}".to_owned()))
    }),
];

const OBJECTS: [HostileValue; 9] = [
    HostileValue::quick("60 levels", || nested("{\"a\":", "}", 55)),
    HostileValue::new("10,000 levels", || nested("{\"a\":", "}", 10_000)),
    HostileValue::quick("100,000 members", || {
        format!("{{{}}}", joined(100_000, |n| format!("\"m{n}\":{n}")))
    }),
    HostileValue::new("a million members", || {
        format!("{{{}}}", joined(MB, |n| format!("\"m{n}\":1")))
    }),
    HostileValue::new("the same member 100,000 times", || {
        format!("{{{}}}", joined(100_000, |_| "\"m\":1".to_owned()))
    }),
    HostileValue::new("a name of 15 MB", || {
        format!("{{{}:1}}", quoted(&("a".repeat(15 * MB) + NONCE)))
    }),
    HostileValue::new("a text of 15 MB", || format!("{{\"a\":{}}}", quoted(&"a".repeat(15 * MB)))),
    HostileValue::new("60 kB of escapes", || {
        format!("{{\"a\":{}}}", quoted(&"\u{1}".repeat(10_000)))
    }),
    HostileValue::new("a million numbers", || {
        format!("{{\"a\":[{}]}}", joined(MB, |n| n.to_string()))
    }),
];

/// Text that is hostile to what reads Markdown, HTML, front matter and words.
pub(super) const DOCUMENTS: [HostileValue; 30] = [
    HostileValue::quick("a heading of 2 MB", || {
        quoted(&format!("# {}\n\n{}", words(2 * MB), "a line\n\n".repeat(200_000)))
    }),
    HostileValue::quick("a million headings", || quoted(&"# a\n".repeat(950_000))),
    HostileValue::new("different headings", || {
        quoted(&(0..300_000).map(|n| format!("## h{n}\n")).collect::<String>())
    }),
    HostileValue::new("underlined headings", || quoted(&"a\n=\n".repeat(950_000))),
    HostileValue::new("brackets", || quoted(&"[".repeat(3_900_000))),
    HostileValue::new("nested links", || quoted(&"[a](".repeat(950_000))),
    HostileValue::new("images in links", || quoted(&"![[a](b)](".repeat(390_000))),
    HostileValue::new("link definitions", || {
        quoted(&(0..250_000).map(|n| format!("[a{n}]: b\n")).collect::<String>())
    }),
    HostileValue::new("uses of a definition", || {
        quoted(&format!("[a]: {}\n\n{}", "x".repeat(100_000), "[a] ".repeat(900_000)))
    }),
    HostileValue::new("emphasis", || quoted(&"*a_ **b__ ".repeat(390_000))),
    HostileValue::new("opened emphasis", || quoted(&"a**b".repeat(950_000))),
    HostileValue::new("quotes in quotes", || quoted(&("> ".repeat(1_900_000) + "a"))),
    HostileValue::new("lists in lists", || quoted(&("* ".repeat(1_900_000) + "a"))),
    HostileValue::new("deeper and deeper lists", || {
        quoted(&(0..2500).map(|n| " ".repeat(n) + "* a\n").collect::<String>())
    }),
    HostileValue::new("backticks of all lengths", || {
        quoted(&(1..2700).map(|n| "`".repeat(n) + "a").collect::<String>())
    }),
    HostileValue::new("a fence that never closes", || {
        quoted(&("```\n".to_owned() + &"# a\n".repeat(950_000)))
    }),
    HostileValue::new("tags", || quoted(&"<div>".repeat(780_000))),
    HostileValue::new("opened tags", || quoted(&"<a ".repeat(1_300_000))),
    HostileValue::new("comments", || quoted(&"<!--".repeat(950_000))),
    HostileValue::new("entities", || quoted(&"&#x1;&amp".repeat(430_000))),
    HostileValue::new("a wide table", || {
        quoted(&format!(
            "{}\n{}\n{}",
            "|a".repeat(60_000),
            "|-".repeat(60_000),
            "|b\n".repeat(300_000)
        ))
    }),
    HostileValue::new("front matter", || {
        quoted(&format!(
            "---\n{}---\n",
            (0..300_000).map(|n| format!("k{n}: v\n")).collect::<String>()
        ))
    }),
    HostileValue::new("front matter of aliases", || {
        let line = |n: u8| {
            format!(
                "{}: &{} [{}]\n",
                n as char,
                n as char,
                joined(9, |_| format!("*{}", (n - 1) as char))
            )
        };
        quoted(&format!("---\na: &a [x]\n{}---\n", (b'b'..b'z').map(line).collect::<String>()))
    }),
    HostileValue::new("front matter of 60 kB depth", || {
        quoted(&format!("---\na: {}\n---\n", "[".repeat(60_000)))
    }),
    HostileValue::new("3.9 MB of different words", || quoted(&words(3_900_000))),
    HostileValue::new("one word of 3.9 MB", || quoted(&"w".repeat(3_900_000))),
    HostileValue::new("one line", || quoted(&"word and word ".repeat(270_000))),
    HostileValue::new("empty lines", || quoted(&"\r\n".repeat(1_900_000))),
    HostileValue::new("combining marks", || {
        quoted(&("a".to_owned() + &"\u{301}".repeat(1_900_000)))
    }),
    HostileValue::new("ideographs", || quoted(&"\u{4e00}\u{4e8c}".repeat(640_000))),
];

/// Queries that are hostile to search.
pub(super) const QUERIES: [HostileValue; 9] = [
    HostileValue::quick("64 phrases", || {
        quoted(&(0..64).map(|n| format!("\"w{n} a a a\" ")).collect::<String>())
    }),
    HostileValue::new("64 common words", || quoted(&"a b word the notes river ".repeat(11))),
    HostileValue::new("64 prefixes", || {
        quoted(&(0..64).map(|n| format!("{}* ", (b'a' + n % 26) as char)).collect::<String>())
    }),
    HostileValue::new("10,000 words", || quoted(&words(60_000))),
    HostileValue::new("a phrase of 10,000 words", || {
        quoted(&format!("\"{}\"", "a ".repeat(10_000)))
    }),
    HostileValue::new("one letter, 100,000 times", || quoted(&"a ".repeat(100_000))),
    HostileValue::new("nested groups", || {
        quoted(&("(".repeat(10_000) + "a" + &")".repeat(10_000)))
    }),
    HostileValue::new("operators", || quoted(&"a AND NOT b OR NEAR(c d, 9) ".repeat(1000))),
    HostileValue::new("ideographs", || quoted(&"\u{4e00}\u{4e8c}".repeat(10_000))),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_json_that_fits_into_a_body_and_documents_fit_their_limit() {
        for value in STRINGS.iter().chain(&QUERIES) {
            let json = value.json();
            assert!(json.starts_with('"') && json.ends_with('"'), "{}", value.label);
            assert!(json.len() < 16_700_000, "{}", value.label);
        }
        for value in DOCUMENTS {
            let text: String = serde_json::from_str(&value.json()).unwrap();
            assert!(text.len() <= 4 << 20, "{}: {}", value.label, text.len());
        }
    }

    #[test]
    fn what_goes_into_a_head_is_ascii_and_bounded() {
        let encoded = QUERIES[8].percent_encoded(1000);
        assert!(encoded.is_ascii() && encoded.len() == 1000 && encoded.starts_with("%E4%B8%80"));
    }
}
