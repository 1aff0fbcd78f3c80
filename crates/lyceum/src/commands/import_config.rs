//! `lyceum import-config`: what others configured, as entries of our own configuration.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use lyceum_gateway::import::import;

use crate::cli::ImportConfigOpts;
use crate::stdout::print;

/// Bytes to read; the importer refuses far smaller files than this.
const MAX_READ: u64 = 4 << 20;

pub(crate) fn run(opts: &ImportConfigOpts) -> anyhow::Result<ExitCode> {
    let name = opts.source.display();
    let text = read(&opts.source).with_context(|| format!("cannot read {name}"))?;
    let imported = import(&text).with_context(|| format!("cannot take over {name}"))?;
    let toml = imported.to_toml();
    match &opts.write {
        None => print(toml.trim_end())?,
        Some(target) => write(target, &toml)?,
    }
    for note in &imported.notes {
        eprintln!("note: {}", lyceum_gateway::invisible::visible(note));
    }
    Ok(ExitCode::SUCCESS)
}

fn read(source: &Path) -> io::Result<String> {
    let mut text = String::new();
    match source.as_os_str() == "-" {
        true => io::stdin().take(MAX_READ).read_to_string(&mut text)?,
        false => File::open(source)?.take(MAX_READ).read_to_string(&mut text)?,
    };
    Ok(text)
}

/// Writes a file that is not there yet: what somebody wrote by hand is never lost.
fn write(target: &Path, toml: &str) -> anyhow::Result<()> {
    let name = target.display();
    let mut file = match OpenOptions::new().write(true).create_new(true).open(target) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            bail!("{name} exists and is left as it is; name another file, or copy what is printed")
        }
        Err(error) => return Err(error).with_context(|| format!("cannot write {name}")),
    };
    file.write_all(toml.as_bytes()).with_context(|| format!("cannot write {name}"))?;
    eprintln!("wrote {name}; try it with lyceum config check --config {name}");
    Ok(())
}
