//! Small requests with large answers: batches of batches, differences, readers that do not read.

use anyhow::Result;
use serde_json::{Value, json};

use crate::abuse::case::{AbuseCase, Attacker};
use crate::abuse::client::{AbusiveClient, Manner};
use crate::abuse::memory_limit::ONE_READER;
use crate::abuse::request;
use crate::abuse::server::LyceumServer;

pub(super) const CASES: [AbuseCase; 5] = [
    AbuseCase::new("batch-of-batches", "50 calls of batch_read full in a batch (H5)", batches)
        .prepared(large_documents)
        .memory(ONE_READER)
        .quick(),
    AbuseCase::new("diffs", "20 differences of 4 MB texts at once (H5)", diffs)
        .prepared(large_documents)
        .memory(ONE_READER)
        .quick(),
    AbuseCase::new("whole-texts", "20 readers of 8 MB answers at once (H5)", whole_texts)
        .prepared(large_documents)
        .memory(ONE_READER),
    AbuseCase::new("slow-readers", "50 readers of 8 MB answers, 640 bytes a second each", slow)
        .prepared(large_documents)
        .memory(ONE_READER),
    AbuseCase::new("resource-reads", "20 readers of 4 MB resources at once", resources)
        .prepared(large_documents)
        .memory(ONE_READER),
];

/// Two documents of 4 MB that are mostly characters JSON has to escape, in two revisions each.
pub(super) fn large_documents(server: &LyceumServer) -> Result<()> {
    for revision in 0..2 {
        for n in 0..2 {
            let line =
                |k: usize| format!("\"{revision}\" \"{n}\" \"{k}\" \\\" \\ \"\\\" \"\" \\\n");
            let mut text: String = (0..100_000).map(line).collect();
            text.truncate(3_900_000);
            server.upload(&format!("abuse/large-{n}.txt"), &text)?;
        }
    }
    Ok(())
}

fn paths() -> Value {
    json!({ "paths": ["abuse/large-0.txt", "abuse/large-1.txt"], "full": true })
}

fn batches(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let key = attacker.key;
    let call = |id: usize| {
        let params = json!({ "name": "batch_read", "arguments": paths() });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    let body: Vec<Value> = (0..50).map(call).collect();
    let session = super::subscriptions::session(attacker)?;
    let request = request::legacy(key, Some(&session), &Value::from(body).to_string());
    Ok(vec![AbusiveClient::patient(vec![request]).pause(200)])
}

fn diffs(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let arguments = json!({ "document_id": "abuse/large-0.txt", "diff_from": 1 });
    let request = request::call(attacker.key, "get_document_for_rewrite", &arguments);
    Ok(vec![AbusiveClient::patient(vec![request]).times(20).pause(200)])
}

fn whole_texts(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let request = request::call(attacker.key, "batch_read", &paths());
    Ok(vec![AbusiveClient::patient(vec![request]).times(20).pause(200)])
}

fn slow(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let request = request::call(attacker.key, "batch_read", &paths());
    Ok(vec![AbusiveClient::patient(vec![request]).times(50).manner(Manner::ReadSlowly)])
}

fn resources(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let uri = "kb:///abuse/large-0.txt";
    let key = attacker.key;
    let request = request::rpc(key, "resources/read", uri, json!({ "uri": uri }));
    Ok(vec![AbusiveClient::patient(vec![request]).times(20).pause(200)])
}
