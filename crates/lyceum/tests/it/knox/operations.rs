//! Configuration, keys, logs.

use lyceum_testkit::Request;
use serde_json::json;

use super::house::{BASE, House, JSON, answer, configuration, python, rpc, stdio};
use crate::lyceum::{Lyceum, command, run};

const TOPOLOGY: &str = r#"<topology>
  <gateway><provider><role>authentication</role><name>Anonymous</name><enabled>true</enabled></provider></gateway>
  <service>
    <role>MCPPROXY</role>
    <n>mcp</n>
    <version>1.0.0</version>
    <param><name>mcp.servers</name><value>
      calc : stdio://python calc.py ,
      web:https://mcp.example.org/rpc/, broken,
      old:sse://old.example.org:8080
    </value></param>
    <param><n>mcp.stdio.allowed.commands</n><value>python, node</value></param>
  </service>
</topology>"#;

/// Runs `import-config` on a file; returns exit code, stdout and stderr.
async fn import(text: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("theirs");
    std::fs::write(&file, text).unwrap();
    let flags: Vec<&str> =
        ["import-config", file.to_str().unwrap()].iter().chain(more).copied().collect();
    let output = run(&flags).await;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn k50_the_list_of_servers_is_taken_over() {
    let (code, toml, notes) = import(TOPOLOGY, &[]).await;
    assert_eq!(code, Some(0), "{notes}");
    for expected in [
        "name = \"calc\"\ncommand = [\"python\", \"calc.py\"]",
        "name = \"web\"\nurl = \"https://mcp.example.org/rpc\"",
        "name = \"old\"\nurl = \"sse://old.example.org:8080\"",
    ] {
        assert!(toml.contains(expected), "{toml}");
    }
    assert!(notes.contains("note: \"broken\" is left out"), "{notes}");
}

/// The warnings of a server with this configuration, once there is one like `awaited`.
async fn warnings(file: &str, awaited: &str) -> String {
    let data = tempfile::tempdir().unwrap();
    let log = data.path().join("log");
    let file = configuration(data.path(), file);
    let flags = ["--preset", "knox", "--config", &file];
    let _lyceum = Lyceum::start_logging("warn", data.path(), &flags, &log).await;
    let mut written = String::new();
    for _ in 0..400 {
        written = std::fs::read_to_string(&log).unwrap();
        if written.contains(awaited) {
            break;
        }
        tokio::time::sleep(tokio::time::Duration::from_millis(50)).await;
    }
    written.lines().filter(|line| line.contains("WARN")).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn k51_only_allowed_commands_are_started() {
    let file = format!("{}[stdio]\nallowed_commands = [\"node\"]\n", stdio("files", &[]).await);
    let house = House::unsettled(&file).await;
    let health = loop {
        let health = house.send(&Request::new("GET", "/health")).await.json();
        if health["upstreams"]["files"]["last_error"].is_string() {
            break health["upstreams"]["files"].clone();
        }
        tokio::task::yield_now().await;
    };
    let told = health["last_error"].as_str().unwrap();
    assert!(told.contains("python") && told.contains("node"), "names command and list: {told}");
    let (refusal, warning) = ("security: a command that is not allowed", "any command may run");
    let listed = warnings(&file, refusal).await;
    assert!(listed.contains(refusal) && !listed.contains(warning), "{listed}");
    for empty in ["", "[stdio]\nallowed_commands = []\n"] {
        let file = stdio("files", &[]).await + empty;
        let open = warnings(&file, warning).await;
        assert!(open.contains(warning) && !open.contains(refusal), "{open}");
        House::with(&file).await;
    }
    let name = std::path::PathBuf::from(python().await);
    let name = name.file_stem().unwrap().to_str().unwrap().to_owned();
    let file = format!("{}[stdio]\nallowed_commands = [{name:?}]\n", stdio("files", &[]).await);
    House::with(&file).await;
}

#[tokio::test]
async fn k52_the_environment_covers_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = configuration(directory.path(), "[knox]\nprefix = \"/file\"\n");
    let mut command = command(&["config", "check", "--data", "d", "--preset", "knox"]);
    command.args(["--config", &file]).env("LYCEUM_KNOX_PREFIX", "/variable");
    let told = String::from_utf8(command.output().await.unwrap().stdout).unwrap();
    assert!(told.contains("endpoint  /variable (knox, upstreams only"), "{told}");
}

#[tokio::test]
async fn k52_everything_is_served_below_the_prefix_that_is_set() {
    let base = "/gateway/tools/mcp/v1";
    let file = format!("[knox]\nprefix = {base:?}\n{}", stdio("files", &[]).await);
    let house = House::unsettled(&file).await;
    let get = |below: &str| Request::new("GET", &format!("{base}{below}"));
    for _ in 0..400 {
        if house.send(&get("/tools")).await.text().contains("files_echo") {
            break;
        }
        tokio::time::sleep(tokio::time::Duration::from_millis(50)).await;
    }
    let call = |below: &str, id: u64| {
        let params = json!({ "name": "files_who" });
        Request::legacy(&format!("{base}{below}"), id, "tools/call", params).set("accept", JSON)
    };
    for below in ["", "/", "/mcp", "/api", "/message"] {
        let answer = house.send(&call(below, 1)).await.json();
        assert!(answer["result"]["content"][0]["text"].is_string(), "{below:?}: {answer}");
    }
    let rest = Request::new("POST", &format!("{base}/tools/files_who")).body("{}");
    assert_eq!(house.send(&rest).await.status(), 200);
    let read = house.send(&get("/resources/files.file:///srv/a.md")).await;
    assert_eq!(read.json()["contents"][0]["text"], "hello");
    assert_eq!(house.send(&get("/health")).await.json()["status"], "UP");
    let (_, mut events) = house.lyceum.connect().await.stream(&get("/sse")).await;
    let id = events.next().await.unwrap().data;
    let address = events.next().await.unwrap().data;
    assert_eq!(address, format!("{base}/message?session={id}"));
    let ping = Request::legacy(&address, 7, "ping", json!({}));
    assert_eq!(house.send(&ping).await.status(), 202);
    assert_eq!(answer(&mut events).await.json()["id"], 7);
    assert_eq!(house.get("/tools").await.status(), 404, "not where it is by itself");
}

#[tokio::test]
async fn k53_a_topology_becomes_a_configuration_that_loads() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("lyceum.toml");
    let target = target.to_str().unwrap();
    let (code, printed, talk) = import(TOPOLOGY, &["--write", target]).await;
    assert_eq!((code, printed.as_str()), (Some(0), ""), "{talk}");
    let checked = run(&["config", "check", "--data", "d", "--config", target]).await;
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let told = String::from_utf8_lossy(&checked.stdout);
    for expected in ["calc (a process)", "web (over HTTP)", "old (over HTTP+SSE)"] {
        assert!(told.contains(&format!("\nupstream  {expected}\n")), "{told}");
    }
    let written = std::fs::read_to_string(target).unwrap();
    let (code, _, talk) =
        import(r#"{"mcpServers":{"a":{"command":"b"}}}"#, &["--write", target]).await;
    assert_eq!(code, Some(1));
    assert!(talk.contains("exists and is left as it is"), "{talk}");
    assert_eq!(std::fs::read_to_string(target).unwrap(), written);
}

#[tokio::test]
async fn client_configurations_are_taken_over_and_others_refused() {
    let (code, toml, _) =
        import(r#"{"mcpServers":{"a":{"command":"b","args":["c d"]}}}"#, &[]).await;
    assert_eq!(
        (code, toml.as_str()),
        (Some(0), "[[upstream]]\nname = \"a\"\ncommand = [\"b\", \"c d\"]\n")
    );
    for nothing in ["{}", "<html></html>", "listen = 1"] {
        let (code, toml, talk) = import(nothing, &[]).await;
        assert_eq!((code, toml.as_str()), (Some(1), ""), "{nothing}");
        assert!(talk.contains("cannot take over"), "{talk}");
    }
}

#[tokio::test]
async fn k54_keys_say_who_may_call_which_tools() {
    let data = tempfile::tempdir().unwrap();
    let directory = data.path().to_str().unwrap();
    let key = async |name: &str| {
        let made = run(&["keys", "create", name, "--data", directory]).await;
        let printed = String::from_utf8(made.stdout).unwrap();
        printed.split_whitespace().find(|word| word.len() > 30).expect("a key").to_owned()
    };
    let (mine, other) = (key("knox").await, key("other").await);
    let endpoint =
        format!("[[endpoint]]\npath = {BASE:?}\nkeys = [\"knox\"]\ntools = [\"files_e*\"]\n");
    let file = configuration(data.path(), &(stdio("files", &[]).await + &endpoint));
    let outside = tempfile::tempdir().unwrap();
    let log = outside.path().join("log");
    let flags = ["--preset", "knox", "--config", &file];
    let lyceum =
        Lyceum::start_logging("warn,lyceum_gateway=debug", data.path(), &flags, &log).await;
    let house = House { lyceum, _data: data };
    let tools = Request::new("GET", &format!("{BASE}/tools"));
    for request in [&tools, &rpc("", 1, "tools/list", json!({}))] {
        assert_eq!(house.send(request).await.status(), 401);
        assert_eq!(house.send(&request.clone().header("x-api-key", &other)).await.status(), 403);
    }
    assert_eq!(house.get("/health?detail=1").await.status(), 401);
    let told = loop {
        let told = house.send(&tools.clone().header("x-api-key", &mine)).await.json();
        if told.as_object().is_some_and(|tools| !tools.is_empty()) {
            break told;
        }
    };
    assert_eq!(told.as_object().unwrap().keys().collect::<Vec<_>>(), ["files_echo"]);
    let call = |tool: &str| {
        let request = Request::new("POST", &format!("{BASE}/tools/{tool}")).body("{}");
        request.header("x-api-key", &mine)
    };
    assert_eq!(house.send(&call("files_echo")).await.status(), 200);
    assert_eq!(house.send(&call("files_who")).await.status(), 404);
    let logged = std::fs::read_to_string(&log).unwrap();
    let relayed: Vec<_> = logged.lines().filter(|line| line.contains("relayed")).collect();
    let [line] = relayed[..] else { panic!("{logged}") };
    for part in ["files_echo", "principal=\"knox\"", "outcome=\"ok\""] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let unkeyed = house.get("/health").await.json();
    assert_eq!(unkeyed["tools"], 1, "numbers are for everybody");
}

#[tokio::test]
async fn k56_logs_hold_no_bodies_and_no_credentials() {
    let data = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let log = outside.path().join("log");
    let file = configuration(data.path(), &stdio("files", &[]).await);
    let flags = ["--preset", "knox", "--config", &file];
    let lyceum = Lyceum::start_tracing(data.path(), &flags, &log).await;
    let mut house = House { lyceum, _data: data };
    house.settled(1).await;
    let secret = json!({ "text": "canary-in-the-arguments" });
    let call = rpc("", 1, "tools/call", json!({ "name": "files_echo", "arguments": secret }))
        .header("authorization", "Bearer canary-in-a-header")
        .set("accept", JSON);
    assert_eq!(house.send(&call).await.status(), 200);
    for _ in 0..2 {
        house.open("/sse").await;
    }
    house.lyceum.terminate().await;
    house.lyceum.ended().await;
    let written = std::fs::read_to_string(&log).unwrap();
    assert!(!written.contains("canary"), "{written}");
    assert!(written.contains("relayed"), "the call itself is there");
    let warned = |line: &&str| line.contains("WARN") && line.contains("transport is deprecated");
    assert_eq!(written.lines().filter(warned).count(), 1, "said once");
}

/// Rows of the table: what each says about its tests.
#[test]
fn every_row_has_a_test_or_a_reason() {
    let page = include_str!("../../../../../docs/knox.md");
    let tests = [
        include_str!("calls.rs"),
        include_str!("endpoint.rs"),
        include_str!("messages.rs"),
        include_str!("names.rs"),
        include_str!("operations.rs"),
        include_str!("streams.rs"),
        include_str!("upstreams.rs"),
    ]
    .concat();
    let rows: Vec<(&str, &str)> =
        page.lines().filter_map(|line| line.strip_prefix("| K")?.split_once(" | ")).collect();
    let numbers = [1..=8, 10..=17, 20..=23, 30..=34, 40..=46, 50..=56].into_iter().flatten();
    let letters = ["", "b", "c", "d", "e", "f", "g"].iter().map(|letter| format!("9{letter}"));
    let mut wanted: Vec<String> = numbers.map(|n: u8| n.to_string()).chain(letters).collect();
    let mut told: Vec<&str> = rows.iter().map(|(number, _)| *number).collect();
    wanted.sort();
    told.sort();
    assert_eq!(told, wanted);
    for (number, row) in rows {
        let named: Vec<&str> = row.split('`').filter(|word| word.starts_with('k')).collect();
        let named: Vec<&&str> = named.iter().filter(|word| word.contains('_')).collect();
        assert!(!named.is_empty() || number == "55", "K{number} has no test");
        for name in named {
            let digits = number.trim_end_matches(char::is_alphabetic);
            let letter = &number[digits.len()..];
            assert!(name.starts_with(&format!("k{digits:0>2}{letter}_")), "K{number}: {name}");
            assert!(tests.contains(&format!("fn {name}()")), "K{number}: there is no {name}");
        }
    }
}
