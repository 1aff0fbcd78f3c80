//! API keys: who may call, decided before a body is read.
//!
//! A key is shown once, when it is made; the store keeps the digest of its secret. Once any key is on
//! record, or when other machines can reach the server, every caller needs one: a server whose last
//! key was revoked is locked, not open.

mod budget;
mod gate;
mod key;
mod lifetime;
mod path_token;
mod refusals;
mod ring;
#[cfg(test)]
mod tests;

pub(crate) use budget::Budget;
pub(crate) use gate::{Admission, Denied, Gate};
pub(crate) use key::{Key, check_name};
pub(crate) use lifetime::Lifetime;
pub(crate) use path_token::PathToken;
pub(crate) use refusals::Refusals;
pub(crate) use ring::KeyRing;

use std::time::SystemTime;

use lyceum_kb::Millis;
use sha2::{Digest, Sha256};

/// What is stored and compared in the place of a secret.
fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// The time, as the store counts it.
pub(crate) fn now() -> Millis {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX))
}
