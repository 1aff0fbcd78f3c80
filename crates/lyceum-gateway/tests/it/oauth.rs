//! Tokens for upstreams: what the official suite does not try.

mod locked_out;
mod stage;

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use lyceum_gateway::credentials::Secret;
use lyceum_gateway::oauth::{Grant, OAuth, Proof, RegisteredClient, TokenStore};
use lyceum_gateway::stack;
use lyceum_http::Sealer;
use lyceum_http::client::{Client, ClientError, Network, NetworkFuture, SystemNetwork};
use tokio_rustls::rustls::RootCertStore;

use crate::log::Log;
use stage::{Stage, UPSTREAM, chain, client, get, member};

/// Asks for the protected page, which has to succeed.
async fn pass(oauth: &OAuth, stage: &Stage) {
    let status = get(oauth, &stage.url).await.map_err(|error| chain(&*error));
    assert_eq!(status, Ok(StatusCode::OK));
}

/// Asks for the protected page, which has to fail for this reason.
async fn fail(oauth: &OAuth, stage: &Stage, part: &str) {
    let error = get(oauth, &stage.url).await.expect_err("there is no token");
    assert!(chain(&*error).contains(part), "{}", chain(&*error));
}

fn registered(stage: &Stage) -> RegisteredClient {
    let proof = Proof::Secret(Secret::new("hunter2"));
    RegisteredClient { id: "id".to_owned(), proof, issuer: Some(stage.issuer("one")) }
}

#[tokio::test]
async fn a_token_that_ended_is_refreshed_without_a_login() {
    let stage = Stage::set().await;
    let oauth = stage.oauth().build().unwrap();
    for n in 1..=3 {
        pass(&oauth, &stage).await;
        assert_eq!(stage.counts(), (1, n));
        stage.revoke();
    }
    // Refresh tokens are traded in: each is used once, the newest one next time.
    let used =
        stage.asked("one", "/token").into_iter().map(|one| member(&one.said, "refresh_token"));
    assert_eq!(used.collect::<Vec<_>>(), ["", "refresh-1", "refresh-2"]);
    let resources = stage.asked("one", "/token");
    assert!(resources.iter().all(|one| member(&one.said, "resource") == stage.url));
}

#[tokio::test]
async fn a_token_about_to_end_is_renewed_before_the_server_minds() {
    let stage = Stage::set().await;
    let oauth = stage.oauth().build().unwrap();
    stage.knobs().lifetime = 0;
    pass(&oauth, &stage).await;
    stage.knobs().lifetime = 3600;
    pass(&oauth, &stage).await;
    pass(&oauth, &stage).await;
    let seen = stage.asked("resource", "/mcp").into_iter().map(|one| one.authorization);
    let seen: Vec<_> = seen.map(Option::unwrap_or_default).collect();
    // The first token is due as soon as it is there, so even the first request goes with the next.
    assert_eq!(seen, ["", "Bearer token-2", "Bearer token-3", "Bearer token-3"]);
}

#[tokio::test]
async fn a_refresh_token_nobody_takes_any_more_leads_to_a_login() {
    let stage = Stage::set().await;
    let oauth = stage.oauth().build().unwrap();
    pass(&oauth, &stage).await;
    stage.revoke();
    stage.knobs().refreshable.clear();
    pass(&oauth, &stage).await;
    assert_eq!(stage.counts(), (2, 3));
    assert_eq!(stage.asked("one", "/register").len(), 1, "the registration is kept");
}

#[tokio::test]
async fn client_credentials_need_nobody_and_are_shown_again_when_the_token_ends() {
    let stage = Stage::set().await;
    let builder = stage.unattended().grant(Grant::ClientCredentials);
    let oauth = builder.client(registered(&stage)).build().unwrap();
    for n in 1..=2 {
        pass(&oauth, &stage).await;
        assert_eq!(stage.counts(), (0, n));
        stage.revoke();
    }
    assert_eq!(stage.asked("one", "/register").len(), 0);
    assert_eq!(member(&stage.asked("one", "/token")[1].said, "grant_type"), "client_credentials");
    let public = RegisteredClient { proof: Proof::None, ..registered(&stage) };
    let builder = stage.unattended().grant(Grant::ClientCredentials);
    builder.client(public).build().unwrap_err();
}

