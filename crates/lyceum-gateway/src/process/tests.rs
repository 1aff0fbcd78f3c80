//! Real children, good and bad.
#![cfg(target_os = "linux")]

use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::time::{Instant, timeout};

use super::*;

fn shell(script: &str) -> Spawn {
    let command = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    let patience =
        Patience { after_eof: Duration::from_millis(150), after_term: Duration::from_millis(150) };
    Spawn { patience, ..Spawn::new("test", command) }
}

fn start(script: &str) -> Child {
    shell(script).spawn(&AllowedCommands::default()).unwrap()
}

/// A child that has said its first line, which is often the id of another process.
struct Greeted {
    handle: Handle,
    line: String,
    _stdin: Stdin,
    _stdout: BufReader<ChildStdout>,
}

async fn greeted(spawn: &Spawn) -> Greeted {
    let Child { stdin, stdout, handle } = spawn.spawn(&AllowedCommands::default()).unwrap();
    let mut stdout = BufReader::new(stdout);
    let mut line = String::new();
    stdout.read_line(&mut line).await.unwrap();
    Greeted { handle, line: line.trim().to_owned(), _stdin: stdin, _stdout: stdout }
}

/// The state letter of a process, if there is one of this id.
fn state(pid: &str) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Waits until no process of this id runs. Orphans are reaped by somebody else, some day.
async fn gone(pid: &str) {
    let gone = async {
        while !matches!(state(pid), None | Some('Z' | 'X')) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(10), gone).await.expect("it still runs");
}

#[tokio::test]
async fn children_read_and_write_and_leave_when_their_input_ends() {
    let Child { mut stdin, mut stdout, handle } = start("cat; exit 3");
    stdin.write_all(b"hello\n").await.unwrap();
    drop(stdin);
    let mut said = String::new();
    stdout.read_to_string(&mut said).await.unwrap();
    assert_eq!(said, "hello\n");
    assert_eq!(handle.exited().await.status.and_then(|status| status.code()), Some(3));
    assert!(handle.try_exited().is_some());
    assert_eq!(state(&handle.id().to_string()), None, "reaped");
}

#[tokio::test]
async fn stopping_is_a_ladder() {
    let rows = [
        ("leaves when its input ends", "echo; cat", "exit status: 0"),
        ("leaves when asked", "echo; exec sleep 60", "signal: 15 (SIGTERM)"),
        ("must be killed", "trap '' TERM; echo; while :; do sleep 60; done", "signal: 9 (SIGKILL)"),
    ];
    // All at once, with the patience children have by default.
    let stopping = rows.map(|(what, script, expected)| {
        tokio::spawn(async move {
            let spawn = Spawn { patience: Patience::default(), ..shell(script) };
            let child = greeted(&spawn).await;
            let exit = timeout(Duration::from_secs(5), child.handle.stop()).await.expect(what);
            assert_eq!(exit.status.expect(what).to_string(), expected, "{what}");
            assert_eq!(state(&child.handle.id().to_string()), None, "{what}");
        })
    });
    for row in stopping {
        row.await.unwrap();
    }
}

#[tokio::test]
async fn a_writer_who_waits_is_told_when_the_child_is_stopped() {
    let Child { mut stdin, stdout: _stdout, handle } = start("exec sleep 60");
    let writing = tokio::spawn(async move { stdin.write_all(&vec![b'x'; 1 << 20]).await });
    tokio::task::yield_now().await;
    handle.stop().await;
    let written = timeout(Duration::from_secs(5), writing).await.unwrap().unwrap();
    assert_eq!(written.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn those_a_child_started_die_with_it() {
    // The second is deaf to everything but SIGKILL.
    let child =
        greeted(&shell("sleep 60 & one=$!; (trap '' TERM HUP; sleep 60) & echo $one $!; wait"))
            .await;
    child.handle.stop().await;
    for pid in child.line.split(' ') {
        gone(pid).await;
    }
    let child = greeted(&shell("sleep 60 >/dev/null 2>&1 & echo $!; exit 0")).await;
    child.handle.exited().await;
    gone(&child.line).await;
}

#[tokio::test]
async fn dropping_the_handle_kills_and_reaps() {
    let child = greeted(&shell("trap '' TERM; sleep 60 & echo $!; wait")).await;
    let leader = child.handle.id().to_string();
    let pid = child.line.clone();
    drop(child.handle);
    gone(&pid).await;
    let reaped = async {
        while state(&leader).is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(10), reaped).await.expect("not reaped");
}

#[test]
fn children_do_not_outlive_the_runtime() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let child = runtime.block_on(greeted(&shell("sleep 60 & echo $!; wait")));
    let leader = child.handle.id().to_string();
    drop(runtime);
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio.block_on(async {
        gone(&child.line).await;
        gone(&leader).await;
    });
}

#[tokio::test]
async fn an_early_death_says_how_and_why() {
    let child = start("echo 'no such module' >&2; echo 'bye' >&2; exit 1");
    let exit = child.handle.exited().await;
    assert_eq!(
        exit.to_string(),
        "the process ended (exit status: 1); what it wrote to its standard error is in the log"
    );
    let exit = start("kill -9 $$").handle.exited().await;
    assert_eq!(exit.to_string(), "the process ended (signal: 9 (SIGKILL))");
}

#[tokio::test]
async fn a_flood_on_stderr_hinders_nobody() {
    let started = Instant::now();
    let Child { mut stdin, stdout, handle } =
        start("(while :; do echo flood >&2; done) & read line; echo \"got $line\"; wait");
    stdin.write_all(b"hello\n").await.unwrap();
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).await.unwrap();
    assert_eq!(line, "got hello\n");
    let exit = handle.stop().await;
    assert_eq!(exit.last_words.len(), 10);
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn somebody_who_left_the_group_does_not_hold_up_the_end() {
    let Child { stdout, handle, .. } = start("setsid sleep 6 & exit 0");
    let exit = timeout(Duration::from_secs(5), handle.exited()).await.unwrap();
    assert!(exit.status.is_some_and(|status| status.success()));
    drop(stdout);
}

#[tokio::test]
async fn our_environment_stays_ours() {
    // Cargo sets this one for tests, as somebody might set a secret.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let seen = async |env: &[&str]| {
        let env = env.iter().map(|entry| (*entry).to_owned()).collect();
        let spawn = Spawn { env, ..shell("env") };
        let mut child = spawn.spawn(&AllowedCommands::default()).unwrap();
        let mut text = String::new();
        child.stdout.read_to_string(&mut text).await.unwrap();
        text
    };
    let text = seen(&["GIVEN=here"]).await;
    assert!(!text.contains("CARGO") && text.contains("GIVEN=here\n"), "{text}");
    assert!(seen(&["CARGO_MANIFEST_DIR"]).await.contains("CARGO_MANIFEST_DIR="));
}

