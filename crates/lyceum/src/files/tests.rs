//! Reading and writing directories, the second half of them while somebody meddles (reliability
//! row 17).

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use lyceum_kb::convert::{Original, convert};
use lyceum_kb::{DocPath, Document, Meta, MimeType, VectorStatus};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::jsonl::line;
use super::write::Exported;
use super::*;

/// A directory with these files.
fn tree(files: &[(&str, &str)]) -> TempDir {
    let root = TempDir::new().unwrap();
    for (name, text) in files {
        let file = root.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    root
}

fn paths(listing: &Listing) -> Vec<&str> {
    listing.files.iter().map(|file| file.path.as_str()).collect()
}

fn skipped(listing: &Listing) -> Vec<&str> {
    listing.skipped.iter().map(|skipped| skipped.file.as_str()).collect()
}

/// A listed file as a document.
fn record(listing: &Listing, n: usize) -> anyhow::Result<Record> {
    let file = &listing.files[n];
    let bytes = listing.read(file)?;
    let name = Some(file.path.name());
    Ok(file.record(convert(&Original { bytes: &bytes, name, ..Original::default() })?))
}

fn document(path: &str, mime_type: MimeType, body: &str) -> Document {
    let path = DocPath::parse(path).unwrap();
    let meta = Meta {
        key: 1,
        title: path.name().to_owned(),
        path,
        tags: Vec::new(),
        source: None,
        metadata: serde_json::Map::new(),
        mime_type,
        revision: 3,
        text_revision: 3,
        created_at: 1,
        updated_at: 2,
        deleted_at: None,
        vector_status: VectorStatus::Ready,
        vector_error: None,
    };
    Document { meta, body: body.to_owned() }
}

#[test]
fn a_directory_is_listed_in_order_without_what_is_hidden() {
    let root = tree(&[
        ("b.md", ""),
        ("a/z.html", ""),
        ("a/b/c.TXT", ""),
        ("a.json", ""),
        ("photo.png", ""),
        ("Makefile", ""),
        (".git/config.md", ""),
        (".hidden.md", ""),
        ("a/.b/c.md", ""),
        ("cafe\u{301}.md", ""),
        ("x\u{202e}dm.md", ""),
        ("new\nline.md", ""),
    ]);
    let listing = Listing::of(root.path()).unwrap();
    assert_eq!(paths(&listing), ["a.json", "a/b/c.TXT", "a/z.html", "b.md", "café.md"]);
    let left = ["Makefile", "new\u{fffd}line.md", "photo.png", "x\u{fffd}dm.md"];
    assert_eq!(skipped(&listing), left);
    let alone = Listing::of(&root.path().join("a/z.html")).unwrap();
    assert_eq!(paths(&alone), ["z.html"]);
    assert!(Listing::of(&root.path().join("nothing")).is_err());
}

#[test]
fn files_that_mean_the_same_document_are_taken_once() {
    let root = tree(&[("caf\u{e9}.md", "one"), ("cafe\u{301}.md", "two")]);
    let listing = Listing::of(root.path()).unwrap();
    assert_eq!(paths(&listing), ["café.md"]);
    assert_eq!(listing.skipped.len(), 1);
}

#[test]
fn a_file_becomes_a_document() {
    let root = tree(&[("a.md", "---\ntitle: T\ntags: [x]\nsource: s\nn: 1\n---\n# H\n")]);
    let listing = Listing::of(root.path()).unwrap();
    let record = record(&listing, 0).unwrap();
    let fields = record.fields;
    assert_eq!(record.path.as_str(), "a.md");
    assert_eq!(fields.title.as_deref(), Some("T"));
    assert_eq!(fields.tags, Some(vec!["x".to_owned()]));
    assert_eq!(fields.source.as_deref(), Some("s"));
    assert_eq!(fields.metadata.map(Value::from), Some(json!({"n": 1})));
    assert_eq!(fields.body.as_deref(), Some("# H\n"));
}

#[test]
fn what_is_exported_is_imported_again() {
    let mut given =
        document("notes/a.md", MimeType::Markdown, "---\nnot: front matter\n---\n\ntext");
    given.meta.title = "A: \"title\"".to_owned();
    given.meta.tags = vec!["x y".to_owned(), "#z".to_owned()];
    given.meta.source = Some("https://example.com/?a=b#c".to_owned());
    given.meta.metadata = json!({"k: v": [1, null, {"a": "\n"}]}).as_object().unwrap().clone();
    let root = TempDir::new().unwrap();
    let exported = Exporter::into(root.path()).unwrap().write(&given).unwrap();
    assert_eq!(exported, Exported { file: "notes/a.md".into(), renamed: false, bare: false });
    let listing = Listing::of(root.path()).unwrap();
    let record = record(&listing, 0).unwrap();
    assert_eq!(record, as_record(&given));
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1, "nothing is left behind");
}

