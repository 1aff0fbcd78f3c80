//! One blocking connection for everything that is not load: checks, sessions, counted requests.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::answer::{self, Answer};
use crate::echo::TEXT;

const PATIENCE: Duration = Duration::from_secs(30);
const READ_BYTES: usize = 16 * 1024;

#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    port: u16,
    buffer: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(port: u16) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).context("connecting")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, port, buffer: Vec::new() })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Sends a request and reads its whole answer.
    pub(crate) fn call(&mut self, request: &[u8]) -> anyhow::Result<Answer> {
        self.stream.write_all(request)?;
        loop {
            if let Some(frame) = answer::frame(&self.buffer)? {
                let answer = Answer::new(&self.buffer, &frame);
                self.buffer.drain(..frame.end);
                return Ok(answer);
            }
            self.read_more()?;
        }
    }

    /// Sends the same request `count` times, one after the other, and requires the text each time.
    pub(crate) fn repeat(&mut self, request: &[u8], count: u64) -> anyhow::Result<()> {
        for _ in 0..count {
            let answer = self.call(request)?;
            let text = memchr::memmem::find(&answer.body, TEXT.as_bytes());
            ensure!(answer.status == 200 && text.is_some(), "answered {}", answer.text());
        }
        Ok(())
    }

    /// Sends a request whose answer never ends, and reads its head only.
    pub(crate) fn open(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.stream.write_all(request)?;
        loop {
            if let Some((status, end)) = answer::head(&self.buffer)? {
                ensure!(status == 200, "a stream was answered {status}");
                self.buffer.drain(..end);
                return Ok(());
            }
            self.read_more()?;
        }
    }

    /// Gives the buffer back: a held stream costs the holder only its socket.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    fn read_more(&mut self) -> io::Result<()> {
        let filled = self.buffer.len();
        self.buffer.resize(filled + READ_BYTES, 0);
        let read = self.stream.read(&mut self.buffer[filled..]);
        self.buffer.truncate(filled + *read.as_ref().unwrap_or(&0));
        match read? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}
