//! [`Script`]: a raw TCP server that answers requests from a list and remembers what it was sent.
//!
//! Nothing here knows HTTP beyond finding the end of a request, so that the bytes in a test are the
//! bytes on the wire.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

const PATIENCE: Duration = Duration::from_secs(10);

/// One answer: the first that fits a request is used, once.
pub(super) struct Scene {
    /// `GET`, `DELETE`, or what the body of a POST must contain.
    cue: &'static str,
    /// The answer; `$ID` becomes the id of the request.
    answer: String,
    /// What happens to the connection afterwards.
    then: Then,
    /// What is said on the last stream that was left open by a GET.
    aside: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Then {
    Close,
    /// The connection stays open, for another request or for nothing.
    Stay,
}

/// What happened, in order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    /// A request, as it came, but for the host and with `\n` line ends.
    Request(String),
    /// A client closed a connection on which an answer was still under way.
    HungUp(String),
    /// No scene was left for a request.
    Stuck(String),
}

pub(super) struct Script {
    address: SocketAddr,
    play: Arc<Play>,
    events: watch::Receiver<Vec<Event>>,
}

struct Play {
    scenes: std::sync::Mutex<Vec<Scene>>,
    events: watch::Sender<Vec<Event>>,
    n_connections: AtomicUsize,
    /// Leads to the last stream that was left open by a GET.
    stream: std::sync::Mutex<Option<mpsc::UnboundedSender<Vec<u8>>>>,
}

impl Scene {
    pub(super) fn new(cue: &'static str, answer: impl Into<String>, then: Then) -> Scene {
        Scene { cue, answer: answer.into(), then, aside: None }
    }

    /// The same, and these events on the open GET stream.
    pub(super) fn and_say(mut self, events: &str) -> Scene {
        self.aside = Some(events.to_owned());
        self
    }
}

/// A JSON-RPC result.
pub(super) fn result(cue: &'static str, result: &str) -> Scene {
    json(cue, 200, &format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{result}}}"#))
}

/// A JSON-RPC error with an HTTP status.
pub(super) fn error(cue: &'static str, status: u16, error: &str) -> Scene {
    json(cue, status, &format!(r#"{{"jsonrpc":"2.0","id":$ID,"error":{error}}}"#))
}

/// Any JSON answer; the length is added when the id is known.
pub(super) fn json(cue: &'static str, status: u16, body: &str) -> Scene {
    let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n");
    Scene::new(cue, format!("{head}content-length: $LENGTH\r\n\r\n{body}"), Then::Stay)
}

/// An answer without a body.
pub(super) fn status(cue: &'static str, status: u16) -> Scene {
    Scene::new(cue, format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n"), Then::Stay)
}

/// An event stream that ends after these events, or is left open.
pub(super) fn events(cue: &'static str, events: &str, then: Then) -> Scene {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    Scene::new(cue, format!("{head}{events}"), then)
}

/// A server that knows `server/discover`.
pub(super) fn modern() -> Scene {
    result("server/discover", r#"{"supportedVersions":["2026-07-28"],"capabilities":{}}"#)
}

/// A server that wants a handshake, gives out session `s1` and has no standing stream.
pub(super) fn legacy(version: &str) -> Vec<Scene> {
    vec![
        status("server/discover", 400),
        handshake("s1", version),
        status("notifications/initialized", 202),
    ]
}

/// The answer to `initialize`.
pub(super) fn handshake(session: &str, version: &str) -> Scene {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":$ID,"result":{{"protocolVersion":"{version}","capabilities":{{}}}}}}"#
    );
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: {session}\r\n"
    );
    let answer = format!("{head}content-length: $LENGTH\r\n\r\n{body}");
    Scene::new(r#""initialize""#, answer, Then::Stay)
}

impl Script {
    pub(super) async fn play(scenes: impl IntoIterator<Item = Scene>) -> Script {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, events) = watch::channel(Vec::new());
        let scenes = std::sync::Mutex::new(scenes.into_iter().collect());
        let play = Arc::new(Play {
            scenes,
            events: sender,
            n_connections: AtomicUsize::new(0),
            stream: std::sync::Mutex::default(),
        });
        let actors = Arc::clone(&play);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                actors.n_connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(perform(Arc::clone(&actors), stream));
            }
        });
        Script { address, play, events }
    }

    /// Adds scenes for what comes later.
    pub(super) fn add(&self, scenes: impl IntoIterator<Item = Scene>) {
        self.play.scenes.lock().unwrap().extend(scenes);
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) fn n_connections(&self) -> usize {
        self.play.n_connections.load(Ordering::Relaxed)
    }

    /// Everything that happened so far.
    pub(super) fn events(&self) -> Vec<Event> {
        self.events.borrow().clone()
    }

    /// The requests so far.
    pub(super) fn requests(&self) -> Vec<String> {
        let request = |event| match event {
            Event::Request(text) => Some(text),
            Event::Stuck(text) => panic!("nothing was scripted for {text}"),
            Event::HungUp(_) => None,
        };
        self.events().into_iter().filter_map(request).collect()
    }

    /// The body of request `n`.
    pub(super) fn body(&self, n: usize) -> String {
        self.requests()[n].split_once("\n\n").unwrap().1.to_owned()
    }

    /// Waits until a request that contains `part` has come, or a hang-up of one.
    pub(super) async fn wait_for(&self, wanted: impl Fn(&Event) -> bool) {
        let mut events = self.events.clone();
        let come = events.wait_for(|events| events.iter().any(&wanted));
        tokio::time::timeout(PATIENCE, come)
            .await
            .unwrap_or_else(|_| panic!("never came; so far: {:#?}", self.events()))
            .unwrap();
    }

    pub(super) async fn wait_for_request(&self, part: &str) {
        self.wait_for(|event| matches!(event, Event::Request(text) if text.contains(part))).await;
    }

    pub(super) async fn wait_for_hang_up(&self, part: &str) {
        self.wait_for(|event| matches!(event, Event::HungUp(text) if text.contains(part))).await;
    }
}

