//! API keys and path tokens, at the doors of a running server.

mod canary; // no secret reaches a log, a metric, the audit trail or a file
mod commands; // `lyceum keys`
mod doors; // every route asks for a key
mod tokens; // a secret in the path

use std::path::{Path, PathBuf};

use lyceum_kb::Policy;
use lyceum_kb::store::Store;
use lyceum_kb::store::sqlite::SqliteStore;
use lyceum_testkit::Request;
use serde_json::json;

use crate::lyceum::{Lyceum, run};

/// Makes a key and returns it.
pub(crate) async fn create(data: &Path, name: &str) -> String {
    let made = run(&["keys", "create", name, "--data", data.to_str().unwrap()]).await;
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8(made.stdout).unwrap().trim_end().to_owned()
}

/// Writes a configuration file beside the data and returns its path.
fn configuration(data: &Path, text: &str) -> PathBuf {
    let file = data.join("lyceum.toml");
    std::fs::write(&file, text).unwrap();
    file
}

/// Writes a secret nobody else can read.
pub(crate) fn secret(file: &Path, text: &str) {
    let staged = file.with_extension("new");
    std::fs::write(&staged, text).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&staged, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    std::fs::rename(staged, file).unwrap();
}

fn list_tools(path: &str) -> Request {
    Request::modern(path, 1, "tools/list", json!({}))
}

/// The audit trail, oldest first, as `principal profile tool outcome`.
async fn audit_trail(data: &Path) -> Vec<String> {
    let store = SqliteStore::open(&data.join("knowledge.db"), Policy::default()).unwrap();
    let trail = store.audit_trail(None, 1000).await.unwrap();
    let line = |line: &lyceum_kb::store::AuditLine| {
        let by = &line.entry.actor;
        format!("{} {} {} {}", by.principal, by.profile, by.tool, line.entry.outcome)
    };
    trail.iter().rev().map(line).collect()
}

/// The status a request gets once it is `expected`, or what it still is after a second.
async fn within_a_second(lyceum: &Lyceum, request: &Request, expected: u16) -> u16 {
    let started = tokio::time::Instant::now();
    loop {
        let status = lyceum.call(request).await.status();
        if status == expected || started.elapsed().as_millis() >= 1000 {
            return status;
        }
        tokio::time::sleep(tokio::time::Duration::from_millis(20)).await;
    }
}
