//! [`Driven`]: an HTTP/1.1 connection that is moved by whoever uses it.
//!
//! hyper's connections are meant to be tasks of their own, and then every request costs two changes of
//! task, there and back. Here the task that waits for an answer moves the connection as well; while
//! nobody waits for anything, nobody does. What the connection hands to that task comes about only while
//! it is moved, so it is looked for after each move, and no waker is needed for it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use pin_project_lite::pin_project;
use tokio::net::TcpStream;

use super::error::BoxError;
use super::exchange::RequestBody;

/// How often a connection is moved in one turn of a task, before others have theirs.
const MOVES: usize = 8;

/// Something happened since the connection was last moved.
const NOTED: u8 = 1;
/// It is being moved, or nobody uses it: whatever happens is only noted.
const HELD: u8 = 2;

/// A connection.
#[derive(Debug)]
pub(super) struct Driven {
    sender: SendRequest<RequestBody>,
    /// None once it has ended; what it did not get to is given back when it is dropped.
    connection: Option<http1::Connection<TokioIo<TcpStream>, RequestBody>>,
    signal: Arc<Signal>,
    /// Made of the signal.
    waker: Waker,
    /// Whom the signal wakes.
    user: Option<Waker>,
}

/// Wakes whoever uses a connection.
#[derive(Debug, Default)]
struct Signal {
    state: AtomicU8,
    user: Mutex<Option<Waker>>,
}

/// A request that was not answered.
#[derive(Debug)]
pub(super) struct Unanswered {
    /// The request, if nothing of it was sent.
    pub(super) unsent: Option<Box<Request<RequestBody>>>,
    pub(super) error: BoxError,
}

impl Driven {
    /// Over this stream.
    pub(super) async fn new(stream: TokioIo<TcpStream>) -> hyper::Result<Driven> {
        // One buffer for head and body: requests are small, and one write of two pieces costs more
        // than a copy.
        let shaken = http1::Builder::new().writev(false).handshake(stream).await;
        let (sender, connection) = shaken?;
        let signal = Arc::new(Signal::default());
        let waker = Waker::from(Arc::clone(&signal));
        Ok(Driven { sender, connection: Some(connection), signal, waker, user: None })
    }

    /// Whether it has ended.
    pub(super) fn is_over(&self) -> bool {
        self.connection.is_none()
    }

    /// Whether another request can be sent.
    pub(super) fn is_ready(&self) -> bool {
        !self.is_over() && self.sender.is_ready()
    }

    /// Waits until another request can be sent; whether that will ever be.
    pub(super) async fn ready(&mut self) -> bool {
        self.signal.state.store(HELD | NOTED, Ordering::Release);
        let ready = poll_fn(|cx| self.drive(cx, |sender, cx| sender.poll_ready(cx))).await;
        matches!(ready, Some(Ok(())))
    }

    /// Sends a request.
    pub(super) fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> impl Future<Output = Result<Response<Incoming>, Unanswered>> {
        self.signal.state.store(HELD | NOTED, Ordering::Release);
        Sent { response: self.sender.try_send_request(request), driven: self }
    }

