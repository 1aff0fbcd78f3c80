//! What only a file can get wrong.

use lyceum_kb::Change;
use lyceum_kb::store::Store;
use tempfile::TempDir;

use super::open;
use crate::store::{done, get, keyed, text, write};

#[tokio::test]
async fn everything_is_there_after_reopening() {
    let directory = TempDir::new().unwrap();
    let create = || keyed(write("a", Change::Create(text("one"))), "k", 1);
    let store = open(&directory);
    let first = done(&store, create()).await;
    drop(store);
    let store = open(&directory);
    assert_eq!(get(&store, "a").await.body, "one");
    assert_eq!(done(&store, create()).await, first, "the key survives a restart");
    assert_eq!(store.audit_trail(None, 9).await.unwrap().len(), 2);
}