#[tokio::test]
async fn tokens_survive_a_restart_and_another_key_opens_none() {
    let stage = Stage::set().await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens.json");
    let sealer = Arc::new(Sealer::ephemeral());
    let store = || TokenStore::in_file(&path, Arc::clone(&sealer));
    pass(&stage.oauth().store(store()).build().unwrap(), &stage).await;

    let restarted = stage.unattended().store(store()).build().unwrap();
    pass(&restarted, &stage).await;
    assert_eq!(stage.asked("resource", "/mcp").len(), 3, "the token was there at once");
    stage.revoke();
    pass(&restarted, &stage).await;
    assert_eq!(stage.counts(), (1, 2));
    // What was refreshed is kept, too.
    pass(&stage.unattended().store(store()).build().unwrap(), &stage).await;
    assert_eq!(stage.counts(), (1, 2));

    let stranger = TokenStore::in_file(&path, Arc::new(Sealer::ephemeral()));
    let stranger = stage.unattended().store(stranger).build().unwrap();
    fail(&stranger, &stage, "lyceum upstreams login up").await;
}

#[tokio::test]
async fn the_login_of_another_process_is_noticed() {
    let stage = Stage::set().await;
    let dir = tempfile::tempdir().unwrap();
    let sealer = Arc::new(Sealer::ephemeral());
    let store = || TokenStore::in_file(dir.path().join("tokens.json"), Arc::clone(&sealer));
    let running = stage.unattended().store(store()).build().unwrap();
    fail(&running, &stage, "lyceum upstreams login up").await;
    let shell = stage.oauth().store(store()).build().unwrap();
    shell.log_in(stack::trusting(RootCertStore::empty())).await.unwrap();
    pass(&running, &stage).await;
    assert_eq!(stage.counts(), (1, 1));
    shell.log_out().await.unwrap();
    fail(&stage.unattended().store(store()).build().unwrap(), &stage, "upstreams login").await;
}

#[tokio::test]
async fn another_authorization_server_gets_a_registration_of_its_own() {
    let stage = Stage::set().await;
    let store = TokenStore::in_memory();
    let oauth = stage.oauth().store(store.clone()).build().unwrap();
    pass(&oauth, &stage).await;
    stage.knobs().named = vec![stage.issuer("two")];
    stage.revoke();
    pass(&oauth, &stage).await;
    assert_eq!(stage.asked("two", "/register").len(), 1);
    for path in ["/authorize", "/token"] {
        let asked = stage.asked("two", path);
        assert_eq!(asked.len(), 1);
        assert_eq!(member(&asked[0].said, "client_id"), client("two"));
        assert!(!asked[0].said.contains("refresh-1"));
    }
    // Back at the first, what it gave us before serves again.
    stage.knobs().named = vec![stage.issuer("one")];
    stage.revoke();
    pass(&oauth, &stage).await;
    assert_eq!(stage.asked("one", "/register").len(), 1);
    assert_eq!(stage.counts().0, 2);
}

#[tokio::test]
async fn configured_credentials_are_for_one_authorization_server_only() {
    for issuer in [Some(()), None] {
        let stage = Stage::set().await;
        let issuer = issuer.map(|()| stage.issuer("one"));
        let client = RegisteredClient { issuer, ..registered(&stage) };
        let builder = stage.unattended().grant(Grant::ClientCredentials);
        let oauth = builder.client(client).build().unwrap();
        pass(&oauth, &stage).await;
        stage.knobs().named = vec![stage.issuer("two")];
        stage.revoke();
        fail(&oauth, &stage, "the configured credentials are for").await;
        assert_eq!(stage.asked("two", "/token").len(), 0);
        // It may well be one of several.
        stage.knobs().named = vec![stage.issuer("two"), stage.issuer("one")];
        pass(&oauth, &stage).await;
    }
}