    /// The next piece of an answer's body.
    pub(super) fn poll_frame(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut look = |cx: &mut Context<'_>| Pin::new(&mut *body).poll_frame(cx);
        let before = self.signal.state.fetch_or(HELD, Ordering::AcqRel);
        if let Poll::Ready(frame) = look(&mut Context::from_waker(Waker::noop())) {
            // To take a piece asks the connection for the next. After the last there is none.
            if body.is_end_stream() {
                self.signal.state.store(HELD | before & NOTED, Ordering::Release);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        self.drive(cx, |_, cx| look(cx)).map(|looked| match looked {
            Some(frame) => frame.map(|frame| frame.map_err(Into::into)),
            None => Some(Err("the connection ended in the middle of an answer".into())),
        })
    }

    /// Nobody uses it from now on. What happens to it meanwhile is found out when it is used again.
    pub(super) fn rest(&mut self) {
        self.signal.state.fetch_or(HELD, Ordering::AcqRel);
        self.user = None;
        *self.signal.user() = None;
    }

    /// Moves the connection until what is looked for is there or nothing happens any more. None if the
    /// connection ended without it.
    fn drive<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut look: impl FnMut(&mut SendRequest<RequestBody>, &mut Context<'_>) -> Poll<T>,
    ) -> Poll<Option<T>> {
        self.used_by(cx.waker());
        let mut is_noted = self.signal.state.swap(HELD, Ordering::AcqRel) & NOTED != 0;
        for _ in 0..MOVES {
            if is_noted {
                let mut moving = Context::from_waker(&self.waker);
                // How it ended is told to whoever waits for an answer.
                self.connection.take_if(|moved| Pin::new(moved).poll(&mut moving).is_ready());
                let looked = look(&mut self.sender, &mut Context::from_waker(Waker::noop()));
                if let Poll::Ready(found) = looked {
                    return Poll::Ready(Some(found));
                }
                if self.is_over() {
                    return Poll::Ready(None);
                }
            }
            let (release, acquire) = (Ordering::AcqRel, Ordering::Acquire);
            if self.signal.state.compare_exchange(HELD, 0, release, acquire).is_ok() {
                return Poll::Pending;
            }
            self.signal.state.swap(HELD, Ordering::AcqRel);
            is_noted = true;
        }
        self.signal.state.store(NOTED, Ordering::Release);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn used_by(&mut self, task: &Waker) {
        if !self.user.as_ref().is_some_and(|user| user.will_wake(task)) {
            self.user = Some(task.clone());
            *self.signal.user() = Some(task.clone());
        }
    }
}

impl Signal {
    fn user(&self) -> std::sync::MutexGuard<'_, Option<Waker>> {
        self.user.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Otherwise it is being looked at, or somebody was woken already.
        if self.state.fetch_or(NOTED, Ordering::AcqRel) == 0
            && let Some(user) = &*self.user()
        {
            user.wake_by_ref();
        }
    }
}

pin_project! {
    /// A request that is sent and waits for its answer.
    struct Sent<'l, F> {
        driven: &'l mut Driven,
        #[pin]
        response: F,
    }
}

impl<F> Future for Sent<'_, F>
where
    F: Future<Output = Result<Response<Incoming>, TrySendError<Request<RequestBody>>>>,
{
    type Output = Result<Response<Incoming>, Unanswered>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let sent = self.project();
        let mut response = sent.response;
        sent.driven.drive(cx, |_, cx| response.as_mut().poll(cx)).map(|answered| match answered {
            Some(Ok(response)) => Ok(response),
            Some(Err(mut failed)) => {
                let unsent = failed.take_message().map(Box::new);
                Err(Unanswered { unsent, error: failed.into_error().into() })
            }
            None => Err(Unanswered { unsent: None, error: "the connection ended".into() }),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::BodyExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::oneshot;

    use super::*;

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    const STREAM: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

    /// Both ends of a connection.
    async fn connected() -> (Driven, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        (Driven::new(TokioIo::new(stream)).await.unwrap(), server)
    }

    fn request() -> Request<RequestBody> {
        Request::post("/mcp").header("host", "x").body(RequestBody::default()).unwrap()
    }

    /// Reads a request as far as one read brings it.
    async fn read(server: &mut TcpStream) -> Vec<u8> {
        let mut buffer = vec![0; 1024];
        let length = server.read(&mut buffer).await.unwrap();
        buffer.truncate(length);
        buffer
    }

    /// The next piece of a body; None at its end.
    async fn piece(driven: &mut Driven, body: &mut Incoming) -> Option<Bytes> {
        let frame = poll_fn(|cx| driven.poll_frame(body, cx)).await?;
        Some(frame.unwrap().into_data().unwrap())
    }

    #[tokio::test]
    async fn one_connection_carries_one_request_after_the_other() {
        let (mut driven, mut server) = connected().await;
        tokio::spawn(async move {
            while !read(&mut server).await.is_empty() {
                server.write_all(ANSWER).await.unwrap();
            }
        });
        for _ in 0..3 {
            let mut response = driven.send(request()).await.unwrap();
            assert_eq!(piece(&mut driven, response.body_mut()).await.unwrap(), "{}");
            assert!(response.body().is_end_stream());
            driven.rest();
            assert!(driven.is_ready());
        }
    }

    #[tokio::test]
    async fn a_request_comes_back_unsent_if_the_connection_was_closed_while_it_rested() {
        let (mut driven, mut server) = connected().await;
        let answering = tokio::spawn(async move {
            read(&mut server).await;
            server.write_all(ANSWER).await.unwrap();
        });
        let response = driven.send(request()).await.unwrap();
        assert_eq!(piece(&mut driven, &mut response.into_body()).await.unwrap(), "{}");
        driven.rest();
        answering.await.unwrap();
        while !driven.is_over() && driven.signal.state.load(Ordering::Acquire) & NOTED == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let unanswered = driven.send(request()).await.unwrap_err();
        assert_eq!(unanswered.unsent.unwrap().uri(), "/mcp");
        assert!(driven.is_over() && !driven.is_ready());
    }

    #[tokio::test]
    async fn a_request_that_was_sent_and_not_answered_does_not_come_back() {
        let (mut driven, mut server) = connected().await;
        tokio::spawn(async move { read(&mut server).await });
        let unanswered = driven.send(request()).await.unwrap_err();
        assert!(unanswered.unsent.is_none(), "{}", unanswered.error);
    }

    #[tokio::test]
    async fn an_answer_wakes_the_task_that_waits_now() {
        let (mut driven, mut server) = connected().await;
        let (let_go, held) = oneshot::channel();
        tokio::spawn(async move {
            read(&mut server).await;
            held.await.unwrap();
            server.write_all(ANSWER).await.unwrap();
        });
        let mut sent = Box::pin(async move { driven.send(request()).await.unwrap().status() });
        // This task waits first, and then another.
        assert!(poll_fn(|cx| Poll::Ready(sent.as_mut().poll(cx))).await.is_pending());
        let waiting = tokio::spawn(sent);
        tokio::task::yield_now().await;
        let_go.send(()).unwrap();
        assert_eq!(waiting.await.unwrap(), 200);
    }

    #[tokio::test]
    async fn a_body_ends_where_its_connection_breaks() {
        let (mut driven, mut server) = connected().await;
        tokio::spawn(async move {
            read(&mut server).await;
            server.write_all(STREAM).await.unwrap();
            server.write_all(b"2\r\nab\r\n").await.unwrap();
        });
        let mut body = driven.send(request()).await.unwrap().into_body();
        assert_eq!(piece(&mut driven, &mut body).await.unwrap(), "ab");
        let broken = poll_fn(|cx| driven.poll_frame(&mut body, cx)).await;
        assert!(broken.unwrap().is_err());
    }

    /// tokio tells a task that reads on and on to let others have a turn, by waking it at once.
    #[tokio::test]
    async fn a_flood_leaves_others_their_turn() {
        let (mut driven, mut server) = connected().await;
        tokio::spawn(async move {
            read(&mut server).await;
            server.write_all(STREAM).await.unwrap();
            let piece = [b"1000\r\n".as_slice(), &[b'x'; 0x1000], b"\r\n"].concat();
            for _ in 0..5_000 {
                server.write_all(&piece).await.unwrap();
            }
            server.write_all(b"0\r\n\r\n").await.unwrap();
        });
        let mut body = driven.send(request()).await.unwrap().into_body();
        let mut n_bytes = 0;
        while let Some(piece) = piece(&mut driven, &mut body).await {
            n_bytes += piece.len();
        }
        assert_eq!(n_bytes, 5_000 * 0x1000);
        assert!(body.frame().await.is_none());
    }
}
