//! From bytes to text: a byte order mark, what the sender says, what the page says, UTF-8, and for
//! the rest Windows-1252, in that order.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

use super::tidy_text;
use crate::{Error, Result};

/// Pages name their encoding within this many bytes.
const META: usize = 1024;

/// The text of a file that should hold nothing else.
pub(super) fn plain_text(bytes: &[u8], charset: Option<&str>) -> Result<String> {
    let text = decode(bytes, charset.and_then(|label| Encoding::for_label(label.as_bytes())));
    // No encoding of text leaves these; programs, images and archives are full of them.
    if text.contains('\0') {
        return Err(Error::invalid("this is not text; give Markdown, HTML, PDF, .docx or text"));
    }
    Ok(tidy_text(&text))
}

/// The text of a web page.
pub(super) fn html(bytes: &[u8], charset: Option<&str>) -> String {
    let said = charset.and_then(|label| Encoding::for_label(label.as_bytes()));
    decode(bytes, said.or_else(|| meta_charset(bytes)))
}

fn decode(bytes: &[u8], said: Option<&'static Encoding>) -> String {
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        return encoding.decode_without_bom_handling(&bytes[mark..]).0.into_owned();
    }
    if let Some(encoding) = said.filter(|encoding| *encoding != UTF_8) {
        return encoding.decode_without_bom_handling(bytes).0.into_owned();
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        // Cut off within a character, or said to be UTF-8 and nearly so: keep what is right.
        Err(error) if said == Some(UTF_8) || error.error_len().is_none() => {
            String::from_utf8_lossy(bytes).into_owned()
        }
        Err(_) => WINDOWS_1252.decode_without_bom_handling(bytes).0.into_owned(),
    }
}

/// What `<meta charset=…>` or its older form names. Both have the word before the name.
fn meta_charset(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(META)]).to_ascii_lowercase();
    let (_, after) = head.split_once("<meta").and_then(|(_, meta)| meta.split_once("charset"))?;
    let after = after.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
    let end = after.find(['"', '\'', '>', ';', ' ', '/']).unwrap_or(after.len());
    Encoding::for_label(&after.as_bytes()[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_in_the_encoding_it_is_in() {
        #[track_caller]
        fn check(bytes: &[u8], charset: Option<&str>, expected: &str) {
            assert_eq!(plain_text(bytes, charset).unwrap(), expected);
        }
        check("naïve".as_bytes(), None, "naïve");
        check(b"\xef\xbb\xbfna\xc3\xafve", None, "naïve");
        check(b"na\xefve \x93x\x94", None, "naïve “x”");
        check(b"\xff\xfeh\0i\0", None, "hi");
        check(b"\xfe\xff\0h\0i", None, "hi");
        check(b"\xcf\xf0\xe8", Some("windows-1251"), "При");
        check(b"\x82\xb1", Some("Shift_JIS"), "こ");
        check(b"caf\xc3\xa9", Some("nonsense"), "café");
        check(b"na\xefve\xc3\xa9", Some("utf-8"), "na\u{fffd}veé");
        check(b"a\r\nb\rc\x07", None, "a\nb\nc");
        check(b"cut \xe2\x82", None, "cut \u{fffd}");
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        for bytes in [&b"\x7fELF\0\0"[..], b"h\0i\0", b"\x89PNG\r\n\x1a\n\0\0"] {
            assert!(plain_text(bytes, None).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn pages_name_their_own_encoding() {
        for page in [
            &b"<meta charset=windows-1251><p>\xcf\xf0"[..],
            b"<META http-equiv=x content=\"text/html; charset=windows-1251\">\xcf\xf0",
            b"<meta name=x><meta charset = 'windows-1251'>\xcf\xf0",
        ] {
            assert!(html(page, None).ends_with("Пр"), "{}", html(page, None));
        }
        assert!(html(b"<meta charset=utf-16><p>x", Some("utf-8")).ends_with('x'));
    }
}
