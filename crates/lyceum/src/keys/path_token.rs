//! A secret in the path of an endpoint, for clients that cannot send a header.
//!
//! Only compares. A wrong token is answered as if there were nothing here, so it gives nothing away;
//! the path itself never leaves this file.

use std::io;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::uri::PathAndQuery;
use http::{Request, Uri};
use subtle::ConstantTimeEq;
use tokio::sync::watch;
use tokio::time::{Duration, interval};

use super::{Denied, Refusals, digest};
use crate::config::Secret;

const PLACE: &str = "{token}";
const SHORTEST: usize = 16;
/// How often the file is looked at.
const REFRESH: Duration = Duration::from_millis(400);

/// An endpoint's token.
#[derive(Debug)]
pub(crate) struct PathToken {
    pattern: String,
    secret: Secret,
    /// Of the token now in force; `None` when there is none, so nothing is admitted.
    digest: ArcSwapOption<[u8; 32]>,
    /// Tells of a token that is no longer good.
    lapses: watch::Sender<()>,
    refusals: Arc<Refusals>,
}

/// The digest of the token a request came with.
#[derive(Debug, Clone, Copy)]
pub(super) struct CameWith([u8; 32]);

impl PathToken {
    /// The token that stands in the place of `{token}` in `pattern`.
    ///
    /// # Errors
    /// When it cannot be read or is easily guessed.
    pub(crate) fn load(
        pattern: &str,
        secret: Secret,
        refusals: Arc<Refusals>,
    ) -> io::Result<Arc<Self>> {
        let digest = ArcSwapOption::from_pointee(Some(read(&secret)?));
        let (pattern, lapses) = (pattern.to_owned(), watch::Sender::new(()));
        Ok(Arc::new(Self { pattern, secret, digest, lapses, refusals }))
    }

    /// Follows the file for ever; a token from the environment never changes.
    pub(crate) async fn follow(self: Arc<Self>) {
        if matches!(self.secret, Secret::Value(_)) {
            return;
        }
        let mut ticks = interval(REFRESH);
        loop {
            ticks.tick().await;
            self.refresh();
        }
    }

    pub(super) fn refresh(&self) {
        let known = self.digest.load_full();
        match read(&self.secret) {
            Ok(digest) if known.as_deref() == Some(&digest) => {}
            Ok(digest) => {
                self.digest.store(Some(Arc::new(digest)));
                self.lapses.send_replace(());
                tracing::info!(endpoint = self.pattern, "the path token was replaced");
            }
            Err(error) => {
                if self.digest.swap(None).is_some() {
                    self.lapses.send_replace(());
                    tracing::warn!(
                        endpoint = self.pattern,
                        "no path token, nobody enters: {error}"
                    );
                }
            }
        }
    }

    /// Whether `path` is the endpoint's, with the right token. A wrong one leaves a trace.
    pub(crate) fn admits(&self, path: &str) -> bool {
        let Some(presented) = self.presented(path) else { return false };
        let known = self.digest.load();
        let expected = known.as_deref().copied().unwrap_or_default();
        let equal = bool::from(digest(presented).ct_eq(&expected)) && known.is_some();
        if !equal {
            self.refusals.record(&self.pattern, "", Denied::Unauthenticated, "");
        }
        equal
    }

    /// Takes the token out of an admitted request, so that nothing behind this door can tell it to
    /// anyone. What is left says only which one it was.
    pub(crate) fn conceal<B>(&self, request: &mut Request<B>) {
        if let Some(presented) = self.presented(request.uri().path()) {
            let came_with = CameWith(digest(presented));
            request.extensions_mut().insert(came_with);
        }
        *request.uri_mut() = self.hidden(request.uri());
    }

    /// Completes when the token that a request came with is no longer good.
    pub(super) async fn lapsed(self: Arc<Self>, came_with: CameWith) {
        let mut lapses = self.lapses.subscribe();
        while self.digest.load().as_deref() == Some(&came_with.0) {
            if lapses.changed().await.is_err() {
                return;
            }
        }
    }

    /// `uri` without the token.
    fn hidden(&self, uri: &Uri) -> Uri {
        let hidden = self.pattern.replace(PLACE, "-");
        let hidden = match uri.query() {
            Some(query) => format!("{hidden}?{query}"),
            None => hidden,
        };
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = PathAndQuery::try_from(hidden).ok();
        Uri::from_parts(parts).unwrap_or_default()
    }

    /// What stands in the place of the token, if `path` fits otherwise.
    fn presented<'a>(&self, path: &'a str) -> Option<&'a str> {
        let (before, after) = self.pattern.split_once(PLACE)?;
        let token = path.strip_prefix(before)?.strip_suffix(after)?;
        Some(token).filter(|token| !token.contains('/'))
    }
}

fn read(secret: &Secret) -> io::Result<[u8; 32]> {
    let token = secret.read()?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if token.len() < SHORTEST || !token.bytes().all(plain) {
        return Err(io::Error::other(
            "a path token has 16 or more letters, digits, - and _; `openssl rand -hex 24` makes one",
        ));
    }
    Ok(digest(&token))
}
