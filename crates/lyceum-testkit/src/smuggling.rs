//! Requests that two readers could split differently, as raw bytes.
//!
//! Each case is an honest request with odd framing, and a hidden one where a careless reader would find
//! a second request. Whatever a server makes of the rest, the hidden request must never run. What the
//! requests ask for is the test's business.

use crate::Request;

/// What becomes of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// 400 or the like, or the connection just closes; nothing runs.
    Refused,
    /// Read as one request, the way the standard says, and nothing of it is a second one.
    One,
}
use Fate::{One, Refused};

/// One case.
#[derive(Debug)]
pub struct Case {
    /// What is odd about it.
    pub name: String,
    /// What is sent on a connection of its own.
    pub bytes: Vec<u8>,
    /// What becomes of it.
    pub fate: Fate,
}

/// The two requests that cases are made of. The honest one must have a body.
#[derive(Debug)]
pub struct Corpus {
    honest: Request,
    body: String,
    hidden: String,
}

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";
const CLOSE: &str = "Connection: close\r\n";

impl Corpus {
    /// Hides one request behind another.
    ///
    /// # Panics
    /// When the requests are not text.
    pub fn new(honest: &Request, hidden: &Request) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("requests are text");
        Self {
            honest: honest.clone(),
            body: text(honest.body.clone()),
            hidden: text(hidden.to_bytes()),
        }
    }

    /// Every case there is.
    pub fn all(&self) -> Vec<Case> {
        let groups = [
            self.lengths(),
            self.transfer_encodings(),
            self.chunks(),
            self.heads(),
            self.lengths_and_chunks(),
            self.unusual(),
        ];
        groups.into_iter().flatten().collect()
    }

    /// Lengths that can be read two ways.
    pub fn lengths(&self) -> Vec<Case> {
        let n = self.body.len();
        let both = format!("{}{}", self.body, self.hidden);
        let all = both.len();
        let rows = [
            ("two lengths", format!("Content-Length: {n}\r\nContent-Length: {all}\r\n")),
            ("longer first", format!("Content-Length: {all}\r\nContent-Length: {n}\r\n")),
            ("two lengths in a list", format!("Content-Length: {n}, {all}\r\n")),
            ("plus sign", format!("Content-Length: +{n}\r\n")),
            ("minus sign", format!("Content-Length: -{n}\r\n")),
            ("minus zero", "Content-Length: -0\r\n".to_owned()),
            ("hexadecimal", format!("Content-Length: 0x{n:x}\r\n")),
            ("exponent", "Content-Length: 1e2\r\n".to_owned()),
            ("fraction", format!("Content-Length: {n}.0\r\n")),
            ("two numbers", format!("Content-Length: {n} {n}\r\n")),
            ("trailing letter", format!("Content-Length: {n}a\r\n")),
            ("trailing semicolon", format!("Content-Length: {n};\r\n")),
            ("overflow", "Content-Length: 18446744073709551617\r\n".to_owned()),
            ("vertical tab", format!("Content-Length: \x0b{n}\r\n")),
            ("nul", format!("Content-Length: {n}\0\r\n")),
            ("space before the colon", format!("Content-Length : {n}\r\n")),
            ("tab before the colon", format!("Content-Length\t: {n}\r\n")),
            ("quotes", format!("Content-Length: \"{n}\"\r\n")),
            ("empty length", "Content-Length: \r\n".to_owned()),
            ("folded length", format!("Content-Length:\r\n {n}\r\n")),
            (
                "another length behind a bare line feed",
                format!("X: y\nContent-Length: {all}\r\nContent-Length: {n}\r\n"),
            ),
        ];
        let case = |(name, lines): (&str, String)| Case {
            name: format!("length: {name}"),
            bytes: self.framed(&lines, &both),
            fate: Refused,
        };
        rows.into_iter().map(case).collect()
    }

    /// Transfer encodings that can be read two ways.
    pub fn transfer_encodings(&self) -> Vec<Case> {
        let body = format!("0\r\n\r\n{}", self.hidden);
        let n = body.len();
        let with_length = |line: &str| format!("{line}\r\nContent-Length: {n}\r\n");
        let rows = [
            ("unknown coding", "Transfer-Encoding: xchunked\r\n".to_owned()),
            ("identity", "Transfer-Encoding: identity\r\n".to_owned()),
            ("chunked not last", "Transfer-Encoding: chunked, identity\r\n".to_owned()),
            ("other line after it", format!("{CHUNKED}Transfer-Encoding: x\r\n")),
            ("space before the colon", with_length("Transfer-Encoding : chunked")),
            ("folded", with_length("X: y\r\n Transfer-Encoding: chunked")),
            ("folded value", with_length("Transfer-Encoding:\r\n chunked")),
            ("vertical tab", with_length("Transfer-Encoding: \x0bchunked")),
            ("form feed", with_length("Transfer-Encoding: chunked\x0c")),
            ("nul", with_length("Transfer-Encoding: chunked\0")),
            ("quotes", "Transfer-Encoding: \"chunked\"\r\n".to_owned()),
            ("parameter", "Transfer-Encoding: chunked;q=1\r\n".to_owned()),
            ("cr in the name", with_length("Transfer-Encoding\r: chunked")),
            ("line feed in the name", with_length("Transfer-Encoding\n: chunked")),
            ("non-ASCII name", with_length("Transfer-Encodıng: chunked")),
            ("empty name", with_length(": chunked")),
        ];
        let case = |(name, lines): (&str, String)| Case {
            name: format!("transfer encoding: {name}"),
            bytes: self.framed(&lines, &body),
            fate: Refused,
        };
        rows.into_iter().map(case).collect()
    }

    /// Chunks that can be read two ways.
    pub fn chunks(&self) -> Vec<Case> {
        let (body, hidden) = (&self.body, &self.hidden);
        let n = body.len();
        let rows = [
            ("size with a sign", format!("+{n:x}\r\n{body}\r\n0\r\n\r\n{hidden}")),
            ("negative size", format!("-1\r\n{body}\r\n0\r\n\r\n{hidden}")),
            ("size with 0x", format!("0x{n:x}\r\n{body}\r\n0\r\n\r\n{hidden}")),
            ("size too large", format!("ffffffffffffffff1\r\n{body}\r\n0\r\n\r\n{hidden}")),
            ("size is not a number", format!("z\r\n{body}\r\n0\r\n\r\n{hidden}")),
            ("nul in the size", format!("{n:x}\0\r\n{body}\r\n0\r\n\r\n{hidden}")),
            ("no size", format!("\r\n{body}\r\n0\r\n\r\n{hidden}")),
            ("data longer than its size", format!("{:x}\r\n{body}\r\n0\r\n\r\n{hidden}", n - 1)),
            ("no line end after the data", format!("{n:x}\r\n{body}0\r\n\r\n{hidden}")),
            ("line feed after the size", format!("{n:x}\n{body}\r\n0\r\n\r\n{hidden}")),
            ("line feed in an extension", format!("{n:x};a\n{body}\r\n0\r\n\r\n{hidden}")),
            ("carriage return alone", format!("{n:x}\r{body}\r\n0\r\n\r\n{hidden}")),
            ("no last chunk", format!("{n:x}\r\n{body}\r\n")),
            ("last chunk cut off", format!("{n:x}\r\n{body}\r\n0\r\n")),
            ("line feed after the data", format!("{n:x}\r\n{body}\n0\r\n\r\n{hidden}")),
        ];
        let case = |(name, chunks): (&str, String)| Case {
            name: format!("chunks: {name}"),
            bytes: self.framed(CHUNKED, &chunks),
            fate: Refused,
        };
        rows.into_iter().map(case).collect()
    }

    /// Heads that can be read two ways.
    pub fn heads(&self) -> Vec<Case> {
        let request = self.honest.to_bytes();
        let request = String::from_utf8(request).expect("requests are text");
        let (first, rest) = request.split_once("\r\n").expect("a request has lines");
        let target = &self.honest.target;
        let with_line = |line: String| format!("{line}\r\n{rest}{}", self.hidden);
        let with_header = |line: &str| format!("{first}\r\n{line}\r\n{rest}{}", self.hidden);
        let rows = [
            ("lower-case version", with_line(format!("POST {target} http/1.1"))),
            ("version 1.2", with_line(format!("POST {target} HTTP/1.2"))),
            ("version 2.0", with_line(format!("POST {target} HTTP/2.0"))),
            ("no version", with_line(format!("POST {target}"))),
            ("no target", with_line("POST HTTP/1.1".to_owned())),
            ("two versions", with_line(format!("POST {target} HTTP/1.1 HTTP/1.1"))),
            ("space in the target", with_line(format!("POST {target} x HTTP/1.1"))),
            ("tabs between", with_line(format!("POST\t{target}\tHTTP/1.1"))),
            ("control character in the target", with_line(format!("POST {target}\x01 HTTP/1.1"))),
            ("nul in the method", with_line(format!("PO\0ST {target} HTTP/1.1"))),
            ("header without a colon", with_header("Broken")),
            ("space in a name", with_header("A B: c")),
            ("space before a name", with_header(" A: b")),
            ("nul in a value", with_header("A: b\0c")),
            ("carriage return in a value", with_header("A: b\rContent-Length: 0")),
            ("too many headers", with_header("A: b\r\n".repeat(200).trim_end())),
            ("too long a head", with_header(&format!("A: {}", "b".repeat(100_000)))),
        ];
        let case = |(name, bytes): (&str, String)| Case {
            name: format!("head: {name}"),
            bytes: bytes.into_bytes(),
            fate: Refused,
        };
        rows.into_iter().map(case).collect()
    }

    /// A length beside chunks. Chunks win by the standard, and the connection ends: a proxy that
    /// thought otherwise must not be able to add a request.
    pub fn lengths_and_chunks(&self) -> Vec<Case> {
        let n = self.body.len();
        let body = self.chunked() + &self.hidden;
        let all = body.len();
        let old = self.framed(CHUNKED, &body);
        let old = String::from_utf8(old).expect("requests are text");
        let rows = [
            ("length first", format!("Content-Length: {n}\r\n{CHUNKED}")),
            ("chunked first", format!("{CHUNKED}Content-Length: {n}\r\n")),
            ("length of everything", format!("Content-Length: {all}\r\n{CHUNKED}")),
            (
                "chunked behind a bare line feed",
                format!("X: y\n{CHUNKED}Content-Length: {all}\r\n"),
            ),
        ];
        let case = |(name, lines): (&str, String)| Case {
            name: format!("both: {name}"),
            bytes: self.framed(&lines, &body),
            fate: One,
        };
        let old = Case {
            name: "both: chunks in HTTP/1.0".to_owned(),
            bytes: old.replace("HTTP/1.1", "HTTP/1.0").into_bytes(),
            fate: Refused,
        };
        rows.into_iter().map(case).chain([old]).collect()
    }

    /// Framing that is unusual but clear. The connection is to end, so what follows is nothing.
    pub fn unusual(&self) -> Vec<Case> {
        let (body, hidden, chunked) = (&self.body, &self.hidden, self.chunked());
        let n = body.len();
        let length = format!("Content-Length: {n}\r\n");
        let extension = format!("{n:x};a=\"b\"\r\n{body}\r\n0\r\n\r\n");
        let evil = "Host: evil.example\r\nContent-Length: 9\r\n";
        let trailers = format!("{n:x}\r\n{body}\r\n0\r\n{evil}\r\n");
        let rows = [
            ("capitals", "TRANSFER-ENCODING: CHUNKED\r\n".to_owned(), chunked.clone()),
            ("tab before the value", "Transfer-Encoding:\tchunked\r\n".to_owned(), chunked.clone()),
            ("leading zeros in a size", CHUNKED.to_owned(), format!("0000{chunked}")),
            ("chunk extension", CHUNKED.to_owned(), extension),
            ("trailers", CHUNKED.to_owned(), trailers),
            ("the same length twice", format!("{length}{length}"), body.clone()),
        ];
        let case = |(name, lines, body): (&str, String, String)| Case {
            name: format!("unusual: {name}"),
            bytes: self.framed(&format!("{lines}{CLOSE}"), &format!("{body}{hidden}")),
            fate: One,
        };
        rows.into_iter().map(case).collect()
    }

    /// The honest request with other framing lines and another body.
    fn framed(&self, lines: &str, body: &str) -> Vec<u8> {
        let mut bytes = self.honest.clone().body("").to_bytes();
        // The empty line comes after the framing lines.
        bytes.truncate(bytes.len() - 2);
        bytes.extend_from_slice(format!("{lines}\r\n{body}").as_bytes());
        bytes
    }

    /// The honest body as chunks.
    fn chunked(&self) -> String {
        format!("{:x}\r\n{}\r\n0\r\n\r\n", self.body.len(), self.body)
    }
}
