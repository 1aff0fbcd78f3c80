//! [`Stack`]: the HTTP client all upstreams share, plain and TLS, with one pool of connections.
//!
//! It goes where the operator's configuration says, so it judges no addresses. It follows no
//! redirects and asks for no compression, as `ClientBuilder::service` demands of it.

use std::sync::Arc;
use std::time::Duration;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use lyceum_http::client::RequestBody;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// An HTTP stack for [`lyceum_http::client::ClientBuilder::service`].
pub type Stack = Client<HttpsConnector<HttpConnector>, RequestBody>;

/// How long an idle connection is kept. Many servers hang up after five seconds, and a request that
/// crosses with the hang-up is lost.
const IDLE: Duration = Duration::from_secs(4);

/// A stack that trusts the certificates this machine trusts.
pub fn stack() -> Stack {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        tracing::warn!(
            "this machine trusts no certificates: https upstreams fail; set SSL_CERT_FILE"
        );
    }
    trusting(roots)
}

/// A stack that trusts these certificates and no others.
pub fn trusting(roots: RootCertStore) -> Stack {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(Duration::from_secs(10)));
    connector.set_keepalive(Some(Duration::from_secs(60)));
    connector.enforce_http(false);
    // Named rather than found out, so that another provider in the program changes nothing here.
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has cipher suites for every version it knows")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector);
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(32)
        .build(connector)
}
