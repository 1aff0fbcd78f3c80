//! The doctor: probes an MCP server from outside with raw requests and judges what comes back.
//!
//! It knows the server only by its URL, sends nothing that changes anything (`initialize`, lists and
//! deliberate mistakes), and every probe is over in bounded time. One file per kind of symptom.

use anyhow::Context;
use tokio::time::Duration;

mod accept;
mod ask;
mod errors;
mod exchange;
mod patient;
mod report;
mod revisions;
mod sessions;
mod streams;
mod target;

pub(crate) use report::Report;

use patient::Patient;
use target::Target;

/// Examines the server at `url`.
///
/// # Errors
/// When the URL is none, or nobody answers there at all.
pub(crate) async fn examine(
    url: &str,
    token: Option<&str>,
    patience: Duration,
) -> anyhow::Result<Report> {
    let target = Target::parse(url, token, patience)?;
    target.knock().await.with_context(|| format!("cannot reach {url}; is the server running?"))?;
    let mut patient = Patient::new(target);
    let mut findings = revisions::examine(&mut patient).await;
    if patient.can_be_asked() {
        findings.extend(accept::examine(&patient).await);
        findings.extend(errors::examine(&patient).await);
        findings.extend(streams::examine(&patient).await);
        findings.extend(sessions::examine(&patient).await);
    }
    Ok(Report { url: url.to_owned(), findings })
}