#[tokio::test]
async fn a_token_goes_to_its_own_server_and_nowhere_else() {
    let stage = Stage::set().await;
    let oauth = stage.oauth().build().unwrap();
    pass(&oauth, &stage).await;
    let elsewhere = format!("{}/mcp", stage.issuer("two"));
    let by_name = stage.url.replace("127.0.0.1", "localhost");
    for url in [&elsewhere, &by_name] {
        drop(get(&oauth, url).await);
    }
    assert!(stage.asked("two", "/mcp").iter().all(|one| one.authorization.is_none()));
    let ours = stage.asked("resource", "/mcp");
    let with_token = ours.iter().filter(|one| one.authorization.is_some()).count();
    assert_eq!(with_token, 1, "{ours:?}");
    assert_eq!(stage.counts(), (1, 1), "nobody else's challenge is answered");
}

#[tokio::test]
async fn a_stored_token_is_not_for_another_server_of_the_same_name() {
    let (stage, other) = (Stage::set().await, Stage::set().await);
    let store = TokenStore::in_memory();
    pass(&stage.oauth().store(store.clone()).build().unwrap(), &stage).await;
    let moved = OAuth::builder(UPSTREAM, &other.url).store(store).build().unwrap();
    fail(&moved, &other, "lyceum upstreams login up").await;
    assert!(other.asked("resource", "/mcp").iter().all(|one| one.authorization.is_none()));
}

#[tokio::test]
async fn many_requests_share_one_login() {
    let stage = Stage::set().await;
    let oauth = stage.oauth().build().unwrap();
    let mut requests = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (oauth, stage) = (oauth.clone(), stage.clone());
        requests.spawn(async move { pass(&oauth, &stage).await });
    }
    requests.join_all().await;
    assert_eq!(stage.counts(), (1, 1));
}

#[tokio::test]
async fn a_caller_that_gives_up_does_not_lose_the_refresh_token() {
    let stage = Stage::set().await;
    let oauth = stage.oauth().build().unwrap();
    pass(&oauth, &stage).await;
    stage.revoke();
    let closed = stage.gate.write().await;
    let request = tokio::spawn({
        let (oauth, url) = (oauth.clone(), stage.url.clone());
        async move { get(&oauth, &url).await.map_err(|error| error.to_string()) }
    });
    while stage.counts().1 < 2 {
        tokio::task::yield_now().await;
    }
    request.abort();
    assert!(request.await.unwrap_err().is_cancelled());
    drop(closed);
    pass(&oauth, &stage).await;
    assert_eq!(stage.counts(), (1, 2));
}

