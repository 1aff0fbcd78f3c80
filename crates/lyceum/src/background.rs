//! Tasks that run beside the server and end with it.

use tokio::task::JoinHandle;
use tokio::time::{Duration, timeout};

/// How long a task may take to write down what it still holds.
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

    /// Ends what would go on for ever.
    pub(crate) fn calm_down(&mut self) {
        self.endless.drain(..).for_each(|task| task.abort());
    }

    /// Ends everything; those who hand out work must be gone by now.
    pub(crate) async fn stop(mut self) {
        self.calm_down();
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
