//! What each kind of write does to each state of a document, as tables.

use serde_json::json;

use super::*;
use crate::document::Millis;

/// A document at revision 5 whose text last changed in revision 4.
fn document(body: &str, deleted_at: Option<Millis>) -> Document {
    let vector_status =
        if deleted_at.is_some() { VectorStatus::Deleted } else { VectorStatus::Ready };
    let meta = Meta {
        key: 1,
        path: DocPath::parse("d/a.md").unwrap(),
        title: "Title".to_owned(),
        tags: vec!["t".to_owned()],
        source: Some("s".to_owned()),
        metadata: Map::new(),
        mime_type: MimeType::Markdown,
        revision: 5,
        text_revision: 4,
        created_at: 1,
        updated_at: 2,
        deleted_at,
        vector_status,
        vector_error: None,
    };
    Document { meta, body: body.to_owned() }
}

fn alive() -> Option<Document> {
    Some(document("one two", None))
}

fn deleted() -> Option<Document> {
    Some(document("one two", Some(3)))
}

fn write(change: Change) -> Write {
    let path = DocPath::parse("d/a.md").unwrap();
    Write { path, change, expected_revision: None, idempotency: None, by: Actor::default() }
}

fn text(body: &str) -> Fields {
    Fields { body: Some(body.to_owned()), ..Fields::default() }
}

fn edit(old: &str, new: &str) -> Change {
    Change::Patch(vec![Replacement { old: old.to_owned(), new: new.to_owned() }])
}

/// The outcome in one word and a revision: the status, `unchanged`, or the code of the refusal.
fn told(write: &Write, current: Option<Document>, past: Option<Document>) -> (String, i64) {
    match decide(write, current.as_ref(), past.as_ref(), &Policy::default()) {
        Ok(Some(next)) => (next.status.as_str().to_owned(), next.revision),
        Ok(None) => ("unchanged".to_owned(), 0),
        Err(error) => (error.code().as_str().to_owned(), 0),
    }
}

#[track_caller]
fn check(change: Change, current: Option<Document>, word: &str, revision: i64) {
    let write = write(change);
    assert_eq!(told(&write, current, alive()), (word.to_owned(), revision), "{:?}", write.change);
}

#[test]
fn what_a_write_does_depends_on_whether_the_document_lives() {
    let rows: [(Change, [(&str, i64); 3]); 7] = [
        // On nothing, on a living document at revision 5, on a deleted one at revision 5.
        (Change::Create(text("x")), [("created", 1), ("CONFLICT", 0), ("created", 6)]),
        (Change::Upsert(text("x")), [("created", 1), ("updated", 6), ("created", 6)]),
        (Change::Update(text("x")), [("NOT_FOUND", 0), ("updated", 6), ("NOT_FOUND", 0)]),
        (edit("one", "1"), [("NOT_FOUND", 0), ("patched", 6), ("NOT_FOUND", 0)]),
        (Change::Delete, [("NOT_FOUND", 0), ("deleted", 6), ("NOT_FOUND", 0)]),
        (Change::Restore(2), [("NOT_FOUND", 0), ("unchanged", 0), ("restored", 6)]),
        (
            Change::Create(Fields::default()),
            [("INVALID_ARGUMENT", 0), ("CONFLICT", 0), ("INVALID_ARGUMENT", 0)],
        ),
    ];
    for (change, expected) in rows {
        for (current, (word, revision)) in [None, alive(), deleted()].into_iter().zip(expected) {
            check(change.clone(), current, word, revision);
        }
    }
}

#[test]
fn nothing_different_is_unchanged() {
    let tags = |tags: &[&str]| Fields {
        tags: Some(tags.iter().map(|tag| (*tag).to_owned()).collect()),
        ..Fields::default()
    };
    check(Change::Update(text("one two")), alive(), "unchanged", 0);
    check(Change::Upsert(text("one two")), alive(), "unchanged", 0);
    check(Change::Update(tags(&["t"])), alive(), "unchanged", 0);
    check(edit("one", "one"), alive(), "unchanged", 0);
    check(Change::Update(tags(&[])), alive(), "updated", 6);
    check(Change::Update(Fields::default()), alive(), "INVALID_ARGUMENT", 0);
}

