//! Long texts in the lexical index: cut into pieces, each a row of its own.
//!
//! FTS5 takes hundreds of milliseconds for a text of several megabytes, in one statement that holds the write lock. The
//! first piece is indexed with the document itself; the writer indexes the others one by one, between other writes, and
//! answers the write when all are in the index. A phrase is found within one piece only.

use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Fault;

/// Bytes of a piece: indexing them takes 25 ms at most.
pub(super) const PIECE_BYTES: usize = 128 * 1024;
/// The last piece takes what is left.
const MAX_PIECES: usize = 255;
/// A piece ends at the first white space within so many bytes.
const WORD_BYTES: usize = 256;

/// The first piece has the row of its document's key; the others follow here, 256 rows for each document.
const FIRST_ROW: i64 = 1 << 48;
const ROWS_PER_DOCUMENT: i64 = 256;

/// An SQL expression: the document that a row of the index belongs to.
macro_rules! document_of {
    ($row:literal) => {
        concat!(
            "(CASE WHEN ",
            $row,
            " < 281474976710656 THEN ",
            $row,
            " ELSE (",
            $row,
            " - 281474976710656) >> 8 END)"
        )
    };
}
pub(super) use document_of;

const NEXT: &str = "SELECT lexical_pending.next, body.text FROM lexical_pending \
                    JOIN document ON document.key = lexical_pending.document \
                    JOIN body ON body.key = document.body \
                    WHERE lexical_pending.document = ?1 AND document.deleted_at IS NULL";

const ADD: &str = "INSERT OR REPLACE INTO lexical (rowid, body) VALUES (?1, ?2)";

/// The document of a row of the index.
pub(super) fn document_of_row(row: i64) -> i64 {
    if row < FIRST_ROW { row } else { (row - FIRST_ROW) / ROWS_PER_DOCUMENT }
}

fn row(document: i64, piece: usize) -> i64 {
    FIRST_ROW + document * ROWS_PER_DOCUMENT + piece as i64
}

pub(super) fn n_pieces(text: &str) -> usize {
    text.len().div_ceil(PIECE_BYTES).clamp(1, MAX_PIECES)
}

/// Piece number `n` of `text`; the pieces together are the text.
pub(super) fn piece(text: &str, n: usize) -> &str {
    let end = if n + 1 >= n_pieces(text) { text.len() } else { cut(text, n + 1) };
    &text[cut(text, n)..end]
}

/// Where piece `n` begins: at white space, if there is any nearby.
fn cut(text: &str, n: usize) -> usize {
    if n == 0 {
        return 0;
    }
    let at = text.floor_char_boundary(n * PIECE_BYTES);
    let nearby = &text[at..text.floor_char_boundary(at + WORD_BYTES)];
    at + nearby.find(char::is_whitespace).unwrap_or_default()
}

/// Notes that the pieces of `text` after the first are to be indexed, if there are any.
pub(super) fn enqueue(
    connection: &Connection,
    document: i64,
    text: &str,
) -> std::result::Result<(), Fault> {
    if n_pieces(text) > 1 {
        connection
            .prepare_cached(
                "INSERT INTO lexical_pending (document, next, write) SELECT ?1, 1, rowid FROM revision \
                 WHERE document = ?1 ORDER BY revision DESC LIMIT 1",
            )?
            .execute([document])?;
    }
    Ok(())
}

/// Takes all pieces after the first out of the index, and those that are still to come off the list.
pub(super) fn remove(connection: &Connection, document: i64) -> std::result::Result<(), Fault> {
    connection
        .prepare_cached("DELETE FROM lexical_pending WHERE document = ?1")?
        .execute([document])?;
    let mut rows =
        connection.prepare_cached("SELECT id FROM lexical_docsize WHERE id BETWEEN ?1 AND ?2")?;
    let rows = rows.query_map([row(document, 1), row(document, MAX_PIECES)], |row| row.get(0))?;
    for row in rows.collect::<rusqlite::Result<Vec<i64>>>()? {
        connection.prepare_cached("DELETE FROM lexical WHERE rowid = ?1")?.execute([row])?;
    }
    Ok(())
}

/// Indexes the next piece of a document; says whether there are more.
pub(super) fn index_next(
    connection: &Connection,
    document: i64,
) -> std::result::Result<bool, Fault> {
    let mut statement = connection.prepare_cached(NEXT)?;
    let indexed = statement.query_row([document], |found| {
        let (next, text): (usize, &str) = (found.get(0)?, found.get_ref(1)?.as_str()?);
        let words = piece(text, next);
        connection.prepare_cached(ADD)?.execute(params![row(document, next), words])?;
        Ok((next + 1, next + 1 < n_pieces(text)))
    });
    let (next, has_more) = indexed.optional()?.unwrap_or_default();
    if has_more {
        connection
            .prepare_cached("UPDATE lexical_pending SET next = ?2 WHERE document = ?1")?
            .execute(params![document, next])?;
    } else {
        connection
            .prepare_cached("DELETE FROM lexical_pending WHERE document = ?1")?
            .execute([document])?;
    }
    Ok(has_more)
}

/// Documents with pieces still to be indexed.
pub(super) fn pending(connection: &Connection) -> std::result::Result<Vec<i64>, Fault> {
    let mut statement = connection.prepare_cached("SELECT document FROM lexical_pending")?;
    Ok(statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<&str> {
        (0..n_pieces(text)).map(|n| piece(text, n)).collect()
    }

    #[test]
    fn pieces_are_the_whole_text() {
        let words = "häuser und straßen ".repeat(40_000);
        for text in ["", "short", &"x".repeat(PIECE_BYTES + 1), &words, &"ü".repeat(300_000)] {
            assert_eq!(pieces(text).concat(), text);
        }
    }

    #[test]
    fn a_piece_ends_between_words() {
        let text = "wordy ".repeat(100_000);
        for piece in pieces(&text) {
            assert!(piece.trim().split(' ').all(|word| word == "wordy"), "{:?}", &piece[..40]);
        }
    }

    #[test]
    fn a_huge_text_has_a_last_piece_with_the_rest() {
        let text = "a ".repeat(PIECE_BYTES * MAX_PIECES);
        assert_eq!(n_pieces(&text), MAX_PIECES);
        assert_eq!(pieces(&text).concat().len(), text.len());
    }

    #[test]
    fn rows_lead_back_to_their_document() {
        for document in [1, 77, u32::MAX.into()] {
            let rows = [document, row(document, 1), row(document, MAX_PIECES)];
            assert!(rows.iter().all(|row| document_of_row(*row) == document));
            let sql = concat!("SELECT ", document_of!("?1"));
            let connection = Connection::open_in_memory().unwrap();
            for row in rows {
                let found: i64 = connection.query_row(sql, [row], |row| row.get(0)).unwrap();
                assert_eq!(found, document);
            }
        }
    }
}
