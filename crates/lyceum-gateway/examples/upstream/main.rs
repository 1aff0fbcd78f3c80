//! The fixture of the gateway's tests as a process of its own: over standard input and output, or
//! over HTTP at the address it prints.
//!
//! `upstream [legacy|modern] [--http] [--starts FILE]`, or `upstream hostile [--at-once]`

mod fixture;
mod hostile;

use std::io::Write;

use lyceum_http::{Endpoint, ServeOptions, Site, serve};
use lyceum_server::stdio;
use lyceum_wire::RevisionSet;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let served = match arguments.first().map(String::as_str) {
        Some("legacy") => RevisionSet::LEGACY,
        Some("modern") => RevisionSet::MODERN,
        _ => RevisionSet::ALL,
    };
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if has("hostile") {
        return hostile::run(has("--at-once"));
    }
    if let Some(starts) = arguments.windows(2).find(|pair| pair[0] == "--starts") {
        note_start(&starts[1])?;
    }
    let server = fixture::server();
    if !has("--http") {
        return stdio::serve(server, stdio::Options { served, ..stdio::Options::default() }).await;
    }
    let endpoint = Endpoint::builder("/mcp", server).revisions(served).build()?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    announce(&format!("http://{}/mcp", listener.local_addr()?));
    let site = Site::new().endpoint(endpoint);
    serve(listener, site, ServeOptions::default(), std::future::pending()).await
}

/// Adds a byte to a file, whose length is the number of processes that were started.
fn note_start(file: &str) -> std::io::Result<()> {
    std::fs::OpenOptions::new().append(true).create(true).open(file)?.write_all(b"x")
}

#[expect(clippy::print_stdout, reason = "whoever started it reads the address from here")]
fn announce(url: &str) {
    println!("{url}");
}
