//! What each tool takes and answers.

use serde_json::{Value, json};

use super::Client;
use crate::lyceum::Lyceum;

async fn started() -> (Lyceum, tempfile::TempDir, Client) {
    let (lyceum, data) = Lyceum::fresh(&[]).await;
    let client = Client::of(&lyceum, "/mcp").await;
    (lyceum, data, client)
}

async fn upload(client: &mut Client, path: &str, content: &str) -> Value {
    client.ok("upload_document", json!({ "path": path, "content": content })).await
}

#[tokio::test]
async fn a_document_lives_through_all_its_writes() {
    let (_lyceum, _data, mut client) = started().await;
    let path = "guides/a.md";
    let write =
        |status: &str, revision: i64| json!({ "id": path, "status": status, "revision": revision });
    assert_eq!(upload(&mut client, path, "one two").await, write("created", 1));
    let rows = [
        (
            "update_document",
            json!({ "path": path, "content": "one two three" }),
            write("updated", 2),
        ),
        (
            "update_document",
            json!({ "path": path, "content": "one two three" }),
            write("unchanged", 2),
        ),
        ("update_document", json!({ "path": path, "tags": ["x"] }), write("updated", 3)),
        (
            "patch_document",
            json!({ "path": path, "old_str": "two", "new_str": "2" }),
            write("patched", 4),
        ),
        (
            "patch_document",
            json!({ "path": path, "edits": [
                { "old_str": "one", "new_str": "1" }, { "old_str": "1 2", "new_str": "12" },
            ] }),
            write("patched", 5),
        ),
        ("delete_document", json!({ "path": path }), write("deleted", 6)),
        ("upload_document", json!({ "path": path, "content": "again" }), write("created", 7)),
        (
            "upload_document",
            json!({ "path": path, "content": "over", "upsert": true }),
            write("updated", 8),
        ),
        ("update_document", json!({ "path": path, "restore_revision": 5 }), write("restored", 9)),
    ];
    for (tool, arguments, expected) in rows {
        assert_eq!(client.ok(tool, arguments.clone()).await, expected, "{tool} {arguments}");
    }
    let whole = client.ok("get_document_for_rewrite", json!({ "document_id": path })).await;
    assert_eq!((&whole["content"], &whole["tags"]), (&json!("12 three"), &json!(["x"])));
    let old = json!({ "path": path, "revision": 1, "diff_from": 2 });
    let old = client.ok("get_document_for_rewrite", old).await;
    assert_eq!((&old["content"], &old["revision"]), (&json!("one two"), &json!(1)));
    assert!(old["diff"].as_str().unwrap().contains("-one two three"), "{old}");
    let brief = client.ok("get_document", json!({ "document_id": path, "history": true })).await;
    let actions = brief["history"].as_array().unwrap().iter().map(|entry| &entry["action"]);
    let expected = [
        "restored", "updated", "created", "deleted", "patched", "patched", "updated", "updated",
        "created",
    ];
    assert!(actions.eq(expected.map(Value::from).iter()), "{brief}");
    assert_eq!(brief["history"][0]["author"], "anonymous");
}

#[tokio::test]
async fn a_deleted_document_can_be_restored() {
    let (_lyceum, _data, mut client) = started().await;
    upload(&mut client, "a", "text").await;
    client.ok("delete_document", json!({ "path": "a" })).await;
    assert_eq!(
        client.refused("delete_document", json!({ "path": "a" })).await["code"],
        "NOT_FOUND"
    );
    let back = client.ok("update_document", json!({ "path": "a", "restore_revision": 1 })).await;
    assert_eq!(back, json!({ "id": "a", "status": "restored", "revision": 3 }));
    let read = client.ok("get_document_for_rewrite", json!({ "path": "a" })).await;
    assert_eq!(read["content"], "text");
}

#[tokio::test]
async fn a_summary_has_the_first_500_characters() {
    let (_lyceum, _data, mut client) = started().await;
    for (path, n, truncated) in [("short", 500, false), ("long", 501, true)] {
        upload(&mut client, path, &"é".repeat(n)).await;
        let brief = client.ok("get_document", json!({ "document_id": path })).await;
        assert_eq!(brief["content"].as_str().unwrap().chars().count(), 500);
        assert_eq!((&brief["truncated"], &brief["content_length"]), (&json!(truncated), &json!(n)));
        assert!(brief["related"].as_array().unwrap().len() <= 3);
        assert!(brief["metadata"].is_object() && brief["vector_status"].is_string());
        let whole = client.ok("get_document_for_rewrite", json!({ "document_id": path })).await;
        assert_eq!(whole["content"].as_str().unwrap().chars().count(), n);
        assert!(whole["related"].is_null() && whole["truncated"] == false);
    }
}

