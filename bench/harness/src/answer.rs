//! Where an HTTP/1.1 answer ends, and what it says. As little as a load generator needs.
//!
//! Not an HTTP client: no continuation, no trailers, no bodies that end with the connection.

use memchr::memmem;

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Status line and headers, with the empty line.
    pub(crate) head: String,
    /// Without chunk sizes.
    pub(crate) body: Vec<u8>,
}

/// The outline of an answer whose last byte has arrived.
#[derive(Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) status: u16,
    /// Length of the head with its empty line.
    pub(crate) head: usize,
    /// Length of the whole answer.
    pub(crate) end: usize,
    chunked: bool,
}

/// Bytes that are no HTTP/1.1 answer.
#[derive(Debug, PartialEq)]
pub(crate) struct Malformed(&'static str);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed answer: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

impl Answer {
    pub(crate) fn new(buffer: &[u8], frame: &Frame) -> Self {
        let (head, body) = buffer[..frame.end].split_at(frame.head);
        Self {
            status: frame.status,
            head: String::from_utf8_lossy(head).into_owned(),
            body: if frame.chunked { without_chunks(body) } else { body.to_vec() },
        }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The value of the header `name` in `head`.
pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.split("\r\n").find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Status and length of the head at the start of `buffer`, once it is complete.
pub(crate) fn head(buffer: &[u8]) -> Result<Option<(u16, usize)>, Malformed> {
    let Some(end) = memmem::find(buffer, b"\r\n\r\n") else { return Ok(None) };
    let status = buffer
        .strip_prefix(b"HTTP/1.1 ")
        .and_then(|rest| std::str::from_utf8(rest.get(..3)?).ok()?.parse().ok())
        .ok_or(Malformed("no status line"))?;
    Ok(Some((status, end + 4)))
}

/// The answer at the start of `buffer`, once it is complete.
pub(crate) fn frame(buffer: &[u8]) -> Result<Option<Frame>, Malformed> {
    let Some((status, head)) = head(buffer)? else { return Ok(None) };
    let text = std::str::from_utf8(&buffer[..head]).map_err(|_| Malformed("head is not text"))?;
    let (body, chunked) = if let Some(length) = header(text, "content-length") {
        (Some(length.parse().map_err(|_| Malformed("content-length is no number"))?), false)
    } else if header(text, "transfer-encoding").is_some() {
        (chunks(&buffer[head..], |_| ())?, true)
    } else {
        (Some(0), false)
    };
    let end = body.map(|length: usize| head + length).filter(|end| *end <= buffer.len());
    Ok(end.map(|end| Frame { status, head, end, chunked }))
}

/// Walks over the chunks; answers the length of them all once the last one has arrived.
fn chunks(body: &[u8], mut each: impl FnMut(&[u8])) -> Result<Option<usize>, Malformed> {
    let mut at = 0;
    loop {
        let Some(line) = memmem::find(&body[at..], b"\r\n") else { return Ok(None) };
        let size = std::str::from_utf8(&body[at..at + line])
            .ok()
            .and_then(|size| usize::from_str_radix(size, 16).ok())
            .ok_or(Malformed("chunk size is no number"))?;
        let start = at + line + 2;
        let Some(end) = start.checked_add(size).filter(|end| end + 2 <= body.len()) else {
            return Ok(None);
        };
        each(&body[start..end]);
        at = end + 2;
        if size == 0 {
            return Ok(Some(at));
        }
    }
}

fn without_chunks(body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(body.len());
    // The frame was complete, so these bytes have been walked over once already.
    let _walked = chunks(body, |chunk| whole.extend_from_slice(chunk));
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKED: &str =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    const WHOLE: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nabcde";

    #[test]
    fn an_answer_is_complete_at_its_last_byte_and_not_before() {
        for (bytes, status) in [(CHUNKED, 200), (WHOLE, 404)] {
            for cut in 0..bytes.len() {
                assert_eq!(frame(&bytes.as_bytes()[..cut]), Ok(None), "cut at {cut}");
            }
            let frame = frame(bytes.as_bytes()).unwrap().unwrap();
            assert_eq!((frame.status, frame.end), (status, bytes.len()));
            assert_eq!(Answer::new(bytes.as_bytes(), &frame).text(), "abcde");
        }
    }

    #[test]
    fn an_answer_without_a_body_ends_with_its_head() {
        let bytes = b"HTTP/1.1 202 Accepted\r\ndate: now\r\n\r\n";
        let frame = frame(bytes).unwrap().unwrap();
        assert_eq!((frame.status, frame.end), (202, bytes.len()));
    }

    #[test]
    fn nonsense_is_malformed() {
        for bytes in [
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 abc\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        ] {
            assert!(frame(bytes.as_bytes()).is_err(), "{bytes:?}");
        }
    }
}
