//! The server under examination: where it is and how to connect to it, with or without TLS.

use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use http::{HeaderValue, Uri};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Duration, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// A server's address.
#[derive(Clone)]
pub(super) struct Target {
    /// Host and port as the URL has them, for the `Host` header.
    pub(super) authority: HeaderValue,
    pub(super) path: String,
    /// The `Authorization` header, if any.
    pub(super) token: Option<HeaderValue>,
    pub(super) patience: Duration,
    host: String,
    port: u16,
    tls: Option<TlsConnector>,
}

/// A connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

impl Target {
    pub(super) fn parse(
        url: &str,
        token: Option<&str>,
        patience: Duration,
    ) -> anyhow::Result<Self> {
        let uri: Uri = url.parse().with_context(|| format!("{url:?} is not a URL"))?;
        let (tls, port) = match uri.scheme_str() {
            Some("http") => (None, 80),
            Some("https") => (Some(connector()?), 443),
            _ => bail!("{url:?} is not a URL; write http://HOST:PORT/PATH"),
        };
        let authority = uri.authority().context("the URL has no host")?;
        ensure!(!authority.as_str().contains('@'), "leave user and password out of the URL");
        let token = token.map(|token| HeaderValue::try_from(format!("Bearer {token}")));
        Ok(Self {
            authority: HeaderValue::try_from(authority.as_str())?,
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
            token: token.transpose().context("the token has characters no header can carry")?,
            patience,
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(port),
            tls,
        })
    }

    /// Whether the server is on this machine, where pages in a browser can reach it too.
    pub(super) fn is_local(&self) -> bool {
        let ip = self.host.parse::<std::net::IpAddr>();
        self.host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    }

    /// Whether anyone accepts connections.
    pub(super) async fn knock(&self) -> anyhow::Result<()> {
        self.connect().await.map(drop)
    }

    /// A new connection.
    pub(super) async fn connect(&self) -> anyhow::Result<Box<dyn Stream>> {
        let connecting = async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            let Some(tls) = &self.tls else { return Ok(Box::new(stream) as Box<dyn Stream>) };
            let name = ServerName::try_from(self.host.clone())?;
            Ok(Box::new(tls.connect(name, stream).await?) as Box<dyn Stream>)
        };
        timeout(self.patience, connecting).await.context("no connection in time")?
    }
}

/// TLS with the certificates this machine trusts.
fn connector() -> anyhow::Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    ensure!(!roots.is_empty(), "this machine trusts no certificates; set SSL_CERT_FILE");
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
