//! [`Children`]: the processes of an upstream, whoever has them.
//!
//! A process may be nobody's that could be asked to close it: it was only just started, or is on its
//! way out. What ends with the upstream is therefore kept in one place.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::task::JoinSet;

use super::dial::DialError;
use crate::process::{Child, Leash, SpawnError};

/// The processes an upstream started that may still run.
#[derive(Debug, Default)]
pub(crate) struct Children(Mutex<Started>);

#[derive(Debug, Default)]
struct Started {
    leashes: Vec<Leash>,
    /// There will be no further ones.
    is_over: bool,
}

impl Children {
    /// Starts another one, unless all have been stopped for good.
    pub(crate) fn start(
        &self,
        spawn: impl FnOnce() -> Result<Child, SpawnError>,
    ) -> Result<Child, DialError> {
        // Nobody stops them all between the look and the start.
        let mut started = self.lock();
        if started.is_over {
            return Err(DialError::Removed);
        }
        let child = spawn()?;
        started.leashes.retain(|leash| leash.try_exited().is_none());
        started.leashes.push(child.handle.leash());
        Ok(child)
    }

    /// Stops them all for good, and waits for their end.
    pub(crate) async fn stop(&self) {
        let leashes = {
            let mut started = self.lock();
            started.is_over = true;
            std::mem::take(&mut started.leashes)
        };
        let mut stopping = JoinSet::new();
        for leash in leashes {
            stopping.spawn(async move { leash.stop().await });
        }
        stopping.join_all().await;
    }

    fn lock(&self) -> MutexGuard<'_, Started> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use crate::config::{Target, UpstreamConfig};
    use crate::process::AllowedCommands;
    use crate::upstream::own::Owner;
    use crate::upstream::tests::{setting, who};
    use crate::upstream::{Setting, Upstream};

    #[tokio::test]
    async fn a_process_nobody_has_yet_ends_with_its_upstream_and_none_follows() {
        let command = ["/bin/sh", "-c", "cat >/dev/null"].map(str::to_owned).to_vec();
        let config = UpstreamConfig::new("up", Target::Command(command));
        let allowed_commands = Arc::new(AllowedCommands::default());
        let setting = Arc::new(Setting { allowed_commands, ..(*setting()).clone() });
        let upstream = Arc::new(Upstream::new(config, setting, None));
        let opener = Arc::clone(&upstream);
        let opening = tokio::spawn(async move {
            opener.own.open(&opener, Owner::Caller(who(1).caller), b"{}").await
        });
        while upstream.children.lock().leashes.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let leash = upstream.children.lock().leashes[0].clone();
        assert_eq!(leash.try_exited(), None);
        upstream.close().await;
        assert!(leash.try_exited().is_some());
        opening.await.unwrap().unwrap_err();
        let refused = upstream.children.start(|| panic!("it is over")).unwrap_err();
        assert!(refused.to_string().contains("it was removed"), "{refused}");
    }
}
