//! [`Leash`]: orders to a child, and news of its end.

use tokio::sync::watch;

use super::exit::Exit;
use super::supervise::Order;

/// A hold on a child. Letting go of it does nothing.
#[derive(Debug, Clone)]
pub(crate) struct Leash {
    pub(super) orders: watch::Sender<Order>,
    pub(super) exit: watch::Receiver<Option<Exit>>,
}

impl Leash {
    /// Gives an order, unless a more severe one was given.
    pub(super) fn order(&self, order: Order) {
        self.orders.send_if_modified(|given| {
            let is_new = *given < order;
            *given = order.max(*given);
            is_new
        });
    }

    /// Waits until the child has ended and has been reaped.
    pub(crate) async fn exited(&self) -> Exit {
        let mut exit = self.exit.clone();
        match exit.wait_for(Option::is_some).await {
            Ok(exit) => exit.clone().unwrap_or_default(),
            // The runtime is ending, and the child with it.
            Err(_) => Exit::default(),
        }
    }

    /// Whether it has ended, and how.
    pub(crate) fn try_exited(&self) -> Option<Exit> {
        self.exit.borrow().clone()
    }

    /// Ends its input, then asks, then kills, and waits for its end.
    pub(crate) async fn stop(&self) -> Exit {
        self.order(Order::Leave);
        self.exited().await
    }
}
