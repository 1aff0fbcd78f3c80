//! The process group a child leads, which is killed as a whole.

use tokio::process::Child;

/// A group that has not been killed yet. Dropping it kills it, which is what happens when the runtime
/// ends while children are running.
#[derive(Debug)]
pub(super) struct Group {
    id: u32,
    #[cfg(unix)]
    pid: rustix::process::Pid,
}

#[cfg(unix)]
impl Group {
    /// The group of a child that was started as leader of one.
    pub(super) fn led_by(child: &Child) -> Option<Group> {
        let id = child.id()?;
        let pid = rustix::process::Pid::from_raw(i32::try_from(id).ok()?)?;
        Some(Group { id, pid })
    }

    /// The leader.
    #[cfg(target_os = "linux")]
    pub(super) fn leader(&self) -> rustix::process::Pid {
        self.pid
    }

    /// Asks everybody to leave.
    pub(super) fn terminate(&self) {
        // An error means that nobody is left to ask.
        let _ = rustix::process::kill_process_group(self.pid, rustix::process::Signal::TERM);
    }

    /// Kills everybody. Once the leader has been reaped this must be done at once or never: a group's
    /// id stays taken while it has members, but not after.
    pub(super) fn kill(&self) {
        let _ = rustix::process::kill_process_group(self.pid, rustix::process::Signal::KILL);
    }
}

#[cfg(not(unix))]
impl Group {
    pub(super) fn led_by(child: &Child) -> Option<Group> {
        Some(Group { id: child.id()? })
    }

    pub(super) fn terminate(&self) {}

    pub(super) fn kill(&self) {}
}

impl Group {
    pub(super) fn id(&self) -> u32 {
        self.id
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
