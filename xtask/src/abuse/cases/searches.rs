//! Searches that cost more than they look: fresh filters, phrases over repetitive text.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::FIFTEEN_MB;
use crate::abuse::case::{AbuseCase, Attacker};
use crate::abuse::client::{AbusiveClient, Manner};
use crate::abuse::request::{self, NONCE};
use crate::abuse::server::LyceumServer;

pub(super) const CASES: [AbuseCase; 4] = [
    AbuseCase::new("filter-tags", "searches with a fresh tag of 15 MB each (H3)", tags).quick(),
    AbuseCase::new("filter-prefixes", "searches with a fresh prefix of 15 MB each (H3)", prefixes),
    AbuseCase::new("filter-many", "searches with 100,000 fresh tags each (H3)", many_tags),
    AbuseCase::new("phrases", "64 phrases over repetitive text, hanging up (H4)", phrases)
        .prepared(repetitive)
        .quick()
        .revoked(),
];

fn search(attacker: &Attacker<'_>, arguments: &Value) -> AbusiveClient {
    let request = request::call(attacker.key, "search_knowledge", arguments);
    AbusiveClient::patient(vec![request])
}

fn tags(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let tag = "t".repeat(FIFTEEN_MB) + NONCE;
    Ok(vec![search(attacker, &json!({ "query": "river", "tags": [tag] })).pause(20)])
}

fn prefixes(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let prefix = "p".repeat(FIFTEEN_MB) + NONCE;
    Ok(vec![search(attacker, &json!({ "query": "river", "prefix": prefix })).pause(20)])
}

fn many_tags(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let mut tags: Vec<String> = (0..100_000).map(|n| format!("tag{n}")).collect();
    tags.push(NONCE.to_owned());
    Ok(vec![search(attacker, &json!({ "query": "river", "tags": tags })).pause(100)])
}

fn repetitive(server: &LyceumServer) -> Result<()> {
    let text = "alpha beta gamma delta alpha beta alpha gamma beta delta ".repeat(35_000);
    for n in 0..4 {
        server.upload(&format!("abuse/repetitive-{n}.md"), &format!("{n} {text}"))?;
    }
    Ok(())
}

fn phrases(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    const WORDS: [&str; 4] = ["alpha", "beta", "gamma", "delta"];
    let phrase = |n: usize| {
        let words: Vec<&str> = (0..6).map(|k| WORDS[(n >> (2 * (k % 3))) % 4]).collect();
        format!("\"{}\"", words.join(" "))
    };
    let query: Vec<String> = (0..64).map(phrase).collect();
    let client = search(attacker, &json!({ "query": query.join(" ") }));
    let hang_up = Manner::HangUp(Duration::from_millis(500));
    Ok(vec![client.times(6).manner(hang_up).pause(100)])
}
