//! What is asked of the knowledge base, by how many clients, and how long an answer may take. Data only.
//!
//! The time budgets are a twentieth of what the system this one replaces promised, except for searches, which have
//! their own.

use std::time::Duration;

/// One kind of call.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) name: &'static str,
    pub(super) ask: Ask,
    /// How many clients at a time, with the budget in milliseconds that 95 % of the answers must keep.
    pub(super) clients: &'static [(usize, f64)],
    /// Only answers with this text are answers.
    pub(super) expects: &'static str,
    pub(super) writes: bool,
    /// Documents up to which there is a budget.
    pub(super) up_to: usize,
}

/// What exactly is asked; each call has other arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    Initialize,
    ListTools,
    /// The first page of everything.
    List,
    /// The first page of a small folder.
    ListFolder,
    /// The last page that an offset reaches.
    ListOffset,
    /// Page after page.
    ListCursor,
    Get,
    Batch,
    Search,
    /// With tags, a prefix, a date, or all of them.
    SearchFiltered,
    /// Only words that most documents have.
    SearchCommon,
    Upload,
    Update,
}

/// At a time.
pub(super) const MOST_CLIENTS: usize = 10;

/// Eight writers must reach this many times the rate of one: they share the wait for the disk.
pub(super) const WRITERS_RATIO: f64 = 5.0;
/// What an fsync takes at least where that ratio is held against its budget. On a disk that says "done" in a tenth of
/// that there is no wait to share, and the ratio says what a write costs the processor instead.
pub(super) const FSYNC: Duration = Duration::from_millis(2);

/// From the start of the server to the first answered search, in milliseconds.
pub(super) const START: f64 = 1000.0;
/// Documents up to which the start has a budget.
pub(super) const START_DOCUMENTS: usize = 10_000;

const LIST: &[(usize, f64)] = &[(1, 5.0), (5, 12.5), (10, 20.0)];
const SEARCH: &[(usize, f64)] = &[(1, 50.0), (4, 50.0)];
/// Documents that have the 100,000 chunks of the budget for searches.
const SEARCH_DOCUMENTS: usize = 40_000;
const WRITE: &[(usize, f64)] = &[(1, 60.0), (8, 60.0)];

pub(super) static OPERATIONS: &[Operation] = &[
    reads("initialize", Ask::Initialize, &[(1, 2.5), (10, 2.5)], "protocolVersion"),
    reads("tools/list", Ask::ListTools, &[(1, 2.5), (10, 2.5)], "search_knowledge"),
    reads("list_documents", Ask::List, LIST, "next_cursor"),
    reads("list_documents folder", Ask::ListFolder, LIST, "next_cursor"),
    reads("list_documents offset 9900", Ask::ListOffset, LIST, "next_cursor"),
    reads("list_documents cursor", Ask::ListCursor, LIST, "next_cursor"),
    reads("get_document", Ask::Get, &[(1, 10.0), (10, 10.0)], "content_length"),
    reads("batch_read of 3", Ask::Batch, &[(1, 15.0), (10, 15.0)], "content_length"),
    searches("search_knowledge", Ask::Search),
    searches("search_knowledge filtered", Ask::SearchFiltered),
    searches("search_knowledge common words", Ask::SearchCommon),
    // What changes nothing is not a write.
    writes("upload_document", Ask::Upload, "created"),
    writes("update_document", Ask::Update, "updated"),
];

const fn reads(
    name: &'static str,
    ask: Ask,
    clients: &'static [(usize, f64)],
    expects: &'static str,
) -> Operation {
    Operation { name, ask, clients, expects, writes: false, up_to: usize::MAX }
}

/// Words alone would be faster: the vectors must have been asked too.
const fn searches(name: &'static str, ask: Ask) -> Operation {
    Operation { up_to: SEARCH_DOCUMENTS, ..reads(name, ask, SEARCH, "hybrid") }
}

const fn writes(name: &'static str, ask: Ask, expects: &'static str) -> Operation {
    Operation { name, ask, clients: WRITE, expects, writes: true, up_to: usize::MAX }
}
