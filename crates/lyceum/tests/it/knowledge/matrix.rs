//! Every tool × profile × form × revision: it does its work, or is not allowed.

use serde_json::{Value, json};

use super::{Client, JSON, PROFILES, REVISIONS, SSE};
use crate::lyceum::Lyceum;

/// A tool, its arguments about the document at `path`, and a member of its answer with its value.
fn rows(path: &str) -> [(&'static str, Value, &'static str, Value); 10] {
    let fresh = format!("{path}-new");
    [
        ("search_knowledge", json!({ "query": "quokka" }), "/usage/mode", json!("lexical")),
        ("list_documents", json!({ "prefix": path }), "/items/0/document_id", json!(path)),
        ("get_document", json!({ "document_id": path }), "/content", json!("A quokka smiles.")),
        ("get_document_for_rewrite", json!({ "path": path }), "/revision", json!(1)),
        ("batch_read", json!({ "paths": [path] }), "/count", json!(1)),
        ("upload_document", json!({ "path": fresh, "content": "x" }), "/status", json!("created")),
        ("update_document", json!({ "path": path, "title": "T" }), "/revision", json!(2)),
        (
            "patch_document",
            json!({ "path": path, "old_str": "smiles", "new_str": "grins" }),
            "/status",
            json!("patched"),
        ),
        ("delete_document", json!({ "path": path }), "/status", json!("deleted")),
        (
            "ingest_document",
            json!({ "source": "# Hello\n", "path": format!("{path}-ingested") }),
            "/status",
            json!("created"),
        ),
    ]
}

fn allowed(profile: &str, place: usize) -> bool {
    match profile {
        "/mcp-readonly" => place < 5,
        "/mcp-gpt" => place < 8,
        _ => true,
    }
}

/// What the profile says about a tool it does not have.
fn refusal_code(client: &Client) -> i64 {
    let agent_data = client.profile.starts_with("/mcp-gpt");
    if agent_data && client.revision != super::MODERN { -32601 } else { -32602 }
}

/// Profiles that leave tools out say of every other name, known or not, that it is not allowed.
fn words_for_unknown(profile: &str) -> &'static str {
    if profile == "/mcp" { "Unknown tool" } else { "Tool not allowed" }
}

async fn check_unknown_names(client: &mut Client) {
    let words = words_for_unknown(client.profile);
    for name in ["no_such_tool", "move_document"] {
        let refused = client.ask("tools/call", json!({ "name": name, "arguments": {} })).await;
        let profile = client.profile;
        assert_eq!(refused["error"]["message"], format!("{words}: {name}"), "{profile}");
    }
}

async fn check_all(client: &mut Client, seed: &mut Client) -> usize {
    let form = if client.accept == JSON { "json" } else { "sse" };
    let path = format!("matrix{}/{}-{form}", client.profile, client.revision);
    let document = json!({ "path": path, "content": "A quokka smiles." });
    seed.ok("upload_document", document).await;
    let mut n_checked = 0;
    for (place, (tool, arguments, member, expected)) in rows(&path).into_iter().enumerate() {
        if allowed(client.profile, place) {
            let answer = client.ok(tool, arguments).await;
            let found = answer.pointer(member).unwrap_or_else(|| panic!("{tool}: {answer}"));
            // Once the text is embedded, search blends.
            let blended = expected == "lexical" && found == "hybrid";
            assert!(blended || *found == expected, "{path} {tool}: {answer}");
        } else {
            let params = json!({ "name": tool, "arguments": arguments });
            let refused = client.ask("tools/call", params).await;
            assert_eq!(refused["error"]["message"], format!("Tool not allowed: {tool}"));
            assert_eq!(refused["error"]["code"], refusal_code(client), "{path} {tool}");
        }
        n_checked += 1;
    }
    n_checked
}

#[tokio::test]
async fn every_tool_on_every_profile_in_every_form_and_revision() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let mut seed = Client::of(&lyceum, "/mcp").await;
    let mut n_checked = 0;
    for profile in PROFILES {
        let mut client = Client::of(&lyceum, profile).await;
        for revision in REVISIONS {
            for accept in [JSON, SSE] {
                (client.revision, client.accept) = (revision, accept);
                n_checked += check_all(&mut client, &mut seed).await;
                check_unknown_names(&mut client).await;
            }
        }
    }
    assert_eq!(n_checked, 10 * 4 * 2 * 5);
}

#[tokio::test]
async fn under_the_preset_every_profile_speaks_agent_data() {
    let (lyceum, _data) = Lyceum::fresh(&["--preset", "agent-data"]).await;
    for profile in PROFILES {
        let mut client = Client::of(&lyceum, profile).await;
        client.revision = "2025-03-26";
        let params = json!({ "name": "nonsense", "arguments": {} });
        let unknown = client.ask("tools/call", params).await;
        assert_eq!(unknown["error"]["code"], -32601, "{profile}");
        let words = words_for_unknown(profile);
        assert_eq!(unknown["error"]["message"], format!("{words}: nonsense"), "{profile}");
    }
}