#[test]
fn an_expected_revision_must_be_the_actual_one() {
    #[track_caller]
    fn check(change: Change, current: Option<Document>, expected: i64, word: &str) {
        let write = Write { expected_revision: Some(expected), ..write(change) };
        assert_eq!(told(&write, current, alive()).0, word);
    }
    check(Change::Create(text("x")), None, 0, "created");
    check(Change::Create(text("x")), None, 1, "CONFLICT");
    check(Change::Create(text("x")), deleted(), 0, "created");
    check(Change::Create(text("x")), deleted(), 5, "CONFLICT");
    check(Change::Update(text("x")), alive(), 5, "updated");
    check(Change::Update(text("x")), alive(), 4, "CONFLICT");
    check(Change::Update(text("one two")), alive(), 4, "CONFLICT");
    check(Change::Delete, alive(), 6, "CONFLICT");
    check(Change::Restore(1), deleted(), 0, "restored");
    let stale = Write { expected_revision: Some(4), ..write(Change::Delete) };
    let error = decide(&stale, alive().as_ref(), None, &Policy::default()).unwrap_err();
    assert_eq!(error.details()["actual_revision"], 5);
}

#[test]
fn only_title_and_text_make_vectors_stale() {
    #[track_caller]
    fn check(change: Change, current: Option<Document>, text_changed: bool, status: VectorStatus) {
        let next = decide(&write(change), current.as_ref(), alive().as_ref(), &Policy::default());
        let next = next.unwrap().unwrap();
        assert_eq!((next.text_changed, next.vector_status), (text_changed, status));
    }
    let title = Fields { title: Some("New".to_owned()), ..Fields::default() };
    let tags = Fields { tags: Some(vec!["new".to_owned()]), ..Fields::default() };
    let mime = Fields { mime_type: Some(MimeType::Plain), ..Fields::default() };
    check(Change::Update(text("x")), alive(), true, VectorStatus::Pending);
    check(Change::Update(title), alive(), true, VectorStatus::Pending);
    check(Change::Update(tags), alive(), false, VectorStatus::Ready);
    check(Change::Update(mime), alive(), false, VectorStatus::Ready);
    check(Change::Update(text(" \n ")), alive(), true, VectorStatus::Skipped);
    check(Change::Create(text("one two")), deleted(), true, VectorStatus::Pending);
    check(Change::Delete, alive(), false, VectorStatus::Deleted);
}

#[test]
fn a_restored_state_has_the_vectors_of_the_text_it_shares() {
    let mut past = document("one two", None);
    past.meta.tags = vec!["old".to_owned()];
    past.meta.vector_status = VectorStatus::Pending;
    let write = write(Change::Restore(2));
    let next = decide(&write, alive().as_ref(), Some(&past), &Policy::default()).unwrap().unwrap();
    assert_eq!((next.text_changed, next.vector_status), (false, VectorStatus::Ready));
    assert_eq!(next.tags, ["old"]);
    let gone = decide(&write, alive().as_ref(), deleted().as_ref(), &Policy::default());
    assert_eq!(gone.unwrap_err().code(), crate::Code::NotFound);
    let missing = decide(&write, alive().as_ref(), None, &Policy::default());
    assert_eq!(missing.unwrap_err().code(), crate::Code::NotFound);
}

#[test]
fn skipped_prefixes_are_not_embedded() {
    let policy = Policy { skip_prefixes: vec!["d/".to_owned()], ..Policy::default() };
    let next = decide(&write(Change::Create(text("x"))), None, None, &policy).unwrap().unwrap();
    assert_eq!(next.vector_status, VectorStatus::Skipped);
    let policy = Policy { skip_prefixes: vec!["d/b".to_owned()], ..Policy::default() };
    let next = decide(&write(Change::Create(text("x"))), None, None, &policy).unwrap().unwrap();
    assert_eq!(next.vector_status, VectorStatus::Pending);
}

