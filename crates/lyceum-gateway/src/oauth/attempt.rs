//! One attempt at a token: look whether another process has one, ask who gives them out, refresh or
//! log in, and keep what comes.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use oauth2::basic::BasicClient;
use oauth2::{AuthUrl, ClientId, CsrfToken, PkceCodeChallenge, RedirectUrl, Scope};
use url::Url;

use super::assertion::SigningKey;
use super::client::{self, Identity, Proof};
use super::discover::{Discovered, Issuer, authorization_server, discover};
use super::error::{OAuthError, Stale, plain};
use super::metadata::is_same_issuer;
use super::redirect::{self, Expected};
use super::scope::{self, Offers};
use super::session::{Cause, Memory, Need, Session, now};
use super::settings::{Grant, NO_CLIENT};
use super::store::{Entry, Key};
use super::token::{Granted, Tokens};

/// Trade in refresh tokens this long before the access token ends, in seconds.
const EARLY: u64 = 30;

pub(super) async fn run(
    session: &Arc<Session>,
    memory: &mut Memory,
    need: &Need,
) -> Result<(Key, Entry), OAuthError> {
    let stored = stored(session).await;
    if need.cause != Cause::Login
        && let Some(newer) = from_elsewhere(session, memory, &stored)
    {
        return Ok(newer);
    }
    let done = match need.cause {
        Cause::Renewal => renew(session, memory).await,
        _ => ask(session, memory, need, stored).await,
    };
    match done {
        // Two processes have one refresh token; whoever comes second takes what the first one got.
        Err(OAuthError::Stale { .. } | OAuthError::LoginNeeded { .. }) => {
            let stored = self::stored(session).await;
            from_elsewhere(session, memory, &stored).map_or(done, Ok)
        }
        done => done,
    }
}

/// Asks the server, and whomever it names.
async fn ask(
    session: &Arc<Session>,
    memory: &mut Memory,
    need: &Need,
    stored: Vec<(Key, Entry)>,
) -> Result<(Key, Entry), OAuthError> {
    let preferred = expected_issuer(session, memory, &stored);
    let preferred = preferred.as_deref();
    let found = discover(&session.dial, &session.server, &need.challenge, preferred).await?;
    if session.client().is_some() {
        refuse_other_issuer(preferred, &found.issuer)?;
        memory.pinned = Some(found.issuer.name.clone());
    }
    let key = Key {
        upstream: session.settings.upstream.clone(),
        issuer: found.issuer.name.clone(),
        resource: found.resource.clone(),
    };
    let known = known(memory, stored, &key);
    let entry = entry(session, need, &found, known).await?;
    keep(session, &key, &entry).await;
    Ok((key, entry))
}

/// A token that another process has got since ours.
fn from_elsewhere(
    session: &Session,
    memory: &Memory,
    stored: &[(Key, Entry)],
) -> Option<(Key, Entry)> {
    let ours = memory.entry.as_ref().map_or(0, |(_, entry)| entry.obtained_at);
    let newest = session.newest(stored.to_vec())?;
    (newest.1.obtained_at > ours).then_some(newest)
}

/// What is known of this issuer already: kept by us, or only remembered if keeping it failed.
fn known(memory: &Memory, stored: Vec<(Key, Entry)>, key: &Key) -> Option<Entry> {
    let remembered = memory.entry.iter().cloned();
    let all = stored.into_iter().chain(remembered).filter(|(other, _)| other == key);
    all.map(|(_, entry)| entry).max_by_key(|entry| entry.obtained_at)
}

/// Whose authorization server it has to be, if that is settled.
fn expected_issuer(session: &Session, memory: &Memory, stored: &[(Key, Entry)]) -> Option<String> {
    let client = session.client()?;
    let used = memory.entry.as_ref().map(|(key, _)| &key.issuer);
    let used = used.or(stored.first().map(|(key, _)| &key.issuer));
    client.issuer.clone().or(memory.pinned.clone()).or(used.cloned())
}

fn refuse_other_issuer(expected: Option<&str>, issuer: &Issuer) -> Result<(), OAuthError> {
    match expected {
        Some(expected) if !is_same_issuer(expected, &issuer.name) => {
            let (expected, found) = (plain(expected), plain(&issuer.name));
            Err(OAuthError::ForeignIssuer { expected, found })
        }
        _ => Ok(()),
    }
}

