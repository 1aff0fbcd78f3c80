//! [`Pipe`]: the server's end of a pair of byte streams, played by the test line by line.

use std::time::Duration;

use lyceum_http::client::{Client, ClientBuilder, ClientError, Peer};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex, split,
};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(1000);

pub(super) struct Pipe {
    input: BufReader<ReadHalf<DuplexStream>>,
    output: WriteHalf<DuplexStream>,
}

/// The client's end.
pub(super) type Ends = (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>);

impl Pipe {
    /// Both ends, with room for this many bytes on their way.
    pub(super) fn new(room: usize) -> (Pipe, Ends) {
        let (ours, theirs) = duplex(room);
        let (input, output) = split(ours);
        (Pipe { input: BufReader::new(input), output }, split(theirs))
    }

    /// The next line from the client.
    pub(super) async fn line(&mut self) -> String {
        let line = timeout(PATIENCE, self.next_line()).await.expect("a line in time");
        line.expect("the client is there")
    }

    /// The next line from the client, which has this method; its id.
    pub(super) async fn request(&mut self, method: &str) -> String {
        let line = self.line().await;
        assert!(line.contains(&format!(r#""method":"{method}""#)), "{line}");
        line.split(r#""id":"#).nth(1).unwrap().split(',').next().unwrap().to_owned()
    }

    /// The next line from the client; None if it hung up.
    pub(super) async fn next_line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.input.read_line(&mut line).await.unwrap();
        line.strip_suffix('\n').map(str::to_owned)
    }

    /// Says part of a line.
    pub(super) async fn say_part(&mut self, part: &str) {
        self.output.write_all(part.as_bytes()).await.unwrap();
    }

    pub(super) async fn say(&mut self, line: &str) {
        self.output.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Ends the server's output, not its input.
    pub(super) async fn say_no_more(&mut self) {
        self.output.shutdown().await.unwrap();
    }

    pub(super) async fn result(&mut self, id: &str, result: &str) {
        self.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)).await;
    }

    pub(super) async fn error(&mut self, id: &str, error: &str) {
        self.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)).await;
    }

    pub(super) async fn notify(&mut self, method: &str, params: &str) {
        self.say(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)).await;
    }

    /// Plays a server that knows `server/discover`.
    pub(super) async fn be_modern(&mut self) {
        let id = self.request("server/discover").await;
        self.result(&id, r#"{"supportedVersions":["2026-07-28"],"capabilities":{}}"#).await;
    }

    /// Plays a server that wants a handshake.
    pub(super) async fn be_legacy(&mut self) {
        let id = self.request("server/discover").await;
        self.error(&id, r#"{"code":-32601,"message":"what?"}"#).await;
        self.shake_hands().await;
    }

    pub(super) async fn shake_hands(&mut self) {
        let id = self.request("initialize").await;
        self.result(&id, r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}"#).await;
        self.request_less("notifications/initialized").await;
    }

    /// The next line from the client, which is this notification.
    pub(super) async fn request_less(&mut self, method: &str) -> String {
        let line = self.line().await;
        assert!(line.contains(&format!(r#""method":"{method}""#)), "{line}");
        line
    }
}

pub(super) fn client() -> ClientBuilder {
    Client::builder("").name("c", "1")
}

/// Connects to a server that the test plays.
pub(super) async fn meet(
    client: ClientBuilder,
    play: impl AsyncFnOnce(&mut Pipe),
) -> (Pipe, Result<Peer, ClientError>) {
    let (mut pipe, (reader, writer)) = Pipe::new(64 << 10);
    let (peer, ()) = tokio::join!(client.connect_over(reader, writer), play(&mut pipe));
    (pipe, peer)
}

pub(super) async fn modern() -> (Pipe, Peer) {
    let (pipe, peer) = meet(client(), Pipe::be_modern).await;
    (pipe, peer.unwrap())
}

pub(super) async fn legacy() -> (Pipe, Peer) {
    let (pipe, peer) = meet(client(), Pipe::be_legacy).await;
    (pipe, peer.unwrap())
}
