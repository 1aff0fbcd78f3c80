//! Requests that two readers could split differently (reliability row 13), as raw bytes.
//!
//! Each case hides a call of the tool `smuggled` where a careless reader would find a second request.
//! Whatever the server makes of the rest, that call must never run. The cases are the testkit's; the
//! gateway's tests send them, too.

use lyceum_testkit::smuggling::{Case, Corpus, Fate};
use serde_json::json;
use tokio::time::Duration;

use crate::lab::{Lab, modern};

fn corpus() -> Corpus {
    Corpus::new(&modern(1, "echo", json!({})), &modern(666, "smuggled", json!({})))
}

/// Runs cases on connections of their own, and judges them.
async fn check(cases: Vec<Case>) {
    assert!(!cases.is_empty());
    for case in cases {
        judge(case).await;
    }
}

async fn judge(Case { name, bytes, fate }: Case) {
    let lab = Lab::new();
    let server = lab.serve().await;
    let mut connection = server.connect().await;
    if connection.try_send(bytes).await.is_ok() {
        connection.finish_sending().await;
    }
    let mut statuses = Vec::new();
    while let Some(response) = connection.try_response().await {
        statuses.push(response.status());
    }
    assert!(connection.closes_within(Duration::from_secs(5)).await, "{name}: still open");
    assert_eq!(lab.fixture.smuggled(), 0, "{name}: a second request was found; {statuses:?}");
    match fate {
        Fate::Refused => {
            assert_eq!(lab.fixture.invocations(), 0, "{name}: a handler ran; {statuses:?}");
            let refused =
                |status: &u16| matches!(status, 400 | 404 | 405 | 413 | 421 | 431 | 501 | 505);
            assert!(statuses.iter().all(refused), "{name}: {statuses:?}");
        }
        Fate::One => assert_eq!(lab.fixture.invocations(), 1, "{name}: {statuses:?}"),
    }
}

#[tokio::test]
async fn lengths_that_can_be_read_two_ways_are_refused() {
    check(corpus().lengths()).await;
}

#[tokio::test]
async fn transfer_encodings_that_can_be_read_two_ways_are_refused() {
    check(corpus().transfer_encodings()).await;
}

#[tokio::test]
async fn chunks_that_can_be_read_two_ways_are_refused() {
    check(corpus().chunks()).await;
}

#[tokio::test]
async fn heads_that_can_be_read_two_ways_are_refused() {
    check(corpus().heads()).await;
}

#[tokio::test]
async fn framing_that_is_unusual_but_clear_is_one_request() {
    check(corpus().unusual()).await;
}

#[tokio::test]
async fn length_beside_chunks_is_one_request_and_the_connection_ends() {
    check(corpus().lengths_and_chunks()).await;
}
