//! Entries come back, for their own key and nobody else, and rest unreadable.

use super::*;
use crate::oauth::client;

fn key(upstream: &str, issuer: &str) -> Key {
    let resource = "https://h/mcp".to_owned();
    Key { upstream: upstream.to_owned(), issuer: issuer.to_owned(), resource }
}

fn entry(access: &str, obtained_at: u64) -> Entry {
    let mut client = client::document("https://us/client.json");
    client.secret = Some(Secret::new("hunter2"));
    Entry {
        client,
        access: Secret::new(access),
        refresh: Some(Secret::new("hunter3")),
        renew_at: Some(7),
        scopes: vec!["a".to_owned()],
        obtained_at,
    }
}

fn tokens(store: &TokenStore, upstream: &str) -> Vec<String> {
    let found = store.of(upstream).unwrap();
    found.into_iter().map(|(_, entry)| entry.access.expose().to_owned()).collect()
}

#[test]
fn what_was_put_comes_back_newest_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens.json");
    let sealer = Arc::new(Sealer::ephemeral());
    for store in [TokenStore::in_memory(), TokenStore::in_file(&path, Arc::clone(&sealer))] {
        assert_eq!(tokens(&store, "up"), Vec::<String>::new());
        store.put(&key("up", "https://one"), &entry("t1", 1)).unwrap();
        store.put(&key("up", "https://two"), &entry("t2", 2)).unwrap();
        store.put(&key("other", "https://one"), &entry("t3", 3)).unwrap();
        store.put(&key("up", "https://one"), &entry("t4", 4)).unwrap();
        assert_eq!(tokens(&store, "up"), ["t4", "t2"], "{store:?}");
        store.forget("up").unwrap();
        assert_eq!(tokens(&store, "up"), Vec::<String>::new());
        assert_eq!(tokens(&store, "other"), ["t3"]);
    }
    let again = TokenStore::in_file(&path, sealer);
    let (found, entry) = again.of("other").unwrap().remove(0);
    assert_eq!(found, key("other", "https://one"));
    assert_eq!(entry.client.secret.unwrap().expose(), "hunter2");
    assert_eq!(entry.refresh.unwrap().expose(), "hunter3");
    assert_eq!((entry.renew_at, entry.scopes), (Some(7), vec!["a".to_owned()]));
}

#[test]
fn whoever_waits_for_a_login_sees_that_another_process_kept_something() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens.json");
    let store = TokenStore::in_file(&path, Arc::new(Sealer::ephemeral()));
    assert_eq!(store.changed_at(), None);
    store.put(&key("up", "https://one"), &entry("t1", 1)).unwrap();
    let first = store.changed_at();
    assert!(first.is_some());
    File::options().write(true).open(&path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let old = store.changed_at();
    store.put(&key("up", "https://one"), &entry("t2", 2)).unwrap();
    assert_ne!(store.changed_at(), old);
}

#[test]
fn nothing_opens_with_another_key_or_in_another_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens.json");
    let sealer = Arc::new(Sealer::ephemeral());
    let store = TokenStore::in_file(&path, Arc::clone(&sealer));
    store.put(&key("up", "https://one"), &entry("t1", 1)).unwrap();
    let stranger = TokenStore::in_file(&path, Arc::new(Sealer::ephemeral()));
    assert_eq!(tokens(&stranger, "up"), Vec::<String>::new());

    let text = fs::read_to_string(&path).unwrap();
    for (from, to) in [("\"up\"", "\"evil\""), ("https://one", "https://evil"), ("/mcp", "/evil")] {
        assert!(text.contains(from));
        fs::write(&path, text.replace(from, to)).unwrap();
        assert_eq!(tokens(&store, if from == "\"up\"" { "evil" } else { "up" }).len(), 0, "{to}");
    }
    fs::write(&path, &text).unwrap();
    assert_eq!(tokens(&store, "up"), ["t1"]);
}

#[test]
fn secrets_show_neither_in_the_file_nor_in_debug_output() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens.json");
    let store = TokenStore::in_file(&path, Arc::new(Sealer::ephemeral()));
    let secret = entry("hunter1", 1);
    store.put(&key("up", "https://one"), &secret).unwrap();
    let shown = format!("{secret:?} {store:?} {}", fs::read_to_string(&path).unwrap());
    assert!(!shown.contains("hunter"), "{shown}");
}

#[test]
fn a_damaged_file_is_told_and_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens.json");
    let store = TokenStore::in_file(&path, Arc::new(Sealer::ephemeral()));
    store.put(&key("up", "https://one"), &entry("t1", 1)).unwrap();
    fs::write(&path, "{").unwrap();
    store.of("up").unwrap_err();
    store.put(&key("up", "https://one"), &entry("t2", 2)).unwrap_err();
    assert_eq!(fs::read_to_string(&path).unwrap(), "{");
}

#[cfg(unix)]
#[test]
fn the_file_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens.json");
    let store = TokenStore::in_file(&path, Arc::new(Sealer::ephemeral()));
    store.put(&key("up", "https://one"), &entry("t1", 1)).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let error = store.of("up").unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("chmod 600"), "{source}");
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn writers_side_by_side_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens.json");
    let sealer = Arc::new(Sealer::ephemeral());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = TokenStore::in_file(&path, Arc::clone(&sealer));
            scope.spawn(move || {
                for n in 0..5 {
                    store
                        .put(&key(&format!("up{n}"), &thread.to_string()), &entry("t", n))
                        .unwrap();
                }
            });
        }
    });
    let store = TokenStore::in_file(&path, sealer);
    for n in 0..5 {
        assert_eq!(tokens(&store, &format!("up{n}")).len(), 4);
    }
}

#[test]
fn an_upstream_has_only_so_many_entries() {
    let store = TokenStore::in_memory();
    store.put(&key("other", "https://one"), &entry("t", 0)).unwrap();
    for n in 0..20 {
        store.put(&key("up", &n.to_string()), &entry(&n.to_string(), n)).unwrap();
    }
    assert_eq!(tokens(&store, "up").len(), MAX_ENTRIES_PER_UPSTREAM);
    assert_eq!(tokens(&store, "up")[0], "19");
    assert_eq!(tokens(&store, "other").len(), 1);
}
