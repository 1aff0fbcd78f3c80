//! [`Client`] and how it is set up.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::Scheme;
use http::{Request, Response, Uri};
use http_body::Body;
use lyceum_wire::{Object, RevisionSet, Writer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tower_service::Service;

use super::connect::{self, Transport};
use super::core::Core;
use super::error::{BoxError, ClientError};
use super::exchange::{Exchange, RequestBody};
use super::handler::{ClientHandler, Handler};
use super::limits::Limits;
use super::line::Connection;
use super::peer::Peer;
use super::plain;
use super::remote::Remote;
use crate::byte_budget::{ByteBudget, Payer};
use crate::caller::CallerId;
use crate::timers::Timers;

/// A client for one server. [`connect`](Client::connect) finds out how the server wants to be
/// spoken to.
#[derive(Clone, Debug)]
pub struct Client {
    remote: Arc<Remote>,
    transport: Transport,
}

impl Client {
    /// A client for the server at this URL. One that is [connected over
    /// lines](ClientBuilder::connect_over) needs no URL.
    pub fn builder(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder {
            url: url.into(),
            info: None,
            capabilities: Bytes::from_static(b"{}"),
            versions: RevisionSet::ALL,
            transport: Transport::default(),
            handler: Handler::new(()),
            headers: Vec::new(),
            limits: Limits::default(),
            standing_stream: true,
            payer: None,
            over: None,
        }
    }

    /// Connects: asks the server what it speaks, and shakes hands if it wants to.
    pub async fn connect(&self) -> Result<Peer, ClientError> {
        let wire = connect::connect(&self.remote, self.transport).await?;
        Ok(Peer::new(Arc::clone(&self.remote.core), wire))
    }
}

type Over = Box<dyn FnOnce(&Limits) -> Exchange + Send>;

/// Sets up a [`Client`].
pub struct ClientBuilder {
    url: String,
    info: Option<Bytes>,
    capabilities: Bytes,
    versions: RevisionSet,
    transport: Transport,
    handler: Handler,
    headers: Vec<(String, String)>,
    limits: Limits,
    standing_stream: bool,
    payer: Option<Payer>,
    over: Option<Over>,
}

impl std::fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientBuilder").field("url", &self.url).finish_non_exhaustive()
    }
}

impl ClientBuilder {
    /// Who the client says it is.
    #[must_use]
    pub fn name(self, name: &str, version: &str) -> ClientBuilder {
        let mut info = Writer::new();
        info.text("name", name);
        info.text("version", version);
        self.info(info.finish())
    }

    /// Who the client says it is, as a raw `Implementation` object.
    #[must_use]
    pub fn info(mut self, raw: impl Into<Bytes>) -> ClientBuilder {
        self.info = Some(raw.into());
        self
    }

    /// What the client can do, as a raw `ClientCapabilities` object. Declare what the handler
    /// answers, nothing else; the default is nothing.
    #[must_use]
    pub fn capabilities(mut self, raw: impl Into<Bytes>) -> ClientBuilder {
        self.capabilities = raw.into();
        self
    }

    /// Which revisions the client speaks; all of them unless told otherwise.
    #[must_use]
    pub fn versions(mut self, versions: RevisionSet) -> ClientBuilder {
        self.versions = versions;
        self
    }

    /// Which transports are tried.
    #[must_use]
    pub fn transport(mut self, transport: Transport) -> ClientBuilder {
        self.transport = transport;
        self
    }

    /// Who answers the server's requests and hears its notifications.
    #[must_use]
    pub fn handler(mut self, handler: impl ClientHandler) -> ClientBuilder {
        self.handler = Handler::new(handler);
        self
    }

