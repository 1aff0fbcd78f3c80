//! Query plans: ranges of indexes, no scans, no sorting.

use rusqlite::Connection;

use super::super::{documents, list, memo, outbox, schema, vectors};

fn plan(sql: &str) -> String {
    let connection = Connection::open_in_memory().unwrap();
    schema::migrate(&connection).unwrap();
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let n = statement.parameter_count();
    let nothing = rusqlite::params_from_iter(vec![rusqlite::types::Null; n]);
    let lines = statement.query_map(nothing, |row| row.get(3)).unwrap();
    lines.collect::<rusqlite::Result<Vec<String>>>().unwrap().join("; ")
}

#[track_caller]
fn check(sql: &str, expected: &str) {
    assert_eq!(plan(sql), expected, "{sql}");
}

#[test]
fn l10_a_list_is_one_range_of_one_index() {
    check(list::LIST, "SEARCH document USING INDEX living (path>? AND path<?)");
}

#[test]
fn other_lists_are_ranges_too() {
    check(list::NEXT_TAG, "SEARCH tag USING PRIMARY KEY (tag>?)");
    check(vectors::AFTER, "SEARCH vector USING INDEX vector_set_seq (set_id=? AND seq>?)");
    check(memo::CHANGED, "SEARCH revision USING INTEGER PRIMARY KEY (rowid>?)");
    check(
        documents::WRITES,
        "SEARCH revision USING INTEGER PRIMARY KEY (rowid>?); \
         SEARCH document USING INTEGER PRIMARY KEY (rowid=?)",
    );
    check(outbox::DUE, "SEARCH outbox USING INDEX outbox_due (set_id=? AND due<?)");
    check(
        documents::HISTORY,
        "SEARCH document USING INDEX sqlite_autoindex_document_1 (path=?); \
         SEARCH revision USING INDEX sqlite_autoindex_revision_1 (document=? AND revision<?)",
    );
}
