//! A data directory with as many documents as asked for, all of them indexed, and the server on it.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use serde_json::Value;
use tempfile::TempDir;

use super::corpus::Document;
use super::drive;
use super::request::call_tool;
use super::slow_disk;
use crate::cli::Cli;
use crate::client::Client;
use crate::echo;
use crate::pin::{SERVER_CORE, on_both_cores, on_core};
use crate::server::Server;

/// Uploads in flight: they share commits, so the more the better.
const LOADERS: usize = 48;
/// How long vectors may take.
const INDEXING: Duration = Duration::from_secs(1800);
const STEP: Duration = Duration::from_millis(200);
/// The program's own directory, on a disk and never in memory like some temporary ones.
const SCRATCH: &str = "bench/target";

#[derive(Debug)]
pub(super) struct Library {
    binary: PathBuf,
    data: PathBuf,
    documents: usize,
    /// Holds what the server works on, and is deleted with this.
    scratch: TempDir,
}

impl Library {
    /// Uploads what is missing and waits for its vectors.
    pub(super) fn prepare(
        cli: &Cli,
        documents: usize,
        remarks: &mut Vec<String>,
    ) -> anyhow::Result<Self> {
        let scratch = tempfile::tempdir_in(SCRATCH).context("making a data directory")?;
        let measured = scratch.path().join("data");
        let kept = cli.data.as_ref().map(|directory| directory.join(documents.to_string()));
        let data = kept.clone().unwrap_or_else(|| measured.clone());
        fs::create_dir_all(&data).context("making a data directory")?;
        let binary = cli.lyceum.clone();
        let mut library = Self { binary, data, documents, scratch };
        remarks.push(library.load()?);
        if let Some(kept) = kept {
            // What is measured also writes, and the next run must find what this one found.
            copy(&kept, &measured).context("copying the documents")?;
            library.data = measured;
        }
        let fsync = fsync_milliseconds(&library.data)?;
        remarks.push(format!("one fsync takes {fsync:.2} ms here (median)"));
        Ok(library)
    }

    pub(super) fn documents(&self) -> usize {
        self.documents
    }

    /// The server on its core, with its vectors in memory.
    pub(super) fn open(&self) -> anyhow::Result<Server> {
        let server = self.open_at_once()?;
        wait_until_searched(&server)?;
        Ok(server)
    }

    /// The same on a disk whose every fsync takes `fsync` longer than this one's.
    pub(super) fn open_on_slow_disk(&self, fsync: Duration) -> anyhow::Result<Server> {
        let slowed = slow_disk::under(fsync, self.scratch.path())?;
        let line = on_core(SERVER_CORE).into_iter().chain(slowed);
        let server = self.start(&line.collect::<Vec<_>>())?;
        wait_until_searched(&server)?;
        Ok(server)
    }

    /// The server on its core, as soon as it takes connections.
    pub(super) fn open_at_once(&self) -> anyhow::Result<Server> {
        self.start(&on_core(SERVER_CORE))
    }

    /// Lets the server end in its own way, so that the next one finds its data in order.
    pub(super) fn close(&self, server: Server) -> anyhow::Result<()> {
        server.stop().map(drop)
    }

    fn start(&self, wrapper: &[String]) -> anyhow::Result<Server> {
        let data = self.data.display().to_string();
        let arguments = ["serve", "--log", "error", "--data", data.as_str()].map(str::to_owned);
        Server::start_with(wrapper, |port, _| {
            let listen = ["--listen".to_owned(), format!("127.0.0.1:{port}")];
            Ok((self.binary.clone(), arguments.into_iter().chain(listen).collect()))
        })
    }

    /// On all cores: nothing is measured yet.
    fn load(&self) -> anyhow::Result<String> {
        let server = self.start(&on_both_cores())?;
        let port = server.port();
        let start = Instant::now();
        let present = health(port)?.documents;
        if present < self.documents {
            upload(port, self.documents)?;
        }
        let uploaded = start.elapsed().as_secs_f64();
        wait_until_indexed(port, INDEXING)?;
        let indexed = start.elapsed().as_secs_f64();
        let present = health(port)?.documents;
        ensure!(present >= self.documents, "{present} documents instead of {}", self.documents);
        self.close(server)?;
        let documents = self.documents;
        Ok(format!(
            "{documents} documents: loaded in {uploaded:.0} s, vectors after {indexed:.0} s"
        ))
    }
}

/// What the server says about its documents.
#[derive(Debug)]
struct Health {
    documents: usize,
    waiting: usize,
    dead: usize,
}

fn health(port: u16) -> anyhow::Result<Health> {
    let answer = Client::connect(port)?.call(&echo::get(port, "/health"))?;
    let health: Value = serde_json::from_slice(&answer.body).context("reading /health")?;
    let number = |dependency: &str, member: &str| {
        let number = health["dependencies"][dependency][member].as_u64();
        number.map(|n| n as usize).with_context(|| format!("no {member} in {}", answer.text()))
    };
    Ok(Health {
        documents: number("store", "documents")?,
        waiting: number("index", "waiting")?,
        dead: number("index", "dead")?,
    })
}

/// Waits until every document has its vectors.
pub(super) fn wait_until_indexed(port: u16, patience: Duration) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        let Health { waiting, dead, .. } = health(port)?;
        ensure!(dead == 0, "{dead} documents got no vectors");
        if waiting == 0 {
            return Ok(());
        }
        ensure!(start.elapsed() < patience, "{waiting} documents still wait for their vectors");
        thread::sleep(STEP);
    }
}

/// Waits until the server has all vectors and searches with them.
fn wait_until_searched(server: &Server) -> anyhow::Result<()> {
    wait_until_indexed(server.port(), INDEXING)?;
    let start = Instant::now();
    let query = serde_json::json!({ "query": "system" });
    let request = call_tool(server.port(), "search_knowledge", &query);
    let mut client = Client::connect(server.port())?;
    while drive::check(&client.call(&request)?, "hybrid").is_err() {
        ensure!(start.elapsed() < INDEXING, "searches never used vectors");
        thread::sleep(STEP);
    }
    Ok(())
}

fn upload(port: u16, documents: usize) -> anyhow::Result<()> {
    let next = Arc::new(AtomicUsize::new(0));
    let loaders: Vec<_> = (0..LOADERS)
        .map(|_| {
            let next = Arc::clone(&next);
            thread::spawn(move || upload_some(port, documents, &next))
        })
        .collect();
    loaders.into_iter().try_for_each(|loader| {
        loader.join().map_err(|_| anyhow!("a loader panicked"))?.context("loading documents")
    })
}

fn upload_some(port: u16, documents: usize, next: &AtomicUsize) -> anyhow::Result<()> {
    let mut client = Client::connect(port)?;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= documents {
            return Ok(());
        }
        if number.is_multiple_of(10_000) {
            eprintln!("kb: {number} of {documents} documents loaded");
        }
        let arguments = Document::numbered(number).arguments();
        let answer = client.call(&call_tool(port, "upload_document", &arguments))?;
        drive::check(&answer, "revision")?;
    }
}

/// Copies the files of a directory, which has no others in it.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for file in fs::read_dir(from)? {
        let file = file?;
        fs::copy(file.path(), to.join(file.file_name()))?;
    }
    Ok(())
}

/// What it takes to have one page on disk.
fn fsync_milliseconds(directory: &Path) -> anyhow::Result<f64> {
    let path = directory.join("fsync");
    let mut file = File::create(&path)?;
    let mut times = vec![];
    for _ in 0..101 {
        file.write_all(&[0; 4096])?;
        let start = Instant::now();
        file.sync_data()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    fs::remove_file(path)?;
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
