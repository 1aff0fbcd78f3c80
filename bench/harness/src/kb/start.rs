//! From the start of the server to the first answered search.

use std::time::Instant;

use serde_json::json;

use super::drive;
use super::library::Library;
use super::operation::{START, START_DOCUMENTS};
use super::outcome::{Outcome, Row};
use super::request::call_tool;
use crate::client::Client;

pub(super) const NAME: &str = "start to first search_knowledge";

const STARTS: usize = 5;

/// Starts the server a few times.
pub(super) fn measure(library: &Library) -> anyhow::Result<Row> {
    let mut latencies = vec![];
    for start in 1..=STARTS {
        eprintln!("kb: {} documents: start {start} of {STARTS}", library.documents());
        let begun = Instant::now();
        let server = library.open_at_once()?;
        let query = json!({ "query": "how to update the account of a customer" });
        let request = call_tool(server.port(), "search_knowledge", &query);
        let answer = Client::connect(server.port())?.call(&request)?;
        latencies.push(begun.elapsed());
        drive::check(&answer, "document_id")?;
        library.close(server)?;
    }
    let total = latencies.iter().sum();
    let budget = (library.documents() <= START_DOCUMENTS).then_some(START);
    Ok(Row::new(NAME, library.documents(), 1, &Outcome::new(latencies, total), budget))
}
