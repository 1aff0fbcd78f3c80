//! What is fetched, and the bounds of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::stage::{Canned, PUBLIC, Stage, ok, reply, see};
use crate::client::safe_dialer::tls::Tls;
use crate::client::safe_dialer::{DialError, Fetched, Policy, SafeDialer};

const CERTIFICATE: &[u8] = include_bytes!("../../../../../lyceum/tests/it/tls/trusted.pem");
const KEY: &[u8] = include_bytes!("../../../../../lyceum/tests/it/tls/trusted.key");

/// Fetches from a server on a made-up public address.
async fn fetch(answers: &[String]) -> (Result<Fetched, DialError>, Vec<String>) {
    let server = Canned::serve(answers).await;
    let stage = Stage::default().name("page.test", &[&[PUBLIC]]).detour(PUBLIC, server.address);
    let dialer = SafeDialer::new(Policy::PublicOnly).network(stage).max_body(1000);
    (dialer.fetch("http://page.test/a/b?c=d#e").await, server.asked())
}

#[tokio::test]
async fn a_page_comes_with_its_type_and_address() {
    let (page, asked) = fetch(&[ok("content-type: text/html; charset=x\r\n", "<p>hi")]).await;
    let page = page.unwrap();
    assert_eq!(page.body, "<p>hi");
    assert_eq!(page.content_type.as_deref(), Some("text/html; charset=x"));
    assert_eq!(page.url, "http://page.test/a/b?c=d");
    assert!(asked[0].starts_with("GET /a/b?c=d HTTP/1.1\r\n"), "{asked:?}");
    assert!(asked[0].contains("\r\nhost: page.test\r\n"), "{asked:?}");
}

#[tokio::test]
async fn nothing_is_sent_that_identifies_anyone_or_asks_for_compression() {
    let cookie = "set-cookie: a=b\r\n";
    let moved = see(302, "/next").replace("\r\n\r\n", &format!("\r\n{cookie}\r\n"));
    let (page, asked) = fetch(&[moved, ok("", "")]).await;
    page.unwrap();
    assert_eq!(asked.len(), 2);
    for head in asked.join("\n").to_ascii_lowercase().lines() {
        let name = head.split(':').next().unwrap_or_default();
        assert!(!["cookie", "authorization", "accept-encoding", "referer"].contains(&name));
    }
}

#[tokio::test]
async fn redirects_are_followed_up_to_five() {
    let hops = |n: usize| {
        let mut answers: Vec<String> = (0..n).map(|n| see(302, &format!("../hop{n}"))).collect();
        answers.push(ok("", "end"));
        answers
    };
    let (page, asked) = fetch(&hops(5)).await;
    assert_eq!(page.unwrap().url, "http://page.test/hop4");
    assert_eq!(asked.len(), 6);
    let (page, asked) = fetch(&hops(6)).await;
    assert!(matches!(page, Err(DialError::TooManyRedirects(5))), "{page:?}");
    assert_eq!(asked.len(), 6);
}

#[tokio::test]
async fn answers_beyond_bounds_are_refused() {
    let chunked = |n: usize| {
        let body = "x".repeat(n);
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{n:x}\r\n{body}\r\n0\r\n\r\n")
    };
    assert!(fetch(&[ok("", &"x".repeat(1000))]).await.0.is_ok());
    assert!(fetch(&[chunked(1000)]).await.0.is_ok());
    for large in [ok("", &"x".repeat(1001)), chunked(1001)] {
        let (page, _) = fetch(&[large]).await;
        assert!(matches!(page, Err(DialError::TooLarge(1000))), "{page:?}");
    }
    let (page, _) = fetch(&[ok("content-encoding: gzip\r\n", "x")]).await;
    assert!(matches!(page, Err(DialError::Encoded(_))), "{page:?}");
    assert!(fetch(&[ok("content-encoding: identity\r\n", "x")]).await.0.is_ok());
    let (page, _) = fetch(&["HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n".to_owned()]).await;
    assert!(matches!(page, Err(DialError::Status(StatusCode::NOT_FOUND))), "{page:?}");
    for broken in ["SSH-2.0-x\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nx", ""] {
        let (page, _) = fetch(&[broken.to_owned()]).await;
        assert!(matches!(page, Err(DialError::Broken { .. })), "{broken}: {page:?}");
    }
    let (page, _) =
        fetch(&[format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "x".repeat(200_000))]).await;
    assert!(matches!(page, Err(DialError::Broken { .. })), "{page:?}");
}

#[tokio::test]
async fn a_silent_server_costs_no_more_than_the_time_allowed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let dialer = SafeDialer::new(Policy::Anywhere).total(Duration::from_millis(50));
    let error = dialer.fetch(&url).await.unwrap_err();
    assert!(matches!(error, DialError::TimedOut(_)), "{error:?}");
    assert!(error.is_temporary());
}

#[tokio::test]
async fn an_operators_address_may_be_anywhere() {
    let server = Canned::serve(&[ok("", "inside")]).await;
    let dialer = SafeDialer::new(Policy::Anywhere);
    let url = format!("http://localhost:{}/", server.address.port());
    assert_eq!(dialer.fetch(&url).await.unwrap().body, "inside");
    let request = Request::post(format!("http://{}/x", server.address))
        .header("authorization", "Bearer k")
        .body(Bytes::from_static(b"question"));
    let answer = dialer.send(request.unwrap()).await.unwrap();
    assert_eq!((answer.status(), &answer.body()[..]), (StatusCode::OK, &b"inside"[..]));
    assert!(server.asked()[1].starts_with("POST /x HTTP/1.1\r\n"));
    assert!(server.asked()[1].contains("Bearer k"));
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_refuses() {
    let server = Canned::serve(&[ok("", "second")]).await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let other = "93.184.215.15".parse().unwrap();
    let stage = Stage::default()
        .name("page.test", &[&[other, PUBLIC]])
        .detour(other, closed)
        .detour(PUBLIC, server.address);
    let dialer = SafeDialer::new(Policy::PublicOnly).network(stage.clone());
    assert_eq!(dialer.fetch("http://page.test/").await.unwrap().body, "second");
    assert_eq!(stage.connected(), [other, PUBLIC]);
}

#[tokio::test]
async fn https_needs_a_trusted_certificate_and_stays_https() {
    let address = serve_tls(vec![ok("", "safe"), see(302, "http://127.0.0.1:1/")]).await;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(CERTIFICATE).unwrap()).unwrap();
    let trusting = SafeDialer { tls: Tls::trusting(roots), ..SafeDialer::new(Policy::Anywhere) };
    let url = format!("https://{address}/");
    assert_eq!(trusting.fetch(&url).await.unwrap().body, "safe");
    let error = trusting.fetch(&url).await.unwrap_err();
    assert!(matches!(error, DialError::Downgrade { .. }), "{error:?}");
    let doubting = SafeDialer {
        tls: Tls::trusting(RootCertStore::empty()),
        ..SafeDialer::new(Policy::Anywhere)
    };
    let error = doubting.fetch(&url).await.unwrap_err();
    assert!(matches!(error, DialError::Unreachable { .. }), "{error:?}");
}

async fn serve_tls(answers: Vec<String>) -> std::net::SocketAddr {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let asked = Mutex::new(Vec::new());
        let mut answers = answers.iter();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let Some(answer) = answers.next() else { continue };
            reply(stream, answer, &asked).await;
        }
    });
    address
}
