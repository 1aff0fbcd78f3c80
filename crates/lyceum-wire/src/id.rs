//! [`Id`]: a request's id, kept exactly as it came.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;

use crate::encode;
use crate::scan::{Kind, Scanner};

/// Bytes of a request's id, and of a progress token: both are repeated in answers and kept while calls
/// run.
pub const MAX_ID_BYTES: usize = 4096;
/// Bodies up to this size may be kept alive by a token that is a slice of them.
const SMALL_BODY: usize = 4096;

/// The id of a request: the JSON token as it stood in the body, quotes included if it is a string.
///
/// Two ids are equal when their tokens are: a client that counts `1.0`, `2.0` or past 2^63 gets its
/// own spelling back.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Id(Bytes);

impl Id {
    /// A number.
    pub fn number(n: u64) -> Id {
        Id(Bytes::from(n.to_string()))
    }

    /// A string; quoted and escaped here.
    pub fn string(text: &str) -> Id {
        let mut token = Vec::with_capacity(text.len() + 2);
        encode::write_str(&mut token, text);
        Id(Bytes::from(token))
    }

    /// An id from its JSON token, or None if ids cannot look like that: they are strings or whole
    /// numbers without an exponent.
    pub fn from_token(token: Bytes) -> Option<Id> {
        let mut scanner = Scanner::new(&token).ok()?;
        let (kind, span) = scanner.token().ok()?;
        let whole = span.range().len() == token.len();
        (whole && is_id(kind, &token)).then_some(Id(token))
    }

    /// `token` satisfied [`is_id`].
    pub(crate) fn from_checked(token: Bytes) -> Id {
        Id(token)
    }

    /// The token's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The token, quotes included if it is a string.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The token's bytes, shared.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({})", self.as_str())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A token of `body` that may be kept longer than the body: a slice of a small body, a copy out of a
/// large one, which the slice would keep in memory as a whole.
pub(crate) fn kept_token(body: &Bytes, range: Range<usize>) -> Bytes {
    if body.len() <= SMALL_BODY { body.slice(range) } else { Bytes::copy_from_slice(&body[range]) }
}

/// Whether a valid JSON token may serve as an id.
pub(crate) fn is_id(kind: Kind, token: &[u8]) -> bool {
    match kind {
        Kind::String => true,
        Kind::Number => {
            let mut parts = token.splitn(2, |byte| *byte == b'.');
            let whole = parts.next().unwrap_or_default();
            let fraction = parts.next().unwrap_or_default();
            !whole.iter().any(|byte| byte.eq_ignore_ascii_case(&b'e'))
                && fraction.iter().all(|byte| *byte == b'0')
        }
        _ => false,
    }
}
