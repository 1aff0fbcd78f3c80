//! Documents as lines of JSON: one each, with nothing left out.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use lyceum_kb::{DocPath, Document, Fields, MimeType};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Record;

/// Bytes of one line: a document of the largest size in its longest spelling.
const MAX_LINE: u64 = 128 << 20;

/// The line itself. Revision and times are for readers; an import makes its own.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    path: String,
    title: String,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(default)]
    metadata: Map<String, Value>,
    mime_type: String,
    #[serde(default)]
    revision: i64,
    #[serde(default)]
    created_at: i64,
    #[serde(default)]
    updated_at: i64,
    content: String,
}

/// A file of lines on its way. It has another name until it is whole and on disk, so that a crash leaves no half export,
/// and a link that has the name is replaced instead of followed.
#[derive(Debug)]
pub(crate) struct LinesFile {
    file: BufWriter<File>,
    partial: PathBuf,
    target: PathBuf,
}

impl LinesFile {
    pub(crate) fn create(target: &Path) -> anyhow::Result<LinesFile> {
        let context = || format!("cannot write {}", target.display());
        let name = target.file_name().with_context(context)?.to_string_lossy();
        let partial = target.with_file_name(format!(".{name}.{}.partial", std::process::id()));
        let mut options = OpenOptions::new();
        // A file that is made anew follows no link.
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&partial).with_context(context)?;
        Ok(LinesFile { file: BufWriter::new(file), partial, target: target.to_owned() })
    }

    pub(crate) fn write(&mut self, document: &Document) -> anyhow::Result<()> {
        Ok(self.file.write_all(line(document)?.as_bytes())?)
    }

    /// Gives the file its name.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        let context = || format!("cannot write {}", self.target.display());
        self.file.flush().and_then(|()| self.file.get_ref().sync_all()).with_context(context)?;
        std::fs::rename(&self.partial, &self.target).with_context(context)?;
        #[cfg(unix)]
        {
            let directory = self.target.parent().filter(|parent| !parent.as_os_str().is_empty());
            let directory = directory.unwrap_or(Path::new("."));
            File::open(directory)
                .and_then(|directory| directory.sync_all())
                .with_context(context)?;
        }
        Ok(())
    }
}

impl Drop for LinesFile {
    fn drop(&mut self) {
        // After it has its name there is nothing to remove.
        let _ = std::fs::remove_file(&self.partial);
    }
}

/// A document as one line, with its end.
pub(super) fn line(document: &Document) -> anyhow::Result<String> {
    let meta = &document.meta;
    let line = Line {
        path: meta.path.to_string(),
        title: meta.title.clone(),
        tags: meta.tags.clone(),
        source: meta.source.clone(),
        metadata: meta.metadata.clone(),
        mime_type: meta.mime_type.as_str().to_owned(),
        revision: meta.revision,
        created_at: meta.created_at,
        updated_at: meta.updated_at,
        content: document.body.clone(),
    };
    Ok(serde_json::to_string(&line)? + "\n")
}

/// Reads lines, and hands each document on. Empty lines are nothing; anything else that is no
/// document ends it all with the number of the line.
pub(crate) fn read_lines(
    mut input: impl BufRead,
    mut see: impl FnMut(Record) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut text = String::new();
    for number in 1.. {
        text.clear();
        let context = || format!("line {number}");
        let n_read = input.by_ref().take(MAX_LINE).read_line(&mut text).with_context(context)?;
        if n_read == 0 {
            break;
        }
        anyhow::ensure!((n_read as u64) < MAX_LINE, "line {number} is too long");
        if !text.trim().is_empty() {
            see(record(&text).with_context(context)?)?;
        }
    }
    Ok(())
}

fn record(text: &str) -> anyhow::Result<Record> {
    let line: Line = serde_json::from_str(text).context("this is no exported document")?;
    let fields = Fields {
        body: Some(line.content),
        title: Some(line.title),
        tags: Some(line.tags),
        source: line.source,
        metadata: Some(line.metadata),
        mime_type: Some(MimeType::parse(&line.mime_type)?),
    };
    Ok(Record { path: DocPath::parse(&line.path)?, fields })
}
