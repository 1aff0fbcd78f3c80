//! The one task that waits for a child, and the only one that does anything to it.

use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::Child;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::Patience;
use super::exit::Exit;
use super::group::Group;
use super::stderr::Tail;
use super::stdin::Closer;

/// How long after a child's end its last words may arrive. Somebody who left its group can keep the
/// pipe open for ever.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// What is to become of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    Run,
    /// Step by step.
    Leave,
    /// At once.
    Die,
}

pub(super) struct Supervisor {
    pub(super) child: Child,
    pub(super) group: Group,
    pub(super) closer: Closer,
    pub(super) orders: watch::Receiver<Order>,
    pub(super) patience: Patience,
    pub(super) draining: JoinHandle<()>,
    pub(super) tail: Arc<Tail>,
}

impl Supervisor {
    /// Waits for the child's end, and brings it about if ordered to.
    pub(super) async fn run(mut self) -> Exit {
        let status = self.wait().await;
        // Whom it left behind.
        drop(self.group);
        self.closer.close();
        if timeout(LAST_WORDS, &mut self.draining).await.is_err() {
            self.draining.abort();
        }
        Exit { status: status.ok(), last_words: self.tail.lines() }
    }

    async fn wait(&mut self) -> io::Result<ExitStatus> {
        let Supervisor { child, group, closer, orders, patience, .. } = self;
        let order = tokio::select! {
            status = child.wait() => return status,
            order = at_least(orders, Order::Leave) => order,
        };
        if order == Order::Leave {
            closer.close();
            for (ask, time) in [(false, patience.after_eof), (true, patience.after_term)] {
                if ask {
                    group.terminate();
                }
                tokio::select! {
                    status = child.wait() => return status,
                    () = sleep(time) => {}
                    _ = at_least(orders, Order::Die) => break,
                }
            }
        }
        group.kill();
        // Where there are no groups, there is the child.
        let _ = child.start_kill();
        child.wait().await
    }
}

/// Waits for an order of that severity. Nobody left to give one is the most severe.
async fn at_least(orders: &mut watch::Receiver<Order>, severity: Order) -> Order {
    orders.wait_for(|order| *order >= severity).await.map_or(Order::Die, |order| *order)
}