#[tokio::test]
async fn parts_of_a_document_are_read_by_section_and_lines() {
    let (_lyceum, _data, mut client) = started().await;
    let text = format!("# Top\nintro\n## One\n{}\n## Two\nlast\n", "word ".repeat(200));
    upload(&mut client, "doc.md", &text).await;
    let mut get = async |more: Value| {
        let mut arguments = json!({ "document_id": "doc.md" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        client.ok("get_document", arguments).await
    };
    let section = get(json!({ "section": "two" })).await;
    assert_eq!(
        (&section["content"], &section["truncated"]),
        (&json!("## Two\nlast\n"), &json!(true))
    );
    let one = get(json!({ "section": "Top > One" })).await;
    assert!(one["content"].as_str().unwrap().len() > 1000, "a section comes whole");
    assert_eq!(get(json!({ "lines": "2" })).await["content"], "intro\n");
    assert_eq!(get(json!({ "lines": "5-" })).await["content"], "## Two\nlast\n");
    let outline = get(json!({ "outline": true })).await["outline"].clone();
    let heading = |level: i64, title: &str, line: i64| json!({ "level": level, "title": title, "line": line });
    assert_eq!(outline, json!([heading(1, "Top", 1), heading(2, "One", 3), heading(2, "Two", 5)]));
}

#[tokio::test]
async fn a_document_made_of_headings_gets_bounded_answers() {
    let (_lyceum, _data, mut client) = started().await;
    let long = "x".repeat(1 << 20);
    upload(&mut client, "doc.md", &format!("# {long}\n{}", "## y\n".repeat(20_000))).await;
    let outline =
        client.ok("get_document", json!({ "document_id": "doc.md", "outline": true })).await;
    assert_eq!(outline["outline"].as_array().unwrap().len(), 2000);
    assert_eq!(outline["outline_truncated"], true);
    assert!(outline["outline"][0]["title"].as_str().unwrap().chars().count() <= 200);
    let miss = json!({ "document_id": "doc.md", "section": format!("x > {}", "z".repeat(5000)) });
    let error = client.refused("get_document", miss).await;
    assert_eq!(error["code"], "NOT_FOUND");
    assert!(error.to_string().len() < 64 * 1024, "{}", error.to_string().len());
}

#[tokio::test]
async fn metadata_comes_back_or_is_refused() {
    let (_lyceum, _data, mut client) = started().await;
    upload(&mut client, "doc.md", "text").await;
    let nested = |depth: usize| (1..depth).fold(json!(1), |value, _| json!([value]));
    let update = |depth| json!({ "path": "doc.md", "metadata": { "k": nested(depth) } });
    let error = client.refused("update_document", update(49)).await;
    assert!(error["message"].as_str().unwrap().contains("48 deep"), "{error}");
    client.ok("update_document", update(48)).await;
    let read = client.ok("batch_read", json!({ "paths": ["doc.md"] })).await;
    assert_eq!(read["items"][0]["metadata"]["k"], nested(48), "{read}");
}

#[tokio::test]
async fn batches_keep_their_order_and_say_what_is_missing() {
    let (_lyceum, _data, mut client) = started().await;
    upload(&mut client, "a", &"x".repeat(600)).await;
    upload(&mut client, "gone", "x").await;
    client.ok("delete_document", json!({ "path": "gone" })).await;
    for (full, length, truncated) in [(false, 500, true), (true, 600, false)] {
        let paths = ["gone", "a", "never", "a"];
        let batch = client.ok("batch_read", json!({ "paths": paths, "full": full })).await;
        assert_eq!(batch["count"], 4);
        let items = &batch["items"];
        assert_eq!(items[0], json!({ "document_id": "gone", "error": "deleted" }));
        assert_eq!(items[2], json!({ "document_id": "never", "error": "not_found" }));
        assert_eq!(items[1]["content"].as_str().unwrap().len(), length);
        assert_eq!(items[1]["truncated"], truncated);
        assert_eq!(items[1], items[3]);
    }
}

#[tokio::test]
async fn search_finds_what_was_just_written_and_filters() {
    let (_lyceum, _data, mut client) = started().await;
    let tagged = json!({ "path": "zoo/quokka.md", "content": "# Quokkas\nA quokka smiles.", "tags": ["animal"], "metadata": { "by": "ann" } });
    client.ok("upload_document", tagged).await;
    upload(&mut client, "garden/rose.md", "A rose is red, and no quokka.").await;
    let found = client.ok("search_knowledge", json!({ "query": "quokka" })).await;
    assert_eq!(found["usage"]["hits"], found["hits"].as_array().unwrap().len());
    assert!(found["usage"]["latency_ms"].is_number() && found["usage"]["mode"].is_string());
    let hit =
        found["hits"].as_array().unwrap().iter().find(|hit| hit["document_id"] == "zoo/quokka.md");
    let hit = hit.unwrap_or_else(|| panic!("{found}"));
    assert_eq!((&hit["title"], &hit["revision"]), (&json!("quokka.md"), &json!(1)));
    assert_eq!(hit["metadata"], json!({ "by": "ann" }));
    assert!(hit["snippet"].as_str().unwrap().contains("quokka"), "{hit}");
    assert!((0.0..=1.0).contains(&hit["score"].as_f64().unwrap()));
    let rows = [
        (json!({ "tags": ["animal"] }), 1),
        (json!({ "tags": ["animal", "plant"] }), 0),
        (json!({ "prefix": "garden/" }), 1),
        (json!({ "updated_since": "2020-01-01" }), 2),
        (json!({ "updated_since": "2999-01-01T00:00:00Z" }), 0),
        (json!({ "limit": 1 }), 1),
        (json!({ "limit": 20.0, "explain": true, "tags": null }), 2),
    ];
    for (filter, n) in rows {
        let mut arguments = json!({ "query": "quokka" });
        arguments.as_object_mut().unwrap().extend(filter.as_object().unwrap().clone());
        let found = client.ok("search_knowledge", arguments).await;
        assert_eq!(found["hits"].as_array().unwrap().len(), n, "{filter}: {found}");
        assert_eq!(found["hits"][0]["explanation"].is_object(), n > 0 && filter["explain"] == true);
    }
    for odd in ["\"", "a AND (", "*", "🙂", "NEAR(", "-quokka", "title:x", &"q ".repeat(5000)] {
        client.ok("search_knowledge", json!({ "query": odd })).await;
    }
}

#[tokio::test]
async fn the_same_key_writes_once() {
    let (_lyceum, _data, mut client) = started().await;
    upload(&mut client, "a", "0").await;
    let rows = [
        ("upload_document", json!({ "path": "k", "content": "x", "idempotency_key": "k" })),
        ("update_document", json!({ "path": "a", "content": "1", "idempotency_key": "k" })),
        (
            "patch_document",
            json!({ "path": "a", "old_str": "1", "new_str": "2", "idempotency_key": "k" }),
        ),
        ("ingest_document", json!({ "source": "x", "path": "i", "idempotency_key": "k" })),
        ("delete_document", json!({ "path": "a", "idempotency_key": "k" })),
    ];
    for (tool, arguments) in rows {
        let first = client.ok(tool, arguments.clone()).await;
        assert_eq!(client.ok(tool, arguments.clone()).await, first, "{tool}");
        let mut other = arguments;
        other["path"] = "other".into();
        assert_eq!(client.refused(tool, other).await["code"], "CONFLICT", "{tool}");
    }
}

#[tokio::test]
async fn an_expected_revision_guards_every_write() {
    let (_lyceum, _data, mut client) = started().await;
    upload(&mut client, "a", "text").await;
    let rows = [
        ("upload_document", json!({ "path": "a", "content": "x", "upsert": true })),
        ("update_document", json!({ "path": "a", "content": "x" })),
        ("patch_document", json!({ "path": "a", "old_str": "t", "new_str": "x" })),
        ("delete_document", json!({ "path": "a" })),
        ("ingest_document", json!({ "source": "x", "path": "a" })),
    ];
    for (tool, mut arguments) in rows {
        arguments["expected_revision"] = 7.into();
        let error = client.refused(tool, arguments).await;
        assert_eq!(error["code"], "CONFLICT", "{tool}");
        assert_eq!(error["details"]["actual_revision"], 1, "{tool}");
    }
    let right = json!({ "path": "a", "title": "T", "expected_revision": 1 });
    assert_eq!(client.ok("update_document", right).await["revision"], 2);
}

#[tokio::test]
async fn ingested_text_gets_a_path_of_its_own() {
    let (_lyceum, _data, mut client) = started().await;
    let source = json!({ "source": "# Meeting notes\nWe met." });
    let first = client.ok("ingest_document", source.clone()).await;
    let id = first["document_id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("ingested/"), "{first}");
    assert_eq!((&first["status"], &first["revision"]), (&json!("created"), &json!(1)));
    assert_eq!(client.ok("ingest_document", source).await["status"], "unchanged");
    let read = client.ok("get_document_for_rewrite", json!({ "path": id })).await;
    assert_eq!(read["content"], "# Meeting notes\nWe met.");
}