async fn entry(
    session: &Session,
    need: &Need,
    found: &Discovered,
    known: Option<Entry>,
) -> Result<Entry, OAuthError> {
    let by_code = session.settings.grant == Grant::AuthorizationCode;
    let before = known.as_ref().map(|entry| entry.scopes.clone()).unwrap_or_default();
    let scopes = scope::choose(Offers {
        challenge: need.challenge.scope.as_deref(),
        configured: &session.settings.scopes,
        resource: found.scopes.as_deref(),
        issuer: &found.issuer.scopes,
        before: &before,
        may_refresh: by_code,
    });
    let asks_for_more = scope::asks_for_more(&scopes, &before);
    if need.cause == Cause::Scope && !asks_for_more {
        return Err(OAuthError::SameScopes(scopes.join(" ")));
    }
    if !by_code {
        return by_client(session, found, scopes).await;
    }
    let mut known = known;
    if need.cause == Cause::Unknown
        && let Some(entry) = known.clone().filter(|entry| entry.refresh.is_some() && !asks_for_more)
    {
        match refreshed(session, &found.issuer, &found.resource, entry).await {
            Err(OAuthError::Stale { what: Stale::Grant, .. }) => {}
            Err(OAuthError::Stale { what: Stale::Client, .. }) => known = None,
            settled => return settled,
        }
    }
    let known = known.map(|entry| entry.client).filter(|_| need.cause != Cause::Login);
    match log_in(session, found, known.as_ref(), &scopes).await {
        // The registration is gone; a new one may do.
        Err(OAuthError::Stale { what: Stale::Client, .. }) if known.is_some() => {
            log_in(session, found, None, &scopes).await
        }
        settled => settled,
    }
}

/// Trades in the refresh token at the issuer it is from; nobody is asked who that is.
async fn renew(session: &Arc<Session>, memory: &Memory) -> Result<(Key, Entry), OAuthError> {
    let nothing = || OAuthError::LoginNeeded { upstream: session.settings.upstream.clone() };
    let (key, entry) = memory.entry.clone().ok_or_else(nothing)?;
    let gone = || OAuthError::NoAuthorizationServer(plain(&key.issuer));
    let issuer = authorization_server(&session.dial, &key.issuer).await?.ok_or_else(gone)?;
    let entry = refreshed(session, &issuer, &key.resource, entry).await?;
    keep(session, &key, &entry).await;
    Ok((key, entry))
}

async fn refreshed(
    session: &Session,
    issuer: &Issuer,
    resource: &str,
    entry: Entry,
) -> Result<Entry, OAuthError> {
    let nothing = || OAuthError::LoginNeeded { upstream: session.settings.upstream.clone() };
    let refresh = entry.refresh.as_ref().ok_or_else(nothing)?;
    // A configured client may have another secret than when its user logged in.
    let identity = match session.client() {
        Some(registered) => registered.at(issuer)?,
        None => entry.client,
    };
    let key = key(session);
    let key = key.as_deref();
    let tokens = Tokens::new(&session.dial, issuer, &identity, key, resource, now())?;
    let granted = tokens.for_refresh(refresh).await?;
    let kept = granted.refresh.clone().or(entry.refresh);
    Ok(Entry { refresh: kept, ..made(identity, entry.scopes, granted) })
}

async fn by_client(
    session: &Session,
    found: &Discovered,
    scopes: Vec<String>,
) -> Result<Entry, OAuthError> {
    let missing = || OAuthError::Setup(NO_CLIENT.to_owned());
    let identity = session.client().ok_or_else(missing)?.at(&found.issuer)?;
    let (issuer, resource, key) = (&found.issuer, &found.resource, key(session));
    let key = key.as_deref();
    let tokens = Tokens::new(&session.dial, issuer, &identity, key, resource, now())?;
    let granted = tokens.for_client(&scopes).await?;
    Ok(made(identity, scopes, granted))
}

