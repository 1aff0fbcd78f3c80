//! Server-sent events, read as the HTML standard says.

use serde_json::Value;

use crate::connection::{Body, Connection};

/// One event, or a comment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// `event:`, empty when there was none.
    pub name: String,
    /// `data:` lines joined.
    pub data: String,
    /// `id:`, where this event set one.
    pub id: Option<String>,
    /// `retry:`, where this event set one.
    pub retry: Option<u64>,
    /// The comment lines before the event; an event of comments alone has no data.
    pub comments: Vec<String>,
    /// How many `data:` lines there were.
    pub data_lines: usize,
}

impl Event {
    /// The data as JSON.
    ///
    /// # Panics
    /// When it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error}: {:?}", self.data))
    }

    /// Whether it is nothing but a comment.
    pub fn is_comment(&self) -> bool {
        !self.comments.is_empty() && self.data_lines == 0 && self.name.is_empty()
    }
}

/// Takes bytes as they come and gives events as they are complete.
#[derive(Debug, Default)]
pub struct EventParser {
    line: Vec<u8>,
    after_return: bool,
    event: Event,
    ready: std::collections::VecDeque<Event>,
}

impl EventParser {
    /// Takes more bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            let second_half = std::mem::take(&mut self.after_return) && byte == b'\n';
            match byte {
                _ if second_half => {}
                b'\r' | b'\n' => {
                    self.after_return = byte == b'\r';
                    let line = std::mem::take(&mut self.line);
                    self.end_line(&String::from_utf8_lossy(&line));
                }
                _ => self.line.push(byte),
            }
        }
    }

    /// The next complete event.
    pub fn pop(&mut self) -> Option<Event> {
        self.ready.pop_front()
    }

    /// Whether bytes of an unfinished event are left.
    pub fn is_mid_event(&self) -> bool {
        !self.line.is_empty() || self.event != Event::default()
    }

    fn end_line(&mut self, line: &str) {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            if event != Event::default() {
                self.ready.push_back(event);
            }
            return;
        }
        if let Some(comment) = line.strip_prefix(':') {
            return self.event.comments.push(comment.trim_start().to_owned());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        let event = &mut self.event;
        match field {
            "event" => event.name = value.to_owned(),
            "id" => event.id = Some(value.to_owned()),
            "retry" => event.retry = value.parse().ok(),
            "data" => {
                if event.data_lines > 0 {
                    event.data.push('\n');
                }
                event.data.push_str(value);
                event.data_lines += 1;
            }
            _ => {}
        }
    }
}

/// Reads a whole stream.
pub fn parse_events(bytes: &[u8]) -> Vec<Event> {
    let mut parser = EventParser::default();
    parser.feed(bytes);
    std::iter::from_fn(|| parser.pop()).collect()
}

/// An event stream being read from a connection.
#[derive(Debug)]
pub struct Events {
    connection: Connection,
    body: Body,
    parser: EventParser,
}

impl Events {
    pub(crate) fn new(connection: Connection, body: Body) -> Self {
        Self { connection, body, parser: EventParser::default() }
    }

    /// The next event that is not a comment; `None` when the stream ended.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            let event = self.next_or_comment().await?;
            if !event.is_comment() {
                return Some(event);
            }
        }
    }

    /// The next event or comment; `None` when the stream ended.
    pub async fn next_or_comment(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.parser.pop() {
                return Some(event);
            }
            let piece = self.connection.piece(&mut self.body).await?;
            self.parser.feed(&piece);
        }
    }

    /// All events until the stream ends.
    pub async fn rest(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }

    /// The connection underneath, for cutting it.
    pub fn into_connection(self) -> Connection {
        self.connection
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_whatever_the_line_ends_and_pieces() {
        let stream =
            "id: 7\r\nevent: message\rdata: {\"a\":\ndata: 1}\n\n: hi\n\nretry: 5\ndata:\n\nid";
        let whole = parse_events(stream.as_bytes());
        assert_eq!(whole.len(), 3);
        assert_eq!((whole[0].id.as_deref(), &*whole[0].name), (Some("7"), "message"));
        assert_eq!((&*whole[0].data, whole[0].data_lines), ("{\"a\":\n1}", 2));
        assert!(whole[1].is_comment());
        assert_eq!((whole[2].retry, &*whole[2].data), (Some(5), ""));
        let mut parser = EventParser::default();
        stream.bytes().for_each(|byte| parser.feed(&[byte]));
        assert_eq!(std::iter::from_fn(|| parser.pop()).collect::<Vec<_>>(), whole);
        assert!(parser.is_mid_event());
    }
}
