//! Upstreams behind the gateway that no longer take our tokens.

use lyceum_gateway::oauth::{Grant, OAuthConfig, TokenStore};
use lyceum_gateway::{Gateway, HeaderSource, Setting, Status, Target, UpstreamConfig, stack};
use lyceum_wire::{Revision, RevisionSet};
use serde_json::json;
use tokio_rustls::rustls::RootCertStore;

use super::stage::{Stage, UPSTREAM};
use crate::house::{House, own_server, serve_handler, setting, text, until};

fn upstream(stage: &Stage, oauth: OAuthConfig) -> UpstreamConfig {
    let target = Target::Http(stage.url.clone());
    UpstreamConfig { oauth: Some(oauth), ..UpstreamConfig::new(UPSTREAM, target) }
}

fn by_client(secret: &str) -> OAuthConfig {
    OAuthConfig {
        grant: Grant::ClientCredentials,
        client_id: Some("id".to_owned()),
        client_secret: Some(HeaderSource::parse(secret)),
        ..OAuthConfig::default()
    }
}

/// Whether the upstream is like this, for a reason that says so.
fn is(house: &House, status: Status, why: &str) -> bool {
    let (_, health) = house.gateway.health().remove(0);
    health.status == status && health.last_error.unwrap_or_default().contains(why)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_without_a_token_is_down_and_says_why_until_there_is_one() {
    let stage = Stage::set().await;
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "hunter2").unwrap();
    let oauth = by_client(&format!("file:{}", secret.path().display()));
    let house = House::with(vec![upstream(&stage, oauth)], None).await;
    let peer = house.client_with(Revision::V2026_07_28, (), "{}").await;
    assert_eq!(text(&peer, "up_greet", json!({})).await.unwrap(), "hello");

    stage.knobs().secret = "hunter3";
    stage.revoke();
    let told = text(&peer, "up_greet", json!({})).await.unwrap();
    assert!(told.contains("whose id or secret may be wrong"), "{told}");
    until("it is down", || is(&house, Status::Down, "whose id or secret may be wrong")).await;
    // The file is read anew.
    std::fs::write(secret.path(), "hunter3").unwrap();
    until("it is up", || is(&house, Status::Up, "")).await;
    assert_eq!(text(&peer, "up_greet", json!({})).await.unwrap(), "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_not_there_is_named() {
    let stage = Stage::set().await;
    let oauth = by_client("env:LYCEUM_TEST_NO_SUCH_VARIABLE");
    let house = House::unsettled(vec![upstream(&stage, oauth)]).await;
    until("it is down", || {
        is(&house, Status::Down, "the environment has no LYCEUM_TEST_NO_SUCH_VARIABLE")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_lets_nobody_in_says_how_one_may_log_in() {
    let stage = Stage::set().await;
    let config = UpstreamConfig { oauth: None, ..upstream(&stage, OAuthConfig::default()) };
    let house = House::unsettled(vec![config]).await;
    until("it is down", || {
        is(&house, Status::Down, "write oauth = {} and log in: lyceum upstreams login up")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_lacks_a_scope_is_told_how_to_get_it() {
    let stage = Stage::set().await;
    let house = House::with(vec![upstream(&stage, by_client("hunter2"))], None).await;
    let peer = house.client_with(Revision::V2026_07_28, (), "{}").await;
    stage.knobs().lacking = Some("admin");
    let told = text(&peer, "up_greet", json!({})).await.unwrap();
    assert!(told.contains("scope=\"admin\"; have its authorization server give"), "{told}");
    until("it is down", || is(&house, Status::Down, "give this scope to the client")).await;

    let stage = Stage::set().await;
    let tokens = TokenStore::in_memory();
    let person = stage.oauth().store(tokens.clone()).build().unwrap();
    person.log_in(stack::trusting(RootCertStore::empty())).await.unwrap();
    stage.knobs().lacking = Some("admin");
    let gateway = Gateway::new(Setting { tokens, ..setting() });
    gateway.configure(vec![upstream(&stage, OAuthConfig::default())]);
    let front = serve_handler(own_server(), RevisionSet::ALL).await;
    let house = House::around(gateway, front);
    until("it is down", || {
        is(&house, Status::Down, "log in again to allow it: lyceum upstreams login up")
    })
    .await;
}
