//! A call's way back to the client over the one line everybody shares.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use lyceum_http::{Delivery, Outbox, Outlet, OutletFuture, Session};
use lyceum_wire::{Id, RpcError, encode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Duration;

/// The outlet of one call.
pub(super) struct LineOutlet {
    pub(super) queue: Arc<Outbox>,
    /// Who to ask; `None` in the modern era.
    pub(super) client: Option<Client>,
}

/// The client of a legacy call.
pub(super) struct Client {
    pub(super) session: Arc<Session>,
    pub(super) patience: Duration,
    pub(super) slot: Arc<Slot>,
}

/// A call's slot among those that may run. A call that waits for its client gives it up
/// meanwhile: otherwise calls that wait for answers could keep the answers from being read.
#[derive(Debug)]
pub(super) struct Slot {
    all: Arc<Semaphore>,
    held: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Slot {
    /// A slot not taken yet.
    pub(super) fn new(all: Arc<Semaphore>) -> Self {
        Self { all, held: Mutex::default() }
    }

    /// Takes the slot for as long as the guard lives, however long others keep the slot itself.
    pub(super) fn hold(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> Held {
        self.put(Some(permit));
        Held(Arc::clone(self))
    }

    fn put(&self, permit: Option<OwnedSemaphorePermit>) -> Option<OwnedSemaphorePermit> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *held, permit)
    }

    async fn lend<T>(&self, wait: impl Future<Output = T>) -> T {
        let lent = self.put(None).is_some();
        let result = wait.await;
        // Of several questions asked at once, the one that gave the slot up takes it back.
        if lent && let Ok(permit) = Arc::clone(&self.all).acquire_owned().await {
            self.put(Some(permit));
        }
        result
    }
}

/// A taken slot.
pub(super) struct Held(Arc<Slot>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.put(None);
    }
}

impl Outlet for LineOutlet {
    fn send(&self, message: Bytes) -> OutletFuture<'_, Delivery> {
        Box::pin(async move {
            self.queue.push(message).await;
            Delivery::Queued
        })
    }

    fn ask<'a>(
        &'a self,
        method: &'a str,
        params: &'a [u8],
    ) -> OutletFuture<'a, Result<Bytes, RpcError>> {
        Box::pin(async move {
            let Some(client) = &self.client else {
                return Err(RpcError::internal("servers send no requests in this revision"));
            };
            let send = |id: &Id| {
                let request = encode::request(id, method, Some(params));
                self.queue.push(request)
            };
            client.slot.lend(client.session.ask(method, client.patience, send)).await
        })
    }
}
