//! One TCP connection to a server, spoken to in exact bytes.

use std::future::Future;
use std::io;
use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Duration, sleep, timeout};

use crate::events::Events;
use crate::request::Request;
use crate::response::{Framing, Head, Response};

/// How long any read may take; a test that waits longer hangs and had better fail.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    buffer: BytesMut,
}

/// Where a body being read stands.
#[derive(Debug)]
pub(crate) struct Body {
    framing: Framing,
    left: usize,
    ended: bool,
}

impl Connection {
    /// Connects.
    ///
    /// # Panics
    /// When nobody listens.
    pub async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server accepts connections");
        stream.set_nodelay(true).expect("TCP_NODELAY can be set");
        Self { stream, buffer: BytesMut::new() }
    }

    /// Connects with a receive buffer of `bytes`, so that a server soon notices a slow reader.
    ///
    /// # Panics
    /// When nobody listens.
    pub async fn open_narrow(address: SocketAddr, bytes: u32) -> Self {
        let socket = TcpSocket::new_v4().expect("there is a socket to be had");
        socket.set_recv_buffer_size(bytes).expect("the buffer's size can be set");
        let stream = socket.connect(address).await.expect("the server accepts connections");
        Self { stream, buffer: BytesMut::new() }
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// When the server has closed the connection.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).await.expect("the server takes the request");
    }

    /// Sends bytes, to a server that may have hung up.
    ///
    /// # Errors
    /// When it has.
    pub async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref()).await
    }

    /// Sends bytes in pieces, pausing after each; stops when the server hangs up.
    pub async fn send_slowly(&mut self, bytes: &[u8], piece: usize, pause: Duration) {
        for piece in bytes.chunks(piece) {
            if self.try_send(piece).await.is_err() {
                return;
            }
            sleep(pause).await;
        }
    }

    /// Sends a request and reads its whole response.
    pub async fn call(&mut self, request: &Request) -> Response {
        self.send(request.to_bytes()).await;
        self.response().await
    }

    /// Sends a request and reads its response, if the server gives one.
    pub async fn try_call(&mut self, request: &Request) -> Option<Response> {
        self.try_send(request.to_bytes()).await.ok()?;
        self.try_response().await
    }

    /// Sends a request that is answered by a stream.
    ///
    /// # Panics
    /// When the answer is not an event stream.
    pub async fn stream(mut self, request: &Request) -> (Head, Events) {
        self.send(request.to_bytes()).await;
        let head = self.head().await.expect("the server answers");
        let content_type = head.get("content-type").unwrap_or_default();
        assert!(content_type.starts_with("text/event-stream"), "{head:?}");
        let body = Body::of(&head);
        (head, Events::new(self, body))
    }

    /// Reads a response.
    ///
    /// # Panics
    /// When the connection closes instead.
    pub async fn response(&mut self) -> Response {
        self.try_response().await.expect("the server answers")
    }

    /// Reads a response, if the server gives one.
    pub async fn try_response(&mut self) -> Option<Response> {
        let head = self.head().await?;
        let mut state = Body::of(&head);
        let mut body = Vec::new();
        while let Some(piece) = self.piece(&mut state).await {
            body.extend_from_slice(&piece);
        }
        Some(Response { head, body })
    }

    /// Reads a response's status and headers; `None` when the connection closes instead.
    pub async fn head(&mut self) -> Option<Head> {
        loop {
            let text = self.take_until(b"\r\n\r\n").await?;
            let text = String::from_utf8_lossy(&text).into_owned();
            let head = Head::parse(&text).unwrap_or_else(|| panic!("not a response: {text:?}"));
            if head.status >= 200 {
                return Some(head);
            }
        }
    }

    /// Reads at least `least` bytes as they come, framing and all; fewer when the server closes.
    pub async fn raw(&mut self, least: usize) -> Vec<u8> {
        while self.buffer.len() < least && self.fill().await {}
        let length = least.min(self.buffer.len());
        self.buffer.split_to(length).to_vec()
    }

    /// Waits until the server has closed the connection, and says how many bytes came before.
    pub async fn closed(&mut self) -> usize {
        while self.fill().await {}
        self.buffer.len()
    }

    /// Whether the server has closed the connection or does so within `patience`.
    pub async fn closes_within(&mut self, patience: Duration) -> bool {
        timeout(patience, self.closed()).await.is_ok()
    }

    /// Says that nothing more will be sent, and goes on reading.
    pub async fn finish_sending(&mut self) {
        drop(self.stream.shutdown().await);
    }

    /// Cuts the connection with a reset, as a crashed client does.
    pub fn reset(self) {
        drop(self.stream.set_zero_linger());
    }

    /// The next piece of a body; `None` at its end, or when the connection closes.
    pub(crate) async fn piece(&mut self, body: &mut Body) -> Option<Bytes> {
        if body.ended {
            return None;
        }
        if body.left == 0 {
            match body.framing {
                Framing::Length(_) => body.ended = true,
                Framing::Chunked => self.next_chunk(body).await?,
                Framing::UntilClose => body.left = usize::MAX,
            }
            if body.ended {
                return None;
            }
        }
        if self.buffer.is_empty() && !self.fill().await {
            body.ended = true;
            return None;
        }
        let piece = self.buffer.split_to(body.left.min(self.buffer.len())).freeze();
        body.left -= piece.len();
        if body.left == 0 && body.framing == Framing::Chunked {
            self.take_until(b"\r\n").await?;
        }
        Some(piece)
    }

    async fn next_chunk(&mut self, body: &mut Body) -> Option<()> {
        let line = self.take_until(b"\r\n").await?;
        let line = std::str::from_utf8(&line).expect("chunk sizes are ASCII");
        let size = line.trim().split(';').next().unwrap_or_default();
        body.left = usize::from_str_radix(size, 16).expect("a chunk starts with its size");
        if body.left == 0 {
            body.ended = true;
            self.take_until(b"\r\n").await?;
        }
        Some(())
    }

    async fn take_until(&mut self, end: &[u8]) -> Option<Bytes> {
        loop {
            let found = self.buffer.windows(end.len()).position(|window| window == end);
            if let Some(at) = found {
                return Some(self.buffer.split_to(at + end.len()).freeze());
            }
            if !self.fill().await {
                return None;
            }
        }
    }

    /// Reads more; `false` when the connection is closed.
    async fn fill(&mut self) -> bool {
        let read = self.stream.read_buf(&mut self.buffer);
        matches!(patiently(read).await, Ok(n) if n > 0)
    }
}

impl Body {
    pub(crate) fn of(head: &Head) -> Self {
        let framing = head.framing();
        let left = if let Framing::Length(length) = framing { length } else { 0 };
        Self { framing, left, ended: false }
    }
}

async fn patiently<T>(read: impl Future<Output = T>) -> T {
    timeout(PATIENCE, read).await.expect("the server answers in time")
}
