//! What a key looks like: `lyc_<id>_<secret>_<checksum>`, letters and digits only between the
//! underscores, so that a double click selects it and a scanner for leaked secrets recognises it.

use std::fmt;

use lyceum_kb::Millis;
use lyceum_kb::store::ApiKey;

use super::digest;

const PREFIX: &str = "lyc";
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const ID_CHARS: usize = 10;
/// 43 of 62 characters hold 256 bits.
const SECRET_CHARS: usize = 43;
const CHECKSUM_CHARS: usize = 6;

/// A whole key, secret included.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub(super) id: String,
    pub(super) secret: String,
}

impl Key {
    /// A new key.
    pub(crate) fn generate() -> Self {
        Self { id: random_text(ID_CHARS), secret: random_text(SECRET_CHARS) }
    }

    /// Reads what a caller sent; `None` when it cannot be a key.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('_');
        let (prefix, id, secret) = (parts.next()?, parts.next()?, parts.next()?);
        let checksum = parts.next()?;
        let shaped = prefix == PREFIX && id.len() == ID_CHARS && secret.len() == SECRET_CHARS;
        if !shaped || parts.next().is_some() || checksum != self::checksum(id, secret) {
            return None;
        }
        Some(Self { id: id.to_owned(), secret: secret.to_owned() })
    }

    /// What the store keeps of it.
    pub(crate) fn record(
        &self,
        name: &str,
        created_at: Millis,
        expires_at: Option<Millis>,
    ) -> ApiKey {
        ApiKey {
            id: self.id.clone(),
            name: name.to_owned(),
            secret_sha256: digest(&self.secret),
            created_at,
            expires_at,
            revoked_at: None,
        }
    }

    /// The key in full, to be shown once.
    pub(crate) fn reveal(&self) -> String {
        let Self { id, secret } = self;
        format!("{PREFIX}_{id}_{secret}_{}", checksum(id, secret))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Refuses names that could be taken for something else in a list, a log or a shell.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    match (1..=64).contains(&name.len()) && name.bytes().all(plain) {
        true => Ok(()),
        false => Err("a key's name has 1 to 64 letters, digits, - . _"),
    }
}

/// Characters drawn evenly: bytes beyond the last whole alphabet are thrown away.
fn random_text(length: usize) -> String {
    let mut text = String::with_capacity(length);
    while text.len() < length {
        let drawn: [u8; 64] = lyceum_http::random();
        let fair = drawn.into_iter().filter(|&byte| byte < 248);
        let letters = fair.map(|byte| char::from(ALPHABET[usize::from(byte % 62)]));
        text.extend(letters.take(length - text.len()));
    }
    text
}

/// Tells a mistyped key from a wrong one without asking the store.
fn checksum(id: &str, secret: &str) -> String {
    let mut crc = id.bytes().chain([b'_']).chain(secret.bytes()).fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    });
    crc = !crc;
    let digit = |place: u32| char::from(ALPHABET[(crc / 62_u32.pow(place) % 62) as usize]);
    (0..CHECKSUM_CHARS as u32).rev().map(digit).collect()
}
