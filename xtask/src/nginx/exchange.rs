//! One HTTP exchange on a raw socket, with the moments at which its parts arrived.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::stopwatch::Stopwatch;

const READ_LIMIT: Duration = Duration::from_secs(20);

/// What came back, and how much of it had come when.
#[derive(Debug)]
pub(super) struct Exchange {
    text: String,
    arrivals: Vec<(Duration, usize)>,
}

/// One request: where it goes and what it says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Post<'a> {
    pub(super) path: &'a str,
    pub(super) accept: &'a str,
    /// Further header lines.
    pub(super) headers: &'a str,
    pub(super) body: &'a str,
}

/// Sends one JSON-RPC message.
fn send(address: SocketAddr, post: Post<'_>, read_limit: Duration) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address).context("connecting to nginx")?;
    stream.set_read_timeout(Some(read_limit))?;
    let Post { path, accept, headers, body } = post;
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nAccept: {accept}\r\n\
         {headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes())?;
    Ok(stream)
}

/// Sends a message whose answer does not end by itself; how long its first event took, if it came in time.
pub(super) fn first_event(
    address: SocketAddr,
    post: Post<'_>,
    limit: Duration,
) -> Result<Option<Duration>> {
    let watch = Stopwatch::start();
    let mut stream = send(address, post, limit)?;
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while !watch.is_past(limit) {
        let n = match stream.read(&mut buffer) {
            Ok(n) => n,
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {
                return Ok(None);
            }
            Err(error) => return Err(error).context("reading through nginx"),
        };
        ensure!(n > 0, "the stream ended:\n{text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..n]));
        if text.contains("\ndata: {") {
            ensure!(text.starts_with("HTTP/1.1 200 "), "the answer is not 200:\n{text}");
            return Ok(Some(watch.elapsed()));
        }
    }
    Ok(None)
}

/// Sends one JSON-RPC message and reads until the peer closes.
pub(super) fn exchange(address: SocketAddr, post: Post<'_>) -> Result<Exchange> {
    let watch = Stopwatch::start();
    let mut stream = send(address, post, READ_LIMIT)?;
    let mut bytes = Vec::new();
    let mut arrivals = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        let n = stream.read(&mut buffer).context("reading through nginx")?;
        if n == 0 {
            break;
        }
        bytes.extend_from_slice(&buffer[..n]);
        arrivals.push((watch.elapsed(), bytes.len()));
    }
    let text = String::from_utf8(bytes).context("the answer is not text")?;
    ensure!(text.starts_with("HTTP/1.1 200 "), "the answer is not 200:\n{text}");
    Ok(Exchange { text, arrivals })
}

impl Exchange {
    /// Everything after the head.
    pub(super) fn body(&self) -> &str {
        self.text.split_once("\r\n\r\n").map_or("", |(_, body)| body)
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let (head, _) = self.text.split_once("\r\n\r\n")?;
        let mut fields = head.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// The time between the first progress report and the result.
    pub(super) fn gap(&self) -> Result<Duration> {
        let progress = self.arrival_of("notifications/progress")?;
        let result = self.arrival_of("\"result\"")?;
        Ok(result.saturating_sub(progress))
    }

    fn arrival_of(&self, part: &str) -> Result<Duration> {
        let end = self.text.find(part).with_context(|| format!("no {part} in:\n{}", self.text))?
            + part.len();
        let arrival = self.arrivals.iter().find(|(_, n_bytes)| *n_bytes >= end);
        let (moment, _) = arrival.expect("every byte of the text has arrived");
        Ok(*moment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(parts: &[(u64, &str)]) -> Exchange {
        let mut text = String::new();
        let mut arrivals = Vec::new();
        for (millis, part) in parts {
            text.push_str(part);
            arrivals.push((Duration::from_millis(*millis), text.len()));
        }
        Exchange { text, arrivals }
    }

    #[test]
    fn the_gap_is_between_the_first_event_and_the_result() {
        let parts = [(5, "head "), (7, "notifications/pro"), (9, "gress "), (90, "\"result\"")];
        assert_eq!(arrived(&parts).gap().unwrap(), Duration::from_millis(81));
        let at_once = [(90, "notifications/progress \"result\"")];
        assert_eq!(arrived(&at_once).gap().unwrap(), Duration::ZERO);
        arrived(&[(1, "\"result\"")]).gap().unwrap_err();
    }

    #[test]
    fn headers_are_found_in_any_case() {
        let answer = arrived(&[(1, "HTTP/1.1 200 OK\r\nMCP-Session-ID: abc\r\n\r\nx: y")]);
        assert_eq!(answer.header("mcp-session-id"), Some("abc"));
        assert_eq!(answer.header("x"), None);
    }
}
