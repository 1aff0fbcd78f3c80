//! [`TokenStore`]: where tokens rest, sealed, between two runs.
//!
//! One JSON file with one sealed entry per upstream, issuer and resource; the three are bound into
//! the seal, so an entry that was moved to another place does not open. The file is replaced as a
//! whole, under a lock that other processes respect too (a login is another process).

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use lyceum_http::{MAX_TOKEN_BYTES, Purpose, Sealer, open_secret_file};
use serde::{Deserialize, Serialize};

use super::client::Identity;
use super::error::OAuthError;
use super::exposed;
use crate::credentials::Secret;

const MAX_FILE: u64 = 16 << 20;
/// A server that names a new issuer each day must not fill the disk.
const MAX_ENTRIES_PER_UPSTREAM: usize = 8;

/// Keeps tokens, in a file or for as long as the process lives.
#[derive(Clone)]
pub struct TokenStore(Arc<Kept>);

enum Kept {
    Memory(Mutex<Vec<(Key, Entry)>>),
    File { path: PathBuf, sealer: Arc<Sealer> },
}

/// What an entry is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Key {
    pub(super) upstream: String,
    pub(super) issuer: String,
    pub(super) resource: String,
}

/// What one authorization server gave us for one resource.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) client: Identity,
    #[serde(with = "exposed")]
    pub(super) access: Secret,
    #[serde(with = "exposed::optional", default)]
    pub(super) refresh: Option<Secret>,
    /// When to get a new access token, in seconds of the epoch.
    #[serde(default)]
    pub(super) renew_at: Option<u64>,
    /// What was asked for.
    #[serde(default)]
    pub(super) scopes: Vec<String>,
    /// When, in milliseconds of the epoch, so that the last of two logins wins.
    pub(super) obtained_at: u64,
}

#[derive(Default, Serialize, Deserialize)]
struct Contents {
    version: u32,
    entries: Vec<Sealed>,
}

#[derive(Serialize, Deserialize)]
struct Sealed {
    #[serde(flatten)]
    key: Key,
    sealed: String,
}

impl TokenStore {
    /// Tokens that die with the process.
    pub fn in_memory() -> TokenStore {
        TokenStore(Arc::new(Kept::Memory(Mutex::default())))
    }

    /// Tokens in a file that only its owner can read, sealed by `sealer`.
    pub fn in_file(path: impl Into<PathBuf>, sealer: Arc<Sealer>) -> TokenStore {
        TokenStore(Arc::new(Kept::File { path: path.into(), sealer }))
    }

    /// Forgets every token of an upstream.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn forget(&self, upstream: &str) -> Result<(), OAuthError> {
        match &*self.0 {
            Kept::Memory(entries) => {
                let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
                entries.retain(|(key, _)| key.upstream != upstream);
                Ok(())
            }
            Kept::File { path, .. } => change(path, |contents| {
                contents.entries.retain(|entry| entry.key.upstream != upstream);
            }),
        }
    }

    /// When anything was last kept or forgotten here; None where no other process can.
    pub(super) fn changed_at(&self) -> Option<SystemTime> {
        match &*self.0 {
            Kept::Memory(_) => None,
            Kept::File { path, .. } => fs::metadata(path).and_then(|file| file.modified()).ok(),
        }
    }

    /// All entries of an upstream, newest first. May block.
    pub(super) fn of(&self, upstream: &str) -> Result<Vec<(Key, Entry)>, OAuthError> {
        let mut found: Vec<(Key, Entry)> = match &*self.0 {
            Kept::Memory(entries) => {
                let entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
                let ours = entries.iter().filter(|(key, _)| key.upstream == upstream);
                ours.cloned().collect()
            }
            Kept::File { path, sealer } => {
                let contents = read(path).map_err(|source| failed(path, source))?;
                let ours = contents.entries.into_iter().filter(|one| one.key.upstream == upstream);
                ours.filter_map(|one| opened(sealer, one)).collect()
            }
        };
        found.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.obtained_at));
        Ok(found)
    }

    /// Replaces an entry. May block.
    pub(super) fn put(&self, key: &Key, entry: &Entry) -> Result<(), OAuthError> {
        match &*self.0 {
            Kept::Memory(entries) => {
                let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
                make_room(&mut entries, key, |(key, _)| key);
                entries.push((key.clone(), entry.clone()));
                Ok(())
            }
            Kept::File { path, sealer } => {
                let plain = serde_json::to_vec(entry).expect("entries have text keys only");
                let sealed = sealer.seal(Purpose::Credential, &binding(key), &plain);
                if sealed.len() > MAX_TOKEN_BYTES {
                    return Err(failed(path, io::Error::other("the token is too large")));
                }
                change(path, |contents| {
                    make_room(&mut contents.entries, key, |one| &one.key);
                    contents.entries.push(Sealed { key: key.clone(), sealed });
                })
            }
        }
    }
}

