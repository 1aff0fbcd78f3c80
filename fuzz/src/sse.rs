//! SSE: whatever is written reads back as exactly one event, and any stream cut anywhere reads like
//! the whole one does to a reader that splits strings.

use lyceum_http::sse::{Decoder, Event, encode, is_event_id, message_frame};

/// An event as read: name, last id, data.
type Told = (String, String, String);

/// Takes the first byte as the length of pieces and the rest as a stream; then as an event to write:
/// id, name, retry and data, parted by U+0001.
pub fn check(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    let piece = usize::from(first).max(1);
    let mut decoder = Decoder::new(usize::from(first));
    decoder.push(data);
    while let Ok(Some(event)) = decoder.next_event() {
        assert!(event.data.len() + event.name.len() <= usize::from(first) + "message".len());
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    assert_eq!(decoded(text.as_bytes(), piece), split(text), "in pieces of {piece}");
    written(text, piece);
    if let Ok(value) = serde_json::from_str::<serde_json::Value>(text) {
        let frame = message_frame(data);
        let frame = std::str::from_utf8(&frame).expect("UTF-8 stays UTF-8");
        let events = split(frame);
        assert_eq!(events.len(), 1, "{frame:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&events[0].2).ok(), Some(value));
    }
}

fn written(text: &str, piece: usize) {
    let mut lines = text.splitn(4, '\u{1}');
    let (id, name, retry) = (lines.next(), lines.next().unwrap_or(""), lines.next());
    let data = lines.next().unwrap_or("");
    let retry: Option<u32> = retry.and_then(|retry| retry.parse().ok());
    let mut frame = Vec::new();
    encode(&mut frame, &Event { name, id, retry, data: data.as_bytes() });
    let frame = String::from_utf8(frame).expect("UTF-8 stays UTF-8");
    assert!(!frame.contains(['\u{2028}', '\u{2029}']), "{frame:?}");
    let name = if is_event_id(name) { name } else { "message" };
    let id = id.filter(|id| is_event_id(id)).unwrap_or("");
    let data = data
        .replace(['\r', '\n'], " ")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029");
    let expected = [(name.to_owned(), id.to_owned(), data)];
    assert_eq!(split(&frame), expected, "{frame:?}");
    assert_eq!(decoded(frame.as_bytes(), piece), expected, "{frame:?}");
}

fn decoded(stream: &[u8], piece: usize) -> Vec<Told> {
    let mut decoder = Decoder::new(1 << 20);
    let mut events = Vec::new();
    for piece in stream.chunks(piece) {
        decoder.push(piece);
        while let Some(event) = decoder.next_event().expect("no event is as large as that") {
            let id = decoder.last_event_id().unwrap_or_default().to_owned();
            let data = String::from_utf8(event.data.into()).expect("UTF-8 stays UTF-8");
            events.push((event.name, id, data));
        }
    }
    events
}

/// Reads a whole stream by splitting it into blocks and lines.
fn split(stream: &str) -> Vec<Told> {
    let stream = stream.strip_prefix('\u{feff}').unwrap_or(stream);
    let stream = stream.replace("\r\n", "\n").replace('\r', "\n");
    let mut last_id = String::new();
    let mut events = Vec::new();
    let mut lines: Vec<&str> = stream.split('\n').collect();
    lines.pop();
    for block in lines.split_inclusive(|line| line.is_empty()) {
        let Some((&"", fields)) = block.split_last() else { break };
        let mut name = "message";
        let mut data: Option<Vec<&str>> = None;
        for field in fields {
            let (field, value) = field.split_once(':').unwrap_or((field, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => name = if value.is_empty() { "message" } else { value },
                "data" => data.get_or_insert_default().push(value),
                "id" if !value.contains('\0') => last_id = value.to_owned(),
                _ => {}
            }
        }
        if let Some(data) = data {
            events.push((name.to_owned(), last_id.clone(), data.join("\n")));
        }
    }
    events
}
