//! What a directory holds: a list first, so that progress can be shown, then file by file.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirEntry};
use lyceum_kb::convert::{Converted, Kind, MAX_INPUT};
use lyceum_kb::{DocPath, Fields, is_hidden};
use serde_json::Value;

use super::{Record, name};

const MAX_FILES: usize = 1_000_000;
const MAX_DEPTH: usize = 64;

/// The files beneath a directory that can become documents, and the others.
#[derive(Debug)]
pub(crate) struct Listing {
    directory: Dir,
    /// In the order of their paths.
    pub(crate) files: Vec<Listed>,
    pub(crate) skipped: Vec<Skipped>,
}

/// A file that can become a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) path: DocPath,
    pub(crate) kind: Kind,
    pub(crate) relative: PathBuf,
}

/// A file that is left out, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skipped {
    pub(crate) file: String,
    pub(crate) why: String,
}

impl Listed {
    /// The document that was made of the file.
    pub(crate) fn record(&self, converted: Converted) -> Record {
        let mut metadata = converted.metadata;
        let source = match metadata.remove("source") {
            Some(Value::String(source)) => Some(source),
            Some(other) => {
                metadata.insert("source".to_owned(), other);
                None
            }
            None => None,
        };
        let fields = Fields {
            body: Some(converted.body),
            title: converted.title,
            tags: Some(converted.tags),
            source,
            metadata: Some(metadata),
            mime_type: Some(converted.mime_type),
        };
        Record { path: self.path.clone(), fields }
    }
}

impl Listing {
    /// Lists a directory with everything beneath it, or a single file. Hidden files, and whatever
    /// links to elsewhere, are not looked at.
    pub(crate) fn of(place: &Path) -> anyhow::Result<Listing> {
        let context = || format!("cannot read {}", place.display());
        let metadata = std::fs::metadata(place).with_context(context)?;
        let (directory, name) = match metadata.is_dir() {
            true => (place.to_owned(), None),
            // The file may be reached through a link, because the operator named it.
            false => {
                let place = place.canonicalize().with_context(context)?;
                let name = place.file_name().map(PathBuf::from).with_context(context)?;
                (place.parent().unwrap_or(Path::new(".")).to_owned(), Some(name))
            }
        };
        let directory =
            Dir::open_ambient_dir(directory, ambient_authority()).with_context(context)?;
        let mut listing = Listing { directory, files: Vec::new(), skipped: Vec::new() };
        match name {
            Some(name) => listing.add(name),
            None => {
                let root = listing.directory.try_clone()?;
                listing.descend(&root, Path::new(""), 0)?;
            }
        }
        listing.files.sort_by(|one, other| one.path.cmp(&other.path));
        listing.drop_twins();
        Ok(listing)
    }

    /// The content of a file.
    pub(crate) fn read(&self, file: &Listed) -> anyhow::Result<Vec<u8>> {
        let context = || format!("cannot read {}", file.relative.display());
        let open = self.directory.open(&file.relative).with_context(context)?;
        anyhow::ensure!(open.metadata()?.is_file(), "{} is no file any more", file.path);
        let mut bytes = Vec::new();
        open.take(MAX_INPUT as u64 + 1).read_to_end(&mut bytes).with_context(context)?;
        anyhow::ensure!(bytes.len() <= MAX_INPUT, "{} is larger than {MAX_INPUT} bytes", file.path);
        Ok(bytes)
    }

    fn descend(&mut self, directory: &Dir, relative: &Path, depth: usize) -> anyhow::Result<()> {
        let shown = if depth == 0 { Path::new(".") } else { relative };
        let context = || format!("cannot read the directory {}", shown.display());
        let entries: io::Result<Vec<DirEntry>> = directory.entries().and_then(Iterator::collect);
        let mut entries = entries.with_context(context)?;
        entries.sort_by_key(DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let relative = relative.join(&name);
            let kind = entry.file_type().with_context(context)?;
            if kind.is_symlink() {
                self.skip(&relative, "it is a link; copy what it leads to");
            } else if kind.is_dir() && depth >= MAX_DEPTH {
                self.skip(&relative, "it is too deep");
            } else if kind.is_dir() {
                self.descend(&entry.open_dir().with_context(context)?, &relative, depth + 1)?;
            } else if kind.is_file() {
                self.add(relative);
            } else {
                self.skip(&relative, "it is no file");
            }
            anyhow::ensure!(
                self.files.len() + self.skipped.len() <= MAX_FILES,
                "there are more than {MAX_FILES} files; import parts of the directory"
            );
        }
        Ok(())
    }

    fn add(&mut self, relative: PathBuf) {
        let extension = relative.extension().and_then(|extension| extension.to_str());
        let Some(kind) = extension.and_then(Kind::of_extension) else {
            return self.skip(&relative, "files like this are not read");
        };
        let Some(text) = relative.to_str() else {
            return self.skip(&relative, "its name is not UTF-8; rename it");
        };
        match name::document_path(&text.replace(std::path::MAIN_SEPARATOR, "/")) {
            Ok(path) => self.files.push(Listed { path, kind, relative }),
            Err(why) => self.skip(&relative, &why),
        }
    }

    fn skip(&mut self, relative: &Path, why: &str) {
        let file = relative.display().to_string();
        let file = file.replace(is_hidden, "\u{fffd}");
        self.skipped.push(Skipped { file, why: why.to_owned() });
    }

    /// Two names that differ only in how their characters are put together mean one document.
    fn drop_twins(&mut self) {
        let twins: Vec<PathBuf> = self
            .files
            .windows(2)
            .filter(|pair| pair[0].path == pair[1].path)
            .map(|pair| pair[1].relative.clone())
            .collect();
        self.files.dedup_by(|second, first| second.path == first.path);
        for twin in twins {
            self.skip(&twin, "another file has the same name in other bytes; rename one");
        }
    }
}