#[tokio::test]
async fn an_issuer_that_does_not_know_the_servers_scopes_registers_us_without_them() {
    let stage = Stage::set().await;
    stage.knobs().scopes = vec!["mcp:tools"];
    let oauth = stage.oauth().build().unwrap();
    pass(&oauth, &stage).await;
    let registrations = stage.asked("one", "/register");
    assert!(registrations[0].said.contains(r#""scope":"mcp:tools""#));
    assert!(!registrations[1].said.contains("scope"));
    // Whoever logs in is asked for them all the same.
    assert_eq!(member(&stage.asked("one", "/authorize")[0].said, "scope"), "mcp:tools");
}

#[tokio::test]
async fn a_configured_client_is_refreshed_with_the_secret_it_has_now() {
    let stage = Stage::set().await;
    let dir = tempfile::tempdir().unwrap();
    let sealer = Arc::new(Sealer::ephemeral());
    let store = || TokenStore::in_file(dir.path().join("tokens.json"), Arc::clone(&sealer));
    let with = |secret: &str| RegisteredClient {
        id: client("one"),
        proof: Proof::Secret(Secret::new(secret)),
        issuer: None,
    };
    pass(&stage.oauth().store(store()).client(with("old")).build().unwrap(), &stage).await;
    stage.revoke();
    let restarted = stage.unattended().store(store()).client(with("new")).build().unwrap();
    pass(&restarted, &stage).await;
    let used = stage.asked("one", "/token").pop().and_then(|one| one.authorization);
    assert_eq!(used, Some(format!("Basic {}", STANDARD.encode("client-of-one:new"))));
}

#[tokio::test]
async fn a_client_without_a_token_says_what_to_do() {
    let stage = Stage::set().await;
    let oauth = stage.unattended().build().unwrap();
    let service = oauth.around(stack::trusting(RootCertStore::empty()));
    let client = Client::builder(&stage.url).name("test", "1").service(service).build().unwrap();
    let error = client.connect().await.unwrap_err();
    assert!(matches!(error, ClientError::Credentials(_)), "{error:?}");
    assert!(error.is_unsent());
    assert!(chain(&error).contains("lyceum upstreams login up"), "{}", chain(&error));
}

/// The real network, with a list of where connections went.
#[derive(Clone, Default)]
struct Watched(Arc<Mutex<Vec<std::net::SocketAddr>>>);

impl Network for Watched {
    fn resolve<'a>(
        &'a self,
        _: &'a str,
        port: u16,
    ) -> NetworkFuture<'a, Vec<std::net::SocketAddr>> {
        // Every name leads into the machine.
        Box::pin(std::future::ready(Ok(vec![([127, 0, 0, 1], port).into()])))
    }

    fn connect(&self, address: std::net::SocketAddr) -> NetworkFuture<'_, tokio::net::TcpStream> {
        self.0.lock().unwrap().push(address);
        Box::pin(async move { SystemNetwork.connect(address).await })
    }
}

#[tokio::test]
async fn metadata_cannot_point_into_the_network_around_us() {
    for (named, reason) in [
        ("https://10.0.0.1", "trusted hosts if it is right: 10.0.0.1 is a private address"),
        ("https://169.254.169.254/latest", "a link-local address"),
        ("https://[::ffff:10.0.0.1]", "10.0.0.1"),
        ("https://rebound.test", "a loopback address"),
        ("http://as.test", "http is only used"),
        ("file:///etc/passwd", "names no host"),
        ("gopher://127.0.0.1", "not an https URL"),
    ] {
        let stage = Stage::set().await;
        let watched = Watched::default();
        let oauth = stage.oauth().network(watched.clone()).build().unwrap();
        stage.knobs().named = vec![named.to_owned()];
        fail(&oauth, &stage, reason).await;
        let connected = watched.0.lock().unwrap().clone();
        let own: std::net::SocketAddr =
            stage.url["http://".len()..].strip_suffix("/mcp").unwrap().parse().unwrap();
        assert!(connected.iter().all(|to| *to == own), "{named}: {connected:?}");
    }
}

/// A log in memory.
#[tokio::test]
async fn secrets_show_neither_in_logs_nor_in_errors() {
    let (log, _catching) = Log::catch();
    let stage = Stage::set().await;
    let client = RegisteredClient { issuer: None, ..registered(&stage) };
    let by_client = stage.unattended().grant(Grant::ClientCredentials).client(client);
    let sessions = [stage.oauth().build().unwrap(), by_client.build().unwrap()];
    let mut shown = String::new();
    for oauth in &sessions {
        pass(oauth, &stage).await;
        stage.revoke();
        pass(oauth, &stage).await;
        stage.revoke();
        stage.knobs().garbled = true;
        let error = get(oauth, &stage.url).await.unwrap_err();
        assert!(chain(&*error).contains("expires_in"), "{}", chain(&*error));
        shown += &format!("{error:?} {} {oauth:?}", chain(&*error));
        stage.knobs().garbled = false;
    }
    shown += &log.text();
    assert!(shown.contains("got a token") && shown.contains("got no token"), "{shown}");
    for secret in ["token-", "refresh-", "code-of-", "hunter"] {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
}
