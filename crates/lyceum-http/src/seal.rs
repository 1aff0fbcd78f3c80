//! Sealed values: what clients carry for us and must neither read, change nor lend.
//!
//! A token is `key id (1) | nonce (24) | ciphertext | tag (16)` in URL-safe base64, encrypted with
//! XChaCha20-Poly1305. The purpose and the caller it is bound to are authenticated but not stored,
//! so a token that is used for another purpose, on another endpoint or by another principal cannot
//! be told from garbage.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};

use crate::secret_file::open_secret_file;

/// Bytes of one key.
pub const KEY_BYTES: usize = 32;
/// Bytes of a token; longer ones are not opened.
pub const MAX_TOKEN_BYTES: usize = 64 * 1024;

const NONCE_BYTES: usize = 24;
const HEADER_BYTES: usize = 1 + NONCE_BYTES;
const TAG_BYTES: usize = 16;
const MAX_KEYS: usize = 256;

/// What a sealed value is for. Values sealed for one purpose never open for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A legacy session id.
    Session,
    /// A page cursor.
    Cursor,
    /// The `requestState` of an `input_required` result.
    RequestState,
    /// A task id.
    Task,
    /// Credentials that rest in a file of ours.
    Credential,
}

/// Seals and opens values. The newest key seals; every key opens.
pub struct Sealer {
    keys: Vec<(u8, XChaCha20Poly1305)>,
}

impl Sealer {
    /// A sealer with `keys`, newest first. A key's id is derived from the key itself.
    ///
    /// # Panics
    /// When `keys` is empty: a sealer without a key is a programming error.
    pub fn new(keys: &[[u8; KEY_BYTES]]) -> Self {
        assert!(!keys.is_empty() && keys.len() <= MAX_KEYS, "a sealer needs 1 to 256 keys");
        let cipher = |key: &[u8; KEY_BYTES]| (key_id(key), XChaCha20Poly1305::new(key.into()));
        Self { keys: keys.iter().map(cipher).collect() }
    }

    /// A sealer with a fresh key that dies with the process.
    pub fn ephemeral() -> Self {
        Self::new(&[random()])
    }

    /// Reads the keys in `path` (one key in hex per line, newest first), creating the file with
    /// one fresh key, readable by its owner only, when it does not exist.
    ///
    /// # Errors
    /// When the file cannot be read or created, is readable by others, or holds no valid key.
    pub fn from_file(path: &Path) -> io::Result<Self> {
        match open_secret_file(path) {
            Ok(file) => {
                let keys = parse_keys(&io::read_to_string(file)?)?;
                Ok(Self::new(&keys))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let key = random();
                create_key_file(path, &key)?;
                Ok(Self::new(&[key]))
            }
            Err(error) => Err(error),
        }
    }

    /// Seals `payload` for `purpose`, bound to `binding`.
    pub fn seal(&self, purpose: Purpose, binding: &[&[u8]], payload: &[u8]) -> String {
        let (id, cipher) = &self.keys[0];
        let nonce: [u8; NONCE_BYTES] = random();
        let aad = associated(purpose, binding);
        let sealed = cipher
            .encrypt(&nonce.into(), Payload { msg: payload, aad: &aad })
            .expect("payloads are far below the cipher's limit");
        let mut token = Vec::with_capacity(HEADER_BYTES + sealed.len());
        token.push(*id);
        token.extend_from_slice(&nonce);
        token.extend_from_slice(&sealed);
        URL_SAFE_NO_PAD.encode(token)
    }

    /// How long the token for a payload of `length` bytes is.
    pub(crate) const fn token_bytes(length: usize) -> usize {
        ((HEADER_BYTES + length + TAG_BYTES) * 4).div_ceil(3)
    }

    /// Whether `token` could be a sealed payload of `length` bytes, whoever sealed it.
    pub(crate) fn is_well_formed(token: &[u8], length: usize) -> bool {
        token.len() <= MAX_TOKEN_BYTES
            && URL_SAFE_NO_PAD
                .decode(token)
                .is_ok_and(|raw| raw.len() == HEADER_BYTES + length + TAG_BYTES)
    }

    /// Opens `token`, or returns `None` when it is not one of ours for this purpose and binding.
    pub fn open(&self, purpose: Purpose, binding: &[&[u8]], token: &[u8]) -> Option<Vec<u8>> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let raw = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (head, sealed) = raw.split_at_checked(HEADER_BYTES)?;
        let nonce: [u8; NONCE_BYTES] = head[1..].try_into().ok()?;
        let aad = associated(purpose, binding);
        self.keys.iter().filter(|(id, _)| *id == head[0]).find_map(|(_, cipher)| {
            cipher.decrypt(&nonce.into(), Payload { msg: sealed, aad: &aad }).ok()
        })
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").field("keys", &self.keys.len()).finish()
    }
}

