//! Documents whose text makes work: long headings, repeated passages, section paths.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use crate::abuse::case::{AbuseCase, Attacker};
use crate::abuse::client::{AbusiveClient, Manner};
use crate::abuse::request::{self, NONCE};
use crate::abuse::server::LyceumServer;

pub(super) const CASES: [AbuseCase; 5] = [
    AbuseCase::new("heading-upload", "a document with a heading of 2 MB (C1)", heading_upload)
        .quick(),
    AbuseCase::new(
        "heading-ingest",
        "an ingested page with a heading of 2 MB (C1)",
        heading_ingest,
    ),
    AbuseCase::new("patch-repeated", "patches of repeated text (H1)", patch)
        .prepared(repeated_text)
        .quick()
        .revoked(),
    AbuseCase::new("section-paths", "sections below a heading of 500 kB (H2)", sections)
        .prepared(many_headings)
        .quick(),
    AbuseCase::new("section-misses", "sections that do not exist, among 150,000 (H2)", misses)
        .prepared(many_headings),
];

fn heading_upload(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let content =
        format!("# {}\n\n{}", "word ".repeat(400_000), "A line of text.\n\n".repeat(100_000));
    let arguments = json!({ "path": format!("abuse/heading-{NONCE}.md"), "content": content });
    let request = request::call(attacker.key, "upload_document", &arguments);
    Ok(vec![AbusiveClient::patient(vec![request]).pause(3000)])
}

fn heading_ingest(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let page = format!(
        "<!doctype html><html><body><h1>{}</h1>{}</body></html>",
        "word ".repeat(400_000),
        "<p>A line of text.</p>".repeat(50_000)
    );
    let markdown = format!("# {}\n\n{}", "word ".repeat(400_000), "A line.\n\n".repeat(150_000));
    let requests = [page, markdown].map(|source| {
        let path = format!("abuse/ingested-{NONCE}.md");
        let arguments = json!({ "path": path, "source": source });
        request::call(attacker.key, "ingest_document", &arguments)
    });
    Ok(vec![AbusiveClient::patient(requests.to_vec()).pause(3000)])
}

fn repeated_text(server: &LyceumServer) -> Result<()> {
    server.upload("abuse/repeated.md", &"a".repeat(400_000))
}

fn patch(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let arguments =
        json!({ "path": "abuse/repeated.md", "old_str": "a".repeat(200_000), "new_str": "b" });
    let request = request::call(attacker.key, "patch_document", &arguments);
    let hang_up = Manner::HangUp(Duration::from_secs(1));
    Ok(vec![AbusiveClient::patient(vec![request]).times(2).manner(hang_up).pause(500)])
}

fn many_headings(server: &LyceumServer) -> Result<()> {
    let long = "Word ".repeat(100_000);
    server.upload("abuse/sections.md", &format!("# {long}\n\n{}", "## b\n\nc\n\n".repeat(150_000)))
}

fn sections(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let long = "word ".repeat(100_000);
    let paths = ["x > y".to_owned(), format!("{} > y", long.trim_end()), "b > b > b".to_owned()];
    section_reads(attacker, &paths)
}

fn misses(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    section_reads(attacker, &["nothing".to_owned(), "x > ".repeat(10_000) + "y"])
}

fn section_reads(attacker: &Attacker<'_>, sections: &[String]) -> Result<Vec<AbusiveClient>> {
    let requests = sections.iter().map(|section| {
        let arguments = json!({ "document_id": "abuse/sections.md", "section": section });
        request::call(attacker.key, "get_document", &arguments)
    });
    Ok(vec![AbusiveClient::patient(requests.collect()).times(2).pause(100)])
}
