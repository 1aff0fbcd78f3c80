//! Configurations the binary does not start with, and how it says so.

use lyceum_testkit::Request;

use crate::lyceum::{Lyceum, command, run};

/// Runs `lyceum` with `arguments` and compares exit code and complaint.
async fn check(arguments: &[&str], code: i32, complaint: &str) {
    let output = run(arguments).await;
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
    assert!(stderr.contains(complaint), "{arguments:?}: {stderr}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "", "{arguments:?}");
}

#[tokio::test]
async fn public_address_without_consent_is_refused_with_the_fix() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path().join("data");
    let flags = ["--listen", "0.0.0.0:0", "--data", data.to_str().unwrap()];
    check(&flags, 78, "lyceum keys create NAME").await;
    assert!(!data.exists(), "nothing was touched");
}

#[tokio::test]
async fn names_beyond_loopback_want_a_key() {
    let directory = tempfile::tempdir().unwrap();
    let (file, data) = (directory.path().join("lyceum.toml"), directory.path().join("data"));
    let flags = [
        "--listen",
        "127.0.0.1:0",
        "--config",
        file.to_str().unwrap(),
        "--data",
        data.to_str().unwrap(),
    ];
    for (setting, value) in [("hosts", "mcp.example.org"), ("origins", "https://app.example.org")] {
        std::fs::write(&file, format!("{setting} = [{value:?}]\n")).unwrap();
        let complaint = format!(
            "lyceum: {}:1: {setting} = [{value:?}] is for callers beyond this machine and there is no API key to \
             ask for; make one with `lyceum keys create NAME`",
            file.display()
        );
        check(&flags, 78, &complaint).await;
    }
    assert!(!data.exists(), "nothing was touched");
    crate::keys::create(&data, "first").await;
    let lyceum = Lyceum::start(&data, &flags[2..4]).await;
    assert_eq!(lyceum.call(&Request::new("GET", "/kb/list")).await.status(), 401);
}

#[tokio::test]
async fn bad_file_is_refused_by_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("lyceum.toml");
    std::fs::write(&file, "listen = \"127.0.0.1:0\"\nporrt = 1\n").unwrap();
    let file = file.to_str().unwrap();
    let complaint = format!("lyceum: {file}:2: unknown key `porrt`");
    check(&["--data", "unused", "--config", file], 78, &complaint).await;
    check(&["config", "check", "--data", "unused", "--config", file], 78, &complaint).await;
}

#[tokio::test]
async fn bad_variable_is_refused_by_name() {
    let mut command = command(&["serve", "--data", "unused"]);
    let output = command.env("LYCEUM_LISTEN", "nowhere").output().await.unwrap();
    assert_eq!(output.status.code(), Some(78));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("lyceum: LYCEUM_LISTEN: \"nowhere\" is not an address"), "{stderr}");
}

#[tokio::test]
async fn bad_flag_is_refused() {
    check(&["--listen", "nowhere"], 2, "'--listen <ADDR>': \"nowhere\" is not an address").await;
    check(&["explain", "--dialect", "klingon"], 2, "unknown dialect \"klingon\"").await;
}

#[tokio::test]
async fn address_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let data = tempfile::tempdir().unwrap();
    let flags = ["--listen", &address, "--data", data.path().to_str().unwrap()];
    check(&flags, 1, &format!("cannot listen on {address}")).await;
}

#[cfg(unix)]
#[tokio::test]
async fn shared_key_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let data = tempfile::tempdir().unwrap();
    let key = data.path().join("seal.key");
    std::fs::write(&key, "00".repeat(32)).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let flags = ["--listen", "127.0.0.1:0", "--data", data.path().to_str().unwrap()];
    check(&flags, 1, "chmod 600").await;
}
