//! The commands that work on the knowledge base without a client: import, export, search, get, ls, put, rm, check, backup,
//! restore.

use std::fs;
use std::path::Path;
use std::process::Output;

use lyceum_testkit::Request;
use tempfile::TempDir;

use crate::lyceum::{Lyceum, run};

/// A directory with some files to import, and room for everything else.
fn library() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let notes = directory.path().join("notes");
    fs::create_dir_all(notes.join("guides")).unwrap();
    fs::write(
        notes.join("guides/setup.md"),
        "---\ntitle: Setting up\ntags: [start]\n---\n# Setup\n\nInstall the VPN first.\n",
    )
    .unwrap();
    fs::write(notes.join("page.html"), "<html><head><title>Coffee</title></head><body><article><h1>Coffee</h1><p>The espresso machine is descaled every month by whoever drinks from it.</p></article></body></html>").unwrap();
    fs::write(notes.join("plain.txt"), "Just words.").unwrap();
    fs::write(notes.join("broken.docx"), "this is no zip file").unwrap();
    directory
}

async fn lyceum(directory: &TempDir, arguments: &[&str]) -> Output {
    let data = directory.path().join("data").display().to_string();
    run(&[arguments, &["--data", &data]].concat()).await
}

fn path(directory: &TempDir, name: &str) -> String {
    directory.path().join(name).display().to_string()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Everything beneath a directory, by path.
fn tree(directory: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut todo = vec![directory.to_owned()];
    while let Some(next) = todo.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                todo.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap().display().to_string();
                files.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

#[tokio::test]
async fn files_become_documents_that_are_found_and_importing_again_changes_nothing() {
    let directory = library();
    let notes = path(&directory, "notes");
    let first = lyceum(&directory, &["import", &notes]).await;
    assert!(
        said(&first).contains("3 created, 0 updated, 0 unchanged, 1 failed"),
        "{}",
        said(&first)
    );
    assert!(said(&first).contains("broken.docx"), "{}", said(&first));
    assert!(!first.status.success(), "one file could not be imported");
    let again = lyceum(&directory, &["import", &notes]).await;
    assert!(said(&again).contains("0 created, 0 updated, 3 unchanged"), "{}", said(&again));
    fs::write(directory.path().join("notes/plain.txt"), "Other words.").unwrap();
    let changed = lyceum(&directory, &["import", &notes]).await;
    assert!(said(&changed).contains("0 created, 1 updated, 2 unchanged"), "{}", said(&changed));

    let found = printed(
        &lyceum(&directory, &["search", "who", "cleans", "the", "espresso", "machine"]).await,
    );
    assert!(found.lines().next().unwrap().contains("Coffee"), "{found}");
    let setup = printed(&lyceum(&directory, &["get", "guides/setup.md"]).await);
    assert_eq!(setup, "# Setup\n\nInstall the VPN first.\n");
    let history = printed(&lyceum(&directory, &["get", "plain.txt", "--history"]).await);
    assert_eq!(history.lines().count(), 2, "{history}");
    assert_eq!(
        printed(&lyceum(&directory, &["get", "plain.txt", "--revision", "1"]).await),
        "Just words.\n"
    );
    let nothing = lyceum(&directory, &["get", "nothing"]).await;
    assert!(said(&nothing).contains("NOT_FOUND"), "{}", said(&nothing));
}

#[tokio::test]
async fn what_is_exported_can_be_imported_elsewhere() {
    let directory = library();
    lyceum(
        &directory,
        &["import", &path(&directory, "notes"), "--under", "team", "--tag", "imported"],
    )
    .await;
    for (name, target) in [("out", "out"), ("out.jsonl", "out.jsonl")] {
        let exported = lyceum(&directory, &["export", &path(&directory, target)]).await;
        assert!(said(&exported).contains("exported 3 documents"), "{}", said(&exported));
        let other = tempfile::tempdir().unwrap();
        let imported = lyceum(&other, &["import", &path(&directory, name)]).await;
        assert!(
            said(&imported).contains("3 created, 0 updated, 0 unchanged, 0 failed"),
            "{}",
            said(&imported)
        );
        lyceum(&other, &["export", &path(&other, "again")]).await;
        let first = directory.path().join("first");
        if !first.exists() {
            lyceum(&directory, &["export", &path(&directory, "first")]).await;
        }
        assert_eq!(tree(&other.path().join("again")), tree(&first), "{name}");
    }
    let found = printed(
        &lyceum(&directory, &["search", "VPN", "--tag", "imported", "--prefix", "team/"]).await,
    );
    assert!(found.contains("team/guides/setup.md"), "{found}");
}

#[tokio::test]
async fn a_backup_made_while_serving_brings_everything_back() {
    let directory = library();
    let data = directory.path().join("data");
    lyceum(&directory, &["import", &path(&directory, "notes")]).await;
    let mut server = Lyceum::start(&data, &[]).await;
    let copy = path(&directory, "copy.db");
    let backup = lyceum(&directory, &["backup", &copy]).await;
    assert!(backup.status.success(), "{}", said(&backup));
    let refused = lyceum(&directory, &["restore", &copy, "--replace"]).await;
    assert!(said(&refused).contains("stop the server first"), "{}", said(&refused));
    server.terminate().await;
    server.ended().await;
    fs::remove_dir_all(&data).unwrap();
    let restored = lyceum(&directory, &["restore", &copy]).await;
    assert!(restored.status.success(), "{}", said(&restored));
    let refused = lyceum(&directory, &["restore", &copy]).await;
    assert!(said(&refused).contains("--replace"), "{}", said(&refused));
    let setup = printed(&lyceum(&directory, &["get", "guides/setup.md"]).await);
    assert_eq!(setup, "# Setup\n\nInstall the VPN first.\n");
    let mut bytes = fs::read(&copy).unwrap();
    let text = b"Install the VPN first.";
    let at = bytes.windows(text.len()).position(|window| window == text).unwrap();
    bytes[at] ^= 1;
    fs::write(&copy, bytes).unwrap();
    let damaged = lyceum(&directory, &["restore", &copy, "--replace"]).await;
    assert!(!damaged.status.success(), "a damaged backup was restored");
    let setup = printed(&lyceum(&directory, &["get", "guides/setup.md"]).await);
    assert_eq!(setup, "# Setup\n\nInstall the VPN first.\n", "the old one is untouched");
}

#[tokio::test]
async fn words_are_indexed_again_when_nobody_serves() {
    let directory = library();
    lyceum(&directory, &["import", &path(&directory, "notes")]).await;
    let database = directory.path().join("data/knowledge.db");
    let damage = rusqlite::Connection::open(&database).unwrap();
    damage.execute("DELETE FROM lexical_docsize", []).unwrap();
    drop(damage);
    let mut server = Lyceum::start(&directory.path().join("data"), &[]).await;
    let refused = lyceum(&directory, &["reindex", "--words"]).await;
    assert!(!refused.status.success() && said(&refused).contains("in use"), "{}", said(&refused));
    server.kill().await;
    let done = lyceum(&directory, &["reindex", "--words"]).await;
    assert!(said(&done).contains("indexed the words of 3 documents"), "{}", said(&done));
    assert!(done.status.success());
    let found = lyceum(&directory, &["search", "espresso"]).await;
    assert!(printed(&found).contains("page"), "{}", printed(&found));
}

#[tokio::test]
async fn documents_are_put_listed_and_deleted_without_a_server() {
    let directory = library();
    lyceum(&directory, &["import", &path(&directory, "notes")]).await;
    let put = ["put", "guides/new.md", &path(&directory, "notes/plain.txt")];
    assert!(said(&lyceum(&directory, &put).await).contains("created guides/new.md, revision 1"));
    assert_eq!(printed(&lyceum(&directory, &["get", "guides/new.md"]).await), "Just words.\n");
    // Standard input is empty.
    let emptied = lyceum(&directory, &["put", "guides/new.md", "-"]).await;
    assert!(said(&emptied).contains("updated guides/new.md, revision 2"), "{}", said(&emptied));
    let listed = printed(&lyceum(&directory, &["ls", "guides/"]).await);
    assert_eq!(listed, "guides/new.md\nguides/setup.md\n");
    let listed = printed(&lyceum(&directory, &["ls", "--long"]).await);
    assert_eq!(listed.lines().count(), 4, "{listed}");
    let removed = lyceum(&directory, &["rm", "guides/new.md", "no/such", "plain.txt"]).await;
    assert!(!removed.status.success() && said(&removed).contains("no/such: NOT_FOUND"));
    assert!(said(&removed).contains("deleted plain.txt"), "the others are deleted all the same");
    assert_eq!(printed(&lyceum(&directory, &["ls", "guides/"]).await), "guides/setup.md\n");
    let history = printed(&lyceum(&directory, &["get", "guides/new.md", "--history"]).await);
    assert_eq!(history.lines().count(), 3, "{history}");
    let nowhere = tempfile::tempdir().unwrap();
    let refused = lyceum(&nowhere, &["rm", "a"]).await;
    assert!(said(&refused).contains("there is no knowledge base"), "{}", said(&refused));
}

#[tokio::test]
async fn purged_documents_are_gone_for_good() {
    let directory = library();
    lyceum(&directory, &["import", &path(&directory, "notes")]).await;
    let asked = lyceum(&directory, &["rm", "--purge", "guides/setup.md"]).await;
    assert!(!asked.status.success() && said(&asked).contains("--yes"), "{}", said(&asked));
    let purged = lyceum(&directory, &["rm", "--purge", "--yes", "guides/setup.md"]).await;
    assert!(purged.status.success(), "{}", said(&purged));
    let read = lyceum(&directory, &["get", "guides/setup.md", "--revision", "1"]).await;
    assert!(!printed(&read).contains("VPN"), "{}", printed(&read));
    assert!(lyceum(&directory, &["check"]).await.status.success());
    let database = fs::read(directory.path().join("data/knowledge.db")).unwrap();
    let text = b"Install the VPN first.";
    assert!(!database.windows(text.len()).any(|window| window == text), "the text is in the file");
}

#[tokio::test]
async fn damage_is_found_and_removed_without_a_server() {
    let directory = library();
    lyceum(&directory, &["import", &path(&directory, "notes")]).await;
    assert!(lyceum(&directory, &["check"]).await.status.success());
    let database = directory.path().join("data/knowledge.db");
    let damage = rusqlite::Connection::open(&database).unwrap();
    damage.execute("UPDATE body SET text = 'x' WHERE text LIKE '%VPN%'", []).unwrap();
    drop(damage);
    let checked = lyceum(&directory, &["check"]).await;
    assert!(!checked.status.success() && printed(&checked).contains("is damaged"));
    let refused = lyceum(&directory, &["rm", "guides/setup.md"]).await;
    assert!(said(&refused).contains("--purge"), "{}", said(&refused));
    lyceum(&directory, &["rm", "--purge", "--yes", "guides/setup.md"]).await;
    let checked = lyceum(&directory, &["check"]).await;
    assert!(checked.status.success(), "{}", printed(&checked));
}

#[tokio::test]
async fn a_running_server_sees_what_commands_remove() {
    let directory = library();
    lyceum(&directory, &["import", &path(&directory, "notes")]).await;
    let server = Lyceum::start(&directory.path().join("data"), &[]).await;
    let search = || Request::post("/kb/search", r#"{ "query": "espresso" }"#);
    let found = server.call(&search()).await.json();
    let page = found["hits"][0]["document_id"].as_str().unwrap();
    assert!(found["hits"][0]["snippet"].as_str().unwrap().contains("espresso"), "{found}");
    let purged = lyceum(&directory, &["rm", "--purge", "--yes", page]).await;
    assert!(purged.status.success(), "{}", said(&purged));
    let found = server.call(&search()).await.json();
    assert!(
        !found.to_string().contains("espresso") && !found.to_string().contains(page),
        "{found}"
    );
    lyceum(&directory, &["put", page, &path(&directory, "notes/plain.txt")]).await;
    let read = server.call(&Request::new("GET", &format!("/documents/{page}"))).await.json();
    assert_eq!(read["content"], "Just words.", "{read}");
}
