//! [`State`]: what the `requestState` of a retried request says, sealed for one caller, upstream,
//! method and name.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use lyceum_http::{Context, MAX_TOKEN_BYTES, Purpose};
use lyceum_wire::{Member, Object, Request, RpcError};
use memchr::memmem::Finder;

use super::params::with_member;

/// How long a client may take from one round to the next.
const LIFETIME: Duration = Duration::from_secs(60 * 60);
/// What is said about state that is not ours, not for this call, or too old.
pub(crate) const VOID: &str =
    "requestState is not valid for this call; start again without requestState";

static REQUEST_STATE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("requestState"));
static ESCAPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\\u"));

/// Where a request stands among its rounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// At the beginning.
    Fresh,
    /// A call of a legacy upstream waits under this handle.
    Held(u128),
    /// A modern upstream gave this state of its own.
    Passed(String),
    /// The call is to be made again.
    Again,
}

impl State {
    /// Reads what a request brings back.
    pub(crate) fn read(request: &Request, cx: &Context, upstream: &str) -> Result<State, RpcError> {
        if request.params.get(Member::RequestState).is_none() {
            return Ok(State::Fresh);
        }
        let void = || RpcError::invalid_params(VOID);
        let token = request.params.text(Member::RequestState).ok_or_else(void)?;
        let payload = with_binding(request, cx, upstream, |binding| {
            cx.sealer.open(Purpose::RequestState, binding, token.as_bytes())
        });
        State::decode(&payload.ok_or_else(void)?, now()).ok_or_else(void)
    }

    /// The token to give to the client.
    pub(crate) fn seal(&self, request: &Request, cx: &Context, upstream: &str) -> String {
        let payload = self.encode(now() + LIFETIME.as_secs());
        with_binding(request, cx, upstream, |binding| {
            cx.sealer.seal(Purpose::RequestState, binding, &payload)
        })
    }

    fn encode(&self, expires: u64) -> Vec<u8> {
        let (kind, body) = match self {
            State::Fresh => (b'f', Vec::new()),
            State::Held(id) => (b'h', id.to_be_bytes().to_vec()),
            State::Passed(state) => (b'p', state.clone().into_bytes()),
            State::Again => (b'a', Vec::new()),
        };
        [&[kind], expires.to_be_bytes().as_slice(), &body].concat()
    }

    fn decode(payload: &[u8], now: u64) -> Option<State> {
        let (kind, rest) = payload.split_first()?;
        let (expires, body) = rest.split_first_chunk()?;
        if u64::from_be_bytes(*expires) < now {
            return None;
        }
        Some(match kind {
            b'h' => State::Held(u128::from_be_bytes(body.try_into().ok()?)),
            b'p' => State::Passed(String::from_utf8(body.to_vec()).ok()?),
            b'a' => State::Again,
            _ => return None,
        })
    }
}

/// A modern upstream's result, with its state inside ours if it has any.
///
/// # Errors
/// When there is so much of it that it would be refused when it comes back.
pub(crate) fn wrap(
    result: Bytes,
    request: &Request,
    cx: &Context,
    upstream: &str,
) -> Result<Bytes, RpcError> {
    // Most results have none, and looking is cheaper than reading. Escapes can spell the name, too.
    if [&REQUEST_STATE, &ESCAPE].iter().all(|text| text.find(&result).is_none()) {
        return Ok(result);
    }
    let Some(own) = Object::of_checked(&result).text("requestState") else { return Ok(result) };
    let sealed = State::Passed(own).seal(request, cx, upstream);
    if sealed.len() > MAX_TOKEN_BYTES {
        return Err(RpcError::internal(format!(
            "{upstream}: its requestState is too large to be passed on (over 48 KiB)"
        )));
    }
    let sealed = serde_json::to_vec(&sealed).expect("a string serializes");
    Ok(with_member(&result, "requestState", &sealed))
}

/// What state is good for: this caller, this upstream, this method, this name.
fn with_binding<T>(
    request: &Request,
    cx: &Context,
    upstream: &str,
    f: impl FnOnce(&[&[u8]]) -> T,
) -> T {
    let [endpoint, principal] = cx.binding();
    let name = request.params.text(Member::Name).or_else(|| request.params.text(Member::Uri));
    let name = name.unwrap_or_default();
    let method = request.method.as_bytes();
    f(&[b"gateway", endpoint, principal, upstream.as_bytes(), method, name.as_bytes()])
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_survives_until_it_expires() {
        for state in [State::Held(7), State::Passed("s\u{e9}".into()), State::Again] {
            let payload = state.encode(100);
            assert_eq!(State::decode(&payload, 100), Some(state.clone()), "{state:?}");
            assert_eq!(State::decode(&payload, 101), None, "{state:?}");
        }
        assert_eq!(State::decode(&State::Fresh.encode(100), 1), None);
        assert_eq!(State::decode(b"h", 1), None);
        assert_eq!(State::decode(b"", 1), None);
    }
}
