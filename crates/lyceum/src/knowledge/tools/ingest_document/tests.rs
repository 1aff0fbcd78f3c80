//! What becomes of sources, with pages served on loopback.

use lyceum_kb::MimeType;
use lyceum_testkit::Server;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// A server that answers everything with the same page.
async fn page(status: &'static str, media_type: &'static str, body: &'static str) -> Server {
    Server::start(async move |listener, _| {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\n\
                 connection: close\r\n\r\n{body}"
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    })
    .await
}

async fn ingest(arguments: serde_json::Value) -> Result<(DocPath, Fields)> {
    let arguments = serde_json::from_value(arguments).unwrap();
    match change(&Ingestion::new(Policy::Anywhere), arguments, "ada").await? {
        (path, Change::Upsert(fields), _) => Ok((path, fields)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_page_becomes_markdown_with_its_title_and_source() {
    let html = "<html><head><title>Badges</title></head><body><article><h1>Badges</h1>\
                <p>Ask <b>Ada</b> for a badge.</p></article></body></html>";
    let server = page("200 OK", "text/html; charset=utf-8", html).await;
    let url = format!("HTTP://{}/badges.html", server.address());
    let (path, fields) = ingest(json!({ "source": url })).await.unwrap();
    assert!(path.as_str().starts_with("ingested/"), "{path}");
    assert_eq!(fields.title.as_deref(), Some("Badges"));
    assert_eq!(fields.source.as_deref(), Some(url.as_str()));
    assert_eq!(fields.mime_type, Some(MimeType::Markdown));
    let body = fields.body.unwrap();
    assert!(body.contains("Ask **Ada** for a badge."), "{body}");
    let (again, _) = ingest(json!({ "source": url })).await.unwrap();
    assert_eq!(again, path, "the same page is the same document");
}

#[tokio::test]
async fn urls_of_other_schemes_are_refused_and_not_kept_as_texts() {
    for source in
        ["file:///etc/passwd", "ftp://host/file", " gopher://x\n", "file:/etc/passwd", "data:,text"]
    {
        let refused = ingest(json!({ "source": source })).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{source}");
        assert!(refused.to_string().contains("http:// or https://"), "{refused}");
    }
    for text in ["see ftp://host/file", "ftp://a\nftp://b", "later:perhaps", "://", "a://", "x:y"] {
        let (_, fields) = ingest(json!({ "source": text })).await.unwrap();
        assert_eq!(fields.body.as_deref(), Some(text));
    }
}

#[tokio::test]
async fn what_the_caller_says_wins() {
    let server = page("200 OK", "text/markdown", "---\ntitle: Theirs\ntags: [a]\n---\nText.").await;
    let url = format!("http://{}/x.md", server.address());
    let ours = json!({ "source": url, "path": "p", "title": "Ours", "tags": ["b"] });
    let (path, fields) = ingest(ours).await.unwrap();
    assert_eq!((path.as_str(), fields.title.as_deref()), ("p", Some("Ours")));
    assert_eq!(fields.tags, Some(vec!["b".to_owned()]));
    let (_, fields) = ingest(json!({ "source": url })).await.unwrap();
    assert_eq!(fields.title.as_deref(), Some("Theirs"));
    assert_eq!(fields.tags, Some(vec!["a".to_owned()]));
}

#[tokio::test]
async fn failures_say_whether_to_try_again() {
    let missing = page("404 Not Found", "text/html", "").await;
    let down = page("503 Service Unavailable", "text/html", "").await;
    let picture = page("200 OK", "image/png", "\u{0}\u{1}\u{2}").await;
    for (server, code) in [
        (missing, Code::InvalidArgument),
        (down, Code::Unavailable),
        (picture, Code::InvalidArgument),
    ] {
        let url = format!("http://{}/", server.address());
        assert_eq!(ingest(json!({ "source": url })).await.unwrap_err().code(), code);
    }
}

#[tokio::test]
async fn a_page_beyond_those_a_caller_may_have_is_refused() {
    let ingestion = Ingestion { slots: IngestSlots::default(), ..Ingestion::new(Policy::Anywhere) };
    let _busy = [ingestion.slots.take("ada").unwrap(), ingestion.slots.take("ada").unwrap()];
    let page = || serde_json::from_value(json!({ "source": "http://127.0.0.1:9/" })).unwrap();
    let error = change(&ingestion, page(), "ada").await.unwrap_err();
    assert!(error.message().contains("of yours"), "{error}");
    let error = change(&ingestion, page(), "bob").await.unwrap_err();
    assert!(
        error.message().starts_with("source: "),
        "another caller gets as far as the page: {error}"
    );
    let text = serde_json::from_value(json!({ "source": "just text" })).unwrap();
    assert!(change(&ingestion, text, "ada").await.is_ok(), "text needs no slot");
}
