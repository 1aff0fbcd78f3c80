//! TLS towards servers, with the certificates this machine trusts.

use std::sync::{Arc, OnceLock};

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::error::DialError;
use super::exchange::Stream;
use super::target::{Name, Target};

/// Reads the trusted certificates when first needed, and keeps them.
#[derive(Clone, Default)]
pub(super) struct Tls(Arc<OnceLock<Result<TlsConnector, String>>>);

impl Tls {
    pub(super) async fn wrap(
        &self,
        stream: TcpStream,
        target: &Target,
    ) -> Result<Box<dyn Stream>, DialError> {
        let connector = self.0.get_or_init(connector).clone().map_err(DialError::Tls)?;
        let name = match target.host() {
            Name::Domain(domain) => ServerName::try_from(domain.clone())
                .map_err(|_| DialError::bad_url(target.url(), "no certificate has such a name"))?,
            Name::Address(address) => ServerName::from(*address),
        };
        let stream = connector.connect(name, stream).await;
        Ok(Box::new(stream.map_err(|source| DialError::Unreachable {
            host: target.host().to_string(),
            source: source.into(),
        })?))
    }

    #[cfg(test)]
    pub(super) fn trusting(roots: RootCertStore) -> Tls {
        let tls = Tls::default();
        let _ = tls.0.set(Ok(with_roots(roots).unwrap()));
        tls
    }
}

fn connector() -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err("this machine trusts no certificates, set SSL_CERT_FILE".to_owned());
    }
    with_roots(roots)
}

fn with_roots(roots: RootCertStore) -> Result<TlsConnector, String> {
    // Named rather than found out, so that another provider in the program changes nothing here.
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
