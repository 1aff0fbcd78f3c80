//! Session ids that were opened lately, so that the cipher runs once per session and not once per
//! request.
//!
//! Only ids that opened are remembered, together with the principal they opened for: whoever presents
//! the same bytes as the same principal gets the same token, nobody else gets anything.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{PoisonError, RwLock};

use super::token::SessionToken;
use crate::context::Principal;

const SHARDS: usize = 16;
/// Ids per shard; a full shard starts over, which costs each of its sessions one decryption.
const PER_SHARD: usize = 1024;

/// The remembered ids of one endpoint.
#[derive(Debug, Default)]
pub(crate) struct OpenedIds {
    hasher: RandomState,
    shards: [RwLock<HashMap<u64, OpenedId>>; SHARDS],
}

#[derive(Debug)]
struct OpenedId {
    id: Box<[u8]>,
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
        let hash = self.hasher.hash_one(id);
        let shard = &self.shards[hash as usize % SHARDS];
        let remembered =
            |known: &&OpenedId| *known.id == *id && known.principal.as_ref() == principal;
        {
            let known = shard.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = known.get(&hash).filter(remembered) {
                return Some(known.token);
            }
        }
        let token = open()?;
        let mut known = shard.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= PER_SHARD {
            known.clear();
        }
        known.insert(hash, OpenedId { id: id.into(), principal: principal.cloned(), token });
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use lyceum_wire::{ClientCapabilities, Revision};

    use super::*;

    #[test]
    fn remembered_ids_are_good_for_their_principal_only() {
        let opened = OpenedIds::default();
        let token = SessionToken::mint(Revision::V2025_11_25, ClientCapabilities::default());
        let (ana, bob) = (Principal::new("ana"), Principal::new("bob"));
        assert_eq!(opened.get_or_open(b"id", Some(&ana), || Some(token)), Some(token));
        assert_eq!(opened.get_or_open(b"id", Some(&ana), || None), Some(token));
        assert_eq!(opened.get_or_open(b"id", Some(&bob), || None), None);
        assert_eq!(opened.get_or_open(b"id", None, || None), None);
        assert_eq!(opened.get_or_open(b"other", Some(&ana), || None), None);
    }

    #[test]
    fn only_so_many_ids_are_remembered() {
        let opened = OpenedIds::default();
        let token = SessionToken::mint(Revision::V2025_11_25, ClientCapabilities::default());
        for number in 0..4 * SHARDS * PER_SHARD {
            opened.get_or_open(&number.to_be_bytes(), None, || Some(token));
        }
        let kept: usize = opened.shards.iter().map(|shard| shard.read().unwrap().len()).sum();
        assert!(kept <= SHARDS * PER_SHARD, "{kept}");
    }
}
