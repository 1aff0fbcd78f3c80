//! Session ids that were opened lately, so that the cipher runs once per session and not once per
//! request.
//!
//! Only ids that opened are remembered, together with the principal they opened for: whoever presents
//! the same bytes as the same principal gets the same token, nobody else gets anything.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{PoisonError, RwLock};

use super::token::{ID_BYTES, SessionToken};
use crate::context::Principal;

const SHARDS: usize = 16;
/// Ids per shard, as many as a table of 1,024 places takes; a full shard starts over, which costs each
/// of its sessions one decryption.
const PER_SHARD: usize = 1024 * 7 / 8;

/// The remembered ids of one endpoint.
#[derive(Debug, Default)]
pub(crate) struct OpenedIds {
    shards: [RwLock<HashMap<u64, OpenedId, BuildHasherDefault<AsIs>>>; SHARDS],
}

/// Bytes of an id that stand for all of it. They come from the token's random nonce, and only ids
/// that opened are kept, so nobody can choose them to collide.
const KEY: std::ops::Range<usize> = 8..16;

/// A hasher for keys that are random already.
#[derive(Debug, Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64");
    }

    fn write_u64(&mut self, key: u64) {
        // The table looks at the topmost bits, of which base64 leaves few to chance.
        self.0 = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Everything in place: long-lived boxes among short-lived ones would keep the pages of both.
#[derive(Debug)]
struct OpenedId {
    id: [u8; ID_BYTES],
    principal: Option<Principal>,
    token: SessionToken,
}

impl OpenedIds {
    /// The token of an id, opened with `open` unless it is remembered.
    pub(crate) fn get_or_open(
        &self,
        id: &[u8],
        principal: Option<&Principal>,
        open: impl FnOnce() -> Option<SessionToken>,
    ) -> Option<SessionToken> {
        let Ok(id) = <&[u8; ID_BYTES]>::try_from(id) else { return open() };
        let key = u64::from_le_bytes(id[KEY].try_into().expect("eight bytes"));
        let shard = &self.shards[key as usize % SHARDS];
        let remembered =
            |known: &&OpenedId| known.id == *id && known.principal.as_ref() == principal;
        {
            let known = shard.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = known.get(&key).filter(remembered) {
                return Some(known.token);
            }
        }
        let token = open()?;
        let mut known = shard.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= PER_SHARD {
            known.clear();
        }
        known.insert(key, OpenedId { id: *id, principal: principal.cloned(), token });
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use lyceum_wire::{ClientCapabilities, Revision};

    use super::*;
    use crate::seal::Sealer;

    fn token() -> SessionToken {
        SessionToken::mint(Revision::V2025_11_25, ClientCapabilities::default())
    }

    fn id(number: usize) -> [u8; ID_BYTES] {
        let mut id = [b'A'; ID_BYTES];
        id[KEY].copy_from_slice(&number.to_le_bytes());
        id
    }

    #[test]
    fn session_ids_are_as_long_as_what_is_remembered() {
        let sealed = token().seal(&Sealer::ephemeral(), &[]);
        assert_eq!(sealed.len(), ID_BYTES);
    }

    #[test]
    fn remembered_ids_are_good_for_their_principal_only() {
        let (opened, token) = (OpenedIds::default(), token());
        let (ana, bob) = (Principal::new("ana"), Principal::new("bob"));
        assert_eq!(opened.get_or_open(&id(1), Some(&ana), || Some(token)), Some(token));
        assert_eq!(opened.get_or_open(&id(1), Some(&ana), || None), Some(token));
        assert_eq!(opened.get_or_open(&id(1), Some(&bob), || None), None);
        assert_eq!(opened.get_or_open(&id(1), None, || None), None);
        assert_eq!(opened.get_or_open(&id(2), Some(&ana), || None), None);
        let mut resembles = id(1);
        resembles[ID_BYTES - 1] = b'B';
        assert_eq!(opened.get_or_open(&resembles, Some(&ana), || None), None);
    }

    #[test]
    fn only_so_many_ids_are_remembered() {
        let (opened, token) = (OpenedIds::default(), token());
        for number in 0..4 * SHARDS * PER_SHARD {
            opened.get_or_open(&id(number), None, || Some(token));
        }
        for shard in &opened.shards {
            let shard = shard.read().unwrap();
            // A table that grew beyond what its ids need takes twice the memory.
            assert!((1..=PER_SHARD).contains(&shard.len()), "{}", shard.len());
            assert_eq!(shard.capacity(), PER_SHARD);
        }
    }
}
