//! Child processes that speak over their standard streams.
//!
//! A child leads a process group of its own, sees only the environment it was given, and is always
//! reaped: when it is stopped, when it dies, when its [`Handle`] is dropped and when the runtime ends.
//! Whatever it started dies with it, as long as it stayed in the group. What is said over the streams
//! is not looked at here.

mod allowed;
mod environment;
mod exit;
mod group;
mod leash;
mod limits;
mod stderr;
mod stdin;
mod supervise;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::{ChildStdout, Command};
use tokio::sync::watch;

pub use allowed::AllowedCommands;
pub use exit::Exit;
pub(crate) use leash::Leash;
pub use limits::Limits;
pub use stdin::Stdin;

use environment::Environment;
use group::Group;
use stderr::Tail;
use supervise::{Order, Supervisor};

/// What to run, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawn {
    /// The upstream's name, for the log.
    pub name: String,
    /// A program and its arguments; no shell ever sees them.
    pub command: Vec<String>,
    /// Variables besides the usual few: `NAME` is inherited, `NAME=value` is set.
    pub env: Vec<String>,
    /// Where it starts; `None` is where we are.
    pub directory: Option<PathBuf>,
    /// What it may use.
    pub limits: Limits,
    /// How long it may take to leave.
    pub patience: Patience,
}

/// How long a child may take to leave at each step of being stopped. After the last it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// After its input has ended.
    pub after_eof: Duration,
    /// After SIGTERM.
    pub after_term: Duration,
}

/// A running child.
#[derive(Debug)]
pub struct Child {
    /// What it reads.
    pub stdin: Stdin,
    /// What it says. Lines can be of any length; bounding them is the reader's business.
    pub stdout: ChildStdout,
    /// Its leash.
    pub handle: Handle,
}

/// Watches and stops a child. Dropping it kills the child and its group at once.
#[derive(Debug)]
pub struct Handle {
    id: u32,
    leash: Leash,
    tail: Arc<Tail>,
}

/// Why there is no child.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// Nothing to run.
    #[error("the command is empty; write a program and its arguments")]
    Empty,
    /// The operator allows other commands only.
    #[error("command {command:?} is not allowed; allowed are: {allowed}")]
    Refused {
        /// What was to run.
        command: String,
        /// What may run.
        allowed: String,
    },
    /// There is no such program.
    #[error("no program {0:?} in PATH; install it or write its full path")]
    NotFound(String),
    /// There is no such directory to run it in.
    #[error("there is no directory {} to run {command:?} in", directory.display())]
    NoDirectory {
        /// What was to run.
        command: String,
        /// Where.
        directory: PathBuf,
    },
    /// The system does not want to.
    #[error("cannot run {command:?}: {source}")]
    System {
        /// What was to run.
        command: String,
        /// What the system says.
        source: io::Error,
    },
}

impl Default for Patience {
    fn default() -> Self {
        Self { after_eof: Duration::from_secs(2), after_term: Duration::from_secs(2) }
    }
}

impl Spawn {
    /// A child with the usual limits.
    pub fn new(name: impl Into<String>, command: Vec<String>) -> Self {
        Self {
            name: name.into(),
            command,
            env: Vec::new(),
            directory: None,
            limits: Limits::default(),
            patience: Patience::default(),
        }
    }

    /// Starts it. Must be called within a tokio runtime, which then keeps an eye on the child.
    pub fn spawn(&self, allowed: &AllowedCommands) -> Result<Child, SpawnError> {
        let (program, arguments) = self.command.split_first().ok_or(SpawnError::Empty)?;
        let environment = Environment::choose(std::env::vars_os(), &self.env);
        let file = environment.find_program(program, self.directory.as_deref());
        allowed.check(program, file.as_deref())?;
        let file = file.ok_or_else(|| SpawnError::NotFound(program.clone()))?;
        if let Some(directory) = self.directory.as_ref().filter(|path| !path.is_dir()) {
            let (command, directory) = (program.clone(), directory.clone());
            return Err(SpawnError::NoDirectory { command, directory });
        }
        let system = |source| SpawnError::System { command: program.clone(), source };
        let child = self.command(&file, arguments, environment).spawn().map_err(system)?;
        self.attend(child).map_err(system)
    }

    fn command(&self, file: &Path, arguments: &[String], environment: Environment) -> Command {
        let mut command = Command::new(file);
        command.args(arguments).env_clear().envs(environment).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        #[cfg(unix)]
        command.process_group(0);
        command
    }

    /// Puts a child that has just been started under supervision.
    fn attend(&self, mut child: tokio::process::Child) -> io::Result<Child> {
        let gone = || io::Error::other("it ended before it could be watched");
        let group = Group::led_by(&child).ok_or_else(gone)?;
        let id = group.id();
        self.limits.impose(&self.name, &group);
        let (Some(input), Some(stdout), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(gone());
        };
        let (stdin, closer) = Stdin::new(input);
        let tail = Arc::new(Tail::default());
        let draining = tokio::spawn(stderr::drain(errors, self.name.clone(), tail.clone()));
        let (orders, heard) = watch::channel(Order::Run);
        let (ended, exit) = watch::channel(None);
        let supervisor = Supervisor {
            child,
            group,
            closer,
            orders: heard,
            patience: self.patience,
            draining,
            tail: tail.clone(),
        };
        tokio::spawn(async move {
            let exit = supervisor.run().await;
            ended.send_replace(Some(exit));
        });
        Ok(Child { stdin, stdout, handle: Handle { id, leash: Leash { orders, exit }, tail } })
    }
}

impl Handle {
    /// The process id of the child, which is the id of its group as well.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Waits until the child has ended and has been reaped.
    pub async fn exited(&self) -> Exit {
        self.leash.exited().await
    }

    /// Whether it has ended, and how.
    pub fn try_exited(&self) -> Option<Exit> {
        self.leash.try_exited()
    }

    /// The last lines it wrote to its standard error.
    pub fn last_words(&self) -> Vec<String> {
        self.tail.lines()
    }

    /// Ends its input, then asks, then kills, and waits for its end.
    pub async fn stop(&self) -> Exit {
        self.leash.stop().await
    }

    /// A way to stop it that outlives the handle.
    pub(crate) fn leash(&self) -> Leash {
        self.leash.clone()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.leash.order(Order::Die);
    }
}
