//! How much the indexer is given at a time.

use std::time::Duration;

use super::super::Store;
use super::{create, fresh};
use crate::embed::Fingerprint;

#[tokio::test]
async fn long_texts_are_leased_a_few_at_a_time() {
    let fresh = fresh();
    let set = fresh.store.vector_set(&Fingerprint("m".to_owned())).await.unwrap().id;
    for n in 0..5 {
        create(&fresh.store, &format!("long/{n}"), &"x".repeat(3 << 20)).await.unwrap();
    }
    let mut leased = Vec::new();
    while leased.iter().sum::<usize>() < 5 {
        let hour = Duration::from_secs(3600);
        leased.push(fresh.store.claim(set, "worker", 100, hour).await.unwrap().len());
    }
    assert_eq!(leased, [2, 2, 1], "8 MiB at a time");
}
