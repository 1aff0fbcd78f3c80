//! Frames that stay whole, and streams read in any pieces.
//!
//! Frames are read back by `reference`, a second reader written for clarity alone, so that an error
//! the writer and the reader share would still be seen.

use proptest::prelude::*;

use super::*;

/// Reads a whole stream line by line, straight from the WHATWG text: `(name, id, data)` per event.
fn reference(stream: &str) -> Vec<(String, String, String)> {
    let stream = stream.strip_prefix('\u{feff}').unwrap_or(stream);
    let stream = stream.replace("\r\n", "\n").replace('\r', "\n");
    let (mut events, mut name, mut last_id, mut data) =
        (vec![], String::new(), String::new(), None);
    let Some((whole_lines, _)) = stream.rsplit_once('\n') else { return events };
    for line in whole_lines.split('\n') {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "" if line.is_empty() => {
                let name = std::mem::take(&mut name);
                let name = if name.is_empty() { "message".to_owned() } else { name };
                events.extend(data.take().map(|data| (name, last_id.clone(), data)));
            }
            "event" => name = value.to_owned(),
            "id" if !value.contains('\0') => last_id = value.to_owned(),
            "data" => {
                data = Some(match data.take() {
                    Some(lines) => format!("{lines}\n{value}"),
                    None => value.to_owned(),
                });
            }
            _ => {}
        }
    }
    events
}

/// Reads a stream with the decoder, in the given pieces.
fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<(String, String, String)> {
    let mut decoder = Decoder::new(1 << 20);
    let mut events = vec![];
    for piece in pieces {
        decoder.push(piece);
        while let Some(event) = decoder.next_event().unwrap() {
            let id = decoder.last_event_id().unwrap_or_default().to_owned();
            events.push((event.name, id, String::from_utf8_lossy(&event.data).into_owned()));
        }
    }
    events
}

fn encoded(event: &Event<'_>) -> String {
    let mut out = b"before".to_vec();
    encode(&mut out, event);
    assert!(out.starts_with(b"before"), "encode only appends");
    String::from_utf8(out.split_off(6)).unwrap()
}

