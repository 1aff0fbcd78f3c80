//! The holder: a process of its own that opens idle streams and keeps them.
//!
//! Prints `ready N` when all are open. For each line on standard input it looks at every stream and
//! prints `open N dropped M`. Ends when standard input does.

use std::io::{self, BufRead, ErrorKind, Read};
use std::net::TcpStream;

use anyhow::Context;

use crate::cli::Hold;
use crate::client::Client;
use crate::echo;

pub(crate) fn run(hold: &Hold) -> anyhow::Result<()> {
    let mut streams = Vec::with_capacity(hold.streams);
    for index in 1..=hold.streams {
        let stream = open(hold.port, &hold.path, hold.sessions);
        streams.push(stream.with_context(|| format!("opening stream {index}"))?);
    }
    println!("ready {}", streams.len());
    for line in io::stdin().lock().lines() {
        line?;
        let open = streams.iter_mut().map(is_open).filter(|open| *open).count();
        println!("open {open} dropped {}", streams.len() - open);
    }
    Ok(())
}

/// Opens one stream, in a new session if `sessions`.
pub(crate) fn open(port: u16, path: &str, sessions: bool) -> anyhow::Result<TcpStream> {
    let mut client = Client::connect(port)?;
    let session = sessions.then(|| echo::open_session(&mut client, path)).transpose()?;
    client.open(&echo::open_stream(port, path, session.as_deref()))?;
    let stream = client.into_stream();
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Reads what has come, such as keep-alive comments; an end or an error is a dropped stream.
fn is_open(stream: &mut TcpStream) -> bool {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(read) if buffer[..read].ends_with(b"0\r\n\r\n") => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    /// Whether a stream is open after the server has sent `sent` and `closed` it or not.
    fn check(sent: &[u8], closed: bool, open: bool) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(sent).unwrap();
        let server = (!closed).then_some(server);
        // Waits for what was sent, or for the end; an open and silent stream has nothing to wait for.
        if !sent.is_empty() || closed {
            stream.peek(&mut [0]).unwrap();
        }
        stream.set_nonblocking(true).unwrap();
        assert_eq!(is_open(&mut stream), open);
        drop(server);
    }

    #[test]
    fn a_stream_is_dropped_when_it_ends_in_either_way() {
        check(b"", false, true);
        check(b"4\r\n: \n\n\r\n", false, true);
        check(b"", true, false);
        check(b"0\r\n\r\n", false, false);
    }
}
