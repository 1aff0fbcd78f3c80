//! A call whose every step a test decides, so that no test has to sleep and hope.

use bytes::Bytes;
use lyceum_http::{Context, Delivery};
use lyceum_wire::RpcError;
use tokio::sync::{mpsc, oneshot};

use crate::fixture::note;

/// The test's end of a running `puppet` call.
pub(crate) struct Puppet {
    commands: mpsc::UnboundedSender<Command>,
    gone: oneshot::Receiver<()>,
}

/// The call's end.
pub(crate) struct Strings {
    commands: mpsc::UnboundedReceiver<Command>,
    _gone: oneshot::Sender<()>,
}

enum Command {
    Notify(String, oneshot::Sender<Delivery>),
    Ask(oneshot::Sender<Result<Bytes, RpcError>>),
    Release(oneshot::Sender<bool>),
    Finish(String),
    Panic,
}

impl Puppet {
    pub(crate) fn new() -> (Self, Strings) {
        let (commands, received) = mpsc::unbounded_channel();
        let (alive, gone) = oneshot::channel();
        (Self { commands, gone }, Strings { commands: received, _gone: alive })
    }

    /// Makes the call send a notification, and waits until it was taken.
    pub(crate) async fn notify(&self, text: &str) -> Delivery {
        self.begin_notify(text).await.unwrap()
    }

    /// Makes the call send a notification.
    pub(crate) fn begin_notify(&self, text: &str) -> oneshot::Receiver<Delivery> {
        let (done, sent) = oneshot::channel();
        self.command(Command::Notify(text.to_owned(), done));
        sent
    }

    /// Makes the call ask its client something.
    pub(crate) fn ask(&self) -> oneshot::Receiver<Result<Bytes, RpcError>> {
        let (done, answer) = oneshot::channel();
        self.command(Command::Ask(done));
        answer
    }

    /// Makes the call let go of its client's connection.
    pub(crate) async fn release(&self) -> bool {
        let (done, released) = oneshot::channel();
        self.command(Command::Release(done));
        released.await.unwrap()
    }

    /// Makes the call answer.
    pub(crate) fn finish(&self, text: &str) {
        self.command(Command::Finish(text.to_owned()));
    }

    /// Makes the call panic.
    pub(crate) fn panic(&self) {
        self.command(Command::Panic);
    }

    /// Waits until the call's future is gone.
    pub(crate) async fn gone(&mut self) {
        drop((&mut self.gone).await);
    }

    /// Whether the call's future is gone already.
    pub(crate) fn is_gone(&mut self) -> bool {
        self.gone.try_recv() != Err(oneshot::error::TryRecvError::Empty)
    }

    fn command(&self, command: Command) {
        assert!(self.commands.send(command).is_ok(), "the call is still running");
    }
}

impl Strings {
    /// Does as told until told to answer.
    pub(crate) async fn dance(mut self, cx: &Context) -> Result<String, RpcError> {
        loop {
            let Some(command) = self.commands.recv().await else {
                return std::future::pending().await;
            };
            match command {
                Command::Notify(text, done) => {
                    let note = note(&text).to_string();
                    let _ = done.send(cx.notify("notifications/message", note.as_bytes()).await);
                }
                Command::Ask(done) => {
                    drop(done.send(cx.ask("elicitation/create", br#"{"message":"?"}"#).await));
                }
                Command::Release(done) => drop(done.send(cx.outlet.release())),
                Command::Finish(text) => return Ok(text),
                Command::Panic => panic!("a puppet told to panic"),
            }
        }
    }
}