/// `N` bytes from the operating system.
///
/// # Panics
/// When the operating system has no randomness to give; nothing safe can be done then.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system provides randomness");
    bytes
}

/// Purpose and binding, each part preceded by its length so that no two bindings collide.
fn associated(purpose: Purpose, binding: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + binding.iter().map(|part| part.len() + 4).sum::<usize>());
    out.push(purpose as u8);
    for part in binding {
        out.extend_from_slice(&(part.len() as u32).to_be_bytes());
        out.extend_from_slice(part);
    }
    out
}

/// A public one-byte hint that says which key to try; it reveals nothing useful about the key.
fn key_id(key: &[u8; KEY_BYTES]) -> u8 {
    key.iter().fold(0u8, |id, byte| id.rotate_left(3) ^ byte)
}

fn parse_keys(text: &str) -> io::Result<Vec<[u8; KEY_BYTES]>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let keys: Option<Vec<_>> = lines.take(MAX_KEYS).map(parse_key).collect();
    match keys {
        Some(keys) if !keys.is_empty() => Ok(keys),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "expected one key of 64 hexadecimal digits per line",
        )),
    }
}

fn parse_key(line: &str) -> Option<[u8; KEY_BYTES]> {
    let digits = line.as_bytes();
    if digits.len() != 2 * KEY_BYTES {
        return None;
    }
    let mut key = [0; KEY_BYTES];
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(key)
}

/// Makes the file in one step: a disk that fills up meanwhile leaves no half of a key behind.
fn create_key_file(path: &Path, key: &[u8; KEY_BYTES]) -> io::Result<()> {
    let draft = path.with_extension(format!("new.{}", std::process::id()));
    let created = write_draft(&draft, key).and_then(|()| fs::hard_link(&draft, path));
    drop(fs::remove_file(&draft));
    created
}

fn write_draft(path: &Path, key: &[u8; KEY_BYTES]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    writeln!(file, "{hex}")?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BINDING: [&[u8]; 2] = [b"/mcp", b"ana"];

    #[test]
    fn sealed_values_open_for_their_purpose_and_binding_only() {
        let sealer = Sealer::ephemeral();
        let token = sealer.seal(Purpose::Session, &BINDING, b"state");
        let open = |purpose, binding: &[&[u8]]| sealer.open(purpose, binding, token.as_bytes());
        assert_eq!(open(Purpose::Session, &BINDING).as_deref(), Some(&b"state"[..]));
        assert_eq!(open(Purpose::Cursor, &BINDING), None);
        assert_eq!(open(Purpose::Session, &[b"/mcp", b"bob"]), None);
        assert_eq!(open(Purpose::Session, &[b"/mcpa", b"na"]), None);
        assert_eq!(Sealer::ephemeral().open(Purpose::Session, &BINDING, token.as_bytes()), None);
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let sealer = Sealer::ephemeral();
        let token = sealer.seal(Purpose::Cursor, &BINDING, b"42").into_bytes();
        for at in 0..token.len() {
            let mut changed = token.clone();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(sealer.open(Purpose::Cursor, &BINDING, &changed), None, "byte {at}");
        }
    }

    #[test]
    fn rotation_keeps_old_tokens_and_seals_with_the_newest_key() {
        let (old, new) = ([1; KEY_BYTES], [2; KEY_BYTES]);
        let token = Sealer::new(&[old]).seal(Purpose::Session, &BINDING, b"x");
        let rotated = Sealer::new(&[new, old]);
        assert!(rotated.open(Purpose::Session, &BINDING, token.as_bytes()).is_some());
        let fresh = rotated.seal(Purpose::Session, &BINDING, b"y");
        assert!(Sealer::new(&[new]).open(Purpose::Session, &BINDING, fresh.as_bytes()).is_some());
        assert!(Sealer::new(&[old]).open(Purpose::Session, &BINDING, fresh.as_bytes()).is_none());
    }

    #[cfg(unix)]
    #[test]
    fn key_file_is_created_private_and_refused_when_shared() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("seal.key");
        let token = Sealer::from_file(&path).unwrap().seal(Purpose::Session, &BINDING, b"x");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let again = Sealer::from_file(&path).unwrap();
        assert!(again.open(Purpose::Session, &BINDING, token.as_bytes()).is_some());
        for mode in [0o640, 0o604, 0o620] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = Sealer::from_file(&path).unwrap_err().to_string();
            assert!(error.contains("chmod 600"), "{mode:o}: {error}");
        }
    }
}
