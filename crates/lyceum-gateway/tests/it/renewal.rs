//! Sessions whose stream breaks while they are in use: opened again, and nobody notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lyceum_gateway::{Target, UpstreamConfig};
use lyceum_testkit::Server as Running;
use lyceum_wire::{Revision, RevisionSet};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::house::{House, Way, fixture_upstream, text};

/// What lies between the gateway and an upstream, and can be cut.
struct Cable {
    running: Running,
    cut: watch::Sender<()>,
    n_streams: Arc<AtomicUsize>,
}

impl Cable {
    async fn to(target: String) -> Cable {
        let (cut, n_streams) = (watch::Sender::new(()), Arc::<AtomicUsize>::default());
        let (cutting, counting) = (cut.clone(), Arc::clone(&n_streams));
        let running = Running::start(|listener, _| async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(&target).await.unwrap();
                let mut cut = cutting.subscribe();
                let pass = pass(near, far, Arc::clone(&counting));
                tokio::spawn(async move {
                    tokio::select! {
                        () = pass => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        })
        .await;
        Cable { running, cut, n_streams }
    }
}

/// Counts requests for streams, which may come over any connection; each begins what is read at once.
async fn pass(mut near: TcpStream, mut far: TcpStream, n_streams: Arc<AtomicUsize>) {
    let (mut from_near, mut to_near) = near.split();
    let (mut from_far, mut to_far) = far.split();
    let there = async {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = from_near.read(&mut buffer).await {
            if buffer.starts_with(b"GET ") {
                n_streams.fetch_add(1, Ordering::SeqCst);
            }
            if to_far.write_all(&buffer[..n]).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = there => {}
        _ = copy(&mut from_far, &mut to_near) => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_is_opened_again_and_no_call_fails() {
    let (config, upstream) = fixture_upstream(Way::HttpSse, RevisionSet::LEGACY).await;
    let cable = Cable::to(upstream.as_ref().unwrap().address().to_string()).await;
    let target = Target::HttpSse(format!("http://{}/sse", cable.running.address()));
    let house = House::with(vec![UpstreamConfig { target, ..config }], upstream).await;
    let peer = house.client_with(Revision::V2026_07_28, (), "{}").await;
    assert_eq!(text(&peer, "up_echo", json!({"text": "a"})).await.unwrap(), "a");
    assert_eq!(cable.n_streams.load(Ordering::SeqCst), 1);
    cable.cut.send_replace(());
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        assert_eq!(text(&peer, "up_echo", json!({"text": "b"})).await.unwrap(), "b");
    }
    // One in place of one, or two if the first was followed by a request over a connection that was cut.
    let n_streams = cable.n_streams.load(Ordering::SeqCst);
    assert!((2..=3).contains(&n_streams), "{n_streams} streams");
}
