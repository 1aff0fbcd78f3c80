//! `ingest_document` from a web server to a stored document, with nothing of the product replaced.
//!
//! Only public addresses are fetched from, so the server has one: in a network of its own, made for the test, whose only
//! address it is. The client talks over standard input and output, which lead there too.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Duration, Instant, sleep, timeout};

use crate::convert::{bomb, peak};
use crate::stdio::call;

const PATIENCE: Duration = Duration::from_secs(60);

/// Brings the network up, serves the files of a directory in it for as long as it lives, and becomes `lyceum stdio`.
const SCRIPT: &str = "ip link set lo up && ip addr add 93.184.216.34/32 dev lo || exit; \
    setpriv --pdeathsig KILL python3 -m http.server --bind 93.184.216.34 --directory \"$1\" 8080 \
    >/dev/null 2>&1 </dev/null & exec \"$2\" stdio --data \"$3\"";
const SITE: &str = "http://93.184.216.34:8080";

/// A client of a server in a network of its own.
struct Client {
    child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Client {
    fn start(files: &Path, data: &Path) -> Self {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--net", "sh", "-c", SCRIPT, "sh"]);
        command.arg(files).arg(env!("CARGO_BIN_EXE_lyceum")).arg(data);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, stdin, stdout: BufReader::new(stdout).lines() }
    }

    /// What the tool answers, be it an error.
    async fn ingest(&mut self, source: &str) -> Value {
        let message = call(1, "ingest_document", json!({ "source": source, "path": "in" }));
        self.ask(message).await
    }

    async fn ask(&mut self, message: Value) -> Value {
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        let line = timeout(PATIENCE, self.stdout.next_line()).await.expect("it answers in time");
        let answer: Value = serde_json::from_str(&line.unwrap().expect("an answer")).unwrap();
        let text = answer["result"]["content"][0]["text"].as_str();
        serde_json::from_str(text.unwrap_or_else(|| panic!("{answer}"))).unwrap()
    }
}

/// Whether this system lets us make networks.
async fn is_possible() -> bool {
    let arguments = ["--map-root-user", "--net", "ip", "link", "set", "lo", "up"];
    Command::new("unshare").args(arguments).status().await.is_ok_and(|status| status.success())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_a_public_server_become_documents() {
    if !is_possible().await {
        eprintln!("not tested: this system lets nobody make a network (user namespaces, iproute2)");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (files, data) = (directory.path().join("files"), directory.path().join("data"));
    std::fs::create_dir(&files).unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lyceum-kb/tests/fixtures");
    for name in ["harbour.pdf", "harbour.docx"] {
        std::fs::copy(fixtures.join(name), files.join(name)).unwrap();
    }
    let page = "<title>Harbour</title><article><h1>Harbour</h1><p>The <b>harbour</b> master.</p></article>";
    std::fs::write(files.join("page.html"), page).unwrap();
    std::fs::write(files.join("bomb.pdf"), bomb(2 << 30)).unwrap();
    let mut client = Client::start(&files, &data);

    // The web server may take a moment to start.
    let deadline = Instant::now() + PATIENCE;
    while client.ingest(&format!("{SITE}/page.html")).await["error"]["code"] == "UNAVAILABLE" {
        assert!(Instant::now() < deadline, "the web server does not start");
        sleep(Duration::from_millis(50)).await;
    }
    for (name, mime_type, word) in [
        ("page.html", "text/markdown", "**harbour**"),
        ("harbour.pdf", "text/plain", "Saltmarsh"),
        ("harbour.docx", "text/markdown", "Harbour"),
    ] {
        let ingested = client.ingest(&format!("{SITE}/{name}")).await;
        assert!(ingested["revision"].is_i64(), "{name}: {ingested}");
        let read = call(2, "get_document_for_rewrite", json!({ "path": "in" }));
        let document = client.ask(read).await;
        assert_eq!(document["mime_type"], mime_type, "{name}");
        let content = document["content"].as_str().unwrap();
        assert!(content.contains(word), "{name}: {content}");
    }
    for (source, code) in [
        (format!("{SITE}/bomb.pdf"), "INVALID_ARGUMENT"),
        (format!("{SITE}/nothing.html"), "INVALID_ARGUMENT"),
        ("http://127.0.0.1:8080/page.html".to_owned(), "FORBIDDEN"),
    ] {
        let refused = client.ingest(&source).await;
        assert_eq!(refused["error"]["code"], code, "{source}: {refused}");
    }
    // The bomb went off elsewhere.
    let watched = tokio::spawn(peak(client.child.id().unwrap()));
    sleep(Duration::from_millis(20)).await;
    drop(client.stdin);
    client.child.wait().await.unwrap();
    let peak = watched.await.unwrap();
    assert!((1..400).contains(&peak), "the server itself took {peak} MiB");
}
