//! Session ids: sealed tokens that carry all a session is, so that nothing need be remembered.

use std::time::{SystemTime, UNIX_EPOCH};

use lyceum_wire::{ClientCapabilities, Revision};
use tokio::time::Duration;

use crate::seal::{Purpose, Sealer, random};

/// Bytes of a token's payload: key, capabilities, revision, time of issue.
const PAYLOAD_BYTES: usize = 16 + 2 + 1 + 8;

/// How long every session id is.
pub(crate) const ID_BYTES: usize = Sealer::token_bytes(PAYLOAD_BYTES);

/// What a session id says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionToken {
    /// The session's name in the registry: 128 random bits.
    pub(crate) key: [u8; 16],
    pub(crate) revision: Revision,
    pub(crate) capabilities: ClientCapabilities,
    /// Seconds since 1970.
    pub(crate) issued: u64,
}

impl SessionToken {
    pub(crate) fn mint(revision: Revision, capabilities: ClientCapabilities) -> Self {
        Self { key: random(), revision, capabilities, issued: unix_now() }
    }

    pub(crate) fn seal(&self, sealer: &Sealer, binding: &[&[u8]]) -> String {
        let mut payload = [0; PAYLOAD_BYTES];
        payload[..16].copy_from_slice(&self.key);
        payload[16..18].copy_from_slice(&self.capabilities.bits().to_be_bytes());
        payload[18] = self.revision as u8;
        payload[19..].copy_from_slice(&self.issued.to_be_bytes());
        sealer.seal(Purpose::Session, binding, &payload)
    }

    /// Opens an id presented by a client; `None` when it is not ours or not theirs.
    pub(crate) fn open(sealer: &Sealer, binding: &[&[u8]], id: &[u8]) -> Option<Self> {
        let payload = sealer.open(Purpose::Session, binding, id)?;
        let payload: &[u8; PAYLOAD_BYTES] = payload.as_slice().try_into().ok()?;
        let (key, rest) = payload.split_first_chunk::<16>()?;
        let (capabilities, rest) = rest.split_first_chunk::<2>()?;
        let (revision, issued) = rest.split_first()?;
        Some(Self {
            key: *key,
            revision: *Revision::ALL.iter().find(|known| **known as u8 == *revision)?,
            capabilities: ClientCapabilities::from_bits(u16::from_be_bytes(*capabilities)),
            issued: u64::from_be_bytes(issued.try_into().ok()?),
        })
    }

    /// Whether `id` has the form of a session id; it may still be nobody's.
    pub(crate) fn is_well_formed(id: &[u8]) -> bool {
        Sealer::is_well_formed(id, PAYLOAD_BYTES)
    }

    pub(crate) fn is_expired(&self, lifetime: Duration) -> bool {
        self.expires(lifetime) <= unix_now()
    }

    pub(crate) fn expires(&self, lifetime: Duration) -> u64 {
        self.issued.saturating_add(lifetime.as_secs())
    }
}

pub(crate) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
