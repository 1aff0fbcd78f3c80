//! Connecting to an upstream, wherever it is.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use lyceum_http::client::{Client, ClientBuilder, ClientError, Limits, Transport};
use lyceum_http::{ByteBudget, CallerId};
use lyceum_wire::{RevisionSet, Writer};

use super::children::Children;
use super::connection::Connection;
use super::news::{Ear, News};
use crate::config::{EraChoice, HeaderSource, Target, UpstreamConfig};
use crate::credentials::{self, CredentialError};
use crate::names::UriForm;
use crate::oauth::{
    Authorizer, Grant, OAuth, OAuthBuilder, OAuthConfig, OAuthError, RegisteredClient, TokenStore,
};
use crate::process::{self, AllowedCommands, Child, Exit, Spawn, SpawnError};
use crate::stack::Stack;

/// How long connecting may take before it counts as failed.
const CONNECT: Duration = Duration::from_secs(30);

/// What we can do for upstreams, because we can ask our own clients for it. Roots of a shared
/// connection are those of whoever calls, so there is nothing to say about their changes.
pub(crate) const CAPABILITIES: &[u8] =
    br#"{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{}}"#;

/// What all upstreams are told about us, and how they are reached.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The name we go by.
    pub name: String,
    /// Our version.
    pub version: String,
    /// Commands that may be started.
    pub allowed_commands: Arc<AllowedCommands>,
    /// What each of them may use.
    pub process_limits: process::Limits,
    /// How HTTP upstreams are reached.
    pub stack: Stack,
    /// What authorization servers gave us.
    pub tokens: TokenStore,
    /// How clients know the URIs of upstreams.
    pub uri_form: UriForm,
    /// How often everything is listed again, although no upstream told of a change.
    pub relist: Duration,
    /// What answers of upstreams are charged to from their first byte until they are passed on.
    pub budget: Arc<ByteBudget>,
}

impl Setting {
    /// [`Setting::relist`] where nothing else is said.
    pub const RELIST: Duration = Duration::from_secs(5 * 60);
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error(transparent)]
    Credentials(#[from] CredentialError),
    #[error("{0}")]
    OAuth(String),
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error("{}; {exit}", super::describe(.0), exit = .1)]
    Child(ClientError, Exit),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("{}; {advice}", super::describe(.0), advice = .1)]
    LockedOut(ClientError, String),
    #[error("it could not be reached within {0:?}")]
    Slow(Duration),
    #[error("{}", super::REMOVED)]
    Removed,
}

impl DialError {
    /// Whether nobody was there to speak any era.
    pub(crate) fn is_unreached(&self) -> bool {
        let unreached = |error: &ClientError| {
            matches!(error, ClientError::Unreachable(_) | ClientError::Credentials(_))
        };
        match self {
            DialError::Credentials(_)
            | DialError::OAuth(_)
            | DialError::Spawn(_)
            | DialError::Removed => true,
            DialError::Client(error) => unreached(error),
            DialError::Child(..) | DialError::LockedOut(..) | DialError::Slow(_) => false,
        }
    }
}

impl UpstreamConfig {
    /// The way to tokens for this upstream, with somebody who can log in; None if it needs none.
    ///
    /// # Errors
    /// When a configured secret is not there, or settings do not fit together.
    pub fn authorization(
        &self,
        setting: &Setting,
        authorizer: impl Authorizer,
    ) -> Result<Option<OAuth>, OAuthError> {
        let builder = builder_of(self, setting)?;
        builder.map(|builder| builder.authorizer(authorizer).build()).transpose()
    }

    /// What to do if it lets nobody in, and nobody is to log in either.
    pub fn how_to_enter(&self) -> String {
        let name = &self.name;
        match (&self.target, self.is_authorized()) {
            (Target::Command(_), _) => format!("{name} is a process; it has nothing to log in to"),
            (_, true) => format!(
                "{name} has an Authorization header; correct it, or take it out if somebody is to log \
                 in"
            ),
            (_, false) => format!(
                "{name} is reached without TLS; give it an Authorization header, or write oauth = {{}} \
                 and log in: lyceum upstreams login {name}"
            ),
        }
    }

    /// What to do if it wants a token that is good for more; None if it wants something else.
    pub(crate) fn how_to_be_allowed(&self, error: &ClientError) -> Option<String> {
        let ClientError::Status(refused) = error else { return None };
        let challenge = refused.challenge.as_deref()?;
        let grant = self.oauth.as_ref().map(|oauth| oauth.grant).unwrap_or_default();
        challenge.contains("insufficient_scope").then(|| match grant {
            Grant::AuthorizationCode => {
                format!("log in again to allow it: lyceum upstreams login {}", self.name)
            }
            Grant::ClientCredentials => {
                "have its authorization server give this scope to the client".to_owned()
            }
        })
    }

    fn is_authorized(&self) -> bool {
        let authorizes =
            |(name, _): &(String, HeaderSource)| name.eq_ignore_ascii_case("authorization");
        self.headers.iter().any(authorizes)
    }
}

/// The client that is configured, with its secret as it is now.
pub(crate) fn client(config: &OAuthConfig) -> Result<Option<RegisteredClient>, OAuthError> {
    config.client(&|name| std::env::var(name).ok())
}

/// The way to tokens while nobody is there to log in.
pub(crate) fn authorization(
    config: &UpstreamConfig,
    setting: &Setting,
) -> Result<Option<OAuth>, OAuthError> {
    builder_of(config, setting)?.map(OAuthBuilder::build).transpose()
}

