//! What it may mean that an upstream refuses: more than the one call, sometimes.

use http::StatusCode;
use lyceum_http::client::ClientError;
use lyceum_http::random;
use lyceum_wire::ErrorCode;
use tokio::time::{Duration, Instant};

use super::backoff::Backoff;

/// What many servers answer to whatever they turn away.
const SERVER_ERROR: ErrorCode = ErrorCode(-32000);
/// Attempts that lie so far apart have nothing to do with each other.
const LONG_AGO: Duration = Duration::from_secs(60);

/// What an error may say about the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Somebody before the upstream answers in its place.
    Unwell,
    /// The credentials are no good, or no longer.
    Credentials,
    /// The one call is forbidden, or everything by now.
    Forbidden,
    /// It may speak another era than it did.
    Era,
    /// No more than that this call is refused.
    Call,
}

impl Refusal {
    /// None if the upstream did not refuse.
    pub(super) fn of(error: &ClientError) -> Option<Refusal> {
        Some(match error {
            ClientError::Status(refused) => match refused.status {
                StatusCode::UNAUTHORIZED => Refusal::Credentials,
                StatusCode::FORBIDDEN => Refusal::Forbidden,
                // A server that fails with these says something about the call.
                StatusCode::INTERNAL_SERVER_ERROR | StatusCode::NOT_IMPLEMENTED => Refusal::Call,
                StatusCode::TOO_MANY_REQUESTS => Refusal::Call,
                status if status.is_server_error() => Refusal::Unwell,
                _ => Refusal::Era,
            },
            ClientError::Rpc(error) => match error.code {
                // What servers of one era say to requests of the other, among many other things.
                ErrorCode::METHOD_NOT_FOUND
                | ErrorCode::INVALID_REQUEST
                | ErrorCode::INVALID_PARAMS
                | ErrorCode::HEADER_MISMATCH
                | ErrorCode::UNSUPPORTED_PROTOCOL_VERSION
                | SERVER_ERROR => Refusal::Era,
                _ => Refusal::Call,
            },
            ClientError::NoCommonVersion { .. } => Refusal::Era,
            // It answered 401, and there was no token to answer that with.
            ClientError::Credentials(_) => Refusal::Credentials,
            _ => return None,
        })
    }
}

/// Whether an upstream said what it has to say, so that asking again would bring the same.
pub(super) fn is_final(error: &ClientError) -> bool {
    match error {
        ClientError::Rpc(error) => error.code == ErrorCode::METHOD_NOT_FOUND,
        ClientError::TooLarge { .. } => true,
        _ => false,
    }
}

/// How often something may be done that others bring about: ever more rarely while they go on.
#[derive(Debug, Default)]
pub(super) struct Pace {
    backoff: Backoff,
    next: Option<Instant>,
}

impl Pace {
    /// Whether it may be done now.
    pub(super) fn permit(&mut self) -> bool {
        let now = Instant::now();
        match self.next {
            Some(next) if now < next => return false,
            Some(next) if now > next + LONG_AGO => self.backoff.reset(),
            _ => {}
        }
        let [chance] = random();
        self.next = Some(now + self.backoff.next(chance));
        true
    }
}

#[cfg(test)]
mod tests {
    use lyceum_wire::RpcError;

    use super::*;

    #[test]
    fn some_errors_say_more_than_others() {
        for (code, expected) in [
            (-32601, Refusal::Era),
            (-32022, Refusal::Era),
            (-32000, Refusal::Era),
            (-32603, Refusal::Call),
            (-32002, Refusal::Call),
            (-32042, Refusal::Call),
        ] {
            let error = ClientError::Rpc(RpcError::new(ErrorCode(code), "no"));
            assert_eq!(Refusal::of(&error), Some(expected), "{code}");
            assert_eq!(is_final(&error), code == -32601);
        }
        assert_eq!(Refusal::of(&ClientError::Interrupted), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_goes_on_is_permitted_ever_more_rarely() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let mut n_permitted = 0;
        while start.elapsed() < Duration::from_secs(600) {
            n_permitted += usize::from(pace.permit());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!((20..40).contains(&n_permitted), "{n_permitted}");
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert!(pace.permit());
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert!(pace.permit(), "it starts from the beginning");
    }
}
