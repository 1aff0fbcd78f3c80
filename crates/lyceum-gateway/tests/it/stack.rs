//! The shared HTTP stack: TLS, one pool, no redirects.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response, StatusCode, Uri};
use lyceum_gateway::stack::{Stack, trusting};
use lyceum_http::client::{Client, ClientError, RequestBody};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

const CERTIFICATE: &[u8] = include_bytes!("../../../lyceum/tests/it/tls/trusted.pem");
const KEY: &[u8] = include_bytes!("../../../lyceum/tests/it/tls/trusted.key");
/// It points to itself, so that whoever follows it comes back.
const REDIRECT: &[u8] = b"HTTP/1.1 307 X\r\nlocation: /\r\ncontent-length: 0\r\n\r\n";

/// A server that redirects everybody, with or without TLS, and counts connections and requests.
struct Redirecting {
    url: String,
    n_connections: Arc<AtomicUsize>,
    n_requests: Arc<AtomicUsize>,
}

impl Redirecting {
    async fn start(tls: Option<TlsAcceptor>) -> Redirecting {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let server = Redirecting {
            url: format!("{scheme}://{}/", listener.local_addr().unwrap()),
            n_connections: Arc::default(),
            n_requests: Arc::default(),
        };
        let connections = Arc::clone(&server.n_connections);
        let requests = Arc::clone(&server.n_requests);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.fetch_add(1, Ordering::Relaxed);
                match &tls {
                    None => drop(tokio::spawn(redirect(stream, Arc::clone(&requests)))),
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            tokio::spawn(redirect(stream, Arc::clone(&requests)));
                        }
                    }
                }
            }
        });
        server
    }

    fn counts(&self) -> (usize, usize) {
        let count = |number: &AtomicUsize| number.load(Ordering::Relaxed);
        (count(&self.n_connections), count(&self.n_requests))
    }
}

async fn redirect(stream: impl AsyncRead + AsyncWrite + Unpin, requests: Arc<AtomicUsize>) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await.is_ok_and(|length| length > 0) {
        let asks_for_compression = line.to_ascii_lowercase().starts_with("accept-encoding");
        assert!(!asks_for_compression, "{line}");
        if line == "\r\n" {
            requests.fetch_add(1, Ordering::Relaxed);
            stream.write_all(REDIRECT).await.unwrap();
        }
        line.clear();
    }
}

fn acceptor() -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

fn trusted() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(CERTIFICATE).unwrap()).unwrap();
    roots
}

async fn get(stack: &Stack, url: &str) -> Response<hyper::body::Incoming> {
    let mut request = Request::new(RequestBody::default());
    *request.uri_mut() = Uri::try_from(url).unwrap();
    stack.request(request).await.unwrap()
}

#[tokio::test]
async fn plain_and_tls_servers_share_a_stack_that_keeps_connections_and_follows_nobody() {
    let stack = trusting(trusted());
    for tls in [None, Some(acceptor())] {
        let server = Redirecting::start(tls).await;
        for n in 1..=3 {
            let response = get(&stack, &server.url).await;
            assert_eq!(response.status(), StatusCode::TEMPORARY_REDIRECT);
            assert_eq!(server.counts(), (1, n), "{}", server.url);
        }
    }
}

#[tokio::test]
async fn a_server_nobody_vouches_for_is_unreachable() {
    let server = Redirecting::start(Some(acceptor())).await;
    let stack = trusting(RootCertStore::empty());
    let client = Client::builder(&server.url).name("test", "1").service(stack).build().unwrap();
    let error = client.connect().await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable(_)), "{error:?}");
    assert_eq!(server.counts().1, 0);
}
