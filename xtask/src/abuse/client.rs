//! Abusive clients: threads that send requests made beforehand, in the manner of their case, until
//! they are told to stop. They mostly wait, and run at a low priority, so that the processor is left to
//! the server and the bystander.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::child::{self, ChildCommand};
use super::http::HttpConnection;
use super::request::{RequestBytes, fresh};
use crate::stopwatch::Stopwatch;

/// How long a client waits for an answer before it gives up.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of an answer that are read; a server that made more has paid for it already.
const MOST_ANSWER: usize = 32 << 20;
/// A bound for every loop, far above what the time allows.
const MOST_REQUESTS: u64 = 1_000_000;
/// How often a client that waits looks whether it shall stop.
const LOOK: Duration = Duration::from_millis(100);
/// The niceness of abusive clients: what they take from the bystander is not the server's doing.
const NICENESS: i32 = 10;

/// How a client treats the server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Manner {
    /// Reads each answer, then sends the next request after a pause.
    Patient,
    /// Hangs up after this long, answer or not.
    HangUp(Duration),
    /// Sends and keeps the connection, up to so many of them, reading nothing.
    Hold(usize),
    /// Sends the head and then a byte of the body at a time.
    SendSlowly,
    /// Reads a few bytes of the answer at a time.
    ReadSlowly,
    /// Sends everything without waiting for answers and reads what comes, until the server closes or
    /// falls silent, and not longer than this.
    Flood(Duration),
    /// Gives the bytes to a process of the program as its input.
    Feed(ChildCommand),
}

/// Where an attack goes.
#[derive(Debug, Clone)]
pub(super) struct AttackTarget {
    pub(super) address: SocketAddr,
    pub(super) program: PathBuf,
    pub(super) data: PathBuf,
}

/// Clients that do the same.
#[derive(Debug, Clone)]
pub(super) struct AbusiveClient {
    /// How many of them there are.
    pub(super) n: usize,
    pub(super) manner: Manner,
    /// What each sends, in turn and from the beginning again.
    pub(super) requests: Vec<RequestBytes>,
    /// The pause after each request.
    pub(super) pause: Duration,
}

/// Abusive clients at work.
#[derive(Debug)]
pub(super) struct Assault {
    stop: Arc<AtomicBool>,
    answered: Arc<AnswerCounts>,
    threads: Vec<JoinHandle<()>>,
}

/// How requests of abusive clients ended.
#[derive(Debug, Default)]
pub(super) struct AnswerCounts {
    pub(super) sent: AtomicU64,
    pub(super) done: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) cut: AtomicU64,
    /// KiB at the peak of the largest process that a client started.
    child_kib: AtomicU64,
}

impl AnswerCounts {
    pub(super) fn note_child(&self, mib: f64) {
        self.child_kib.fetch_max((mib * 1024.0) as u64, Ordering::Relaxed);
    }

    pub(super) fn child_mib(&self) -> f64 {
        self.child_kib.load(Ordering::Relaxed) as f64 / 1024.0
    }
}

impl AbusiveClient {
    /// One client that waits for each answer.
    pub(super) fn patient(requests: Vec<RequestBytes>) -> Self {
        Self { n: 1, manner: Manner::Patient, requests, pause: Duration::from_millis(50) }
    }

    pub(super) fn times(self, n: usize) -> Self {
        Self { n, ..self }
    }

    pub(super) fn manner(self, manner: Manner) -> Self {
        Self { manner, ..self }
    }

    pub(super) fn pause(self, millis: u64) -> Self {
        Self { pause: Duration::from_millis(millis), ..self }
    }

    fn run(&self, target: &AttackTarget, stop: &Arc<AtomicBool>, counts: &AnswerCounts) {
        lower_priority();
        // Numbers of all clients of this process, so that what is fresh stays fresh.
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let mut held = Vec::new();
        for turn in 0..MOST_REQUESTS {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let request = &self.requests[turn as usize % self.requests.len()];
            let number = fresh(NUMBERS.fetch_add(1, Ordering::Relaxed));
            counts.sent.fetch_add(1, Ordering::Relaxed);
            let sent = match self.manner {
                Manner::Feed(command) => {
                    let input = request.pieces(&number).concat();
                    let ended = child::feed(command, target, input, stop, counts);
                    ended.map(|ended| ended.then_some(200)).map_err(io::Error::other)
                }
                _ => self.send(target.address, request, &number, stop, &mut held),
            };
            match sent {
                Ok(Some(status)) if status < 400 => &counts.done,
                Ok(Some(_)) => &counts.refused,
                Ok(None) | Err(_) => &counts.cut,
            }
            .fetch_add(1, Ordering::Relaxed);
            wait(self.pause, stop);
        }
    }