/// What importing this document should write.
fn as_record(document: &Document) -> Record {
    let Document { meta, body } = document.clone();
    let fields = Fields {
        body: Some(body),
        title: Some(meta.title),
        tags: Some(meta.tags),
        source: meta.source,
        metadata: Some(meta.metadata),
        mime_type: Some(meta.mime_type),
    };
    Record { path: meta.path, fields }
}

#[test]
fn lines_hold_everything() {
    let mut given = document("a\u{2028}b/ü", MimeType::Plain, "line\nline\r\n\u{0}\u{2029}\"");
    given.meta.tags = vec!["t".to_owned()];
    given.meta.source = Some("s".to_owned());
    given.meta.metadata = json!({"source": 1, "n": 1e-7}).as_object().unwrap().clone();
    let other = document("x.json", MimeType::Json, "{}");
    let text = [line(&given).unwrap(), "\n".to_owned(), line(&other).unwrap()].concat();
    assert_eq!(text.matches('\n').count(), 3);
    let mut records = Vec::new();
    read_lines(text.as_bytes(), |record| {
        records.push(record);
        Ok(())
    })
    .unwrap();
    assert_eq!(records, [as_record(&given), as_record(&other)]);
}

#[test]
fn lines_that_are_no_documents_are_named() {
    let good = line(&document("a", MimeType::Plain, "")).unwrap();
    for bad in [
        "{}",
        "nonsense",
        "[]",
        &good.replace("\"a\"", "\"../a\""),
        &good.replace("text/plain", "x/y"),
    ] {
        let error = read_lines(format!("{good}{bad}").as_bytes(), |_| Ok(())).unwrap_err();
        assert!(format!("{error:#}").starts_with("line 2: "), "{bad}: {error:#}");
    }
    assert!(read_lines(&b"\xff\n"[..], |_| Ok(())).is_err());
}

#[test]
fn documents_that_would_share_a_file_get_numbers() {
    #[track_caller]
    fn check(documents: &[&str], expected: &[&str]) {
        let root = TempDir::new().unwrap();
        let mut exporter = Exporter::into(root.path()).unwrap();
        let files: Vec<String> = documents
            .iter()
            .map(|path| exporter.write(&document(path, MimeType::Markdown, path)).unwrap().file)
            .collect();
        assert_eq!(files, expected);
        for (file, path) in files.iter().zip(documents) {
            assert!(fs::read_to_string(root.path().join(file)).unwrap().ends_with(path));
        }
    }
    check(&["a.md", "A.md", "a", "a.MD"], &["a.md", "A~2.md", "a~3.md", "a~4.MD"]);
    check(&["a.md", "a.md/b.md", "a.md/c.md"], &["a.md", "a.md~2/b.md", "a.md~2/c.md"]);
    check(&["a.md/b.md", "a.md"], &["a.md/b.md", "a~2.md"]);
    check(&["ä/x.md", "Ä/X.md"], &["ä/x.md", "Ä/X~2.md"]);
    check(&[".a/b.md", "_a/b.md"], &["_a/b.md", "_a/b~2.md"]);
}

#[test]
fn what_files_cannot_say_is_said() {
    let root = TempDir::new().unwrap();
    let mut exporter = Exporter::into(root.path()).unwrap();
    let mut given = document("a.pdf", MimeType::Plain, "text");
    let exported = exporter.write(&given).unwrap();
    assert_eq!(exported, Exported { file: "a.pdf.txt".into(), renamed: true, bare: false });
    given.meta.tags = vec!["t".to_owned()];
    assert!(exporter.write(&given).unwrap().bare);
    assert_eq!(fs::read_to_string(root.path().join("a.pdf.txt")).unwrap(), "text");
}

#[cfg(unix)]
mod links {
    use std::os::unix::fs::symlink;

    use super::*;

    /// `root` beside `root-evil`, which holds a secret.
    fn neighbours() -> (TempDir, std::path::PathBuf, std::path::PathBuf) {
        let both = tree(&[("root/good/a.md", "good"), ("root-evil/a.md", "secret")]);
        let (root, evil) = (both.path().join("root"), both.path().join("root-evil"));
        (both, root, evil)
    }

    fn body(listing: &Listing, n: usize) -> anyhow::Result<String> {
        Ok(record(listing, n)?.fields.body.unwrap_or_default())
    }

    #[test]
    fn links_are_not_read() {
        let (_both, root, evil) = neighbours();
        symlink(evil.join("a.md"), root.join("absolute.md")).unwrap();
        symlink("../root-evil/a.md", root.join("relative.md")).unwrap();
        symlink(&evil, root.join("folder")).unwrap();
        symlink("good/a.md", root.join("inside.md")).unwrap();
        symlink(".", root.join("loop")).unwrap();
        let listing = Listing::of(&root).unwrap();
        assert_eq!(paths(&listing), ["good/a.md"]);
        let links = ["absolute.md", "folder", "inside.md", "loop", "relative.md"];
        assert_eq!(skipped(&listing), links);
    }

