//! The scanner against a table of JSON, against depth and size, and against serde_json.

use proptest::prelude::*;
use serde_json::Value;

use super::{Kind, MAX_DEPTH, Malformed, Scan, Scanner, number_length};

fn scan(bytes: &[u8]) -> Scan<(Kind, bool)> {
    let mut scanner = Scanner::new(bytes)?;
    scanner.ahead();
    let kind = scanner.value()?;
    scanner.end()?;
    Ok((kind, scanner.repeated))
}

#[track_caller]
fn check(text: impl AsRef<[u8]>, expected: Scan<Kind>) {
    let text = text.as_ref();
    let found = scan(text).map(|(kind, _)| kind);
    assert_eq!(found, expected, "{}", String::from_utf8_lossy(text));
}

#[test]
fn every_kind_of_value_is_read() {
    check("null", Ok(Kind::Null));
    check(" true\r\n", Ok(Kind::Bool));
    check("false", Ok(Kind::Bool));
    check("-0.5e+10", Ok(Kind::Number));
    check(r#""a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00é😀""#, Ok(Kind::String));
    check(r#"[ 1 , [ ] , { } ]"#, Ok(Kind::Array));
    check(r#"{ "a" : { "b" : [ null ] } , "" : 0 }"#, Ok(Kind::Object));
}

#[test]
fn empty_bodies_are_refused() {
    check("", Err(Malformed::Empty));
    check("  \n", Err(Malformed::Truncated));
}

#[test]
fn byte_order_mark_is_refused() {
    check("\u{feff}{}", Err(Malformed::ByteOrderMark));
    check("{}\u{feff}", Err(Malformed::Trailing));
}

#[test]
fn invalid_utf8_is_refused() {
    check(b"\"\xff\"", Err(Malformed::Utf8));
    check(b"\"\xc0\x80\"", Err(Malformed::Utf8));
    check(b"\"\xed\xa0\x80\"", Err(Malformed::Utf8));
}

#[test]
fn trailing_data_is_refused() {
    for text in ["{}{}", "1 2", "null,", "[]]", "{} x", "\"a\"\"b\""] {
        check(text, Err(Malformed::Trailing));
    }
}

#[test]
fn truncated_input_is_refused_at_every_byte() {
    let whole = r#"{"a":[1.5,true,false,null,"x\u00e9\n"],"b":{"c":-2e3}}"#;
    check(whole, Ok(Kind::Object));
    for end in 1..whole.len() {
        assert!(scan(&whole.as_bytes()[..end]).is_err(), "{}", &whole[..end]);
    }
}

#[test]
fn bad_numbers_are_refused() {
    for text in ["01", "-", "-a", "1.", "1.e1", "1e", "1e+", "-01", "00"] {
        assert!(scan(text.as_bytes()).is_err(), "{text}");
        assert!(number_length(text.as_bytes()) != Some(text.len()), "{text}");
    }
    for text in [".5", "+1", "NaN", "Infinity", "-Infinity", "0x10", "1_000"] {
        assert!(scan(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn bad_literals_and_punctuation_are_refused() {
    let bad = [
        "nul",
        "nulL",
        "truе",
        "True",
        "undefined",
        "'a'",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{,}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{1:1}",
        "{\"a\" 1}",
        "[1}",
        "{\"a\":1]",
        "/**/1",
        "\0",
    ];
    for text in bad {
        assert!(scan(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn bad_escapes_are_refused() {
    check(r#""\x41""#, Err(Malformed::Escape));
    check(r#""\u12g4""#, Err(Malformed::Escape));
    check(r#""\u+123""#, Err(Malformed::Escape));
    check(r#""\u12"#, Err(Malformed::Truncated));
    check(r#""\"#, Err(Malformed::Truncated));
}

#[test]
fn lone_surrogate_escapes_are_refused() {
    for text in [r#""\ud83d""#, r#""\ud83d\n""#, r#""\ud83d\u0041""#, r#""\ude00""#, r#""\ud83dx""#]
    {
        check(text, Err(Malformed::Surrogate));
    }
    check(r#""\ud83d\ude00""#, Ok(Kind::String));
}

#[test]
fn raw_control_characters_are_refused_wherever_they_stand() {
    for control in 0..0x20u8 {
        for before in 0..20 {
            let text = format!("\"{}{}after it\"", "x".repeat(before), char::from(control));
            check(text, Err(Malformed::Control));
        }
    }
    check("\"\u{7f}\u{80}\"", Ok(Kind::String));
}

#[test]
fn depth_64_is_read_and_65_refused() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
        assert!(scan(nested(MAX_DEPTH).as_bytes()).is_ok());
        check(nested(MAX_DEPTH + 1), Err(Malformed::Depth));
        check(nested(129), Err(Malformed::Depth));
    }
}

#[test]
fn a_million_brackets_are_refused_at_once() {
    for bomb in ["[".repeat(1_000_000), "{\"a\":".repeat(200_000)] {
        let mut scanner = Scanner::new(bomb.as_bytes()).unwrap();
        assert_eq!(scanner.value(), Err(Malformed::Depth));
        assert!(scanner.pos < 1000, "stopped at {}", scanner.pos);
    }
}

#[track_caller]
fn check_repeated(text: &str, expected: bool) {
    assert_eq!(scan(text.as_bytes()).map(|(_, repeated)| repeated), Ok(expected), "{text}");
}

#[test]
fn repeated_names_are_seen_at_any_depth() {
    check_repeated(r#"{"a":1,"b":2,"c":{"a":1,"b":{"a":1}}}"#, false);
    check_repeated(r#"{"a":1,"a":2}"#, true);
    check_repeated(r#"{"":1,"":2}"#, true);
    check_repeated(r#"[[{"x":{"a":1,"b":2,"a":3}}]]"#, true);
    check_repeated(r#"[{"a":1},{"a":1}]"#, false);
    check_repeated(r#"{"a":{"b":1},"b":{"a":1},"a":0}"#, true);
}

#[test]
fn repeated_names_are_compared_unescaped() {
    check_repeated(r#"{"a":1,"\u0061":2}"#, true);
    check_repeated(r#"{"\u0061":1,"a":2}"#, true);
    check_repeated(r#"{"\ud83d\ude00":1,"😀":2}"#, true);
    check_repeated(r#"{"\/":1,"/":2}"#, true);
    check_repeated(r#"{"\\u0061":1,"a":2}"#, false);
    check_repeated(r#"{"A":1,"a":2}"#, false);
}

#[test]
fn repeated_names_are_seen_in_objects_of_any_size() {
    for size in [2, 11, 12, 13, 23, 24, 25, 100, 5000] {
        let names: Vec<String> = (0..size).map(|n| format!("\"k{n}\":0")).collect();
        check_repeated(&format!("{{{}}}", names.join(",")), false);
        for again in [0, size / 2, size - 1] {
            check_repeated(&format!("{{{},\"k{again}\":1}}", names.join(",")), true);
        }
        // The same names once more, in an object within: not a repetition.
        let inner = names.join(",");
        check_repeated(&format!("{{{},\"z\":{{{inner}}}}}", names.join(",")), false);
        check_repeated(&format!("{{\"z\":{{{inner}}},{}}}", names.join(",")), false);
    }
}

#[test]
fn many_small_open_objects_share_their_stack() {
    // 60 levels of three names: more than the shared stack holds.
    let open: String = (0..60).map(|n| format!("{{\"a{n}\":0,\"b\":1,\"c\":")).collect();
    let close = "}".repeat(60);
    check_repeated(&format!("{open}0{close}"), false);
    check_repeated(&format!("{open}{{\"x\":1,\"x\":2}}{close}"), true);
    let twice = format!("{open}0{}", ",\"b\":2}".repeat(60));
    check_repeated(&twice, true);
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-d\"\\\\é]{0,3}", inner, 0..20)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

#[track_caller]
fn check_agrees(bytes: &[u8]) {
    let theirs = serde_json::from_slice::<Value>(bytes);
    // The one point where serde_json is stricter: numbers must fit a double.
    if theirs.as_ref().is_err_and(|error| error.to_string().starts_with("number out of range")) {
        return;
    }
    match scan(bytes) {
        Ok(_) => assert!(theirs.is_ok(), "{bytes:?}"),
        Err(Malformed::Depth) => {}
        Err(why) => assert!(theirs.is_err(), "{why:?} {bytes:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn generated_json_is_accepted_compact_and_pretty(value in json()) {
        let compact = serde_json::to_vec(&value).unwrap();
        let pretty = serde_json::to_vec_pretty(&value).unwrap();
        prop_assert!(scan(&compact).is_ok_and(|(_, repeated)| !repeated));
        prop_assert!(scan(&pretty).is_ok_and(|(_, repeated)| !repeated));
    }

    #[test]
    fn mutated_json_is_judged_as_serde_json_judges_it(
        value in json(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 1..4),
    ) {
        let mut bytes = serde_json::to_vec(&value).unwrap();
        for (index, byte, what) in cuts {
            let at = index.index(bytes.len().max(1));
            match what {
                0 => bytes.insert(at, byte),
                1 if at < bytes.len() => { bytes.remove(at); }
                2 => bytes.insert(at, br#"{}[]",:\0eEu-.nN"#[usize::from(byte) % 16]),
                _ if at < bytes.len() => bytes[at] = byte,
                _ => {}
            }
        }
        check_agrees(&bytes);
    }

    #[test]
    fn json_like_soup_is_judged_as_serde_json_judges_it(
        soup in r#"([\[\]{}:,\\"0-9eE.+a-f \n-]|true|null|\\u[dD][89a-fA-F][0-9a-f]{2}|"a":){0,24}"#,
    ) {
        check_agrees(soup.as_bytes());
    }

    #[test]
    fn strings_are_judged_as_serde_json_judges_them(
        inside in r#"([a-z"\x00-\x22é😀]|\\[a-z"/\\]|\\u[0-9a-fD]{4}|[ -~]{6,9}){0,9}"#,
    ) {
        check_agrees(format!("\"{inside}\"").as_bytes());
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check_agrees(&bytes);
    }

    #[test]
    fn text_of_a_string_is_what_serde_json_reads(text in any::<String>()) {
        let token = serde_json::to_vec(&text).unwrap();
        let mut scanner = Scanner::new(&token).unwrap();
        let found = scanner.string().unwrap();
        prop_assert_eq!(scanner.text(found), text);
    }
}
