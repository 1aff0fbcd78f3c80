//! Names of files and paths of documents: from one to the other without surprises.

use lyceum_kb::convert::Kind;
use lyceum_kb::{DocPath, MimeType, is_hidden};
use unicode_normalization::UnicodeNormalization;

/// No file system in use takes longer names; some room is left for a suffix.
const MAX_NAME: usize = 240;

/// The path of the document that a file becomes.
pub(super) fn document_path(relative: &str) -> Result<DocPath, String> {
    if relative.contains(is_hidden) {
        return Err("its name holds characters that hide what it is; rename it".to_owned());
    }
    let path = DocPath::parse(relative).and_then(|path| path.check_visible().map(|()| path));
    path.map_err(|error| error.message().to_owned())
}

/// The file a document is written to, beneath the directory. Its extension says what it holds, and
/// its names are ones that every file system takes.
pub(super) fn file_name(path: &DocPath, mime_type: MimeType) -> String {
    let segments: Vec<String> = path.as_str().split('/').map(plain_segment).collect();
    let name = segments.join("/");
    let extension = path.name().rsplit_once('.').map(|(_, extension)| extension);
    let (kind, suffix) = match mime_type {
        MimeType::Markdown => (Kind::Markdown, ".md"),
        MimeType::Plain => (Kind::Text, ".txt"),
        MimeType::Json => (Kind::Json, ".json"),
    };
    match extension.and_then(Kind::of_extension) == Some(kind) {
        true => name,
        false => name + suffix,
    }
}

/// What two names have in common that some file system takes for the same.
pub(super) fn folded(name: &str) -> String {
    name.nfc().flat_map(char::to_lowercase).nfc().collect()
}

/// Another name for a file whose own is taken: `a/b.md` as `a/b~2.md`.
pub(super) fn numbered(name: &str, number: usize) -> String {
    match name.rsplit_once('.').filter(|(_, extension)| !extension.contains('/')) {
        Some((stem, extension)) => format!("{stem}~{number}.{extension}"),
        None => format!("{name}~{number}"),
    }
}

fn plain_segment(segment: &str) -> String {
    let strange = |c: char| matches!(c, '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|');
    let plain: String =
        segment.chars().map(|c| if strange(c) || is_hidden(c) { '_' } else { c }).collect();
    let end = plain.floor_char_boundary(plain.len().min(MAX_NAME));
    // The end of a long name holds its extension.
    let short = match plain.rsplit_once('.') {
        Some((stem, extension)) if plain.len() > MAX_NAME && extension.len() < 16 => {
            let room = stem.floor_char_boundary(MAX_NAME - 1 - extension.len());
            format!("{}.{extension}", &stem[..room])
        }
        _ => plain[..end].to_owned(),
    };
    // Hidden names are not imported again, and some of them are commands to other programs.
    let shown = match short.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None => short,
    };
    match shown.ends_with(['.', ' ']) {
        true => format!("{}_", &shown[..shown.len() - 1]),
        false => shown,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn files_are_named_after_their_documents() {
        #[track_caller]
        fn check(path: &str, mime_type: MimeType, expected: &str) {
            assert_eq!(file_name(&DocPath::parse(path).unwrap(), mime_type), expected);
        }
        check("a/b.md", MimeType::Markdown, "a/b.md");
        check("a/b.MD", MimeType::Markdown, "a/b.MD");
        check("a/b", MimeType::Markdown, "a/b.md");
        check("a.pdf", MimeType::Plain, "a.pdf.txt");
        check("a.md", MimeType::Plain, "a.md.txt");
        check("a.log", MimeType::Plain, "a.log");
        check("v1.2", MimeType::Json, "v1.2.json");
        check(".git/hooks/x", MimeType::Plain, "_git/hooks/x.txt");
        check("a:b/c\\d.md", MimeType::Markdown, "a_b/c_d.md");
        check("x./y \u{202e}dm.md", MimeType::Markdown, "x_/y _dm.md");
        check("...", MimeType::Markdown, "_._.md");
        let long = "é".repeat(200) + ".md";
        assert!(file_name(&DocPath::parse(&long).unwrap(), MimeType::Markdown).len() <= MAX_NAME);
    }

    #[test]
    fn taken_names_get_numbers_before_the_extension() {
        assert_eq!(numbered("a/b.md", 2), "a/b~2.md");
        assert_eq!(numbered("a.b/c", 3), "a.b/c~3");
        assert_eq!(folded("A/É.md"), folded("a/e\u{301}.MD"));
    }

    proptest! {
        #[test]
        fn no_document_is_named_out_of_the_directory(text in any::<String>()) {
            let Ok(path) = DocPath::parse(&text) else { return Ok(()) };
            let name = file_name(&path, MimeType::Markdown);
            for segment in name.split('/') {
                prop_assert!(!segment.is_empty() && !segment.starts_with('.'), "{name:?}");
                prop_assert!(segment.len() <= 255, "{name:?}");
            }
        }
    }
}