#[test]
fn what_is_not_given_is_kept_or_takes_its_default() {
    let next = |change, current: Option<Document>| {
        decide(&write(change), current.as_ref(), None, &Policy::default()).unwrap().unwrap()
    };
    let created = next(Change::Create(text("x")), None);
    assert_eq!((created.title.as_str(), created.tags.len(), created.source), ("a.md", 0, None));
    let again = next(Change::Create(text("x")), deleted());
    assert_eq!((again.title.as_str(), again.tags.len(), again.source), ("a.md", 0, None));
    let updated = next(Change::Update(text("x")), alive());
    assert_eq!((updated.title.as_str(), updated.source.as_deref()), ("Title", Some("s")));
    let blank = Fields { title: Some("  ".to_owned()), ..Fields::default() };
    assert_eq!(next(Change::Update(blank), alive()).title, "a.md");
}

#[test]
fn everything_has_a_bound() {
    #[track_caller]
    fn check(fields: Fields, allowed: bool) {
        let result = decide(&write(Change::Create(fields)), None, None, &Policy::default());
        assert_eq!(result.map_err(|error| error.code()).is_ok(), allowed);
    }
    let long = |n: usize| Some("x".repeat(n));
    let metadata = |n: usize| json!({"k": "x".repeat(n)}).as_object().cloned();
    for (n, allowed) in [(0, true), (1, false)] {
        check(text(&"x".repeat(4 * 1024 * 1024 + n)), allowed);
        check(Fields { title: long(1024 + n), ..text("") }, allowed);
        check(Fields { source: long(2048 + n), ..text("") }, allowed);
        check(Fields { tags: Some(vec!["t".to_owned(); 64 + n]), ..text("") }, allowed);
        check(Fields { tags: Some(vec!["t".repeat(256 + n)]), ..text("") }, allowed);
        check(Fields { metadata: metadata(65536 - 8 + n), ..text("") }, allowed);
    }
    check(Fields { tags: Some(vec![String::new()]), ..text("") }, false);
}

#[test]
fn metadata_that_no_answer_could_hold_is_refused() {
    #[track_caller]
    fn check(depth: usize, allowed: bool) {
        for wrap in [|value: Value| json!([value]), |value: Value| json!({ "k": value })] {
            let value = (1..depth).fold(json!(1), |value, _| wrap(value));
            let metadata = json!({ "k": value }).as_object().cloned();
            for change in [Change::Create, Change::Upsert, Change::Update] {
                let change = change(Fields { metadata: metadata.clone(), ..text("x") });
                assert_eq!(write(change).check_given().is_ok(), allowed, "{depth}");
            }
        }
    }
    check(1, true);
    check(MAX_METADATA_DEPTH, true);
    check(MAX_METADATA_DEPTH + 1, false);
    check(120, false);
}

#[test]
fn titles_tags_and_new_paths_hide_nothing() {
    let code = |write: &Write, current: Option<Document>| {
        decide(write, current.as_ref(), None, &Policy::default()).map_err(|error| error.code())
    };
    for hidden in ["a\u{1b}[2J", "a\nb", "\u{202e}fdp", "a\u{200b}b", "\u{9b}"] {
        let fields = Fields { title: Some(hidden.to_owned()), ..text("x") };
        assert_eq!(code(&write(Change::Create(fields)), None), Err(crate::Code::InvalidArgument));
        let fields = Fields { tags: Some(vec![hidden.to_owned()]), ..text("x") };
        assert_eq!(
            code(&write(Change::Update(fields)), alive()),
            Err(crate::Code::InvalidArgument)
        );
    }
    let family =
        Fields { title: Some("👩\u{200d}👧 می\u{200c}خواهم".to_owned()), ..text("x") };
    assert!(code(&write(Change::Create(family)), None).is_ok());
    let at = DocPath::parse("a\u{202e}b").unwrap();
    let strange = |change| Write { path: at.clone(), ..write(change) };
    assert_eq!(code(&strange(Change::Upsert(text("x"))), None), Err(crate::Code::InvalidArgument));
    assert!(code(&strange(Change::Upsert(text("x"))), alive()).is_ok());
    assert!(code(&strange(Change::Delete), alive()).is_ok());
}