    #[test]
    fn links_that_appear_after_listing_lead_nowhere() {
        let (_both, root, evil) = neighbours();
        let listing = Listing::of(&root).unwrap();
        assert_eq!(body(&listing, 0).unwrap(), "good");
        fs::remove_dir_all(root.join("good")).unwrap();
        for target in [evil.as_path(), Path::new("../root-evil")] {
            symlink(target, root.join("good")).unwrap();
            assert!(body(&listing, 0).is_err());
            fs::remove_file(root.join("good")).unwrap();
        }
    }

    #[test]
    fn exports_do_not_follow_links() {
        let (_both, root, evil) = neighbours();
        symlink(&evil, root.join("folder")).unwrap();
        symlink(evil.join("a.md"), root.join("link.md")).unwrap();
        symlink(evil.join("b.md"), root.join(".lyceum-export.partial")).unwrap();
        let mut exporter = Exporter::into(&root).unwrap();
        let write = |exporter: &mut Exporter, path: &str| {
            exporter.write(&document(path, MimeType::Markdown, "new"))
        };
        assert!(write(&mut exporter, "folder/b.md").is_err());
        assert!(write(&mut exporter, "link.md").is_ok());
        assert!(fs::symlink_metadata(root.join("link.md")).unwrap().is_file());
        assert_eq!(fs::read_to_string(evil.join("a.md")).unwrap(), "secret");
        assert_eq!(fs::read_dir(&evil).unwrap().count(), 1);
    }

    #[test]
    fn exports_do_not_follow_links_within_the_directory_either() {
        let (_both, root, _) = neighbours();
        symlink("good", root.join("alias")).unwrap();
        let mut exporter = Exporter::into(&root).unwrap();
        let error = exporter.write(&document("alias/a.md", MimeType::Markdown, "new")).unwrap_err();
        assert!(format!("{error:#}").contains("alias is a link"), "{error:#}");
        assert_eq!(fs::read_to_string(root.join("good/a.md")).unwrap(), "good");
    }

    #[test]
    fn what_is_exported_is_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let (_both, root, evil) = neighbours();
        let given = document("a.md", MimeType::Markdown, "text");
        let mut exporter = Exporter::into(&root).unwrap();
        exporter.write(&given).unwrap();
        exporter.finish().unwrap();
        symlink(evil.join("a.md"), root.join("all.jsonl")).unwrap();
        let mut lines = LinesFile::create(&root.join("all.jsonl")).unwrap();
        lines.write(&given).unwrap();
        assert_eq!(fs::read_to_string(root.join("all.jsonl")).unwrap(), "secret", "not yet");
        lines.finish().unwrap();
        for file in ["a.md", "all.jsonl"] {
            let metadata = fs::symlink_metadata(root.join(file)).unwrap();
            assert!(metadata.is_file(), "{file}");
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{file}");
        }
        assert_eq!(fs::read_to_string(evil.join("a.md")).unwrap(), "secret");
        let mut given_up = LinesFile::create(&root.join("other.jsonl")).unwrap();
        given_up.write(&given).unwrap();
        drop(given_up);
        let hidden = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().contains("partial");
        assert!(!fs::read_dir(&root).unwrap().any(|entry| hidden(&entry.unwrap())));
    }

    /// Swaps a directory for a link to the neighbour and back, as fast as it goes, while `work` runs.
    fn meddle(root: &Path, evil: &Path, work: impl FnOnce()) {
        let stop = AtomicBool::new(false);
        let (good, aside, link) = (root.join("good"), root.join("aside"), root.join("link"));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // The other side may have made the directory anew, so any step may fail.
                    let _ = symlink(evil, &link);
                    let _ = fs::rename(&good, &aside);
                    let _ = fs::rename(&link, &good);
                    let _ = fs::remove_file(&good);
                    let _ = fs::remove_dir_all(&good);
                    let _ = fs::rename(&aside, &good);
                }
            });
            // Set whatever happens, or a failed claim would wait for the meddler forever.
            let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            stop.store(true, Ordering::Relaxed);
            worked.unwrap();
        });
    }

    #[test]
    fn swapping_a_directory_for_a_link_never_shows_the_neighbour() {
        let (_both, root, evil) = neighbours();
        let listing = Listing::of(&root).unwrap();
        let mut n_read = 0;
        meddle(&root, &evil, || {
            for _ in 0..10_000 {
                if let Ok(text) = body(&listing, 0) {
                    assert_eq!(text, "good");
                    n_read += 1;
                }
            }
        });
        assert!(n_read > 0, "the race was never won by the reader");
    }

    #[test]
    fn swapping_a_directory_for_a_link_never_writes_to_the_neighbour() {
        let (_both, root, evil) = neighbours();
        meddle(&root, &evil, || {
            for _ in 0..1000 {
                let mut exporter = Exporter::into(&root).unwrap();
                let _ = exporter.write(&document("good/a.md", MimeType::Markdown, "new"));
            }
        });
        assert_eq!(fs::read_to_string(evil.join("a.md")).unwrap(), "secret");
        assert_eq!(fs::read_dir(&evil).unwrap().count(), 1);
    }
}
