//! Documents as files beneath a directory, each written whole or not at all.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};
use lyceum_kb::convert::write_front_matter;
use lyceum_kb::{Document, MimeType};
use serde_json::Value;

use super::name;

/// Where a document goes before it has its name.
const PARTIAL: &str = ".lyceum-export.partial";

/// Writes documents into a directory.
#[derive(Debug)]
pub(crate) struct Exporter {
    directory: Dir,
    /// Names in use by this export, as the least careful file system sees them.
    files: HashSet<String>,
    directories: HashSet<String>,
}

/// What became of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exported {
    /// The file, beneath the directory.
    pub(crate) file: String,
    /// Whether importing the file would make a document with another path.
    pub(crate) renamed: bool,
    /// Whether the document has a title, tags or metadata that such files cannot hold.
    pub(crate) bare: bool,
}

impl Exporter {
    /// A directory to write into, made if there is none.
    pub(crate) fn into(directory: &Path) -> anyhow::Result<Exporter> {
        let context = || format!("cannot write into {}", directory.display());
        std::fs::create_dir_all(directory).with_context(context)?;
        let directory =
            Dir::open_ambient_dir(directory, ambient_authority()).with_context(context)?;
        Ok(Exporter { directory, files: HashSet::new(), directories: HashSet::new() })
    }

    /// Writes one document. A file of the same name that was there before is replaced.
    pub(crate) fn write(&mut self, document: &Document) -> anyhow::Result<Exported> {
        let meta = &document.meta;
        let file = self.free_name(&name::file_name(&meta.path, meta.mime_type));
        let text = text(document);
        self.put(&file, text.as_bytes())
            .with_context(|| format!("cannot write {file} for the document {}", meta.path))?;
        let untold = meta.title != meta.path.name()
            || !meta.tags.is_empty()
            || !meta.metadata.is_empty()
            || meta.source.is_some();
        Ok(Exported {
            renamed: file != meta.path.as_str(),
            bare: meta.mime_type != MimeType::Markdown && untold,
            file,
        })
    }

    /// The name, or with a number if another document's file or directory has it.
    fn free_name(&mut self, wanted: &str) -> String {
        let mut file = wanted.to_owned();
        let mut number = 1;
        while !self.is_free(&file) {
            number += 1;
            file = match self.directory_in_the_way(wanted) {
                // A directory that is somebody's file gets the number itself.
                Some(end) => format!("{}~{number}{}", &wanted[..end], &wanted[end..]),
                None => name::numbered(wanted, number),
            };
        }
        self.files.insert(name::folded(&file));
        for (end, _) in file.match_indices('/') {
            self.directories.insert(name::folded(&file[..end]));
        }
        file
    }

    fn is_free(&self, file: &str) -> bool {
        let folded = name::folded(file);
        !self.files.contains(&folded)
            && !self.directories.contains(&folded)
            && self.directory_in_the_way(file).is_none()
    }

    /// Where the first directory of a path ends that cannot be one, because a file has its name.
    fn directory_in_the_way(&self, file: &str) -> Option<usize> {
        let ends = file.match_indices('/').map(|(end, _)| end);
        ends.into_iter().find(|end| self.files.contains(&name::folded(&file[..*end])))
    }

    /// Written aside and then renamed: a crash leaves no half file, and a link that has the name is
    /// replaced instead of followed.
    fn put(&self, file: &str, bytes: &[u8]) -> std::io::Result<()> {
        if let Some((parent, _)) = file.rsplit_once('/') {
            self.create_directories(parent)?;
        }
        // Left behind by a crash, or put there by somebody.
        match self.directory.remove_file(PARTIAL) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        cap_std::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut partial = self.directory.open_with(PARTIAL, &options)?;
        partial.write_all(bytes)?;
        partial.sync_all()?;
        self.directory.rename(PARTIAL, &self.directory, file)
    }

    /// Makes a directory and those above it. None of them may be a link, not even to elsewhere in the export.
    fn create_directories(&self, path: &str) -> std::io::Result<()> {
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        for directory in ends.map(|end| &path[..end]) {
            match self.directory.create_dir(directory) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
            if !self.directory.symlink_metadata(directory)?.is_dir() {
                let why = format!("{directory} is a link or a file; remove it");
                return Err(std::io::Error::new(std::io::ErrorKind::NotADirectory, why));
            }
        }
        Ok(())
    }

    /// Makes sure that the names of all files are on disk, too.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        #[cfg(unix)]
        self.directory.open(".")?.sync_all()?;
        Ok(())
    }
}

/// What stands in the file: Markdown says everything about itself, other kinds are left alone.
fn text(document: &Document) -> String {
    let meta = &document.meta;
    if meta.mime_type != MimeType::Markdown {
        return document.body.clone();
    }
    let mut metadata = meta.metadata.clone();
    if let Some(source) = &meta.source {
        metadata.entry("source").or_insert_with(|| Value::from(source.clone()));
    }
    write_front_matter(Some(&meta.title), &meta.tags, &metadata) + &document.body
}
