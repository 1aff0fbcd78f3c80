//! What belongs to whom, with API keys and with a secret in the path.

use std::path::Path;

use lyceum_kb::Policy;
use lyceum_kb::store::Store;
use lyceum_kb::store::sqlite::SqliteStore;
use serde_json::json;

use super::{Client, request};
use crate::lyceum::{Lyceum, run};

async fn make_key(data: &Path, name: &str) -> String {
    let made = run(&["keys", "create", name, "--data", data.to_str().unwrap()]).await;
    let told = String::from_utf8(made.stdout).unwrap();
    let key = told.split_whitespace().find(|word| word.starts_with("lyc"));
    key.unwrap_or_else(|| panic!("{told}")).to_owned()
}

#[tokio::test]
async fn idempotency_keys_and_cursors_belong_to_their_caller() {
    let data = tempfile::tempdir().unwrap();
    let (ann, bob) = (make_key(data.path(), "ann").await, make_key(data.path(), "bob").await);
    let lyceum = Lyceum::start(data.path(), &[]).await;
    let mut ann = Client::with_key(&lyceum, "/mcp", &ann).await;
    let mut bob = Client::with_key(&lyceum, "/mcp", &bob).await;
    let upload = |path: &str| json!({ "path": path, "content": "x", "idempotency_key": "same" });
    assert_eq!(ann.ok("upload_document", upload("a")).await["status"], "created");
    assert_eq!(bob.ok("upload_document", upload("b")).await["status"], "created");
    assert_eq!(bob.ok("upload_document", upload("b")).await["status"], "created");
    assert_eq!(ann.refused("upload_document", upload("b")).await["code"], "CONFLICT");

    let brief = json!({ "document_id": "b", "history": true });
    assert_eq!(ann.ok("get_document", brief).await["history"][0]["author"], "bob");

    let page = ann.ok("list_documents", json!({ "limit": 1 })).await;
    let cursor = json!({ "cursor": page["next_cursor"] });
    assert_eq!(bob.refused("list_documents", cursor.clone()).await["code"], "INVALID_ARGUMENT");
    assert_eq!(ann.ok("list_documents", cursor).await["items"][0]["document_id"], "b");

    let stranger = lyceum.call(&request("/mcp", super::MODERN, "tools/list", json!({}))).await;
    assert_eq!((stranger.status(), &stranger.json()["error"]["code"]), (401, &json!(-32000)));
}

#[tokio::test]
async fn a_path_token_opens_the_gpt_profile_and_is_never_written_down() {
    const SECRET: &str = "a-path-token-nobody-knows-0123456789";
    const PATH: &str = "/gpt-mcp/a-path-token-nobody-knows-0123456789/mcp";
    let data = tempfile::tempdir().unwrap();
    let token = data.path().join("token");
    std::fs::write(&token, SECRET).unwrap();
    #[cfg(unix)]
    std::fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let file = data.path().join("lyceum.toml");
    let text = format!("[[endpoint]]\npath = \"/gpt-mcp/{{token}}/mcp\"\ntoken_file = {token:?}\n");
    std::fs::write(&file, text).unwrap();
    let lyceum = Lyceum::start(data.path(), &["--config", file.to_str().unwrap()]).await;
    let mut client = Client::of(&lyceum, PATH).await;
    client.revision = "2025-03-26";
    client.ok("upload_document", json!({ "path": "a", "content": "x" })).await;
    let delete = json!({ "name": "delete_document", "arguments": { "path": "a" } });
    let refused = client.ask("tools/call", delete).await["error"].clone();
    assert_eq!(
        (&refused["code"], &refused["message"]),
        (&json!(-32601), &json!("Tool not allowed: delete_document"))
    );
    let store = SqliteStore::open(&data.path().join("knowledge.db"), Policy::default()).unwrap();
    let trail = format!("{:?}", store.audit_trail(None, 100).await.unwrap());
    assert!(trail.contains("/gpt-mcp/{token}/mcp") && !trail.contains(SECRET), "{trail}");
    let wrong = request("/gpt-mcp/wrong/mcp", super::MODERN, "tools/list", json!({}));
    assert_eq!(lyceum.call(&wrong).await.status(), 404);
}
