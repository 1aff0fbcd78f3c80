//! One HTTP exchange on a raw socket, with the moments at which its parts arrived.

use std::io::{Read, Write};
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

/// Sends one JSON-RPC message and reads until the peer closes.
pub(super) fn post(address: SocketAddr, path: &str, headers: &str, body: &str) -> Result<Exchange> {
    let mut stream = TcpStream::connect(address).context("connecting to nginx")?;
    stream.set_read_timeout(Some(READ_LIMIT))?;
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         {headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let watch = Stopwatch::start();
    stream.write_all(request.as_bytes())?;
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

    fn exchange(parts: &[(u64, &str)]) -> Exchange {
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
        assert_eq!(exchange(&parts).gap().unwrap(), Duration::from_millis(81));
        let at_once = [(90, "notifications/progress \"result\"")];
        assert_eq!(exchange(&at_once).gap().unwrap(), Duration::ZERO);
        exchange(&[(1, "\"result\"")]).gap().unwrap_err();
    }

    #[test]
    fn headers_are_found_in_any_case() {
        let answer = exchange(&[(1, "HTTP/1.1 200 OK\r\nMCP-Session-ID: abc\r\n\r\nx: y")]);
        assert_eq!(answer.header("mcp-session-id"), Some("abc"));
        assert_eq!(answer.header("x"), None);
    }
}
