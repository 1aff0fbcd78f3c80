//! HTTP/1.1 by hand: a whole request in, a whole response out, or none, or far too much of one.
//!
//! Takes bodies of known length only, which is what every MCP client sends.

use std::sync::Arc;
use std::time::Duration;

use memchr::memmem;
use tokio::io::{self, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::{Bad, Cli, message};

const READ_BYTES: usize = 8 * 1024;
/// No request to this server is as large.
const MAX_REQUEST: usize = 1 << 20;
const PAUSE: Duration = Duration::from_secs(1);
const ACCEPTED: &[u8] = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";
const NO_STREAMS: &[u8] = b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n";

/// A request that has arrived whole.
struct Request {
    is_post: bool,
    /// Where its body begins and ends.
    head: usize,
    end: usize,
}

pub(crate) async fn serve(listener: TcpListener, cli: Cli) -> anyhow::Result<()> {
    let cli = Arc::new(cli);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let cli = Arc::clone(&cli);
        tokio::spawn(async move {
            // A client that goes away ends its own connection only.
            let _gone = attend(stream, &cli).await;
        });
    }
}

async fn attend(mut stream: TcpStream, cli: &Cli) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(READ_BYTES);
    loop {
        let Some(request) = request(&buffer) else {
            if buffer.len() > MAX_REQUEST || stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
            continue;
        };
        let body = &buffer[request.head..request.end];
        if let Some(bad) = cli.trouble(body) {
            return misbehave(stream, bad).await;
        }
        if !request.is_post {
            stream.write_all(NO_STREAMS).await?;
        } else if let Some(answer) = message::answer(body, cli.legacy) {
            stream.write_all(response(&answer).as_bytes()).await?;
        } else {
            stream.write_all(ACCEPTED).await?;
        }
        buffer.drain(..request.end);
    }
}

fn response(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The request at the start of `buffer`, once it is complete.
fn request(buffer: &[u8]) -> Option<Request> {
    let head = memmem::find(buffer, b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&buffer[..head]).unwrap_or_default();
    let length = text.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let end = head + length.unwrap_or(0);
    (end <= buffer.len()).then(|| Request { is_post: text.starts_with("POST "), head, end })
}

async fn misbehave(mut stream: TcpStream, bad: Bad) -> io::Result<()> {
    match bad {
        Bad::Hang => {
            let mut ignored = [0; 1024];
            while stream.read(&mut ignored).await? > 0 {}
        }
        Bad::Garbage => stream.write_all(b"\x00\xff this is no HTTP \r\n\r\n").await?,
        Bad::Endless => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ";
            stream.write_all(head.as_bytes()).await?;
            loop {
                stream.write_all(&[b'x'; READ_BYTES]).await?;
            }
        }
        Bad::Crash => std::process::exit(3),
        Bad::Slow => {
            for byte in response(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).bytes() {
                tokio::time::sleep(PAUSE).await;
                stream.write_all(&[byte]).await?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_when_its_last_byte_has_come() {
        let whole = b"POST /mcp HTTP/1.1\r\nContent-Length: 4\r\n\r\nbodyGET / HTTP/1.1\r\n\r\n";
        let first = request(whole).unwrap();
        assert!(first.is_post && &whole[first.head..first.end] == b"body");
        assert!(request(&whole[..first.end - 1]).is_none());
        let second = request(&whole[first.end..]).unwrap();
        assert!(!second.is_post && second.head == second.end);
    }
}
