//! [`Subscription`]: the stream of a `subscriptions/listen` (2026-07-28).

use bytes::Bytes;
use lyceum_wire::{Id, Message, Writer};

use super::error::ClientError;
use super::handler::ServerNotification;
use super::modern::Modern;
use super::response::result_of;
use super::stream::Messages;

/// Change notifications a server was asked for. To drop it is to end it.
#[derive(Debug)]
pub struct Subscription {
    id: Id,
    messages: Messages,
    acknowledged: Bytes,
    ended: bool,
}

impl Subscription {
    pub(crate) async fn open(modern: &Modern, filter: &[u8]) -> Result<Subscription, ClientError> {
        let mut params = Writer::new();
        params.raw("notifications", filter);
        let (id, messages) = modern.open_stream(&params.finish()).await?;
        let mut subscription =
            Subscription { id, messages, acknowledged: Bytes::new(), ended: false };
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
        let message = self.messages.next().await;
        if let Ok(Some(Message::Notification(notification))) = message {
            let (method, params) = (notification.method.to_string(), notification.params.raw());
            return Some(Ok(ServerNotification { method, params }));
        }
        self.ended = true;
        match message {
            Ok(Some(Message::Response(response))) if response.id == self.id => {
                result_of(&response).err().map(Err)
            }
            Ok(Some(_)) => Some(Err(ClientError::protocol("it sent no notification"))),
            Ok(None) => Some(Err(ClientError::Interrupted)),
            Err(error) => Some(Err(error)),
        }
    }
}
