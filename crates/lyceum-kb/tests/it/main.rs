//! Tests of lyceum-kb, by topic.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

// What every store must do, written against the trait.
#[macro_use]
mod store;

// The SQLite store: the suite, and what only a file can get wrong.
mod sqlite;

// The worker that makes vectors: canaries, failing models, changing models.
mod indexer;

// How well search finds, measured.
mod gold;
