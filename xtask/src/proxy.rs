//! A TCP proxy that cuts one connection in the middle of an answer, to see whether a client and
//! the server find together again.
//!
//! It knows no HTTP: the cut comes right after the first bytes that contain a marker.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result};

/// Stops accepting when dropped; open connections end with their peers.
#[derive(Debug)]
pub(crate) struct CuttingProxy {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    upstream: SocketAddr,
    marker: &'static [u8],
    has_cut: AtomicBool,
    is_stopped: AtomicBool,
}

impl CuttingProxy {
    /// Listens on a free loopback port; the first answer that shows the marker is cut after it.
    pub(crate) fn start(upstream: SocketAddr, marker: &'static [u8]) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("binding the cutting proxy")?;
        let address = listener.local_addr()?;
        let has_cut = AtomicBool::new(false);
        let is_stopped = AtomicBool::new(false);
        let state = Arc::new(State { upstream, marker, has_cut, is_stopped });
        let shared = Arc::clone(&state);
        thread::spawn(move || accept(&listener, &shared));
        Ok(Self { address, state })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether the one cut has happened.
    pub(crate) fn has_cut(&self) -> bool {
        self.state.has_cut.load(Ordering::SeqCst)
    }
}

impl Drop for CuttingProxy {
    fn drop(&mut self) {
        self.state.is_stopped.store(true, Ordering::SeqCst);
        // One last connection wakes the accepting thread, so that it sees the flag.
        let _ = TcpStream::connect(self.address);
    }
}

fn accept(listener: &TcpListener, state: &Arc<State>) {
    for client in listener.incoming() {
        if state.is_stopped.load(Ordering::SeqCst) {
            return;
        }
        let (Ok(client), Ok(server)) = (client, TcpStream::connect(state.upstream)) else {
            continue;
        };
        // Without this the proxy would delay small events by itself.
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (Ok(client_reader), Ok(server_writer)) = (client.try_clone(), server.try_clone())
        else {
            continue;
        };
        let state = Arc::clone(state);
        thread::spawn(move || requests(client_reader, server_writer));
        thread::spawn(move || answers(server, client, &state));
    }
}

fn requests(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 16 * 1024];
    while let Some(bytes) = receive(&mut from, &mut buffer) {
        if to.write_all(bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn answers(mut from: TcpStream, mut to: TcpStream, state: &State) {
    let mut buffer = [0; 16 * 1024];
    // The marker may lie across two reads, so the end of the last one is looked at again.
    let mut seen = Vec::new();
    while let Some(bytes) = receive(&mut from, &mut buffer) {
        if to.write_all(bytes).is_err() {
            break;
        }
        seen.extend_from_slice(bytes);
        let found = seen.windows(state.marker.len()).any(|window| window == state.marker);
        if found && !state.has_cut.swap(true, Ordering::SeqCst) {
            break;
        }
        let keep = state.marker.len() - 1;
        seen.drain(..seen.len().saturating_sub(keep));
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// The next bytes, or none once the peer is gone.
fn receive<'a>(from: &mut TcpStream, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    loop {
        match from.read(buffer) {
            Ok(0) => return None,
            Ok(n) => return Some(&buffer[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends `answer` to everyone; what a client receives through the proxy.
    fn through(proxy: &CuttingProxy) -> Vec<u8> {
        let mut client = TcpStream::connect(proxy.address()).unwrap();
        let mut received = Vec::new();
        let _ = client.read_to_end(&mut received);
        received
    }

    #[test]
    fn only_the_first_marked_answer_is_cut() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let upstream = listener.local_addr().unwrap();
        thread::spawn(move || {
            for client in listener.incoming() {
                let mut client = client.unwrap();
                client.write_all(b"one MAR").unwrap();
                thread::sleep(std::time::Duration::from_millis(30));
                client.write_all(b"KER").unwrap();
                thread::sleep(std::time::Duration::from_millis(30));
                let _ = client.write_all(b" two");
            }
        });
        let proxy = CuttingProxy::start(upstream, b"MARKER").unwrap();
        assert!(!proxy.has_cut());
        assert_eq!(through(&proxy), b"one MARKER");
        assert!(proxy.has_cut());
        assert_eq!(through(&proxy), b"one MARKER two");
    }
}
