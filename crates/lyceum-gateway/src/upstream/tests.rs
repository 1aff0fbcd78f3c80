//! Upstreams by themselves, in whose places others are.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use lyceum_http::{ByteBudget, Caller, Endpoint, ServeOptions, Site, serve};
use lyceum_server::{Resource, Server};
use lyceum_testkit::Server as Running;

use super::*;
use crate::names::UriForm;
use crate::oauth::TokenStore;
use crate::process::{AllowedCommands, Limits};

/// What was told, and to whom alone.
#[derive(Default)]
pub(super) struct Told(Mutex<Vec<(String, Option<Caller>)>>);

impl Audience for Told {
    fn listing_changed(&self) {}

    fn resource_updated(&self, _: &Upstream, uri: &str, only: Option<&Caller>) {
        lock(&self.0).push((uri.to_owned(), only.cloned()));
    }
}

pub(super) fn setting() -> Arc<Setting> {
    Arc::new(Setting {
        name: "gateway".to_owned(),
        version: "1".to_owned(),
        allowed_commands: Arc::new(AllowedCommands::new(["nothing"])),
        process_limits: Limits::default(),
        stack: crate::stack::stack(),
        tokens: TokenStore::in_memory(),
        uri_form: UriForm::default(),
        relist: Setting::RELIST,
        budget: Arc::new(ByteBudget::new(64 << 20)),
    })
}

pub(super) fn who(n: u8) -> Who {
    Who { caller: Caller::Session([n; 16]), capabilities: Bytes::from_static(b"{}") }
}

/// A server with one resource, and its URL.
async fn serving() -> (Server, Running, String) {
    let server = Server::builder("s", "1").resource(Resource::text("a:1", "a", "text")).build();
    let handler = server.clone();
    let running = Running::start(|listener, shutdown| async move {
        let site = Site::new().endpoint(Endpoint::builder("/mcp", handler).build().unwrap());
        let options = ServeOptions { drain: Duration::from_millis(50), ..ServeOptions::default() };
        serve(listener, site, options, shutdown).await.unwrap();
    })
    .await;
    let url = format!("http://{}/mcp", running.address());
    (server, running, url)
}

#[tokio::test]
async fn who_begins_to_watch_what_was_replaced_hears_from_what_is_in_its_place() {
    let (server, _running, url) = serving().await;
    for (then, now) in [
        (Share::Shared, Share::Shared),
        (Share::Shared, Share::PerSession),
        (Share::PerSession, Share::Shared),
        (Share::PerSession, Share::PerSession),
    ] {
        let config = UpstreamConfig::new("up", Target::Http(url.clone()));
        let at = |share| UpstreamConfig { share, ..config.clone() };
        let before = Upstream::new(at(then), setting(), None);
        let after = Arc::new(Upstream::new(at(now), setting(), Some(&before)));
        before.close().await;
        let told = Arc::<Told>::default();
        let task = tokio::spawn(supervise(Arc::clone(&after), told.clone()));
        after.shared().await.unwrap();
        // As whoever found the old one in the instant of a reload does.
        let watch = before.watched.stream(&who(1), vec!["a:1".to_owned()]);
        let only = (now == Share::PerSession).then(|| who(1).caller);
        let expected = ("a:1".to_owned(), only);
        let start = Instant::now();
        while lock(&told.0).is_empty() {
            assert!(start.elapsed() < Duration::from_secs(30), "{then:?} to {now:?}");
            server.resource_updated("a:1");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(lock(&told.0).iter().all(|told| *told == expected), "{then:?} to {now:?}");
        task.abort();
        after.close().await;
        drop(watch);
    }
}

#[tokio::test(start_paused = true)]
async fn lists_wait_for_an_upstream_that_is_new_and_was_not_tried() {
    let config = UpstreamConfig::new("up", Target::Http("http://127.0.0.1:9/mcp".to_owned()));
    let new = || Upstream::new(config.clone(), setting(), None);
    let (untried, tried, start) = (new(), new(), Instant::now());
    tried.set_link(Link::Down { reason: "gone".to_owned(), until: start });
    assert_eq!([untried.may_arrive(), tried.may_arrive()], [true, false]);
    tried.arrival().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    untried.arrival().await;
    assert_eq!((start.elapsed().as_secs(), untried.may_arrive()), (5, false));
    untried.arrival().await;
    assert_eq!(start.elapsed().as_secs(), 5, "once is enough");
}