    /// A header to send with every request, such as `Authorization`.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> ClientBuilder {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// What one server can make the client hold, wait for or do.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> ClientBuilder {
        self.limits = limits;
        self
    }

    /// Whether legacy sessions keep a stream open for what the server says unasked. They do, unless
    /// told otherwise.
    #[must_use]
    pub fn standing_stream(mut self, open: bool) -> ClientBuilder {
        self.standing_stream = open;
        self
    }

    /// Charges what the server sends to `budget` while it arrives, messages of
    /// [`UNCOUNTED_BYTES`](crate::UNCOUNTED_BYTES) or less not counted: to the caller that a call
    /// [names](super::CallOptions::charge_to), or to `caller` as long as it is not known for whom a
    /// message is. A call without a caller, such as one for a listing, is bounded by [`Limits`] alone.
    #[must_use]
    pub fn budget(mut self, budget: Arc<ByteBudget>, caller: CallerId) -> ClientBuilder {
        self.payer = Some(Payer { budget, caller });
        self
    }

    /// Sends requests over another HTTP stack: one with TLS, with a proxy, or a server in this very
    /// process. It must not follow redirects or ask for compression.
    #[must_use]
    pub fn service<S, B>(mut self, service: S) -> ClientBuilder
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        self.over = Some(Box::new(|limits| Exchange::over(service, limits)));
        self
    }

    /// The client, if everything it was given makes sense.
    pub fn build(mut self) -> Result<Client, ClientError> {
        let (over, transport) = (self.over.take(), self.transport);
        let url = url(&self.url, over.is_some())?;
        let mut headers = headers(&self.headers)?;
        let exchange = match over {
            Some(over) => over(&self.limits),
            None => {
                headers.entry(header::HOST).or_insert(plain::host(&url)?);
                Exchange::plain(&url, &self.limits)
            }
        };
        let remote = Remote {
            headers,
            exchange,
            url,
            standing_stream: self.standing_stream,
            n_gaps: watch::Sender::new(0),
            core: Arc::new(self.core()?),
        };
        Ok(Client { remote: Arc::new(remote), transport })
    }

    /// Connects to a server at the other end of two byte streams, such as the output and the input
    /// of a child process: one message per line. Headers and transports mean nothing there.
    ///
    /// The connection ends, and both streams are dropped, with the last clone of the peer. A server
    /// that hangs up when it is asked what it speaks is an
    /// [`EndedByProbe`](ClientError::EndedByProbe).
    pub async fn connect_over(
        self,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Peer, ClientError> {
        let core = Arc::new(self.core()?);
        let connection = Arc::new(Connection::open(&core, reader, writer));
        Ok(Peer::new(core, connect::connect_over(connection).await?))
    }

    fn core(self) -> Result<Core, ClientError> {
        let setup = |what: &str| ClientError::Setup(what.to_owned());
        if self.versions.is_empty() {
            return Err(setup("no protocol version is enabled"));
        }
        let info = self.info.ok_or_else(|| setup("it has no name, give it one with name()"))?;
        for (what, raw) in [("info", &info), ("capabilities", &self.capabilities)] {
            Object::parse(raw).map_err(|error| setup(&format!("{what}: {error}")))?;
        }
        Ok(Core {
            limits: self.limits,
            info,
            capabilities: self.capabilities,
            versions: self.versions,
            handler: self.handler,
            n_ids: AtomicU64::new(0),
            payer: self.payer,
            timers: Timers::default(),
        })
    }
}

fn url(text: &str, own_stack: bool) -> Result<Uri, ClientError> {
    let setup = |what: String| ClientError::Setup(what);
    let url: Uri = text.parse().map_err(|error| setup(format!("\"{text}\" is no URL: {error}")))?;
    if url.host().is_none() {
        return Err(setup(format!("\"{text}\" names no host, write http://host:port/path")));
    }
    match url.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => Ok(url),
        Some(scheme) if *scheme == Scheme::HTTPS && own_stack => Ok(url),
        Some(scheme) if *scheme == Scheme::HTTPS => {
            Err(setup("https needs an HTTP stack with TLS, give it one with service()".to_owned()))
        }
        _ => Err(setup(format!("\"{text}\" is not an http or https URL"))),
    }
}

fn headers(given: &[(String, String)]) -> Result<HeaderMap, ClientError> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let bad = |_| ClientError::Setup(format!("\"{name}\" is no header name"));
        let key = HeaderName::try_from(name).map_err(bad)?;
        let bad =
            |_| ClientError::Setup(format!("the value of \"{name}\" does not fit in a header"));
        let mut value = HeaderValue::try_from(value).map_err(bad)?;
        // Most headers given here are credentials.
        value.set_sensitive(true);
        headers.append(key, value);
    }
    Ok(headers)
}
