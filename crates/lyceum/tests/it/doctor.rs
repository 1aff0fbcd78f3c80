//! What the doctor says about good, strict and hopeless servers.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use lyceum_testkit::Server;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::lyceum::{Lyceum, command, run};

/// The doctor's findings and exit code.
async fn examine(url: &str) -> (Vec<Value>, Option<i32>) {
    let output = run(&["doctor", url, "--json", "--patience", "2"]).await;
    let stdout = String::from_utf8(output.stdout).unwrap();
    let report: Value = serde_json::from_str(&stdout).unwrap_or_else(|error| {
        panic!("{error}: {stdout}{}", String::from_utf8_lossy(&output.stderr))
    });
    (report["findings"].as_array().unwrap().clone(), output.status.code())
}

fn with_verdict<'a>(findings: &'a [Value], verdict: &str) -> Vec<&'a str> {
    let found = findings.iter().filter(|finding| finding["verdict"] == verdict);
    found.map(|finding| finding["check"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn our_own_server_is_healthy() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let (findings, code) = examine(&lyceum.url("/mcp")).await;
    assert!(findings.len() > 30, "{}", findings.len());
    assert_eq!(with_verdict(&findings, "ok").len(), findings.len(), "{findings:#?}");
    assert_eq!(code, Some(0));
}

#[tokio::test]
async fn strictness_is_a_warning() {
    let (lyceum, _data) = Lyceum::fresh(&["--preset", "strict"]).await;
    let (findings, code) = examine(&lyceum.url("/mcp")).await;
    let warned = with_verdict(&findings, "warn");
    assert_eq!(warned, ["Accept: json", "Accept: sse", "Accept absent"]);
    assert_eq!(with_verdict(&findings, "bad"), [""; 0]);
    assert_eq!(code, Some(0));
}

#[tokio::test]
async fn wrong_path_is_no_mcp_server() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let (findings, code) = examine(&lyceum.url("/elsewhere")).await;
    assert_eq!(with_verdict(&findings, "bad"), ["any revision"]);
    assert_eq!(code, Some(1));
}

/// A server that answers every request with the same bytes.
async fn monotonous(answer: &'static str) -> Server {
    Server::start(async move |listener, shutdown| {
        let serve = async {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut request = [0; 4096];
                    let _ = stream.read(&mut request).await;
                    let _ = stream.write_all(answer.as_bytes()).await;
                    // A server that says nothing still holds the connection.
                    let _ = stream.read(&mut request).await;
                });
            }
        };
        tokio::select! {
            () = serve => {}
            () = shutdown => {}
        }
    })
    .await
}

#[tokio::test]
async fn server_that_agrees_to_everything_is_bad() {
    let server = monotonous(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 85\r\n\r\n\
         {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{}}}\n",
    )
    .await;
    let (findings, code) = examine(&format!("http://{}/mcp", server.address())).await;
    assert_eq!(code, Some(1));
    let bad = with_verdict(&findings, "bad");
    for check in
        ["server/discover", "Accept: sse", "unknown method", "foreign Origin", "foreign Host"]
    {
        assert!(bad.contains(&check), "{check} is missing in {bad:?}");
    }
    assert!(
        findings
            .iter()
            .filter(|finding| finding["verdict"] == "bad")
            .all(|bad| bad["fix"].is_string())
    );
}

#[tokio::test]
async fn silent_server_is_given_up_in_bounded_time() {
    let server = monotonous("").await;
    let output =
        run(&["doctor", &format!("http://{}/mcp", server.address()), "--patience", "1"]).await;
    assert_eq!(output.status.code(), Some(1));
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("no answer within 1 s"), "{stdout}");
}

#[tokio::test]
async fn words_of_a_server_neither_control_the_terminal_nor_add_lines() {
    const BODY: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["\u001b[2J\u009b1m\u202e\nforged"]}}"#;
    static ANSWER: LazyLock<String> = LazyLock::new(|| {
        let length = BODY.len();
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{BODY}"
        )
    });
    let server = monotonous(&ANSWER).await;
    let url = format!("http://{}/mcp", server.address());
    let output = run(&["doctor", &url, "--patience", "2"]).await;
    let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(!told.contains(|c| lyceum_kb::is_hidden(c) && c != '\n'), "{told:?}");
    assert!(told.contains("\\u{1b}[2J\\u{9b}1m\\u{202e}\\u{a}forged"), "{told}");
}

#[tokio::test]
async fn nobody_there_is_said_plainly() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let rows = [
        (format!("http://127.0.0.1:{port}/mcp"), "is the server running?"),
        (format!("https://127.0.0.1:{port}/mcp"), "is the server running?"),
        ("nonsense".to_owned(), "is not a URL; write http://HOST:PORT/PATH"),
    ];
    for (url, complaint) in rows {
        let output = run(&["doctor", &url]).await;
        assert_eq!(output.status.code(), Some(1));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(complaint), "{url}: {stderr}");
    }
}

#[tokio::test]
async fn server_behind_tls_is_examined_if_its_certificate_is_trusted() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let front = tls_front(lyceum.address).await;
    let url = format!("https://{}/mcp", front.address());
    let examine = async |trusted: &str| {
        let trusted = tls_file(trusted);
        command(&["doctor", &url]).env("SSL_CERT_FILE", trusted).output().await.unwrap()
    };
    let stdout = String::from_utf8(examine("trusted.pem").await.stdout).unwrap();
    assert!(stdout.ends_with(" ok, 0 warn, 0 bad\n"), "{stdout}");
    let stderr = String::from_utf8(examine("stranger.pem").await.stderr).unwrap();
    assert!(stderr.contains("invalid peer certificate"), "{stderr}");
}

/// Self-signed for 127.0.0.1, with a key that protects nothing.
fn tls_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tls").join(name)
}

/// Ends TLS and passes everything on to `back`.
async fn tls_front(back: SocketAddr) -> Server {
    let certificate = CertificateDer::from_pem_file(tls_file("trusted.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(tls_file("trusted.key")).unwrap();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    Server::start(async move |listener, shutdown| {
        let serve = async {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(mut front) = acceptor.accept(stream).await else { return };
                    let mut back = TcpStream::connect(back).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut front, &mut back).await;
                });
            }
        };
        tokio::select! {
            () = serve => {}
            () = shutdown => {}
        }
    })
    .await
}