async fn perform(play: Arc<Play>, mut stream: TcpStream) {
    let mut buffer = Vec::new();
    while let Some((head, body)) = next_request(&mut stream, &mut buffer).await {
        let text = shown(&head, &body);
        play.events.send_modify(|events| events.push(Event::Request(text.clone())));
        let Some(scene) = play.scene(&head, &body) else {
            play.events.send_modify(|events| events.push(Event::Stuck(text)));
            return;
        };
        let stays = scene.then == Then::Stay && !scene.answer.contains("content-length");
        let said = (stays && head.starts_with("GET")).then(|| play.open());
        stream.write_all(&answer(&scene.answer, &body)).await.ok();
        if let Some(aside) = &scene.aside {
            play.say(answer(aside, &body));
        }
        if stays {
            // The answer goes on for ever: only the client can end it.
            hold(stream, said).await;
            play.events.send_modify(|events| events.push(Event::HungUp(text)));
            return;
        }
        if scene.then == Then::Close {
            return;
        }
    }
}

/// Keeps a connection open until the client closes it, and says there what other scenes want said.
async fn hold(mut stream: TcpStream, mut said: Option<mpsc::UnboundedReceiver<Vec<u8>>>) {
    let mut rest = [0; 64];
    loop {
        let next = async {
            match &mut said {
                Some(said) => said.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(text) = next => drop(stream.write_all(&text).await),
            read = stream.read(&mut rest) => if !matches!(read, Ok(1..)) { return },
        }
    }
}

impl Play {
    fn scene(&self, head: &str, body: &str) -> Option<Scene> {
        let mut scenes = self.scenes.lock().unwrap();
        let fits = |scene: &Scene| match scene.cue {
            "GET" | "DELETE" => head.starts_with(scene.cue),
            cue => head.starts_with("POST") && body.contains(cue),
        };
        let at = scenes.iter().position(fits)?;
        Some(scenes.remove(at))
    }

    fn open(&self) -> mpsc::UnboundedReceiver<Vec<u8>> {
        let (sender, said) = mpsc::unbounded_channel();
        *self.stream.lock().unwrap() = Some(sender);
        said
    }

    fn say(&self, text: Vec<u8>) {
        self.stream.lock().unwrap().as_ref().expect("a GET stream is open").send(text).unwrap();
    }
}

async fn next_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(String, String)> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(buffer[..end].to_vec()).unwrap();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().unwrap());
            if buffer.len() >= end + 4 + length {
                let body = buffer[end + 4..end + 4 + length].to_vec();
                buffer.drain(..end + 4 + length);
                return Some((head, String::from_utf8(body).unwrap()));
            }
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

/// A request as tests spell it.
fn shown(head: &str, body: &str) -> String {
    let lines =
        head.lines().map(|line| if line.starts_with("host: ") { "host: HOST" } else { line });
    let lines: Vec<&str> = lines.filter(|line| !line.starts_with("content-length: ")).collect();
    format!("{}\n\n{body}", lines.join("\n"))
}

/// An answer with its placeholders filled in.
fn answer(template: &str, request: &str) -> Vec<u8> {
    let id = request.split_once(r#""id":"#).map_or("", |(_, rest)| rest);
    let id = id.split([',', '}']).next().unwrap_or_default();
    let filled = template.replace("$ID", id);
    let length = filled.split_once("\r\n\r\n").map_or(0, |(_, body)| body.len());
    filled.replace("$LENGTH", &length.to_string()).into_bytes()
}