#[tokio::test]
async fn limits_hold() {
    let limits = Limits { memory: Some(1 << 30), open_files: Some(64), processes: Some(5_000) };
    // Reading a line waits until the limits are set.
    let spawn = Spawn {
        limits,
        ..shell("read x; ulimit -n; ulimit -d; ulimit -c; exec cat /proc/self/limits")
    };
    let Child { mut stdin, mut stdout, handle: _handle } =
        spawn.spawn(&AllowedCommands::default()).unwrap();
    stdin.write_all(b"\n").await.unwrap();
    let mut text = String::new();
    stdout.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("64\n1048576\n0\n"), "{text}");
    let processes = text.lines().find(|line| line.starts_with("Max processes")).unwrap();
    assert_eq!(processes.split_whitespace().nth(2), Some("5000"), "{processes}");
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_named() {
    let spawn = Spawn { directory: Some("/not/there".into()), ..shell("true") };
    let refused = spawn.spawn(&AllowedCommands::default()).unwrap_err().to_string();
    assert!(refused.contains("there is no directory /not/there"), "{refused}");
}

#[tokio::test]
async fn whoever_starts_others_without_end_comes_to_one_and_takes_them_along() {
    // The superuser is not held by the limit, so the child becomes somebody else.
    let is_root = rustix::process::geteuid().is_root();
    let change = if is_root { "setpriv --reuid=65534 --clear-groups" } else { "" };
    let bomb = "while :; do sleep 6543 & done";
    let script = format!("read x; exec {change} sh -c '{bomb}'");
    let limits = Limits { processes: Some(40), ..Limits::default() };
    let spawn = Spawn { limits, ..shell(&script) };
    let Child { mut stdin, stdout: _stdout, handle } =
        spawn.spawn(&AllowedCommands::default()).unwrap();
    stdin.write_all(b"\n").await.unwrap();
    let exit = timeout(Duration::from_secs(10), handle.exited()).await.expect("it is held");
    assert!(exit.last_words.join(" ").contains("fork"), "{exit:?}");
    let sleepers = || {
        let words = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline"));
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        entries
            .filter_map(|entry| words(entry).ok())
            .filter(|words| words == b"sleep\x006543\0")
            .count()
    };
    let clean = async {
        while sleepers() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(5), clean).await.expect("some are left");
}

#[tokio::test]
async fn what_cannot_run_says_why() {
    let all = AllowedCommands::default();
    let some = AllowedCommands::new(["python3"]);
    let rows: &[(&[&str], &AllowedCommands, &str)] = &[
        (&[], &all, "the command is empty"),
        (&["no-such-program-here"], &all, "no program \"no-such-program-here\" in PATH"),
        (&["/no/such/program"], &all, "cannot run \"/no/such/program\""),
        (&["sh", "-c", "exit"], &some, "command \"sh\" is not allowed; allowed are: python3"),
    ];
    for (command, allowed, expected) in rows {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        let error = Spawn::new("test", command).spawn(allowed).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[tokio::test]
async fn five_hundred_children_leave_nothing_behind() {
    let n_files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = n_files();
    let mut pids = Vec::new();
    let patience = Patience { after_eof: Duration::ZERO, after_term: Duration::ZERO };
    let spawn = Spawn { patience, ..shell("trap '' TERM; sleep 60 & wait") };
    for n in 0..500 {
        let child = spawn.spawn(&AllowedCommands::default()).unwrap();
        pids.push(child.handle.id().to_string());
        // The others are given up, which must be as good.
        if n % 2 == 0 {
            child.handle.stop().await;
        }
    }
    let clean = async {
        while pids.iter().any(|pid| state(pid).is_some()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(20), clean).await.expect("children are left");
    // Other tests open a few meanwhile; a leak would be at least five hundred.
    assert!(n_files() < before + 100, "{before} files became {}", n_files());
}
