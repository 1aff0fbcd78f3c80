//! Alarms: a sound store never raises one, whatever is done to it meanwhile.

use lyceum_kb::Query;
use lyceum_kb::store::{Filter, Store};
use tokio::time::{Duration, sleep};

use super::fresh;
use crate::store::{create, delete, join_all};

/// FTS5 keeps the structure of its index in each connection, and its check trusts what is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_searched_and_written_to_is_whole() {
    let fresh = fresh();
    for n in 0..40 {
        create(&*fresh, &format!("old/{n}"), "every write adds a piece of the index").await;
    }
    // Every reader has seen the index as it is now.
    let search = async |_: usize| {
        fresh.lexical(&Query::parse("piece"), &Filter::default(), 9).await.unwrap();
    };
    for _ in 0..4 {
        join_all((0..16).map(search).collect()).await;
    }
    // Merging replaces the pieces they know.
    for n in 0..40 {
        create(&*fresh, &format!("new/{n}"), "every write adds a piece of the index").await;
        delete(&*fresh, &format!("old/{n}")).await;
    }
    sleep(Duration::from_millis(500)).await;
    for _ in 0..8 {
        assert_eq!(fresh.check_integrity().await.unwrap(), [""; 0]);
    }
}
