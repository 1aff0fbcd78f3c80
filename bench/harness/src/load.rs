//! The load generator: a fixed set of connections, each with one request in flight, on one thread.
//!
//! Every answer is read whole and must carry the echoed text; anything else is a failure. With a load
//! that never waits, latencies say something only beside those of the same load on something else.

use std::io::{self, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use memchr::memmem::Finder;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::answer;
use crate::echo::TEXT;

/// Larger than any answer to the echo.
const BUFFER_BYTES: usize = 16 * 1024;
/// How long the last answers may take once no more requests are sent.
const GRACE: Duration = Duration::from_secs(5);

pub(crate) struct Load {
    poll: Poll,
    connections: Vec<Connection>,
    port: u16,
    text: Finder<'static>,
    waiting: Waiting,
}

/// What the generator does while no answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// It sleeps, and the server pays for waking it.
    Asleep,
    /// It looks again and again, and whoever shares its core goes first.
    Awake,
}

/// What a run came to.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) answers: u64,
    pub(crate) failures: u64,
    pub(crate) elapsed: Duration,
    /// Of each good answer, in the order they came.
    pub(crate) latencies: Vec<Duration>,
}

struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    buffer: Box<[u8]>,
    filled: usize,
    sent: Instant,
}

enum Progress {
    Partial,
    Answered,
    Refused,
}

impl Load {
    /// One connection per request of `requests`.
    pub(crate) fn open(
        port: u16,
        requests: Vec<Vec<u8>>,
        waiting: Waiting,
    ) -> anyhow::Result<Self> {
        let poll = Poll::new()?;
        let mut connections = Vec::with_capacity(requests.len());
        for request in requests {
            let mut stream = connect(port)?;
            let token = Token(connections.len());
            poll.registry().register(&mut stream, token, Interest::READABLE)?;
            let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
            connections.push(Connection {
                stream,
                request,
                buffer,
                filled: 0,
                sent: Instant::now(),
            });
        }
        Ok(Self { poll, connections, port, text: Finder::new(TEXT), waiting })
    }

    /// Keeps every connection busy for `duration`, then waits for the answers still due.
    pub(crate) fn run(&mut self, duration: Duration) -> anyhow::Result<Tally> {
        let start = Instant::now();
        let mut tally = Tally::default();
        let mut due = self.connections.len();
        for connection in &mut self.connections {
            connection.send().context("sending the first requests")?;
        }
        let mut events = Events::with_capacity(self.connections.len());
        let mut heard = start;
        while due > 0 {
            self.wait(&mut events)?;
            let now = Instant::now();
            if !events.is_empty() {
                heard = now;
            }
            let elapsed = now - start;
            let silent = now - heard >= GRACE;
            ensure!(elapsed < duration + GRACE && !silent, "{due} answers never came");
            for event in &events {
                let index = event.token().0;
                if self.advance(index, &mut tally)? {
                    if elapsed >= duration {
                        due -= 1;
                    } else if self.connections[index].send().is_err() {
                        tally.failures += 1;
                        self.reconnect(index)?;
                        self.connections[index].send()?;
                    }
                }
            }
        }
        tally.elapsed = start.elapsed();
        Ok(tally)
    }

    /// Waits for answers; there may be none after all.
    fn wait(&mut self, events: &mut Events) -> io::Result<()> {
        let patience = match self.waiting {
            Waiting::Asleep => GRACE,
            Waiting::Awake => Duration::ZERO,
        };
        match self.poll.poll(events, Some(patience)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            outcome => outcome?,
        }
        if self.waiting == Waiting::Awake && events.is_empty() {
            thread::yield_now();
        }
        Ok(())
    }

    /// Reads what has come; true when the connection is free for its next request.
    fn advance(&mut self, index: usize, tally: &mut Tally) -> anyhow::Result<bool> {
        match self.connections[index].read(&self.text) {
            Ok(Progress::Partial) => return Ok(false),
            Ok(Progress::Answered) => {
                tally.answers += 1;
                tally.latencies.push(self.connections[index].sent.elapsed());
            }
            Ok(Progress::Refused) => tally.failures += 1,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(_) => {
                tally.failures += 1;
                self.reconnect(index)?;
            }
        }
        Ok(true)
    }

    fn reconnect(&mut self, index: usize) -> anyhow::Result<()> {
        let connection = &mut self.connections[index];
        connection.stream = connect(self.port).context("the server takes no more connections")?;
        connection.filled = 0;
        let registry = self.poll.registry();
        registry.register(&mut connection.stream, Token(index), Interest::READABLE)?;
        Ok(())
    }
}

impl Connection {
    /// A request fits an idle socket's buffer; if it does not, the connection is of no use.
    fn send(&mut self) -> io::Result<()> {
        self.sent = Instant::now();
        match self.stream.write(&self.request)? {
            written if written == self.request.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    // One read per readiness event is enough although events are edge-triggered: nothing more comes
    // after a whole answer, and the rest of a partial one raises another event.
    fn read(&mut self, text: &Finder<'_>) -> io::Result<Progress> {
        match self.stream.read(&mut self.buffer[self.filled..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => self.filled += read,
        }
        let bytes = &self.buffer[..self.filled];
        let frame = answer::frame(bytes)
            .map_err(|malformed| io::Error::new(io::ErrorKind::InvalidData, malformed))?;
        let Some(frame) = frame else { return Ok(Progress::Partial) };
        let good = frame.status == 200 && text.find(&bytes[frame.head..frame.end]).is_some();
        self.filled = 0;
        Ok(if good { Progress::Answered } else { Progress::Refused })
    }
}

fn connect(port: u16) -> anyhow::Result<TcpStream> {
    let stream = std::net::TcpStream::connect(("127.0.0.1", port)).context("connecting")?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(TcpStream::from_std(stream))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A server that answers each connection's requests with `answers` in turn, then closes it.
    fn serve(answers: &'static [&'static str]) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                for answer in answers {
                    let mut request = [0; 16];
                    if stream.read(&mut request).unwrap_or(0) == 0 {
                        break;
                    }
                    let body = answer.replace("TEXT", TEXT);
                    let status = if body.starts_with('!') { 500 } else { 200 };
                    let length = body.len();
                    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n");
                    stream.write_all((head + &body).as_bytes()).unwrap();
                }
            }
        });
        port
    }

    /// Runs against `answers` and says whether there were any good answers and any failures.
    fn check(answers: &'static [&'static str], good: bool, failed: bool) {
        for waiting in [Waiting::Asleep, Waiting::Awake] {
            let requests = vec![b"request".to_vec()];
            let mut load = Load::open(serve(answers), requests, waiting).unwrap();
            let tally = load.run(Duration::from_millis(50)).unwrap();
            assert_eq!((tally.answers > 0, tally.failures > 0), (good, failed));
        }
    }

    #[test]
    fn an_answer_without_the_text_a_bad_status_and_a_closed_connection_are_failures() {
        const STEADY: &[&str] = &["TEXT"; 100_000];
        check(STEADY, true, false);
        check(&["TEXT"], true, true);
        check(&["other"; 100_000], false, true);
        check(&["!TEXT"; 100_000], false, true);
    }
}
