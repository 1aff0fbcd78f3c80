//! [`Subscription`]: the stream of a `subscriptions/listen` (2026-07-28).

use std::pin::pin;

use bytes::Bytes;
use lyceum_wire::{Id, Message, Writer};

use super::call::Call;
use super::error::ClientError;
use super::handler::ServerNotification;
use super::line::Sent;
use super::mailbox::Letter;
use super::modern::Modern;
use super::options::CallOptions;
use super::params::CallParams;
use super::response::result_of;
use super::stream::Messages;

/// Change notifications a server was asked for. To drop it is to end it.
#[derive(Debug)]
pub struct Subscription {
    id: Id,
    source: Source,
    acknowledged: Bytes,
    ended: bool,
}

/// Where a subscription's messages come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// A stream of its own.
    Stream(Box<Messages>),
    /// The line all messages share.
    Line(Sent),
}

impl Subscription {
    pub(crate) async fn open(modern: &Modern, filter: &[u8]) -> Result<Subscription, ClientError> {
        let mut params = Writer::new();
        params.raw("notifications", filter);
        let (params, options) = (params.finish(), CallOptions::new());
        let params = CallParams::parse(&params)?;
        let call = Call::new(modern.core(), "subscriptions/listen", &params, &options);
        call.watch(pin!(Subscription::begin(modern, &call))).await
    }

    async fn begin(modern: &Modern, call: &Call<'_>) -> Result<Subscription, ClientError> {
        let (id, source) = modern.open_stream(call).await?;
        let mut subscription =
            Subscription { id, source, acknowledged: Bytes::new(), ended: false };
        match subscription.next().await {
            Some(Ok(first)) if first.method == "notifications/subscriptions/acknowledged" => {
                subscription.acknowledged = first.params.unwrap_or_default();
                Ok(subscription)
            }
            Some(Ok(_)) => {
                Err(ClientError::protocol("it did not acknowledge a subscription first"))
            }
            Some(Err(error)) => Err(error),
            None => Err(ClientError::Interrupted),
        }
    }

    /// The raw params of the acknowledgement: its `notifications` are what the server honours.
    pub fn acknowledged(&self) -> &Bytes {
        &self.acknowledged
    }

    /// The next notification; None when the server has ended the subscription. An error ends it too.
    /// Nothing is lost if the returned future is dropped.
    pub async fn next(&mut self) -> Option<Result<ServerNotification, ClientError>> {
        if self.ended {
            return None;
        }
        let next = match &mut self.source {
            Source::Stream(messages) => next_on_stream(messages, &self.id).await,
            Source::Line(sent) => next_on_line(sent).await,
        };
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

async fn next_on_stream(
    messages: &mut Messages,
    id: &Id,
) -> Option<Result<ServerNotification, ClientError>> {
    match messages.next_message().await {
        Ok(Some(Message::Notification(notification))) => Some(Ok(notification.into())),
        Ok(Some(Message::Response(response))) if response.id == *id => {
            result_of(&response).err().map(Err)
        }
        Ok(Some(_)) => Some(Err(ClientError::protocol("it sent no notification"))),
        Ok(None) => Some(Err(ClientError::Interrupted)),
        Err(error) => Some(Err(error)),
    }
}

async fn next_on_line(sent: &mut Sent) -> Option<Result<ServerNotification, ClientError>> {
    match sent.place.next().await {
        Letter::Note(note) => Some(Ok(note)),
        Letter::Answer(response) => {
            sent.done();
            result_of(&response).err().map(Err)
        }
        Letter::Refused(exhausted) => {
            sent.done();
            Some(Err(exhausted.into()))
        }
        Letter::Lost => {
            sent.done();
            Some(Err(sent.lost()))
        }
        Letter::Overflow => {
            Some(Err(ClientError::protocol("it notified faster than anybody listened")))
        }
    }
}
