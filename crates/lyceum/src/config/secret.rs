//! Secrets the operator gives: in an environment variable or in a file of mode 0600, never in the
//! configuration itself and never on a command line.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lyceum_http::open_secret_file;

use crate::config::environment::Environment;
use crate::config::error::ConfigError;
use crate::config::given::Given;

/// No secret is longer.
const LONGEST: u64 = 64 << 10;

/// Where a secret is found.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Secret {
    /// Taken from the environment when the configuration was read.
    Value(Arc<str>),
    /// In a file, which may change while the server runs.
    File(PathBuf),
}

impl Secret {
    /// The secret that `env` or `file` names; `None` when neither is given. `names` are the keys.
    pub(crate) fn given(
        env: Option<Given<String>>,
        file: Option<Given<PathBuf>>,
        names: [&str; 2],
        environment: &Environment,
    ) -> Result<Option<Self>, ConfigError> {
        match (env, file) {
            (None, None) => Ok(None),
            (Some(env), Some(_)) => {
                let message = format!("{} and {} are both given; keep one", names[0], names[1]);
                Err(ConfigError::at(&env.source, message))
            }
            (None, Some(file)) => Ok(Some(Self::File(file.value))),
            (Some(env), None) => match environment.get(&env.value) {
                Some(value) => Ok(Some(Self::Value(value.into()))),
                None => {
                    let message =
                        format!("the environment variable {} is empty or not set", env.value);
                    Err(ConfigError::at(&env.source, message))
                }
            },
        }
    }

    /// The secret, without the line end a file usually has.
    ///
    /// # Errors
    /// When its file cannot be read, is empty, or can be read by others.
    pub(crate) fn read(&self) -> io::Result<Arc<str>> {
        match self {
            Self::Value(value) => Ok(Arc::clone(value)),
            Self::File(path) => read_file(path).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            }),
        }
    }
}

fn read_file(path: &Path) -> io::Result<Arc<str>> {
    let file = open_secret_file(path)?;
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text)?;
    match text.trim() {
        "" => Err(io::Error::other("the file is empty; write the secret into it")),
        secret => Ok(secret.into()),
    }
}

/// Says where, never what.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(_) => f.write_str("Value(..)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}
