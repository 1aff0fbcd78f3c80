//! Arguments several tools take, and how they are read.

use lyceum_kb::{DocPath, Error, Idempotency, MimeType, Prefix, Result};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::knowledge::whole::Whole;

const MAX_KEY: usize = 256;

// Whatever metadata is stored fits into an answer, and answers into a batch.
const _: () = assert!(lyceum_kb::MAX_METADATA_DEPTH + 16 <= lyceum_wire::MAX_DEPTH);

/// What every write may carry to be safe.
#[derive(Debug, Clone)]
pub(crate) struct Safety {
    pub(crate) expected_revision: Option<i64>,
    pub(crate) idempotency: Option<Idempotency>,
}

impl Safety {
    /// Reads the safety arguments of a write; `arguments` are all of them, for the fingerprint.
    pub(crate) fn read<A: Serialize>(
        arguments: &A,
        expected_revision: Option<Whole>,
        key: Option<&str>,
    ) -> Result<Self> {
        let idempotency = key.map(|key| idempotency(arguments, key)).transpose()?;
        let expected_revision = expected_revision.map(|revision| revision.0);
        if expected_revision.is_some_and(|revision| revision < 0) {
            return Err(Error::invalid(
                "expected_revision: give the revision you read, or 0 if there should be none",
            ));
        }
        Ok(Self { expected_revision, idempotency })
    }
}

fn idempotency<A: Serialize>(arguments: &A, key: &str) -> Result<Idempotency> {
    if key.is_empty() || key.len() > MAX_KEY {
        return Err(Error::invalid("idempotency_key: give 1 to 256 bytes"));
    }
    let arguments = serde_json::to_vec(arguments)
        .map_err(|error| Error::internal(format!("arguments are not JSON: {error}")))?;
    Ok(Idempotency { key: key.to_owned(), digest: Sha256::digest(&arguments).into() })
}

/// The document named by either of two synonyms.
pub(crate) fn document(document_id: Option<&str>, path: Option<&str>) -> Result<DocPath> {
    match (document_id, path) {
        (Some(id), Some(path)) if id != path => {
            Err(Error::invalid("document_id and path name different documents; give one of them"))
        }
        (Some(id), _) | (None, Some(id)) => DocPath::parse(id),
        (None, None) => {
            Err(Error::invalid("document_id: say which document; list_documents shows what exists"))
        }
    }
}

/// The prefix named by either of two synonyms; everything when neither is given.
pub(crate) fn prefix(path: Option<&str>, prefix: Option<&str>) -> Result<Option<Prefix>> {
    match (path, prefix) {
        (Some(path), Some(prefix)) => {
            let (path, prefix) = (Prefix::parse(path)?, Prefix::parse(prefix)?);
            if path != prefix {
                return Err(Error::invalid("path and prefix mean the same; give one of them"));
            }
            Ok(Some(prefix))
        }
        (Some(given), None) | (None, Some(given)) => Prefix::parse(given).map(Some),
        (None, None) => Ok(None),
    }
}

pub(crate) fn mime_type(given: Option<&str>) -> Result<Option<MimeType>> {
    given.map(MimeType::parse).transpose()
}