    fn send(
        &self,
        address: SocketAddr,
        request: &RequestBytes,
        number: &str,
        stop: &Arc<AtomicBool>,
        held: &mut Vec<HttpConnection>,
    ) -> io::Result<Option<u16>> {
        if let Manner::Hold(most) = self.manner
            && held.len() >= most
        {
            // The oldest goes, as with a browser that opens page after page.
            wait(Duration::from_secs(1), stop);
            held.remove(0);
        }
        let mut connection = HttpConnection::open(address, PATIENCE)?.until(stop)?;
        if self.manner == Manner::SendSlowly {
            return trickle(&mut connection, &request.whole(0), request.body, stop);
        }
        if let Manner::Flood(limit) = self.manner {
            connection.send_aside(request.pieces(number).concat())?;
            let ended = discard(&mut connection, limit, stop);
            connection.close();
            return ended;
        }
        for piece in request.pieces(number) {
            // A server that has refused already closes; its answer is still worth reading.
            if connection.send(piece).is_err() {
                break;
            }
        }
        match self.manner {
            Manner::HangUp(after) => wait(after, stop),
            Manner::Hold(_) => held.push(connection),
            Manner::ReadSlowly => sip(&mut connection, stop)?,
            Manner::Patient | Manner::SendSlowly | Manner::Flood(_) | Manner::Feed(_) => {
                let answer = connection.answer(MOST_ANSWER, PATIENCE);
                return Ok(answer.ok().map(|answer| answer.status));
            }
        }
        Ok(None)
    }
}

impl Assault {
    /// Starts all clients against a server.
    pub(super) fn start(target: &AttackTarget, clients: &[AbusiveClient]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let answered = Arc::new(AnswerCounts::default());
        let mut threads = Vec::new();
        for client in clients {
            for _ in 0..client.n {
                let (client, stop) = (client.clone(), Arc::clone(&stop));
                let (target, answered) = (target.clone(), Arc::clone(&answered));
                threads.push(thread::spawn(move || client.run(&target, &stop, &answered)));
            }
        }
        Self { stop, answered, threads }
    }

    /// Hangs up on everything.
    pub(super) fn stop(self) -> Arc<AnswerCounts> {
        self.stop.store(true, Ordering::Relaxed);
        let watch = Stopwatch::start();
        for thread in self.threads {
            while !thread.is_finished() && !watch.is_past(Duration::from_secs(2)) {
                thread::sleep(Duration::from_millis(5));
            }
        }
        self.answered
    }
}

fn wait(duration: Duration, stop: &AtomicBool) {
    let watch = Stopwatch::start();
    while !stop.load(Ordering::Relaxed) && !watch.is_past(duration) {
        thread::sleep(LOOK.min(duration.saturating_sub(watch.elapsed())));
    }
}

/// Gives the calling thread, and the processes it starts, a low priority.
#[cfg(target_os = "linux")]
fn lower_priority() {
    // Without it the numbers are only worse.
    let _ = rustix::process::setpriority_process(None, NICENESS);
}

#[cfg(not(target_os = "linux"))]
fn lower_priority() {
    let _ = NICENESS;
}

/// Reads and forgets what comes; the status 200 when the server closed, nothing when it fell silent or
/// time ran out.
fn discard(
    connection: &mut HttpConnection,
    limit: Duration,
    stop: &AtomicBool,
) -> io::Result<Option<u16>> {
    const LONGEST_SILENCE: u32 = 5;
    let watch = Stopwatch::start();
    let mut silence = 0;
    while !stop.load(Ordering::Relaxed) && !watch.is_past(limit) && silence < LONGEST_SILENCE {
        match connection.sip(1 << 16, LOOK)? {
            Some(0) => return Ok(Some(200)),
            Some(_) => silence = 0,
            None => silence += 1,
        }
    }
    Ok(None)
}

/// Sends the body a byte at a time.
fn trickle(
    connection: &mut HttpConnection,
    request: &[u8],
    body: usize,
    stop: &AtomicBool,
) -> io::Result<Option<u16>> {
    connection.send(&request[..body])?;
    for byte in request[body..].chunks(1) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        connection.send(byte)?;
        thread::sleep(LOOK);
    }
    Ok(None)
}

/// Reads the answer a few bytes at a time.
fn sip(connection: &mut HttpConnection, stop: &AtomicBool) -> io::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        if connection.sip(64, LOOK)? == Some(0) {
            break;
        }
        thread::sleep(LOOK);
    }
    Ok(())
}
