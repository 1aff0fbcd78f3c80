//! Deciding what takes long before the writing thread does: all other writes wait behind it.
//!
//! A patch of a large document is applied to the text that a reader sees, and stored only if the document is still at
//! that revision; otherwise it is applied again (optimistic concurrency).

use std::sync::Arc;

use super::{SqliteStore, documents, write};
use crate::fair::COMPUTE;
use crate::write::{Change, Write, Written};
use crate::{Error, Result, patch};

/// How often a patch is applied to a document that others keep changing.
const MAX_ATTEMPTS: usize = 5;
/// Bytes to search that the writing thread searches itself: it takes a millisecond at most.
const MAX_ON_WRITER: usize = 128 * 1024;
/// Writes of so many bytes take turns.
const LARGE_WRITE: usize = 64 * 1024;

/// What is known about a write before it reaches the writing thread.
#[derive(Debug)]
pub(super) enum Prepared {
    Nothing,
    /// It is refused, unless its idempotency key was answered before.
    Refused(Error),
    /// The text of that revision, patched, or why it cannot be.
    Patched {
        revision: i64,
        body: Result<String>,
    },
}

/// What came of a write on the writing thread.
#[derive(Debug)]
pub(super) enum Outcome {
    Answered(Result<Written>),
    /// The patch has yet to be applied to the document as it is now.
    Unprepared,
}

impl Prepared {
    fn bytes(&self) -> usize {
        match self {
            Prepared::Patched { body: Ok(body), .. } => body.len(),
            Prepared::Patched { .. } | Prepared::Refused(_) | Prepared::Nothing => 0,
        }
    }
}

/// Whether patching `body` is work for the writing thread.
pub(super) fn is_small(body: &str, edits: &[patch::Replacement]) -> bool {
    let inserted: usize = edits.iter().map(|edit| edit.new.len()).sum();
    (body.len() + inserted).saturating_mul(edits.len()) <= MAX_ON_WRITER
}

impl SqliteStore {
    /// Prepares and writes until the document stays the same in between.
    pub(super) async fn write_prepared(&self, write: Write) -> Result<Written> {
        let write = Arc::new(write);
        let mut prepared = match write.check_given() {
            Ok(()) => Prepared::Nothing,
            Err(error) => Prepared::Refused(error),
        };
        for attempt in 1.. {
            match self.submit(&write, prepared).await? {
                Outcome::Answered(answer) => return answer,
                Outcome::Unprepared if attempt < MAX_ATTEMPTS => {
                    prepared = self.prepare(&write).await?;
                }
                Outcome::Unprepared => {
                    prepared = Prepared::Refused(Error::unavailable(
                        "others keep changing this document while the patch is applied; try again in a moment",
                    ));
                }
            }
        }
        unreachable!("a refused write is answered")
    }

    pub(super) async fn submit(&self, write: &Arc<Write>, prepared: Prepared) -> Result<Outcome> {
        let bytes = size(write) + prepared.bytes();
        let turn = match bytes >= LARGE_WRITE {
            true => Some(self.large_writes.acquire(self.readers.caller()).await?),
            false => None,
        };
        let write = Arc::clone(write);
        let audited = self.writer.write(bytes, turn, move |batch| {
            let outcome = write::write(batch, &write, prepared)?;
            // The audit line is the last row a write adds; a refused one adds none.
            Ok((outcome, batch.connection.last_insert_rowid()))
        });
        let (outcome, line) = audited.await?;
        if matches!(outcome, Outcome::Answered(Ok(_))) {
            self.mark.raise(line);
        }
        Ok(outcome)
    }

    /// Applies the patch to the text there is now.
    async fn prepare(&self, write: &Arc<Write>) -> Result<Prepared> {
        let slot = COMPUTE.acquire(self.readers.caller()).await?;
        let path = write.path.clone();
        let found = self.readers.run(move |connection| {
            let row = documents::row(connection, path.as_str())?;
            row.map(|row| row.document(connection)).transpose()
        });
        let Some(document) = found.await?.filter(|document| document.meta.is_alive()) else {
            return Ok(Prepared::Nothing);
        };
        let (write, revision) = (Arc::clone(write), document.meta.revision);
        let patching = slot.run_to_end(move || {
            Ok(match &write.change {
                Change::Patch(edits) => patch::apply(&document.body, edits),
                _ => Ok(document.body),
            })
        });
        Ok(Prepared::Patched { revision, body: patching.await? })
    }
}

/// What a write holds in memory, roughly.
fn size(write: &Write) -> usize {
    match &write.change {
        Change::Create(fields) | Change::Upsert(fields) | Change::Update(fields) => {
            fields.body.as_ref().map_or(0, String::len)
        }
        Change::Patch(edits) => edits.iter().map(|edit| edit.old.len() + edit.new.len()).sum(),
        Change::Delete | Change::Restore(_) => 0,
    }
}