#[test]
fn a_message_is_one_exact_frame() {
    let frame = message_frame(br#"{"jsonrpc":"2.0"}"#);
    assert_eq!(frame, "event: message\ndata: {\"jsonrpc\":\"2.0\"}\n\n");
    assert_eq!(frame, encoded(&Event::message(br#"{"jsonrpc":"2.0"}"#)));
}

#[test]
fn every_field_has_its_line() {
    let event =
        Event { name: "endpoint", id: Some("a-Z_0/9.x"), retry: Some(1500), data: b"/m?s=1" };
    assert_eq!(encoded(&event), "id: a-Z_0/9.x\nretry: 1500\nevent: endpoint\ndata: /m?s=1\n\n");
}

#[test]
fn a_priming_event_is_an_id_with_empty_data() {
    let event = Event { id: Some("1"), ..Event::default() };
    assert_eq!(encoded(&event), "id: 1\ndata: \n\n");
    assert_eq!(decode([encoded(&event).as_bytes()]), [("message".into(), "1".into(), "".into())]);
}

#[test]
fn a_keep_alive_is_no_event() {
    assert_eq!(decode([KEEP_ALIVE, KEEP_ALIVE]), []);
    assert_eq!(reference(std::str::from_utf8(KEEP_ALIVE).unwrap()), []);
}

#[test]
fn ids_and_names_that_would_break_a_frame_are_left_out() {
    for bad in ["", "a\nb", "a\r", "\n\ndata: x", "a b", "\u{2028}", "a\0", "é", ":", "a:b"] {
        assert!(!is_event_id(bad));
        let event = Event { name: bad, id: Some(bad), retry: None, data: b"{}" };
        assert_eq!(encoded(&event), "data: {}\n\n", "{bad:?}");
    }
}

#[test]
fn laid_out_json_becomes_one_line() {
    let frame = message_frame(b"{\r\n  \"a\": [\n1,\r2]}");
    assert_eq!(frame, "event: message\ndata: {    \"a\": [ 1, 2]}\n\n".as_bytes());
}

#[test]
fn line_separators_are_escaped_and_their_neighbours_are_not() {
    let frame = message_frame("\"\u{2027}\u{2028}\u{2029}\u{202a}\u{20ac}\u{e2}\"".as_bytes());
    let expected = "event: message\ndata: \"\u{2027}\\u2028\\u2029\u{202a}\u{20ac}\u{e2}\"\n\n";
    assert_eq!(frame, expected.as_bytes());
    assert_eq!(message_frame(b"\"\xE2\x80").len(), 24 + 2, "a character cut short passes as is");
}

/// The name, the last id so far and the data of an event.
type Row = (&'static str, &'static str, &'static str);

/// Streams with the events a reader must find in them.
const STREAMS: [(&str, &[Row]); 17] = [
    ("data: a\n\n", &[("message", "", "a")]),
    (
        "data: a\r\rdata: b\r\n\r\ndata: c\n\r\n",
        &[("message", "", "a"), ("message", "", "b"), ("message", "", "c")],
    ),
    ("data:a\ndata:  b\ndata\ndata:\n\n", &[("message", "", "a\n b\n\n")]),
    ("\u{feff}data: a\n\n", &[("message", "", "a")]),
    ("\u{feff}\u{feff}data: a\n\n", &[]),
    (": comment\n:\ndata: a\n: more\n\n", &[("message", "", "a")]),
    ("event: e\ndata: a\n\ndata: b\n\n", &[("e", "", "a"), ("message", "", "b")]),
    ("event: e\n\ndata: b\n\n", &[("message", "", "b")]),
    ("event: e\nevent: f\ndata: b\n\n", &[("f", "", "b")]),
    (
        "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n",
        &[("message", "1", "a"), ("message", "1", "b"), ("message", "", "c")],
    ),
    ("id: 1\n\ndata: b\n\n", &[("message", "1", "b")]),
    ("id: 1\ndata: a\n\nid: 2\0\ndata: b\n\n", &[("message", "1", "a"), ("message", "1", "b")]),
    ("data\n\n", &[("message", "", "")]),
    ("\n\n\n\r\r\n", &[]),
    ("data: a\n", &[]),
    ("data: a", &[]),
    ("Data: a\n data: b\nother: c\ndata : d\n\n", &[]),
];

#[test]
fn streams_are_read_by_the_rules_split_at_any_byte() {
    for (stream, expected) in STREAMS {
        let expected: Vec<(String, String, String)> = expected
            .iter()
            .map(|(name, id, data)| (name.to_string(), id.to_string(), data.to_string()))
            .collect();
        assert_eq!(reference(stream), expected, "the reference on {stream:?}");
        let bytes = stream.as_bytes();
        for at in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(at);
            assert_eq!(decode([head, tail]), expected, "{stream:?} split at {at}");
        }
        assert_eq!(decode(bytes.chunks(1)), expected, "{stream:?} byte by byte");
    }
}

#[test]
fn retry_keeps_the_last_number() {
    let retry = |stream: &str| {
        let mut decoder = Decoder::new(100);
        decoder.push(stream.as_bytes());
        while decoder.next_event().unwrap().is_some() {}
        decoder.retry()
    };
    assert_eq!(retry("data: a\n\n"), None);
    assert_eq!(retry("retry: 150\n"), Some(150));
    assert_eq!(retry("retry: 150\n\nretry: 2\ndata: a\n\n"), Some(2));
    assert_eq!(retry("retry: 7\nretry: x\nretry:\nretry: -1\nretry: 1.5\nretry\n"), Some(7));
    assert_eq!(retry("retry: 7\nretry: 99999999999999999999999\n"), Some(7));
}

#[test]
fn data_that_is_not_utf8_is_handed_on_as_it_came() {
    let mut decoder = Decoder::new(100);
    decoder.push(b"data: \xFF\n\n");
    assert_eq!(&*decoder.next_event().unwrap().unwrap().data, b"\xFF");
}

#[test]
fn an_event_over_the_limit_ends_the_stream() {
    let fits = |stream: &[u8], piece: usize| {
        let mut decoder = Decoder::new(20);
        for piece in stream.chunks(piece) {
            decoder.push(piece);
            loop {
                match decoder.next_event() {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(error) => {
                        decoder.push(b"\n\ndata: a\n\n");
                        assert_eq!(decoder.next_event(), Err(error), "it stays ended");
                        return false;
                    }
                }
            }
        }
        true
    };
    for piece in [1, 7, 1000] {
        assert!(fits(&b"data: 12345678\n\n".repeat(9), piece), "many small events");
        assert!(fits(&b": comment\n".repeat(9), piece), "many comments");
        assert!(!fits(&[b'x'; 21], piece), "an endless line");
        assert!(!fits(b": a very long comment", piece), "an endless comment");
        assert!(!fits(&b"data: 1234\n".repeat(5), piece), "endless data");
        assert!(!fits(b"id: 123456789\nevent: 123456789\ndata: 1234\n\n", piece), "long fields");
        assert!(!fits(b"event: \xFF\xFF\xFF\xFF\xFF\xFF\xFF\ndata: 1\n\n", piece), "as decoded");
    }
}

fn json_string() -> impl Strategy<Value = String> {
    let nasty = prop::sample::select(vec![
        "\n", "\r", "\r\n", "\u{2028}", "\u{2029}", "\0", "\u{feff}", "data: ", "\\", "\"",
    ]);
    let part = prop_oneof![any::<String>(), nasty.prop_map(str::to_owned)];
    prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn any_json_comes_back_as_exactly_one_event(text in json_string(), pretty: bool) {
        let value = serde_json::json!({ "text": text, "list": [text, 1] });
        let json = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) };
        let frame = message_frame(&json.unwrap());
        let frame = std::str::from_utf8(&frame).unwrap();
        let has_line_end = frame.contains(['\r', '\u{2028}', '\u{2029}']);
        prop_assert!(!has_line_end);
        let events = reference(frame);
        prop_assert_eq!(events.len(), 1);
        prop_assert_eq!(&events[0].0, "message");
        prop_assert_eq!(&serde_json::from_str::<serde_json::Value>(&events[0].2).unwrap(), &value);
        prop_assert_eq!(decode([frame.as_bytes()]), events);
    }

    #[test]
    fn any_text_in_any_field_is_exactly_one_event(
        name in json_string(),
        id: Option<String>,
        retry: Option<u32>,
        data in json_string(),
    ) {
        let frame = encoded(&Event { name: &name, id: id.as_deref(), retry, data: data.as_bytes() });
        let next = "data: next\n\n";
        let events = reference(&format!("{frame}{next}"));
        prop_assert_eq!(events.len(), 2);
        prop_assert_eq!(&events[1].2, "next");
    }

    #[test]
    fn any_stream_is_read_like_the_reference_reads_it(
        lines in prop::collection::vec(
            ("(data|event|id|:|retry|x|)", "(: |:|)", "[a-z:\u{e9} ]{0,4}", "(\n|\r|\r\n|\n\n)"),
            0..12,
        ),
        piece in 1usize..8,
    ) {
        let stream: String = lines.into_iter().map(|(a, b, c, d)| format!("{a}{b}{c}{d}")).collect();
        prop_assert_eq!(decode(stream.as_bytes().chunks(piece)), reference(&stream));
    }

    #[test]
    fn any_bytes_are_read(pieces: Vec<Vec<u8>>, limit in 0usize..40) {
        let mut decoder = Decoder::new(limit);
        for piece in &pieces {
            decoder.push(piece);
            while let Ok(Some(event)) = decoder.next_event() {
                prop_assert!(event.data.len() <= limit);
            }
        }
    }
}