/// The authorization code flow, with PKCE.
async fn log_in(
    session: &Session,
    found: &Discovered,
    known: Option<&Identity>,
    scopes: &[String],
) -> Result<Entry, OAuthError> {
    let issuer = &found.issuer;
    let page = issuer.authorize()?;
    issuer.token()?;
    let nobody = || OAuthError::LoginNeeded { upstream: session.settings.upstream.clone() };
    let authorizer = session.settings.authorizer.as_ref().ok_or_else(nobody)?;
    let visit = authorizer.open().await.map_err(OAuthError::Login)?;
    let redirect_uri = visit.redirect_uri().to_owned();
    let identity = identity(session, issuer, known, &redirect_uri, scopes).await?;
    let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
    let (url, state) =
        authorization_url(page, &identity, &redirect_uri, &found.resource, scopes, challenge)?;
    let query = visit.go(url.as_str(), state.secret()).await.map_err(OAuthError::Login)?;
    let (state, sends_iss) = (state.secret().as_str(), issuer.sends_iss);
    let code = redirect::code(&query, Expected { state, issuer: &issuer.name, sends_iss })?;
    let (resource, key) = (&found.resource, key(session));
    let key = key.as_deref();
    let tokens = Tokens::new(&session.dial, issuer, &identity, key, resource, now())?;
    let granted = tokens.for_code(code, verifier, &redirect_uri).await?;
    Ok(made(identity, scopes.to_vec(), granted))
}

/// Who we are to this issuer: what the operator says, else a document, else a registration.
async fn identity(
    session: &Session,
    issuer: &Issuer,
    known: Option<&Identity>,
    redirect_uri: &str,
    scopes: &[String],
) -> Result<Identity, OAuthError> {
    let settings = &session.settings;
    if let Some(registered) = session.client() {
        return registered.at(issuer);
    }
    if let Some(url) = settings.client_document.as_deref().filter(|_| issuer.takes_documents) {
        return Ok(client::document(url));
    }
    if let Some(known) = known.filter(|known| known.serves(redirect_uri, now())) {
        return Ok(known.clone());
    }
    client::register(&session.dial, issuer, &settings.client_name, redirect_uri, scopes).await
}

fn authorization_url(
    page: &Url,
    identity: &Identity,
    redirect_uri: &str,
    resource: &str,
    scopes: &[String],
    challenge: PkceCodeChallenge,
) -> Result<(Url, CsrfToken), OAuthError> {
    let redirect = RedirectUrl::new(redirect_uri.to_owned())
        .map_err(|error| OAuthError::Setup(format!("the redirect URI: {error}")))?;
    let client = BasicClient::new(ClientId::new(identity.id.clone()))
        .set_auth_uri(AuthUrl::from_url(page.clone()))
        .set_redirect_uri(redirect);
    let request = client
        .authorize_url(CsrfToken::new_random)
        .set_pkce_challenge(challenge)
        .add_scopes(scopes.iter().cloned().map(Scope::new))
        .add_extra_param("resource", resource.to_owned());
    // OpenID Connect gives refresh tokens only to whom the user agreed anew.
    Ok(match scopes.iter().any(|scope| scope == "offline_access") {
        true => request.add_extra_param("prompt", "consent").url(),
        false => request.url(),
    })
}

fn key(session: &Session) -> Option<Arc<SigningKey>> {
    match &session.client()?.proof {
        Proof::Key(key) => Some(Arc::clone(key)),
        _ => None,
    }
}

fn made(client: Identity, scopes: Vec<String>, granted: Granted) -> Entry {
    // Tokens that live shorter than the usual margin are still used for most of their life.
    let renew_in = granted.lifetime.map(|all| all.saturating_sub(EARLY).max(all / 4 * 3));
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Entry {
        client,
        access: granted.access,
        refresh: granted.refresh,
        renew_at: renew_in.map(|time| now() + time),
        scopes,
        obtained_at: u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX),
    }
}

async fn stored(session: &Arc<Session>) -> Vec<(Key, Entry)> {
    let session = Arc::clone(session);
    tokio::task::spawn_blocking(move || session.stored()).await.unwrap_or_default()
}

/// Keeps an entry. A token that cannot be kept is good for this run all the same.
async fn keep(session: &Arc<Session>, key: &Key, entry: &Entry) {
    let store = session.settings.store.clone();
    let (key, entry) = (key.clone(), entry.clone());
    let kept = tokio::task::spawn_blocking(move || {
        let kept = store.put(&key, &entry);
        kept.map_err(|error| (key, error))
    });
    if let Ok(Err((key, error))) = kept.await {
        let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        tracing::warn!(upstream = key.upstream, %error, why, "a token is lost with this process");
    }
}
