//! Messages on their way out, one per line.

use std::io;

use bytes::Bytes;
use lyceum_http::Reader;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Writes every message of the queue, flushing whenever there is nothing more to write.
pub(super) async fn write_lines(
    mut queue: Reader,
    output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut output = tokio::io::BufWriter::new(output);
    let mut next = queue.next().await;
    while let Some(message) = next {
        debug_assert!(!message.contains(&b'\n'), "a message is one line");
        output.write_all(&message).await?;
        // It is charged for until it is dropped, and the next may be long in coming.
        drop(message);
        output.write_all(b"\n").await?;
        next = match next_now(&mut queue).await {
            Some(next) => next,
            None => {
                output.flush().await?;
                queue.next().await
            }
        };
    }
    output.flush().await
}

/// The next message if it is there already.
async fn next_now(queue: &mut Reader) -> Option<Option<Bytes>> {
    tokio::select! {
        biased;
        next = queue.next() => Some(next),
        () = std::future::ready(()) => None,
    }
}
