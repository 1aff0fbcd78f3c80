//! Converts what strangers give, in a process of its own.
//!
//! Readers of web pages, PDF and Word files are large, and a file can be made to use up memory,
//! time or the stack. The process that reads it has limits on all of them and nothing worth taking;
//! if it dies, the answer says so and the server goes on. Texts need none of this.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;

use bytes::Bytes;
use lyceum_kb::convert::{Converted, Kind, MAX_OUTPUT, Original};
use lyceum_kb::{Error, MimeType, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::time::{Duration, timeout};

/// How long a conversion may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of an answer: the longest text, with room for how JSON spells it.
const MAX_ANSWER: u64 = 2 * MAX_OUTPUT as u64;

/// A file or page, and what is known about it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Page {
    pub(crate) bytes: Bytes,
    pub(crate) media_type: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) url: Option<String>,
}

/// What the other process says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Converted {
        title: Option<String>,
        tags: Vec<String>,
        metadata: Map<String, Value>,
        mime_type: String,
        body: String,
    },
    Refused(String),
}

/// The page as a document.
pub(crate) async fn convert(page: Page) -> Result<Converted> {
    let kind = Kind::of(&page.original())?;
    let text = matches!(kind, Kind::Markdown | Kind::Text | Kind::Json);
    // Unit tests are not the program that knows the command.
    if text || cfg!(test) {
        let converting =
            tokio::task::spawn_blocking(move || lyceum_kb::convert::convert(&page.original()));
        return converting.await.unwrap_or_else(|_| Err(unreadable()));
    }
    let mut arguments: Vec<OsString> = vec!["convert".into()];
    let known = [("--media-type", page.media_type), ("--name", page.name), ("--url", page.url)];
    for (flag, value) in known {
        // In one piece, so that no value is taken for a flag.
        arguments.extend(value.map(|value| format!("{flag}={value}").into()));
    }
    run(program(), arguments, page.bytes, PATIENCE).await
}

/// This very program, even if its file has been replaced since it was started.
fn program() -> PathBuf {
    match cfg!(target_os = "linux") {
        true => PathBuf::from("/proc/self/exe"),
        false => std::env::current_exe().unwrap_or_else(|_| PathBuf::from("lyceum")),
    }
}

async fn run(
    program: PathBuf,
    arguments: Vec<OsString>,
    bytes: Bytes,
    patience: Duration,
) -> Result<Converted> {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().kill_on_drop(true);
    // The allocator takes a gigabyte in advance otherwise, which no limit could tell from a bomb.
    command.env("MIMALLOC_ARENA_EAGER_COMMIT", "0");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let failed = |error| Error::unavailable(format!("no process for the conversion: {error}"));
    let mut child = command.spawn().map_err(failed)?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Error::internal("the conversion cannot be talked to"));
    };
    let mut answer = Vec::new();
    let talk = async {
        let give = async {
            // It may have heard enough before the end, so what it says counts, not this.
            let _ = stdin.write_all(&bytes).await;
            drop(stdin);
        };
        let mut limited = stdout.take(MAX_ANSWER + 1);
        tokio::join!(give, limited.read_to_end(&mut answer)).1
    };
    // Dropping the child ends it, whatever it is doing.
    match timeout(patience, talk).await {
        Ok(Ok(_)) if answer.len() as u64 <= MAX_ANSWER => read(&answer),
        _ => Err(unreadable()),
    }
}

fn read(answer: &[u8]) -> Result<Converted> {
    match serde_json::from_slice(answer) {
        Ok(Answer::Converted { title, tags, metadata, mime_type, body }) => {
            let mime_type = MimeType::parse(&mime_type)?;
            Ok(Converted { title, tags, metadata, body, mime_type })
        }
        Ok(Answer::Refused(message)) => Err(Error::invalid(message)),
        Err(_) => Err(unreadable()),
    }
}

fn unreadable() -> Error {
    Error::invalid("it cannot be read: it is damaged, or takes too much memory or time")
}

impl Page {
    fn original(&self) -> Original<'_> {
        Original {
            bytes: &self.bytes,
            media_type: self.media_type.as_deref(),
            name: self.name.as_deref(),
            url: self.url.as_deref(),
        }
    }
}

impl From<Result<Converted>> for Answer {
    fn from(result: Result<Converted>) -> Answer {
        match result {
            Ok(Converted { title, tags, metadata, body, mime_type }) => {
                let mime_type = mime_type.as_str().to_owned();
                Answer::Converted { title, tags, metadata, mime_type, body }
            }
            Err(error) => Answer::Refused(error.message().to_owned()),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    async fn shell(script: &str) -> Result<Converted> {
        let arguments = vec!["-c".into(), script.into()];
        // More than a pipe holds, so that writing has to wait for reading.
        let bytes = Bytes::from(vec![b'x'; 1 << 20]);
        run(PathBuf::from("/bin/sh"), arguments, bytes, Duration::from_secs(2)).await
    }

    #[tokio::test]
    async fn a_process_that_does_not_answer_properly_is_an_error() {
        for script in ["exit 3", "kill -9 $$", "echo nonsense", "exec sleep 60", "exec yes"] {
            let error = shell(script).await.unwrap_err();
            assert_eq!(error, unreadable(), "{script}");
        }
    }

    #[tokio::test]
    async fn what_the_process_says_is_passed_on() {
        let refused = shell(r#"cat >&2; echo '{"refused":"why"}'"#).await;
        assert_eq!(refused, Err(Error::invalid("why")));
        let answer = r#"{"converted":{"title":"T","tags":["a"],"metadata":{"b":1},"mime_type":"text/plain","body":"c"}}"#;
        let converted = shell(&format!("echo '{answer}'")).await.unwrap();
        assert_eq!((converted.title.as_deref(), converted.body.as_str()), (Some("T"), "c"));
        assert_eq!(converted.mime_type, MimeType::Plain);
    }

    #[tokio::test]
    async fn texts_need_no_process() {
        let page = Page { bytes: "# T".into(), name: Some("a.md".into()), ..Page::default() };
        assert_eq!(convert(page).await.unwrap().title.as_deref(), Some("T"));
    }
}
