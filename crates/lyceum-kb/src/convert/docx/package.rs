//! The zip archive a Word file is, read within bounds whatever its directory claims.

use std::io::{Cursor, Read};

use zip::ZipArchive;
use zip::result::ZipError;

use crate::{Error, Result};

/// Bytes of all parts that are read, unpacked.
const MAX_UNPACKED: usize = 64 << 20;
const MAX_ENTRIES: usize = 10_000;

pub(super) struct Package<'a> {
    archive: ZipArchive<Cursor<&'a [u8]>>,
    left: usize,
}

impl<'a> Package<'a> {
    pub(super) fn open(bytes: &'a [u8]) -> Result<Package<'a>> {
        let archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| damaged(&error))?;
        if archive.len() > MAX_ENTRIES {
            return Err(Error::invalid("the Word file holds too many parts"));
        }
        Ok(Package { archive, left: MAX_UNPACKED })
    }

    /// A part the file cannot do without.
    pub(super) fn required(&mut self, name: &str) -> Result<String> {
        let missing = || Error::invalid("this is no Word file (.docx); it has no main part");
        self.read(name)?.ok_or_else(missing)
    }

    /// A part, empty if there is none.
    pub(super) fn part(&mut self, name: &str) -> Result<String> {
        Ok(self.read(name)?.unwrap_or_default())
    }

    fn read(&mut self, name: &str) -> Result<Option<String>> {
        let mut entry = match self.archive.by_name(name) {
            Ok(entry) => entry,
            Err(ZipError::FileNotFound) => return Ok(None),
            Err(error) => return Err(damaged(&error)),
        };
        let mut bytes = Vec::new();
        let limit = self.left as u64 + 1;
        entry.by_ref().take(limit).read_to_end(&mut bytes).map_err(|error| damaged(&error))?;
        self.left = self
            .left
            .checked_sub(bytes.len())
            .ok_or_else(|| Error::invalid("the Word file unpacks to more than can be read"))?;
        Ok(Some(super::super::charset::html(&bytes, None)))
    }
}

fn damaged(error: &dyn std::fmt::Display) -> Error {
    Error::invalid(format!("the Word file is damaged: {error}"))
}
