//! The lock as a file.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::definition::{Definition, Kind};
use super::{Lock, Pins};
use crate::invisible;
use crate::tree::Tree;

/// Bytes of a file; a thousand tools with large schemas are a tenth of it.
const MAX_FILE: u64 = 64 << 20;
/// The version that is written.
const VERSION: &str = "2";
/// The version whose definitions hold only some members. Those of them that are still in use are
/// marked with it in a file of the present version.
const FIRST_VERSION: &str = "1";

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The file is there and cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file does not say what was approved.
    #[error("{} is damaged: {reason}; restore it, or remove it and lock anew", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl Lock {
    /// Reads the file; `None` if there is none.
    pub fn load(path: &Path) -> Result<Option<Lock>, LockError> {
        let failed = |source| LockError::Read { path: path.to_owned(), source };
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let mut text = String::new();
        file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(failed)?;
        let damaged = |reason| LockError::Damaged { path: path.to_owned(), reason };
        if text.len() as u64 > MAX_FILE {
            return Err(damaged("it is too large".to_owned()));
        }
        Lock::parse(&text).map(Some).map_err(damaged)
    }

    /// Writes the file as a whole: whoever reads it meanwhile sees the old one.
    pub fn save(&self, path: &Path) -> Result<(), LockError> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}.new", std::process::id()));
        let beside = PathBuf::from(beside);
        let write = || {
            let mut file = File::create(&beside)?;
            file.write_all(self.render().as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, path)
        };
        write().map_err(|source| {
            // It may never have been made.
            let _ = fs::remove_file(&beside);
            LockError::Write { path: path.to_owned(), source }
        })
    }

    /// The contents of the file.
    pub(super) fn render(&self) -> String {
        let upstreams = self.upstreams.iter().map(|(name, pins)| (name.clone(), write_pins(pins)));
        let tree = Tree::Members(vec![
            ("version".to_owned(), Tree::Plain(VERSION.to_owned())),
            ("upstreams".to_owned(), Tree::Members(upstreams.collect())),
        ]);
        invisible::escaped(&tree.pretty()) + "\n"
    }

    pub(super) fn parse(text: &str) -> Result<Lock, String> {
        let tree = Tree::parse(text)?;
        let is = |version: &str| tree.get("version") == Some(&Tree::Plain(version.to_owned()));
        let is_first = is(FIRST_VERSION);
        if !is_first && !is(VERSION) {
            return Err(format!("it is of neither version {FIRST_VERSION} nor {VERSION}"));
        }
        let mut lock = Lock::default();
        for (name, pins) in members(tree.get("upstreams"), "upstreams")? {
            lock.upstreams.insert(name.clone(), read_pins(name, pins, is_first)?);
        }
        Ok(lock)
    }
}

fn write_pins(pins: &Pins) -> Tree {
    let of = |wanted: Kind| {
        let pins = pins.iter().filter(move |((kind, _), _)| *kind == wanted);
        let entries = pins.map(|((_, name), pin)| {
            let mut entry = vec![
                ("hash".to_owned(), Tree::Text(pin.hash().to_owned())),
                ("definition".to_owned(), pin.held().clone()),
            ];
            if pin.is_partial() {
                entry.push(("version".to_owned(), Tree::Plain(FIRST_VERSION.to_owned())));
            }
            (name.clone(), Tree::Members(entry))
        });
        (wanted.plural().to_owned(), Tree::Members(entries.collect()))
    };
    Tree::Members(vec![of(Kind::Tool), of(Kind::Prompt)])
}

fn read_pins(upstream: &str, tree: &Tree, is_first: bool) -> Result<Pins, String> {
    let mut pins = Pins::new();
    for kind in [Kind::Tool, Kind::Prompt] {
        for (name, entry) in members(tree.get(kind.plural()), kind.plural())? {
            let wrong = |reason: &str| format!("{upstream}, {}, {name}: {reason}", kind.plural());
            let definition = entry.get("definition").ok_or_else(|| wrong("no definition"))?;
            let is_partial = is_first || entry.get("version").is_some();
            let pin = Definition::of(kind, definition.clone(), is_partial);
            let pin = pin.map_err(|error| wrong(&error))?;
            if pin.name() != name {
                return Err(wrong("it defines something else"));
            }
            // Whoever changes the one by hand and not the other means neither.
            if entry.get("hash").and_then(Tree::text) != Some(pin.hash()) {
                return Err(wrong("the hash is not that of the definition"));
            }
            pins.insert((kind, name.clone()), pin);
        }
    }
    Ok(pins)
}

fn members<'a>(tree: Option<&'a Tree>, name: &str) -> Result<&'a [(String, Tree)], String> {
    match tree {
        Some(Tree::Members(members)) => Ok(members),
        _ => Err(format!("{name} must be an object")),
    }
}
