//! Documents as files: what a directory holds, and documents written into one or into a `.jsonl`.
//!
//! Everything happens beneath the directory that was named: paths cannot lead out of it, nor can
//! links that appear while it is being read. Knows no knowledge base; commands bring the two
//! together.

mod jsonl;
mod name;
mod read;
mod write;

#[cfg(test)]
mod tests;

use lyceum_kb::{DocPath, Fields};

pub(crate) use jsonl::{LinesFile, read_lines};
pub(crate) use read::Listing;
pub(crate) use write::Exporter;

/// A document that was read from a file or a line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    pub(crate) path: DocPath,
    pub(crate) fields: Fields,
}
