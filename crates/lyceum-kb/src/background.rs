//! Work that can wait.

/// How much less the processor is given to background work where others want it: about a tenth of a call's share.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// Makes this thread give way to all others of the process.
///
/// On one processor that is what lets indexing happen while the disk is waited for, instead of while writers could go on.
/// Only Linux knows niceness of single threads; elsewhere they compete, which changes nothing but the speed.
pub(crate) fn give_way() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!(%error, "background work competes with calls");
    }
}
