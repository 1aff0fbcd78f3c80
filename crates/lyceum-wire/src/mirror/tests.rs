//! Header values: the protocol's own examples, and that writing and reading are inverse.

use proptest::prelude::*;

use super::{BadValue, decode_value, encode_value};

#[track_caller]
fn check(header: impl AsRef<[u8]>, expected: Result<&str, BadValue>) {
    let header = header.as_ref();
    assert_eq!(decode_value(header).as_deref(), expected.as_deref(), "{header:?}");
}

#[test]
fn values_are_written_as_the_protocol_shows() {
    for (value, header) in [
        ("us-west1", "us-west1"),
        ("us west 1", "us west 1"),
        ("file:///path/to/file%20name.txt?id=1", "file:///path/to/file%20name.txt?id=1"),
        ("", ""),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        (" us-west1", "=?base64?IHVzLXdlc3Qx?="),
        ("us-west1 ", "=?base64?dXMtd2VzdDEg?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("line1\r\nline2", "=?base64?bGluZTENCmxpbmUy?="),
        ("\tindented", "=?base64?CWluZGVudGVk?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?base64?", "=?base64?"),
    ] {
        assert_eq!(encode_value(value), header);
        check(header, Ok(value));
    }
}

#[test]
fn whitespace_around_a_value_is_stripped() {
    check("  echo \t", Ok("echo"));
    check(" \t ", Ok(""));
    check("\t=?base64?SGVsbG8=?= ", Ok("Hello"));
}

#[test]
fn values_without_both_markers_are_literal() {
    for literal in
        ["SGVsbG8=", "=?base64?SGVsbG8=", "SGVsbG8=?=", "=?BASE64?SGVsbG8=?=", "=?utf-8?b?x?="]
    {
        check(literal, Ok(literal));
    }
}

#[test]
fn base64_must_be_strict_canonical_and_padded() {
    for bad in [
        "=?base64?SGVsbG8?=",     // no padding
        "=?base64?SGVsbG8==?=",   // too much
        "=?base64?SGVs!!!bG8=?=", // alphabet
        "=?base64?SGVs bG8=?=",   // whitespace
        "=?base64?SGVsbG9=?=",    // non-zero trailing bits
        "=?base64?_-8=?=",        // the URL alphabet
        "=?base64?=",             // the markers overlap
        "=?base64?=?=",
    ] {
        check(bad, Err(BadValue::Base64));
    }
    check("=?base64??=", Ok(""));
    check("=?base64?/w==?=", Err(BadValue::Utf8));
}

#[test]
fn literals_are_visible_ascii() {
    check("tab\tinside", Ok("tab\tinside"));
    for bad in [b"caf\xc3\xa9".as_slice(), b"caf\xe9", b"a\x00b", b"a\nb", b"a\x7fb", b"a\r\n b"] {
        check(bad, Err(BadValue::Literal));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn any_text_survives_its_header(text in prop_oneof![
        any::<String>(), "[ -~]{0,12}", "(=\\?base64\\?)?[A-Za-z0-9+/]{0,8}={0,2}(\\?=)?", "\\s{0,2}[a-z]?\\s{0,2}",
    ]) {
        let header = encode_value(&text);
        prop_assert!(header.bytes().all(|byte| matches!(byte, b' '..=b'~')));
        prop_assert_eq!(decode_value(header.as_bytes()).unwrap(), text.as_str());
        let padded = format!(" \t{header}\t ");
        prop_assert_eq!(decode_value(padded.as_bytes()).unwrap(), text.as_str());
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let _ = decode_value(&bytes);
        let mut sentinel = b"=?base64?".to_vec();
        sentinel.extend_from_slice(&bytes);
        sentinel.extend_from_slice(b"?=");
        // What decodes has exactly one spelling.
        if let Ok(text) = decode_value(&sentinel) {
            let again = format!("=?base64?{}?=", base64::Engine::encode(&super::STANDARD, text.as_bytes()));
            prop_assert_eq!(again.as_bytes(), &sentinel[..]);
        }
    }
}
