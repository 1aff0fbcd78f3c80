//! What the tests act on: a made-up network, servers with fixed answers, a trap.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as Trap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::client::safe_dialer::{Network, NetworkFuture, Stream};

/// A public address; the made-up network leads it to a server of the test.
pub(super) const PUBLIC: IpAddr = IpAddr::V4(Ipv4Addr::new(93, 184, 215, 14));

/// Names and addresses as a test wants them. Other addresses are really connected to, so that a
/// dialer that forgets to judge falls into the trap.
#[derive(Clone, Default)]
pub(super) struct Stage(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// What a name resolves to: the n-th look-up gets the n-th answer, the last one stays.
    names: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    detours: Mutex<HashMap<IpAddr, SocketAddr>>,
    lookups: AtomicUsize,
    connected: Mutex<Vec<IpAddr>>,
}

impl Stage {
    pub(super) fn name(self, name: &str, answers: &[&[IpAddr]]) -> Stage {
        let answers = answers.iter().map(|answer| answer.to_vec()).collect();
        self.0.names.lock().unwrap().insert(name.to_owned(), answers);
        self
    }

    pub(super) fn detour(self, from: IpAddr, to: SocketAddr) -> Stage {
        self.0.detours.lock().unwrap().insert(from, to);
        self
    }

    pub(super) fn lookups(&self) -> usize {
        self.0.lookups.load(Ordering::Relaxed)
    }

    pub(super) fn connected(&self) -> Vec<IpAddr> {
        self.0.connected.lock().unwrap().clone()
    }
}

impl Network for Stage {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> NetworkFuture<'a, Vec<SocketAddr>> {
        self.0.lookups.fetch_add(1, Ordering::Relaxed);
        let mut names = self.0.names.lock().unwrap();
        let found = names.get_mut(host).map(|answers| match answers.len() {
            1 => answers[0].clone(),
            _ => answers.remove(0),
        });
        let found = found.ok_or_else(|| io::Error::from(ErrorKind::NotFound));
        let found = found.map(|all| all.into_iter().map(|ip| SocketAddr::new(ip, port)).collect());
        Box::pin(std::future::ready(found))
    }

    fn connect(&self, address: SocketAddr) -> NetworkFuture<'_, TcpStream> {
        self.0.connected.lock().unwrap().push(address.ip());
        let detour = self.0.detours.lock().unwrap().get(&address.ip()).copied();
        Box::pin(TcpStream::connect(detour.unwrap_or(address)))
    }
}

/// Listens on loopback, and must never be connected to.
pub(super) struct EmptyTrap {
    v4: Trap,
    v6: Option<Trap>,
    pub(super) port: u16,
}

impl EmptyTrap {
    pub(super) fn set() -> EmptyTrap {
        let v4 = Trap::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = v4.local_addr().unwrap().port();
        // Machines without IPv6 have nothing to fall into there.
        let v6 = Trap::bind((Ipv6Addr::LOCALHOST, port)).ok();
        v4.set_nonblocking(true).unwrap();
        v6.iter().for_each(|v6| v6.set_nonblocking(true).unwrap());
        EmptyTrap { v4, v6, port }
    }

    #[track_caller]
    pub(super) fn assert_empty(&self, context: &str) {
        // A connection to loopback is in the queue before `connect` returns.
        for trap in [Some(&self.v4), self.v6.as_ref()].into_iter().flatten() {
            let kind = trap.accept().map(drop).map_err(|error| error.kind());
            assert_eq!(kind, Err(ErrorKind::WouldBlock), "{context}: somebody is in the trap");
        }
    }
}

/// A server that gives the n-th connection the n-th answer, the last one again and again, and keeps
/// what it was asked.
pub(super) struct Canned {
    pub(super) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Canned {
    pub(super) async fn serve(answers: &[String]) -> Canned {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let canned = Canned { address: listener.local_addr().unwrap(), asked: Arc::clone(&asked) };
        let answers = answers.to_vec();
        tokio::spawn(async move {
            for n in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let answer = answers[n.min(answers.len() - 1)].clone();
                let asked = Arc::clone(&asked);
                tokio::spawn(async move { reply(stream, &answer, &asked).await });
            }
        });
        canned
    }

    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

pub(super) async fn reply(mut stream: impl Stream, answer: &str, asked: &Mutex<Vec<String>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    asked.lock().unwrap().push(String::from_utf8(head).unwrap());
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// An answer with a body.
pub(super) fn ok(headers: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
}

/// An answer that points elsewhere.
pub(super) fn see(status: u16, location: &str) -> String {
    format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nlocation: {location}\r\n\r\n")
}
