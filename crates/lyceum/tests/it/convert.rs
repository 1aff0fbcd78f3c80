//! The process that reads files of strangers: what it says, and what it may use.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;
use tokio::time::{Duration, timeout};

use crate::lyceum::command;

/// Longer than the process may work.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(flags: &[&str], bytes: &[u8]) -> Child {
    let mut command = command(&["convert"]);
    command.env("MIMALLOC_ARENA_EAGER_COMMIT", "0");
    let mut child = command.args(flags).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    tokio::spawn(async move { stdin.write_all(&bytes).await });
    child
}

/// What was converted, or why not.
async fn answer(flags: &[&str], bytes: &[u8]) -> Value {
    let output = start(flags, bytes).wait_with_output();
    let output = timeout(PATIENCE, output).await.expect("it ends in time").unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn a_page_is_converted_from_standard_input() {
    let page = b"<title>T</title><p>Some <b>text</b> with <a href=x>a link</a>.";
    let flags = ["--media-type=text/html", "--name=-x", "--url=https://example.com/a/"];
    let said = answer(&flags, page).await;
    let converted = &said["converted"];
    assert_eq!(converted["title"], "T", "{said}");
    assert_eq!(converted["mime_type"], "text/markdown");
    assert!(converted["body"].as_str().unwrap().contains("**text**"), "{converted}");
    let refused = answer(&["--media-type=image/png"], b"").await;
    assert!(refused["refused"].as_str().unwrap().contains("image/png"), "{refused}");
    assert_eq!(answer(&["--name=a.txt"], b"hi").await["converted"]["body"], json!("hi"));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_conversion_leaves_the_processor_to_others() {
    let mut child = command(&["convert"]).stdin(Stdio::piped()).spawn().unwrap();
    // It waits for its input meanwhile.
    let stat = format!("/proc/{}/stat", child.id().unwrap());
    let niceness = || {
        let stat = std::fs::read_to_string(&stat).unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        fields.split_whitespace().nth(16).unwrap().parse::<i32>().unwrap()
    };
    let is_nice = async {
        while niceness() < 10 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, is_nice).await.expect("its niceness is 10 or more");
    child.kill().await.unwrap();
}

/// A PDF whose objects are packed into a stream that unpacks to `size` zeros.
pub(crate) fn bomb(size: usize) -> Vec<u8> {
    use std::fmt::Write as _;
    let packed = deflate_zeros(size);
    let mut head = String::from("%PDF-1.5\n");
    let at = head.len();
    let _ = write!(
        head,
        "1 0 obj\n<</Type/ObjStm/N 1/First 4/Filter/FlateDecode/Length {}>>\nstream\n",
        packed.len()
    );
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&packed);
    bytes.extend_from_slice(b"\nendstream\nendobj\n");
    let table = bytes.len();
    let tail = format!(
        "xref\n0 2\n0000000000 65535 f \n{at:010} 00000 n \ntrailer\n<</Size 2/Root 1 0 R>>\nstartxref\n{table}\n%%EOF\n"
    );
    bytes.extend_from_slice(tail.as_bytes());
    bytes
}

/// Zeros in zlib's format: a block with fixed codes, one zero and then nothing but repetitions of 258
/// more. It has no end, which readers forgive.
fn deflate_zeros(size: usize) -> Vec<u8> {
    // The first bits, then length 258 (11000101) and distance 1 (00000) again and again; eight of
    // them fill 13 bytes.
    let codes = "110".chars().chain("00110000".chars());
    let codes = codes.chain("1100010100000".chars().cycle()).take(8 * 28);
    let bits: Vec<u8> = codes.map(|bit| u8::from(bit == '1')).collect();
    let byte = |bits: &[u8]| bits.iter().rev().fold(0, |byte, bit| byte << 1 | bit);
    let bytes: Vec<u8> = bits.chunks(8).map(byte).collect();
    let (start, period) = (&bytes[..2], &bytes[2..15]);
    assert_eq!(period, &bytes[15..28]);
    [&[0x78, 0x9c], start, &period.repeat(size / (8 * 258))].concat()
}

/// The most memory a process has held, in MiB, as long as it runs.
#[cfg(target_os = "linux")]
pub(crate) async fn peak(pid: u32) -> u64 {
    let mut peak = 0;
    let held = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().split(' ').next()?.parse::<u64>().ok()
    };
    while let Some(kib) = held() {
        peak = peak.max(kib / 1024);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    peak
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_that_unpacks_beyond_all_memory_is_given_only_so_much() {
    let bomb = bomb(2 << 30);
    assert!(bomb.len() < 16 << 20, "{}", bomb.len());
    let mut child = start(&["--name=a.pdf"], &bomb);
    let peak = timeout(PATIENCE, peak(child.id().unwrap())).await.expect("it ends in time");
    assert!((100..800).contains(&peak), "{peak} MiB");
    child.wait().await.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn such_a_file_among_others_fails_alone_and_costs_an_import_little() {
    let directory = tempfile::tempdir().unwrap();
    let (files, data) = (directory.path().join("files"), directory.path().join("data"));
    std::fs::create_dir(&files).unwrap();
    std::fs::write(files.join("bomb.pdf"), bomb(2 << 30)).unwrap();
    for n in 0..5 {
        let page = format!("<title>Page {n}</title><p>Some text about the number {n}.");
        std::fs::write(files.join(format!("{n}.html")), page).unwrap();
    }
    let mut command = command(&["import"]);
    let mut child = command.arg(&files).arg("--data").arg(&data).spawn().unwrap();
    // Taken before the end, or a process that writes much would wait for somebody to read.
    let mut stderr = child.stderr.take().unwrap();
    let said = tokio::spawn(async move {
        let mut said = String::new();
        stderr.read_to_string(&mut said).await.map(|_| said)
    });
    let peak = timeout(PATIENCE, peak(child.id().unwrap())).await.expect("it ends in time");
    assert!(!child.wait().await.unwrap().success(), "one file could not be imported");
    let said = said.await.unwrap().unwrap();
    assert!(said.contains("5 created, 0 updated, 0 unchanged, 1 failed"), "{said}");
    assert!(said.contains("not imported: cannot read bomb.pdf"), "{said}");
    assert!(peak < 400, "the import itself took {peak} MiB");
}
