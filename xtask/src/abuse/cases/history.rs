//! Lists that are long, or that claim to go on: revisions, pages, cursors, paths.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::abuse::case::{AbuseCase, Attacker};
use crate::abuse::client::AbusiveClient;
use crate::abuse::request::{self, NONCE};
use crate::abuse::server::LyceumServer;

pub(super) const CASES: [AbuseCase; 3] = [
    AbuseCase::new("history", "1,000 revisions of a document, listed and compared", revisions)
        .prepared(many_revisions),
    AbuseCase::new("cursors", "cursors that were forged, cut or stolen", cursors),
    AbuseCase::new("paths", "batch_read of 10,000 paths, and of one 20 times", paths)
        .prepared(super::answers::large_documents)
        .memory(crate::abuse::memory_limit::ONE_READER),
];

const N_REVISIONS: usize = 1000;

fn many_revisions(server: &LyceumServer) -> Result<()> {
    let text = "A line of the history.\n".repeat(4000);
    server.upload("abuse/history.md", &format!("revision 0\n{text}"))?;
    for n in 1..N_REVISIONS {
        let (old, new) = (format!("revision {}\n", n - 1), format!("revision {n}\n"));
        let arguments = json!({ "path": "abuse/history.md", "old_str": old, "new_str": new });
        server.prepare("patch_document", &arguments)?;
    }
    Ok(())
}

fn calls(attacker: &Attacker<'_>, calls: &[(&str, Value)]) -> AbusiveClient {
    let requests =
        calls.iter().map(|(tool, arguments)| request::call(attacker.key, tool, arguments));
    AbusiveClient::patient(requests.collect())
}

fn revisions(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let path = "abuse/history.md";
    let client = calls(
        attacker,
        &[
            ("get_document", json!({ "document_id": path, "history": true })),
            ("get_document_for_rewrite", json!({ "document_id": path, "diff_from": 1 })),
            ("get_document_for_rewrite", json!({ "document_id": path, "revision": 500 })),
            ("search_knowledge", json!({ "query": format!("history {NONCE}") })),
        ],
    );
    Ok(vec![client.times(8).pause(5)])
}

fn cursors(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let first = request::call(attacker.key, "list_documents", &json!({ "limit": 1 }));
    let answer = attacker.server.ask(&first)?;
    let answer: Value = serde_json::from_str(&answer.text).context("the list is JSON")?;
    let cursor = answer["result"]["structuredContent"]["next_cursor"].as_str();
    let cursor = cursor.with_context(|| format!("no cursor in {answer}"))?;
    let list = |cursor: String| ("list_documents", json!({ "limit": 100, "cursor": cursor }));
    let half = cursor.len() / 2;
    let client = calls(
        attacker,
        &[
            list(cursor.to_owned()),
            list(cursor[..half].to_owned()),
            list(format!("{}{NONCE}", &cursor[..half])),
            list(cursor.repeat(1000)),
            list("A".repeat(15_000_000)),
            ("list_documents", json!({ "offset": 10_000, "limit": 100 })),
        ],
    );
    Ok(vec![client.times(4).pause(5)])
}

fn paths(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let many: Vec<String> = (0..10_000).map(|n| format!("notes/{:03}.md", n % 300)).collect();
    let client = calls(
        attacker,
        &[
            ("batch_read", json!({ "paths": many, "full": true })),
            ("batch_read", json!({ "paths": vec!["abuse/large-0.txt"; 20], "full": true })),
            ("batch_read", json!({ "paths": vec!["abuse/large-0.txt"; 20] })),
        ],
    );
    Ok(vec![client.times(4).pause(50)])
}