impl fmt::Debug for TokenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kept::Memory(_) => f.write_str("TokenStore(memory)"),
            Kept::File { path, .. } => write!(f, "TokenStore({})", path.display()),
        }
    }
}

/// Takes out the entry of this key, and the oldest one if the upstream has too many.
fn make_room<T>(entries: &mut Vec<T>, key: &Key, key_of: impl Fn(&T) -> &Key) {
    entries.retain(|one| key_of(one) != key);
    let is_sibling = |one: &T| key_of(one).upstream == key.upstream;
    let n_siblings = entries.iter().filter(|one| is_sibling(one)).count();
    if let Some(oldest) = entries.iter().position(is_sibling)
        && n_siblings >= MAX_ENTRIES_PER_UPSTREAM
    {
        entries.remove(oldest);
    }
}

fn binding(key: &Key) -> [&[u8]; 3] {
    [key.upstream.as_bytes(), key.issuer.as_bytes(), key.resource.as_bytes()]
}

fn opened(sealer: &Sealer, one: Sealed) -> Option<(Key, Entry)> {
    let plain = sealer.open(Purpose::Credential, &binding(&one.key), one.sealed.as_bytes());
    let entry = plain.and_then(|plain| serde_json::from_slice(&plain).ok());
    if entry.is_none() {
        tracing::warn!(
            upstream = one.key.upstream,
            issuer = one.key.issuer,
            "a stored token does not open with this key and is not used; log in again"
        );
    }
    Some((one.key, entry?))
}

fn failed(path: &Path, source: io::Error) -> OAuthError {
    OAuthError::Store { path: path.display().to_string(), source }
}

/// Reads, changes and replaces the file while nobody else does.
fn change(path: &Path, edit: impl FnOnce(&mut Contents)) -> Result<(), OAuthError> {
    let locked = || {
        let lock = private(OpenOptions::new().write(true).create(true).truncate(false))
            .open(path.with_extension("lock"))?;
        lock.lock()?;
        let mut contents = read(path)?;
        edit(&mut contents);
        contents.version = 1;
        replace(path, &serde_json::to_vec(&contents).expect("contents have text keys only"))
    };
    locked().map_err(|source| failed(path, source))
}

fn read(path: &Path) -> io::Result<Contents> {
    let file = match open_secret_file(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contents::default()),
        Err(error) => return Err(error),
    };
    let mut text = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut text)?;
    serde_json::from_slice(&text).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidData, "it is damaged; remove it and log in again")
    })
}

/// The new contents are on disk before the old ones go.
fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let draft = path.with_extension(format!("new.{}", std::process::id()));
    let written = private(OpenOptions::new().write(true).create(true).truncate(true))
        .open(&draft)
        .and_then(|mut file| file.write_all(contents).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        drop(fs::remove_file(&draft));
        return written;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// For its owner only.
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

#[cfg(test)]
mod tests;