/// OAuth is for upstreams it is configured for, and for those that may ask for it because nothing
/// else is configured.
fn builder_of(
    config: &UpstreamConfig,
    setting: &Setting,
) -> Result<Option<OAuthBuilder>, OAuthError> {
    let (Target::Http(url) | Target::HttpSse(url) | Target::CustomSse(url)) = &config.target else {
        return Ok(None);
    };
    let may_ask = url.starts_with("https:") && !config.is_authorized();
    let oauth = match &config.oauth {
        Some(oauth) => oauth.clone(),
        None if may_ask => OAuthConfig::default(),
        None => return Ok(None),
    };
    let env = |name: &str| std::env::var(name).ok();
    let builder = oauth.builder(&config.name, url, &env)?.client_name(&setting.name);
    Ok(Some(builder.store(setting.tokens.clone())))
}

/// Who connects to whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dialling<'a> {
    pub(crate) config: &'a UpstreamConfig,
    pub(crate) setting: &'a Setting,
    /// What is tried; not more than what is configured.
    pub(crate) era: EraChoice,
    /// What clients can be asked for, as a raw object.
    pub(crate) capabilities: &'a [u8],
    pub(crate) news: &'a Arc<News>,
    /// Where resources go that changed.
    pub(crate) updates: &'a Arc<News>,
    /// Where processes go that are started.
    pub(crate) children: &'a Children,
}

/// Connects and shakes hands.
pub(crate) async fn dial(
    dialling: Dialling<'_>,
    authorization: Option<&OAuth>,
) -> Result<Connection, DialError> {
    let connecting = connect(dialling, authorization);
    match tokio::time::timeout(CONNECT, connecting).await {
        Ok(connected) => connected,
        Err(_) => Err(DialError::Slow(CONNECT)),
    }
}

async fn connect(
    dialling: Dialling<'_>,
    authorization: Option<&OAuth>,
) -> Result<Connection, DialError> {
    let Dialling { config, setting, .. } = dialling;
    let (url, transport) = match &config.target {
        Target::Command(command) => return start(command, dialling).await,
        Target::Http(url) => (url, Transport::Auto),
        Target::HttpSse(url) => (url, Transport::HttpSse),
        Target::CustomSse(url) => (url, Transport::CustomSse),
    };
    let mut client = builder(url, dialling).transport(transport);
    for (name, value) in &credentials::headers(&config.headers, &|name| std::env::var(name).ok())? {
        let value = value.to_str().expect("headers are made of ASCII");
        client = client.header(name.as_str(), value);
    }
    // Without TLS the client's own connections do, and cost each call less.
    client = match authorization {
        Some(oauth) => client.service(oauth.around(setting.stack.clone())),
        None if url.starts_with("http://") => client,
        None => client.service(setting.stack.clone()),
    };
    let refused = |error| match error {
        ClientError::Status(refused)
            if refused.status == StatusCode::UNAUTHORIZED && authorization.is_none() =>
        {
            DialError::LockedOut(ClientError::Status(refused), config.how_to_enter())
        }
        error => match config.how_to_be_allowed(&error) {
            Some(advice) => DialError::LockedOut(error, advice),
            None => DialError::Client(error),
        },
    };
    let peer = client.build()?.connect().await.map_err(refused)?;
    Ok(Connection::new(peer, None, Arc::clone(dialling.updates)))
}

/// Starts a process and shakes hands with it.
async fn start(command: &[String], dialling: Dialling<'_>) -> Result<Connection, DialError> {
    let Dialling { config, setting, .. } = dialling;
    let spawn = Spawn {
        env: config.env.clone(),
        directory: config.directory.clone(),
        limits: setting.process_limits.clone(),
        ..Spawn::new(&config.name, command.to_vec())
    };
    let shake = |era: EraChoice| {
        let client = builder("", Dialling { era, ..dialling });
        let child = dialling.children.start(|| spawn.spawn(&setting.allowed_commands));
        async move {
            let Child { stdin, stdout, handle } = child?;
            match client.connect_over(stdout, stdin).await {
                Ok(peer) => Ok(Connection::new(peer, Some(handle), Arc::clone(dialling.updates))),
                Err(error) => Err(DialError::Child(error, ended(&config.name, &handle).await)),
            }
        }
    };
    match shake(dialling.era).await {
        // Some old servers do not survive being asked something they do not know.
        Err(DialError::Child(ClientError::EndedByProbe, _)) if dialling.era == EraChoice::Auto => {
            shake(EraChoice::Legacy).await
        }
        ended => ended,
    }
}

/// Stops a process that could not be spoken with. Only the log says what it wrote.
async fn ended(upstream: &str, handle: &process::Handle) -> Exit {
    let exit = handle.stop().await;
    if !exit.last_words.is_empty() {
        let words = exit.last_words.join(" | ");
        tracing::warn!(upstream, "the process could not be used; it wrote last: {words}");
    }
    exit
}

fn builder(url: &str, dialling: Dialling<'_>) -> ClientBuilder {
    let Dialling { config, setting, era, capabilities, news, updates, .. } = dialling;
    let ear = Ear { news: Arc::clone(news), updates: Arc::clone(updates) };
    let mut limits = Limits::default();
    limits.silence = config.call_timeout;
    limits.probe = limits.probe.min(config.call_timeout);
    let versions = match era {
        EraChoice::Auto => RevisionSet::ALL,
        EraChoice::Legacy => RevisionSet::LEGACY,
        EraChoice::Modern => RevisionSet::MODERN,
    };
    Client::builder(url)
        .info(info(setting))
        .capabilities(Bytes::copy_from_slice(capabilities))
        .versions(versions)
        .handler(ear)
        .limits(limits)
        .budget(Arc::clone(&setting.budget), CallerId::Upstream(config.name.as_str().into()))
}

fn info(setting: &Setting) -> Bytes {
    let mut info = Writer::new();
    info.text("name", &setting.name);
    info.text("version", &setting.version);
    info.finish()
}
