//! Tasks that run beside the server and end with it.

use tokio::task::JoinHandle;
use tokio::time::{Duration, timeout};

/// How long tasks may take to end, and each to write down what it still holds.
const PATIENCE: Duration = Duration::from_secs(2);

/// The tasks. Dropping it ends them all.
#[derive(Debug, Default)]
pub(crate) struct Background {
    endless: Vec<JoinHandle<()>>,
    finishing: Vec<JoinHandle<()>>,
}

impl Background {
    /// Runs a task that has nothing to lose when it is ended.
    pub(crate) fn run(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.endless.push(tokio::spawn(task));
    }

    /// Runs a task that ends by itself once nobody gives it work.
    pub(crate) fn finish(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.finishing.push(tokio::spawn(task));
    }

    /// Ends what would go on for ever. A task that is in the middle of something is waited for.
    pub(crate) async fn calm_down(&mut self) {
        self.endless.iter().for_each(JoinHandle::abort);
        let ended = async {
            for task in self.endless.drain(..) {
                drop(task.await);
            }
        };
        if timeout(PATIENCE, ended).await.is_err() {
            tracing::warn!("a background task does not end; going on without it");
        }
    }

    /// Ends everything; those who hand out work must be gone by now.
    pub(crate) async fn stop(mut self) {
        self.calm_down().await;
        for mut task in self.finishing.drain(..) {
            if timeout(PATIENCE, &mut task).await.is_err() {
                task.abort();
            }
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.endless.iter().chain(&self.finishing).for_each(JoinHandle::abort);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn endless_tasks_have_ended_when_all_is_calm() {
        let mut background = Background::default();
        let held = Arc::new(());
        for _ in 0..3 {
            let held = Arc::clone(&held);
            background.run(async move {
                let _held = held;
                std::future::pending().await
            });
        }
        tokio::task::yield_now().await;
        background.calm_down().await;
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
